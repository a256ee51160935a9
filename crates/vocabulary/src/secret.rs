//! Values that must not be seen: never displayed, blank in debug output, zeroed when dropped.

use std::fmt;

use zeroize::Zeroizing;

/// A secret text. It can be read only through [`Secret::expose`].
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text into keeping.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself. Every call of this is a place to review.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A secret has no `Display`:
///
/// ```compile_fail,E0277
/// let secret = portreeve_vocabulary::Secret::new("hunter2".to_owned());
/// println!("{secret}");
/// ```
///
/// while its debug form is blank:
///
/// ```
/// let secret = portreeve_vocabulary::Secret::new("hunter2".to_owned());
/// assert_eq!(format!("{secret:?}"), "Secret");
/// ```
#[cfg(doctest)]
struct NoDisplay;
