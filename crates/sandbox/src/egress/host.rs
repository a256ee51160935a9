//! Hosts and ports as a sandbox writes them, and as a log may show them.

pub(crate) use vocabulary::Host;
use vocabulary::read_port;

/// Where a sandbox wants to go, in its own words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    /// The host as it was written.
    pub(crate) host: Vec<u8>,
    /// The port; 0 if it wrote none that can be read.
    pub(crate) port: u16,
}

impl Asked {
    /// Splits `host:port` at the last colon. What cannot be split is kept whole as the host: no such host has a normal
    /// form unless it is a name without a port, and then `default` is the port.
    pub(crate) fn parse(authority: &[u8], default: Option<u16>) -> Self {
        let colon = authority.iter().rposition(|byte| *byte == b':');
        let parts = colon.and_then(|at| authority.split_at_checked(at));
        let Some((host, port)) = parts.filter(|_| !authority.ends_with(b"]")) else {
            return Self::without_port(authority, default);
        };
        match read_port(port.get(1..).unwrap_or_default()) {
            Some(port) => Self {
                host: host.to_vec(),
                port,
            },
            // With its colon the text is no name, so it cannot pass.
            None => Self {
                host: authority.to_vec(),
                port: 0,
            },
        }
    }

    fn without_port(host: &[u8], default: Option<u16>) -> Self {
        match default {
            Some(port) => Self {
                host: host.to_vec(),
                port,
            },
            None => Self {
                host: [host, b":"].concat(),
                port: 0,
            },
        }
    }
}

/// Attacker-chosen text, fit for a log: printable ASCII without quotes, markup and parentheses; everything else as
/// `\xNN`; at most 255 characters.
pub(crate) fn shown(raw: &[u8]) -> String {
    let mut text = String::new();
    for byte in raw {
        let piece = if byte.is_ascii_graphic() && !b"\"'`\\<>&()".contains(byte) {
            char::from(*byte).to_string()
        } else {
            format!("\\x{byte:02x}")
        };
        if text.len() + piece.len() > LONGEST_SHOWN - CUT.len() {
            text.push_str(CUT);
            break;
        }
        text.push_str(&piece);
    }
    text
}

const LONGEST_SHOWN: usize = 255;
const CUT: &str = "...";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_authority_is_split_at_its_last_colon() {
        let asked = |text: &str, default| {
            let asked = Asked::parse(text.as_bytes(), default);
            (String::from_utf8(asked.host).unwrap(), asked.port)
        };
        assert_eq!(asked("good.test:443", None), ("good.test".into(), 443));
        assert_eq!(asked("good.test", Some(80)), ("good.test".into(), 80));
        assert_eq!(asked("good.test", None), ("good.test:".into(), 0));
        assert_eq!(asked("good.test:+443", None), ("good.test:+443".into(), 0));
        assert_eq!(asked("good.test:0", Some(80)), ("good.test:0".into(), 0));
        assert_eq!(asked("good.test:65536", Some(80)), ("good.test:65536".into(), 0));
        assert_eq!(asked("good.test:", Some(80)), ("good.test:".into(), 0));
        assert_eq!(asked("[::1]:443", None), ("[::1]".into(), 443));
        assert_eq!(asked("[::1]", Some(80)), ("[::1]".into(), 80));
    }

    #[test]
    fn shown_text_is_short_and_plain() {
        assert_eq!(shown(b"a\0\"b\\\n(various)"), "a\\x00\\x22b\\x5c\\x0a\\x28various\\x29");
        assert_eq!(shown(&[b'a'; 1000]).len(), 255);
        assert!(shown(&[0xff; 1000]).len() <= 255);
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_is_short_and_can_be_shown(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let asked = Asked::parse(&bytes, Some(80));
            prop_assert!(asked.host.len() <= bytes.len());
            let text = shown(&bytes);
            prop_assert!(text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_graphic()));
        }
    }
}
