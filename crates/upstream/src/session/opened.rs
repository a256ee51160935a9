//! An open session or process: what a message to it needs to know.

use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue, Uri};
use mcp::Version;
use mcp::http::{PROTOCOL_VERSION, SESSION_ID};
use vocabulary::Confinement;

use crate::credentials::Behalf;
use crate::process::pipe::Pipe;
use crate::session::multiplex::Multiplex;

/// An initialised session.
#[derive(Clone)]
pub(crate) struct Opened(Arc<Facts>);

pub(crate) struct Facts {
    pub(crate) session_id: Option<HeaderValue>,
    pub(crate) version: Version,
    /// The log level that was set last.
    pub(crate) level: Mutex<Option<&'static str>>,
    /// The stream everything comes on, where there is one.
    pub(crate) multiplex: Option<Arc<Multiplex>>,
    /// The stream of what the server says beside its answers, where the gateway has opened it.
    pub(crate) beside: Option<Arc<Multiplex>>,
    /// How its process is confined.
    pub(crate) confinement: Option<Arc<Confinement>>,
    /// On whose behalf it was opened: what belongs to no single request of it is sent on theirs.
    pub(crate) behalf: Behalf,
    stage: Stage,
}

/// How far a conversation has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was said that a session begins with: enough for the modern era.
    Open,
    Introduced,
}

impl Opened {
    /// A conversation whose stream is open, before or without `initialize`.
    pub(crate) fn over(multiplex: Arc<Multiplex>, behalf: Behalf) -> Self {
        Self(Arc::new(Facts {
            session_id: None,
            version: Version::November2024,
            level: Mutex::new(None),
            multiplex: Some(multiplex),
            beside: None,
            confinement: None,
            behalf,
            stage: Stage::Open,
        }))
    }

    /// A process that runs.
    pub(crate) fn process(multiplex: Arc<Multiplex>, confinement: Arc<Confinement>, behalf: Behalf) -> Self {
        Self(Arc::new(Facts {
            session_id: None,
            version: Version::MODERN,
            level: Mutex::new(None),
            multiplex: Some(multiplex),
            beside: None,
            confinement: Some(confinement),
            behalf,
            stage: Stage::Open,
        }))
    }

    /// A session that began with `initialize`, over what was open `before`, where something was.
    pub(crate) fn introduced(
        before: Option<&Self>,
        version: Version,
        session_id: Option<HeaderValue>,
        behalf: Behalf,
    ) -> Self {
        Self(Arc::new(Facts {
            session_id,
            version,
            level: Mutex::new(None),
            multiplex: before.and_then(|opened| opened.multiplex.clone()),
            beside: None,
            confinement: before.and_then(|opened| opened.confinement.clone()),
            behalf,
            stage: Stage::Introduced,
        }))
    }

    /// The same session with its own stream, which the gateway has opened.
    pub(crate) fn with_stream(&self, beside: Arc<Multiplex>) -> Self {
        Self(Arc::new(Facts {
            session_id: self.session_id.clone(),
            version: self.version,
            level: Mutex::new(None),
            multiplex: None,
            beside: Some(beside),
            confinement: None,
            behalf: self.behalf.clone(),
            stage: Stage::Introduced,
        }))
    }

    /// Whether `initialize` was answered.
    pub(crate) fn is_introduced(&self) -> bool {
        self.stage == Stage::Introduced
    }

    /// Whether both are the same one, opened once.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The way to its process, where it is one.
    pub(crate) fn pipe(&self) -> Option<&Pipe> {
        self.multiplex.as_ref().and_then(|multiplex| multiplex.pipe())
    }

    /// The stream that says what answers nothing, if it is open.
    pub(crate) fn stream(&self) -> Option<&Arc<Multiplex>> {
        self.multiplex.as_ref().or(self.beside.as_ref())
    }

    /// Where messages go, if not to the server's own address.
    pub(crate) fn endpoint(&self) -> Option<&Uri> {
        self.multiplex.as_ref().and_then(|multiplex| multiplex.endpoint())
    }

    /// Names the session in the headers of a request.
    pub(crate) fn put_on(&self, headers: &mut HeaderMap) {
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(self.version.as_str()));
        if let Some(id) = &self.session_id {
            headers.insert(SESSION_ID, id.clone());
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.multiplex.as_ref().is_some_and(|multiplex| multiplex.is_closed())
    }
}

impl std::ops::Deref for Opened {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.0
    }
}
