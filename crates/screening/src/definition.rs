//! Definitions of tools and instructions of servers: read by models and by people, pinned, and never edited. What a
//! model would read and a person would not see makes one doubtful; so does a secret, where secrets are looked for.

use std::borrow::Cow;

use bytes::Bytes;
use schema::OutputSchema;

use crate::detect::{Detector, Excuse, Joins, Piece, PieceKind, Redact, may_hold_own_token, own_tokens};
use crate::result::may_be_forged;
use crate::result::strip::{Classes, strip};
use crate::result::walk::{LiteralKind, Message, walk};
use crate::result::{Origin, Raw, Rules, Screening, judgement, screen};

/// A definition without the members of `_meta` that only we may write: what is pinned, judged and listed. What cannot be
/// read through stays as it is, and is doubtful.
#[must_use]
pub fn unforged(definition: &[u8]) -> Cow<'_, [u8]> {
    if !may_be_forged(definition) {
        return Cow::Borrowed(definition);
    }
    let Ok(walked) = walk(definition, Message::Definitions) else {
        return Cow::Borrowed(definition);
    };
    let (mut kept, mut at) = (Vec::with_capacity(definition.len()), 0);
    for forged in walked.forged() {
        kept.extend_from_slice(definition.get(at..forged.start).unwrap_or_default());
        at = forged.end;
    }
    if at == 0 {
        return Cow::Borrowed(definition);
    }
    kept.extend_from_slice(definition.get(at..).unwrap_or_default());
    Cow::Owned(kept)
}

/// Whether a definition (a JSON document) is to be looked at by a person before anybody uses it.
#[must_use]
pub fn is_doubtful(definition: &[u8], detector: Option<&Detector>) -> bool {
    let Ok(walked) = walk(definition, Message::Definitions) else {
        return true;
    };
    let literals = walked.literals().iter();
    let mut texts = literals.filter(|literal| literal.kind() != LiteralKind::Number);
    texts.any(|literal| hides_something(definition.get(literal.span()).unwrap_or_default()))
        || holds_secret(definition, detector)
}

/// Whether a definition (a JSON document) holds a secret, where secrets are looked for: then it is not even kept.
#[must_use]
pub fn holds_secret(definition: &[u8], detector: Option<&Detector>) -> bool {
    let (Some(detector), Ok(walked)) = (looked_for(definition, detector), walk(definition, Message::Definitions))
    else {
        return false;
    };
    walked.literals().iter().any(|literal| {
        let raw = definition.get(literal.span()).unwrap_or_default();
        match literal.kind() {
            LiteralKind::Text => holds_a_secret(raw, literal.name(definition).as_deref(), detector),
            LiteralKind::Name => holds_a_secret(raw, None, detector),
            LiteralKind::Number => false,
        }
    })
}

/// The same of a text that is no JSON.
#[must_use]
pub fn is_doubtful_text(text: &str, detector: Option<&Detector>) -> bool {
    // A backslash in plain text begins no escape.
    let literal = text.replace('\\', "\\\\").replace('"', "\\\"");
    hides_something(literal.as_bytes())
        || looked_for(literal.as_bytes(), detector)
            .is_some_and(|detector| holds_a_secret(literal.as_bytes(), None, detector))
}

/// Screens a schema that a server has others use: it must be one that can be admitted and compiled, and is a definition
/// beside that.
pub fn screen_schema(schema: Bytes, origin: &Origin<'_>, rules: &Rules) -> Screening {
    match OutputSchema::compile(&schema) {
        Ok(_) => screen(Raw::Unread(schema), origin, rules),
        Err(fault) => Screening::withheld(judgement::unusable_schema(&fault)),
    }
}

/// Tokens of ours are looked for always.
fn looked_for<'d>(raw: &[u8], detector: Option<&'d Detector>) -> Option<&'d Detector> {
    detector.or_else(|| own_tokens().filter(|_| may_hold_own_token(raw)))
}

fn hides_something(raw: &[u8]) -> bool {
    !strip(raw, Classes::ALL, &[]).removals.is_empty()
}

