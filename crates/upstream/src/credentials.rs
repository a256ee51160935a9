//! The broker: the only maker of upstream credentials. What it makes comes from the server's own
//! configuration; a client's token is nothing it could name.

mod reference;

use http::{HeaderMap, HeaderName, HeaderValue};

pub use reference::Reference;

/// Where a server's credential comes from.
#[derive(Clone, Debug)]
pub enum CredentialSource {
    /// The server takes none.
    None,
    /// A secret the operator named by reference.
    Reference(Reference),
}

/// A credential made for one server, ready to be put on a request.
///
/// Nobody outside this room can make one:
///
/// ```compile_fail,E0451
/// let forged = portreeve_upstream::UpstreamCredential { header: None };
/// ```
///
/// ```
/// let made = portreeve_upstream::CredentialSource::None.fetch();
/// ```
pub struct UpstreamCredential {
    header: Option<(HeaderName, HeaderValue)>,
}

impl CredentialSource {
    /// Makes the credential for a request.
    #[must_use]
    pub fn fetch(&self) -> UpstreamCredential {
        match self {
            Self::None => UpstreamCredential { header: None },
            Self::Reference(reference) => UpstreamCredential {
                header: Some(reference.header()),
            },
        }
    }
}

impl UpstreamCredential {
    pub(crate) fn put_on(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = &self.header {
            headers.insert(name.clone(), value.clone());
        }
    }
}
