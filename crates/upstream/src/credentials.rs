//! The broker: the only maker of upstream credentials. What it makes comes from the server's own
//! configuration; a client's token is nothing it could name.

mod answer;
pub(crate) mod behalf;
mod grant;
mod kept;
mod reference;
pub(crate) mod token_endpoint;
mod unavailable;

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Request};

pub use behalf::{Behalf, InboundCredential};
pub use grant::{Grant, GrantSettings};
pub use kept::CredentialEpoch;
pub use reference::Reference;
pub use unavailable::Unavailable;

use crate::failure::{Blocked, Failure};

/// Where a server's credential comes from.
#[derive(Clone, Debug)]
pub enum CredentialSource {
    /// The server takes none.
    None,
    /// A secret the operator named by reference.
    Reference(Reference),
    /// A token that an authorisation server grants.
    Grant(Arc<Grant>),
    /// A certificate of ours, which the connection shows.
    Certificate,
}

/// A credential made for one server on somebody's behalf, ready to be put on a request. Without one nothing can be sent, and it
/// knows what must not leave with it: the credential that the caller showed.
///
/// Nobody outside this room can make one:
///
/// ```compile_fail,E0451
/// fn forge(made: std::sync::Arc<portreeve_upstream::Origin>) -> portreeve_upstream::UpstreamCredential {
///     portreeve_upstream::UpstreamCredential { header: None, origin: made, behalf: portreeve_upstream::Behalf::gateway() }
/// }
/// ```
///
/// ```
/// async fn made() -> Option<portreeve_upstream::UpstreamCredential> {
///     portreeve_upstream::CredentialSource::None.fetch(&portreeve_upstream::Behalf::gateway()).await.ok()
/// }
/// ```
#[derive(Debug)]
pub struct UpstreamCredential {
    header: Option<(HeaderName, HeaderValue)>,
    origin: Arc<Origin>,
    behalf: Behalf,
}

/// What is on record of a credential.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Where it came from.
    pub kind: OriginKind,
    /// Whom it is for, where it was made for somebody.
    pub audience: Option<String>,
    /// Whether it says so itself.
    pub audience_verified: Option<bool>,
}

/// Where credentials come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OriginKind {
    /// The server takes none.
    None,
    /// A secret reference.
    Reference,
    /// RFC 8693.
    Exchange,
    /// The gateway's own word at an authorisation server.
    ClientCredentials,
    /// A certificate of ours.
    Certificate,
}

/// What a source made, before it is known for whom.
struct Made {
    header: Option<(HeaderName, HeaderValue)>,
    origin: Arc<Origin>,
}

impl Origin {
    fn of(kind: OriginKind) -> Self {
        Self {
            kind,
            audience: None,
            audience_verified: None,
        }
    }
}

impl CredentialSource {
    /// Makes the credential for what is sent on somebody's behalf.
    ///
    /// # Errors
    /// When there is none, or when it is the one that the caller showed.
    pub async fn fetch(&self, behalf: &Behalf) -> Result<UpstreamCredential, Failure> {
        let (header, origin) = match self {
            Self::None | Self::Certificate => (None, Arc::new(self.origin())),
            Self::Reference(reference) => (Some(reference.header()), Arc::new(self.origin())),
            Self::Grant(grant) => {
                let made = grant.made_for(behalf).await;
                let made = made.map_err(|why| Failure::Blocked(Blocked::Unavailable(why)))?;
                (made.header.clone(), made.origin.clone())
            }
        };
        if header
            .as_ref()
            .is_some_and(|(_, value)| behalf.is_in_credential(value.as_bytes()))
        {
            return Err(Failure::Blocked(Blocked::Passthrough));
        }
        Ok(UpstreamCredential {
            header,
            origin,
            behalf: behalf.clone(),
        })
    }

    /// What is known of its credentials before one is made.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin::of(match self {
            Self::None => OriginKind::None,
            Self::Reference(_) => OriginKind::Reference,
            Self::Grant(grant) => grant.kind(),
            Self::Certificate => OriginKind::Certificate,
        })
    }

    /// Whether each principal has credentials of its own: the gateway itself has none.
    #[must_use]
    pub fn is_per_principal(&self) -> bool {
        match self {
            Self::None | Self::Reference(_) | Self::Certificate => false,
            Self::Grant(grant) => grant.is_per_principal(),
        }
    }
}

impl UpstreamCredential {
    /// What is on record of it.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The request with this credential on it, unless it holds the one that the caller showed.
    pub(crate) fn put_on<B: AsRef<[u8]>>(&self, mut request: Request<B>) -> Result<Request<B>, Failure> {
        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
        let leaks = self.behalf.is_in(request.body().as_ref())
            || self.behalf.is_in(path.as_bytes())
            || request
                .headers()
                .values()
                .any(|value| self.behalf.is_in(value.as_bytes()));
        if leaks {
            return Err(Failure::Blocked(Blocked::Passthrough));
        }
        if let Some((name, value)) = &self.header {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        Ok(request)
    }

    /// Whether a line may go to a process, which was started with `handed`.
    pub(crate) fn clear(&self, line: &[u8], handed: &[u8]) -> Result<(), Failure> {
        if self.behalf.is_in(line) {
            return Err(Failure::Blocked(Blocked::Passthrough));
        }
        self.behalf.clear_launch(handed)
    }
}
