//! The legacy session: how the client opened it, and the id and version every later request carries.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use mcp::envelope::text_of;
use mcp::http::{PROTOCOL_VERSION, SESSION_ID};
use mcp::members::Members;
use mcp::span::DEEPEST;
use vocabulary::lock;

/// What is known of the client's session.
#[derive(Default)]
pub(super) struct Session {
    state: Mutex<State>,
    /// Held while a lost session is reopened, so that it happens once.
    pub(super) reopening: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    opened: Option<Opened>,
    count: u64,
    initialize: Option<Bytes>,
    initialized: Option<Bytes>,
}

struct Opened {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// Which of the sessions, one after the other, a request was made in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Generation(u64);

/// How the client opened its session, in its own words.
pub(super) struct Handshake {
    pub(super) initialize: Bytes,
    pub(super) initialized: Option<Bytes>,
}

impl Session {
    /// A session was opened: the client's own words, the id from the head, the version from the result.
    pub(super) fn open(&self, initialize: Bytes, id: Option<HeaderValue>, result: &[u8]) -> Generation {
        let members = Members::read(result, DEEPEST).ok();
        let version = members.and_then(|members| members.get("protocolVersion").and_then(text_of));
        let version = version.and_then(|version| HeaderValue::from_str(&version).ok());
        let mut state = self.state();
        // The same words again: a lost session was reopened, and the client is ready already.
        if state.initialize.as_ref() != Some(&initialize) {
            state.initialized = None;
        }
        state.initialize = Some(initialize);
        state.opened = Some(Opened { id, version });
        state.count += 1;
        Generation(state.count)
    }

    /// The client said that it is ready.
    pub(super) fn initialized(&self, initialized: Bytes) {
        self.state().initialized = Some(initialized);
    }

    /// The headers of a request in the session, and which session that is; none before one was opened.
    pub(super) fn headers(&self) -> (HeaderMap, Option<Generation>) {
        let state = self.state();
        let mut headers = HeaderMap::new();
        let Some(opened) = &state.opened else {
            return (headers, None);
        };
        headers.extend(opened.id.clone().map(|id| (SESSION_ID, id)));
        headers.extend(opened.version.clone().map(|version| (PROTOCOL_VERSION, version)));
        (headers, Some(Generation(state.count)))
    }

    /// Whether this is the session of now.
    pub(super) fn is_current(&self, generation: Generation) -> bool {
        let state = self.state();
        state.opened.is_some() && generation == Generation(state.count)
    }

    /// How to reopen it.
    pub(super) fn handshake(&self) -> Option<Handshake> {
        let state = self.state();
        Some(Handshake {
            initialize: state.initialize.clone()?,
            initialized: state.initialized.clone(),
        })
    }

    /// Forgets the session; gives the headers that end it, if it has an id.
    pub(super) fn close(&self) -> Option<HeaderMap> {
        let (headers, _) = self.headers();
        self.state().opened = None;
        headers.contains_key(SESSION_ID).then_some(headers)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_carry_what_the_last_opening_agreed_on() {
        let session = Session::default();
        assert_eq!(session.headers(), (HeaderMap::new(), None));
        let words = Bytes::from_static(b"{}");
        let first = session.open(
            words.clone(),
            Some(HeaderValue::from_static("s1")),
            br#"{"protocolVersion":"2025-06-18"}"#,
        );
        session.initialized(words.clone());
        let (headers, generation) = session.headers();
        assert_eq!(generation, Some(first));
        assert_eq!(
            (&headers[SESSION_ID], &headers[PROTOCOL_VERSION]),
            (&"s1".parse().unwrap(), &"2025-06-18".parse().unwrap())
        );
        let second = session.open(words.clone(), None, br#"{"protocolVersion":"2025-11-25"}"#);
        assert!(session.is_current(second) && !session.is_current(first));
        assert_eq!(
            session.handshake().unwrap().initialized,
            Some(words),
            "the client stays ready"
        );
        session.open(Bytes::from_static(b"{ }"), None, b"{}");
        assert_eq!(
            session.handshake().unwrap().initialized,
            None,
            "a client that begins again does not"
        );
        assert_eq!(session.close(), None);
    }
}
