//! Spells what is posted to a token endpoint.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use vocabulary::Secret;

/// Characters that stand for themselves in a form: those that are unreserved.
const IN_FORMS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// `application/x-www-form-urlencoded`.
pub(super) fn spelled<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> Secret {
    let mut form = String::new();
    for (name, value) in members {
        if !form.is_empty() {
            form.push('&');
        }
        form.push_str(name);
        form.push('=');
        form.extend(utf8_percent_encode(value, IN_FORMS));
    }
    Secret::new(form)
}

/// A name or a secret as HTTP Basic takes it (RFC 6749 §2.3.1).
pub(super) fn spelled_word(word: &str) -> String {
    utf8_percent_encode(word, IN_FORMS).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_form_gives_a_meaning_to_is_escaped() {
        let form = spelled([("a", "b&c=d e+f/ü"), ("scope", "x y")].into_iter());
        assert_eq!(form.expose(), "a=b%26c%3Dd%20e%2Bf%2F%C3%BC&scope=x%20y");
    }
}
