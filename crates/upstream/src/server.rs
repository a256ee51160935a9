//! One upstream server: where it is, its credential, its limits and its open sessions.

use std::time::Duration;

use http::Uri;
use rustls_pki_types::CertificateDer;
use vocabulary::ServerId;

use crate::credentials::CredentialSource;
use crate::failure::{Failure, TlsFault};
use crate::http::Link;
use crate::session::{Opened, SessionKey, Sessions};

/// Bounds on what a server may cost us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// From sending to the last byte of the answer.
    pub timeout: Duration,
    /// The largest message.
    pub max_bytes: usize,
    /// The deepest message.
    pub max_depth: usize,
}

/// Whether principals share an upstream session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// One session per client session, never shared.
    PerPrincipal,
    /// One for all: the operator says that the server keeps no state per user.
    Shared,
}

/// What the operator says of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Its id.
    pub id: ServerId,
    /// Its Streamable HTTP endpoint.
    pub url: Uri,
    /// A further trust root, for this server alone.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Its credential.
    pub credential: CredentialSource,
    /// Its limits.
    pub caps: Caps,
    /// Who shares its sessions.
    pub isolation: Isolation,
}

/// A server that can be called.
pub struct Server {
    pub(crate) id: ServerId,
    pub(crate) link: Link,
    pub(crate) caps: Caps,
    pub(crate) credential: CredentialSource,
    isolation: Isolation,
    sessions: Sessions,
}

impl Server {
    /// Makes the client side of a server; opens nothing yet.
    ///
    /// # Errors
    /// When its TLS settings cannot be used.
    pub fn new(settings: ServerSettings) -> Result<Self, TlsFault> {
        let link = Link::new(settings.url, settings.extra_roots, settings.caps)?;
        Ok(Self {
            id: settings.id,
            link,
            caps: settings.caps,
            credential: settings.credential,
            isolation: settings.isolation,
            sessions: Sessions::default(),
        })
    }

    /// The server's id.
    #[must_use]
    pub fn id(&self) -> &ServerId {
        &self.id
    }

    /// Where its credential comes from.
    #[must_use]
    pub fn credential(&self) -> &CredentialSource {
        &self.credential
    }

    /// Forgets the session that belonged to a client session that ended.
    pub fn forget(&self, key: &SessionKey) {
        self.sessions.forget(key);
    }

    pub(crate) async fn session(&self, key: SessionKey) -> Result<Opened, Failure> {
        self.sessions.open(self.shared(key), self).await
    }

    pub(crate) async fn reopen(&self, key: SessionKey, gone: &Opened) -> Result<Opened, Failure> {
        self.sessions.reopen(self.shared(key), gone, self).await
    }

    fn shared(&self, key: SessionKey) -> SessionKey {
        match (self.isolation, key) {
            (Isolation::Shared, SessionKey::Client(_)) => SessionKey::Shared,
            (Isolation::Shared | Isolation::PerPrincipal, key) => key,
        }
    }
}
