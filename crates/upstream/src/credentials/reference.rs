//! A credential kept as a secret reference: resolved when the configuration is loaded, sent in one
//! header, marked sensitive so that no log prints it.

use http::{HeaderName, HeaderValue};
use vocabulary::Secret;

/// A header with a secret value.
#[derive(Clone)]
pub struct Reference {
    name: HeaderName,
    value: HeaderValue,
}

impl Reference {
    /// The header `name` with the whole of `secret` as its value; `None` if that cannot stand in a
    /// header.
    #[must_use]
    pub fn new(name: HeaderName, secret: &Secret) -> Option<Self> {
        let mut value = HeaderValue::from_str(secret.expose()).ok()?;
        value.set_sensitive(true);
        Some(Self { name, value })
    }

    pub(super) fn header(&self) -> (HeaderName, HeaderValue) {
        (self.name.clone(), self.value.clone())
    }
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reference({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_in_no_debug_output() {
        let secret = Secret::new("Bearer hunter2".to_owned());
        let reference = Reference::new(http::header::AUTHORIZATION, &secret).expect("fits a header");
        assert!(!format!("{reference:?} {:?}", reference.header()).contains("hunter2"));
        assert!(Reference::new(http::header::AUTHORIZATION, &Secret::new("a\nb".to_owned())).is_none());
    }
}
