//! Host names, however somebody wrote them: one normal form, or nothing. Everything that is not plainly a DNS name (an
//! address in any notation, a NUL, a percent sign, user information, brackets, Unicode) has no normal form.

use std::fmt;

/// A DNS name in normal form: lower case, no trailing dot, letters, digits and hyphens, and nothing that a resolver
/// could take for an address.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Host(String);

impl Host {
    /// Reads a name; `None` for everything that is not one.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        if text.is_empty() || text.len() > LONGEST_NAME {
            return None;
        }
        let mut last: &[u8] = &[];
        for label in text.split(|byte| *byte == b'.') {
            if !is_label(label) {
                return None;
            }
            last = label;
        }
        // A name that ends in a number is an IPv4 address to the C library and to browsers: `127.1`, `2130706433`.
        if last.iter().all(u8::is_ascii_digit) || last.to_ascii_lowercase().starts_with(b"0x") {
            return None;
        }
        String::from_utf8(text.to_ascii_lowercase()).ok().map(Self)
    }

    /// The name of a machine for itself.
    #[must_use]
    pub fn localhost() -> Self {
        Self("localhost".to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a port from 1 to 65535, digits only.
#[must_use]
pub fn read_port(text: &[u8]) -> Option<u16> {
    if text.is_empty() || text.len() > 5 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let port = std::str::from_utf8(text).ok()?.parse().ok()?;
    (port != 0).then_some(port)
}

fn is_label(label: &[u8]) -> bool {
    !label.is_empty()
        && label.len() <= 63
        && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        && !label.starts_with(b"-")
        && !label.ends_with(b"-")
}

const LONGEST_NAME: usize = 253;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_has_one_normal_form() {
        for (written, normal) in [
            ("good.test", "good.test"),
            ("GOOD.Test.", "good.test"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("localhost", "localhost"),
            ("a1.2b", "a1.2b"),
        ] {
            assert_eq!(
                Host::parse(written.as_bytes()).map(|host| host.to_string()).as_deref(),
                Some(normal),
                "{written}"
            );
        }
    }

    #[test]
    fn an_address_in_any_notation_is_no_name() {
        for text in [
            "93.184.216.34",
            "127.0.0.1",
            "127.0.0.1.",
            "0.0.0.0",
            "[::1]",
            "::1",
            "[::ffff:127.0.0.1]",
            "2130706433",
            "0x7f.1",
            "127.1",
            "0177.0.0.1",
            "0x7f000001",
            "1.0X7f",
            "10.0.0.1",
            "fe80::1%eth0",
            "[fe80::1%25lo]",
        ] {
            assert_eq!(Host::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn tricks_with_characters_are_no_name() {
        for text in [
            &b""[..],
            b".",
            b"..",
            b"good.test..",
            b".good.test",
            b"good..test",
            b"good.test\0",
            b"\0good.test",
            b"good.test\0.evil.test",
            b"good%2etest",
            b"good.test@evil.test",
            "good\u{3002}test".as_bytes(),
            b"good.test:443",
            b"good_x.test",
            b"-good.test",
            b"good-.test",
            b"good.test\r\nHost: evil",
            b"good test",
            b"*.good.test",
            &[b'a'; 64],
        ] {
            assert_eq!(Host::parse(text), None, "{text:?}");
        }
        assert_eq!(
            Host::parse([b"a.".repeat(127), b"a".to_vec()].concat().as_slice()),
            None
        );
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_normal(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(host) = Host::parse(&bytes) {
                let again = Host::parse(host.as_str().as_bytes());
                prop_assert_eq!(again.as_ref(), Some(&host));
                prop_assert!(host.as_str().parse::<std::net::IpAddr>().is_err());
            }
        }

        #[test]
        fn names_are_read_in_any_case(name in "[a-zA-Z][a-zA-Z0-9]{0,10}(\\.[a-zA-Z][a-wA-W0-9]{0,10}){0,4}\\.?") {
            let host = Host::parse(name.as_bytes());
            prop_assert_eq!(host.map(|host| host.to_string()), Some(name.trim_end_matches('.').to_ascii_lowercase()));
        }
    }
}
