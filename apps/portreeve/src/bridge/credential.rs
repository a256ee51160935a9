//! The token this bridge shows the gateway: from a file, which may change while we run, or from the
//! environment, which cannot. It leaves in the `Authorization` header and nowhere else.

use std::path::{Path, PathBuf};

use http::HeaderValue;
use tokio::sync::watch;

use crate::config::variable;

/// Why there is no token to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoToken {
    #[error("no token: set PORTREEVE_TOKEN or give --token-file FILE (`portreeve token create` makes one)")]
    Missing,
    #[error("no token: `{}` cannot be read: {error}", file.display())]
    Unreadable { file: PathBuf, error: std::io::Error },
    #[error("no token: {0} holds something else than one token")]
    NotAToken(String),
}

/// A token, and where the next one would be.
pub(crate) struct Credential {
    bearer: watch::Sender<HeaderValue>,
    file: Option<PathBuf>,
}

impl Credential {
    /// The token of the file if there is one, else that of `PORTREEVE_TOKEN`.
    pub(crate) fn find(file: Option<PathBuf>) -> Result<Self, NoToken> {
        let bearer = match &file {
            Some(file) => from_file(file)?,
            None => {
                let token = variable("PORTREEVE_TOKEN").ok_or(NoToken::Missing)?;
                bearer(&token).ok_or_else(|| NoToken::NotAToken("PORTREEVE_TOKEN".to_owned()))?
            }
        };
        let bearer = watch::Sender::new(bearer);
        Ok(Self { bearer, file })
    }

    /// The value of `Authorization`.
    pub(super) fn bearer(&self) -> HeaderValue {
        self.bearer.borrow().clone()
    }

    /// Reads the token again after `refused` was refused; whether there is another one now.
    pub(super) fn reload_after(&self, refused: &HeaderValue) -> bool {
        if let Some(file) = &self.file {
            match from_file(file) {
                Ok(found) => {
                    self.bearer.send_if_modified(|bearer| {
                        let changed = *bearer != found;
                        *bearer = found;
                        changed
                    });
                }
                Err(error) => tracing::warn!("the token file was not taken: {error}"),
            }
        }
        *self.bearer.borrow() != *refused
    }

    /// Completes when there is another token than now.
    pub(super) async fn changed(&self) {
        // An error means that no other token can come: the sender is this value's own, so there is none.
        let _ = self.bearer.subscribe().changed().await;
    }
}

fn from_file(file: &Path) -> Result<HeaderValue, NoToken> {
    let text = std::fs::read_to_string(file).map_err(|error| NoToken::Unreadable {
        file: file.to_owned(),
        error,
    })?;
    bearer(&text).ok_or_else(|| NoToken::NotAToken(format!("`{}`", file.display())))
}

/// `Authorization` for a token: visible characters without a space, or it is none.
fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_and_blank_in_debug_output() {
        let value = bearer(" ptr_agt_x\n").unwrap();
        assert_eq!(value.to_str().unwrap(), "Bearer ptr_agt_x");
        assert_eq!(format!("{value:?}"), "Sensitive");
        for nothing in ["", " \n", "a b", "a\nb", "é"] {
            assert!(bearer(nothing).is_none(), "{nothing:?}");
        }
    }

    #[test]
    fn a_file_is_read_again_and_says_whether_that_helped() {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "first\n").unwrap();
        let credential = Credential::find(Some(file.clone())).unwrap();
        let refused = credential.bearer();
        assert!(!credential.reload_after(&refused), "nothing new");
        std::fs::write(&file, "second\n").unwrap();
        assert!(credential.reload_after(&refused));
        assert_eq!(credential.bearer().to_str().unwrap(), "Bearer second");
        std::fs::remove_file(&file).unwrap();
        assert!(!credential.reload_after(&credential.bearer()), "the last one stays");
        assert!(credential.reload_after(&refused), "another request found it before");
    }
}