fn holds_a_secret(raw: &[u8], name: Option<&str>, detector: &Detector) -> bool {
    let piece = Piece {
        raw,
        name,
        joins: Joins::Nothing,
        kind: PieceKind::Text,
    };
    let nobody = Excuse { server: "", tool: "" };
    let found = detector.find(&[piece], &nobody);
    found.iter().any(|finding| finding.redact == Redact::Mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_makes_a_definition_doubtful_wherever_it_stands() {
        for (definition, doubtful) in [
            (r#"{"name":"a","description":"adds two numbers\n\tone by one"}"#, false),
            (r#"{"name":"a","description":"family 👩‍👩‍👧 and flag 🏴󠁧󠁢󠁳󠁣󠁴󠁿"}"#, false),
            ("{\"name\":\"a\",\"description\":\"adds\u{e0069}\u{e0067}\"}", true),
            (r#"{"name":"a","description":"adds\u200b"}"#, true),
            (r#"{"name":"a","inputSchema":{"properties":{"x\u202e":{}}}}"#, true),
            (r#"{"name":"a","annotations":{"title":"\u001b[8mhidden"}}"#, true),
            ("not json", true),
        ] {
            assert_eq!(is_doubtful(definition.as_bytes(), None), doubtful, "{definition}");
        }
        assert!(!is_doubtful_text("be kind, use \\d+ and \"quotes\"\n", None));
        assert!(is_doubtful_text("be kind\u{200b}", None));
    }

    #[test]
    fn a_schema_for_others_is_let_through_as_it_is_or_not_at_all() {
        let rules = Rules {
            guards: crate::result::Guards {
                max_bytes: 1 << 20,
                max_depth: 64,
            },
            validation: crate::result::validate::ValidationRules::default(),
            sanitisation: crate::result::Sanitisation::default(),
            truncation: None,
        };
        let origin = Origin {
            server: "s",
            name: "",
            message: Message::Definitions,
            standing: crate::result::OutputTrust::Untrusted,
            declared: crate::result::validate::Declared::Nothing,
        };
        for (schema, passes) in [
            (
                r#"{"type":"object","properties":{"a":{"type":"string","format":"email"}}}"#,
                true,
            ),
            (r#"{"type":"object","properties":{"a\u200b":{"type":"string"}}}"#, false),
            (r#"{"$ref":"https://example.com/schema"}"#, false),
            (r#"{"type":7}"#, false),
            ("7", false),
        ] {
            let screening = screen_schema(Bytes::copy_from_slice(schema.as_bytes()), &origin, &rules);
            assert_eq!(screening.is_clean(), passes, "{schema}");
            assert_eq!(
                screening.preview().is_ok_and(|bytes| bytes == schema.as_bytes()),
                passes,
                "{schema}"
            );
        }
    }

    #[test]
    fn what_only_we_may_write_is_taken_out_in_every_spelling() {
        for (definition, left) in [
            (r#"{"name":"a","_meta":{"x/y":"portreeve/"}}"#, None),
            (
                r#"{"name":"a","inputSchema":{"properties":{"_meta":{"portreeve/x":{}}}}}"#,
                None,
            ),
            (
                r#"{"name":"a","_meta":{"portreeve/decision":{"a":"\u200b"}},"x":1}"#,
                Some(r#"{"name":"a","_meta":{},"x":1}"#),
            ),
            (
                r#"{"_meta":{"x/y":1, "p\u006Frtreeve/a":1,"portreeve\/b":[{}],"z":2},"name":"a"}"#,
                Some(r#"{"_meta":{"x/y":1,"z":2},"name":"a"}"#),
            ),
            (
                r#"{"\u005fmeta":{"portreeve/a":1,"z":2},"_meta":{"portreeve/a":1},"name":"a"}"#,
                Some(r#"{"\u005fmeta":{"z":2},"_meta":{},"name":"a"}"#),
            ),
            (r#"{"_meta":{"portreeve/a":1}"#, None),
        ] {
            let left = left.unwrap_or(definition);
            assert_eq!(String::from_utf8_lossy(&unforged(definition.as_bytes())), left);
        }
    }

    #[test]
    fn a_secret_makes_one_doubtful_where_secrets_are_looked_for() {
        let detector = Detector::embedded().unwrap();
        let definition = concat!(
            r#"{"name":"a","description":"use gh"#,
            r#"p_9Xk2mQ7vL4nR8tB6wY3zC1dF5gH0jK2pS4uA"}"#
        );
        assert!(!is_doubtful(definition.as_bytes(), None));
        assert!(is_doubtful(definition.as_bytes(), Some(&detector)));
    }
}
