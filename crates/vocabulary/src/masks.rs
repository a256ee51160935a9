//! Values that were handed to somebody, so that they can be taken out of what that somebody says.

use std::borrow::Cow;

use crate::Secret;

/// Exact values of secrets. Debug output says how many there are, and nothing of them.
#[derive(Clone, Debug, Default)]
pub struct Masks(Vec<Secret>);

impl Masks {
    /// Values to be masked, and each long line of those that have several. What is shorter than `SHORTEST` bytes cannot be told
    /// from ordinary words and is left.
    pub fn of(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut masked: Vec<Secret> = Vec::new();
        for value in values {
            let text = value.expose();
            let lines = text
                .lines()
                .map(str::trim)
                .filter(|line| line.len() >= LONG_LINE && *line != text);
            masked.extend(lines.map(|line| Secret::new(line.to_owned())));
            let whole = text.trim();
            if whole.len() >= SHORTEST {
                masked.push(Secret::new(whole.to_owned()));
            }
        }
        // A value that holds another goes first.
        masked.sort_by_key(|value| std::cmp::Reverse(value.expose().len()));
        Self(masked)
    }

    /// The text with every value replaced.
    #[must_use]
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut hidden = Cow::Borrowed(text);
        for value in &self.0 {
            if hidden.contains(value.expose()) {
                hidden = Cow::Owned(hidden.replace(value.expose(), IN_ITS_PLACE));
            }
        }
        hidden
    }

    /// The same of bytes that need not be text; what is no text stays as it is where nothing has to be hidden.
    #[must_use]
    pub fn hide_in<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let holds = |value: &Secret| {
            let wanted = value.expose().as_bytes();
            bytes.windows(wanted.len().max(1)).any(|window| window == wanted)
        };
        match self.0.iter().any(holds) {
            true => Cow::Owned(self.hide(&String::from_utf8_lossy(bytes)).into_owned().into_bytes()),
            false => Cow::Borrowed(bytes),
        }
    }
}

/// The least bytes of a value that is masked.
const SHORTEST: usize = 6;
/// The least bytes of one line among several.
const LONG_LINE: usize = 12;
const IN_ITS_PLACE: &str = "[REDACTED:secret]";

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(values: &[&str]) -> Masks {
        Masks::of(values.iter().map(|value| Secret::new((*value).to_owned())))
    }

    #[test]
    fn values_are_hidden_wherever_they_stand() {
        let masks = masks(&[
            "hunter2!",
            "hunter2!-and-more",
            "abc",
            "-----BEGIN-----\nAAAAbbbbCCCCdddd\n-----END-----\n",
        ]);
        assert_eq!(
            masks.hide("a hunter2!-and-more b xhunter2!x abc AAAAbbbbCCCCdddd"),
            "a [REDACTED:secret] b x[REDACTED:secret]x abc [REDACTED:secret]"
        );
        assert!(matches!(masks.hide("nothing"), Cow::Borrowed("nothing")));
        assert_eq!(
            &*masks.hide_in(b"\xff hunter2! \xfe"),
            "\u{fffd} [REDACTED:secret] \u{fffd}".as_bytes()
        );
        assert!(matches!(masks.hide_in(b"\xff"), Cow::Borrowed(b"\xff")));
        assert!(!format!("{masks:?}").contains("hunter"));
    }
}
