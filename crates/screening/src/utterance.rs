//! What a server says in plain text and outside of the protocol, before it is kept where people read it: masked and
//! stripped as a message of the protocol would be, whatever the operator's rules for messages are.

use std::sync::{Arc, LazyLock};

use vocabulary::json::span::decode_string;

use crate::detect::Detector;
use crate::result::strip::Classes;
use crate::result::validate::{Declared, ValidationRules};
use crate::result::walk::Message;
use crate::result::{Guards, Origin, OutputTrust, Raw, ResponseAction, Rules, Sanitisation, Spotlight, screen};

/// Our own rules, for whoever has none.
static EMBEDDED: LazyLock<Option<Arc<Detector>>> = LazyLock::new(|| Detector::embedded().ok().map(Arc::new));

/// Our own rules.
pub(crate) fn embedded() -> Option<&'static Detector> {
    EMBEDDED.as_deref()
}

/// The text without secrets, terminal sequences and what nobody sees; `None` if that cannot be had.
#[must_use]
pub fn presentable(text: &str, detector: Option<&Arc<Detector>>) -> Option<String> {
    let rules = Rules {
        guards: Guards {
            max_bytes: usize::MAX,
            max_depth: 8,
        },
        validation: ValidationRules::default(),
        sanitisation: Sanitisation {
            spotlight: Spotlight::Nothing,
            action: ResponseAction::Redact(detector.or(EMBEDDED.as_ref())?.clone()),
            strip: Classes::ALL,
            max_redactions: usize::MAX,
        },
        truncation: None,
    };
    let origin = Origin {
        server: "",
        name: "",
        message: Message::Other,
        standing: OutputTrust::Untrusted,
        declared: Declared::Nothing,
    };
    let raw = [OPEN, &literal(text), CLOSE].concat();
    let screening = screen(Raw::Unread(raw.into()), &origin, &rules);
    // It reaches no client: people read it in the log.
    let inside = screening.preview().ok()?.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    decode_string(inside).map(|text| text.into_owned())
}

/// The last lines of a text that a program wrote before it gave up: presentable, without empty ones, each short enough for a
/// table.
#[must_use]
pub fn last_lines(text: &str, detector: Option<&Arc<Detector>>) -> Vec<String> {
    let shown = presentable(text, detector).unwrap_or_default();
    let lines: Vec<&str> = shown.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LAST)..).unwrap_or_default();
    last.iter().map(|line| short(line)).collect()
}

/// So many lines, of so many characters each.
const LAST: usize = 8;
const LONGEST_LINE: usize = 200;

fn short(line: &str) -> String {
    let plain = |letter: char| match letter {
        '\t' => ' ',
        _ if letter.is_control() => '\u{b7}',
        _ => letter,
    };
    let mut shown: String = line.chars().take(LONGEST_LINE).map(plain).collect();
    if line.chars().nth(LONGEST_LINE).is_some() {
        shown.push('…');
    }
    shown
}

const OPEN: &[u8] = br#"{"text":""#;
const CLOSE: &[u8] = br#""}"#;

/// What stands between the quotes of a JSON string that says `text`.
pub(crate) fn literal(text: &str) -> Vec<u8> {
    let mut literal = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\\' => literal.extend([b'\\', letter as u8]),
            '\0'..='\x1f' => literal.extend_from_slice(format!("\\u{:04x}", u32::from(letter)).as_bytes()),
            _ => literal.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_what_nobody_sees_are_gone_and_the_rest_stays() {
        let token = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");
        let (head, tail) = token.split_at(17);
        let said = format!("a \"b\" \\d\n\tuse \u{1b}[31m{head}\u{200b}{tail}\u{1b}[0m now\né");
        let shown = "a \"b\" \\d\n\tuse [REDACTED:api_token] now\né";
        assert_eq!(presentable(&said, None).as_deref(), Some(shown));
        assert_eq!(presentable("", None).as_deref(), Some(""));
    }

    #[test]
    fn last_lines_are_few_short_and_without_secrets() {
        let token = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");
        let many: String = (0..20).map(|number| format!("line {number}\n\n")).collect();
        let said = format!("{many}\tkey \u{1b}[31m{token}\r\n{}", "x".repeat(300));
        let shown = last_lines(&said, None);
        assert_eq!(shown.len(), 8);
        assert_eq!(shown[5], "line 19");
        assert_eq!(shown[6], " key [REDACTED:api_token]");
        assert_eq!(shown[7], format!("{}…", "x".repeat(200)));
        assert!(last_lines("\n \n", None).is_empty());
    }

    #[test]
    fn a_private_key_is_masked_whole() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj".repeat(4);
        let key = format!("-----BEGIN {0}-----\n{body}\n{body}\n-----END {0}-----", "PRIVATE KEY");
        let shown = presentable(&format!("loaded {key}\nfine"), None).unwrap();
        assert_eq!(shown, "loaded [REDACTED:private_key]\nfine");
    }
}
