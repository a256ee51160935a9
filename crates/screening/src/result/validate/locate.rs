//! Finds `structuredContent` in a result, and how deep it is, in one pass without a tree.

use vocabulary::json::scanned::{Named, Scanned};
use vocabulary::json::span::{Scanner, SpanFault, decode_name, decode_string};

/// What a result holds by that name.
pub(super) enum Structured<'a> {
    /// Nothing.
    Absent,
    /// Nothing, and the result says that it is not the last word (`input_required`, `task`).
    Unfinished,
    /// One value, `null` included; its raw bytes, and its depth (a scalar is 1).
    Once { raw: &'a [u8], depth: usize },
    /// More than one: one reader takes the first and another the last.
    Twice,
    /// The result is nested deeper than anything we read.
    TooDeep,
    /// The result is not JSON.
    Unreadable,
}

/// Looks through the bytes of a whole result.
pub(super) fn in_bytes(bytes: &[u8]) -> Structured<'_> {
    let mut scanner = Scanner::new(bytes, usize::MAX);
    if scanner.peek() != Some(b'{') {
        return match scanner.value(0).and_then(|_| scanner.finish()) {
            Ok(()) => Structured::Absent,
            Err(fault) => refused(fault),
        };
    }
    members(&mut scanner, bytes).unwrap_or_else(refused)
}

/// Takes it from a result that was looked through before.
pub(super) fn in_scanned(scanned: &Scanned) -> Structured<'_> {
    match scanned.member(NAME) {
        Named::Never => match scanned.member(TYPE) {
            Named::Once(raw) if is_unfinished(raw) => Structured::Unfinished,
            Named::Once(_) | Named::Never | Named::Again => Structured::Absent,
        },
        Named::Again => Structured::Twice,
        Named::Once(raw) => {
            let mut scanner = Scanner::new(raw, usize::MAX);
            match scanner.value(0) {
                Ok(_) => Structured::Once {
                    raw,
                    depth: scanner.deepest(),
                },
                Err(fault) => refused(fault),
            }
        }
    }
}

fn members<'a>(scanner: &mut Scanner<'a>, bytes: &'a [u8]) -> Result<Structured<'a>, SpanFault> {
    let mut found = Structured::Absent;
    scanner.expect(b'{')?;
    let mut more = !scanner.take(b'}');
    while more {
        let key = scanner.key_span()?;
        let name = decode_name(bytes.get(key).unwrap_or_default()).ok_or(SpanFault::Grammar)?;
        scanner.measure_from(1);
        let span = scanner.value(1)?;
        let raw = bytes.get(span).unwrap_or_default();
        found = match (name.as_ref(), found) {
            (NAME, Structured::Absent | Structured::Unfinished) => Structured::Once {
                raw,
                depth: scanner.deepest() - 1,
            },
            (NAME, _) => Structured::Twice,
            (TYPE, Structured::Absent) if is_unfinished(raw) => Structured::Unfinished,
            (_, found) => found,
        };
        more = scanner.take(b',');
        if !more {
            scanner.expect(b'}')?;
        }
    }
    scanner.finish().map(|()| found)
}

/// Whether `resultType` names a result that comes before the real one.
fn is_unfinished(raw: &[u8]) -> bool {
    let inner = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\""));
    inner
        .and_then(decode_string)
        .is_some_and(|said| matches!(said.as_ref(), "input_required" | "task"))
}

fn refused<'a>(fault: SpanFault) -> Structured<'a> {
    match fault {
        SpanFault::TooDeep => Structured::TooDeep,
        SpanFault::Grammar | SpanFault::DuplicateKey | SpanFault::TooManyMembers => Structured::Unreadable,
    }
}

const NAME: &str = "structuredContent";
const TYPE: &str = "resultType";
