//! One line being written: canonical JSON, piece by piece, with room for its own hash.

use crate::incident::IncidentMark;
use vocabulary::{Digest, ReceiptId, TraceId};

/// What the chain adds to every record.
pub(crate) struct Seal<'a> {
    /// The log's name, already a JSON string.
    pub(crate) log: &'a [u8],
    pub(crate) seq: u64,
    /// The time, already spelled.
    pub(crate) ts: &'a [u8],
    pub(crate) prev: &'a Digest,
    /// The strictest incident that is on.
    pub(crate) incident: Option<&'a IncidentMark>,
}

/// Hashes the record around the gap for `record_hash`, fills the gap and ends the line.
pub(super) fn fill(out: &mut Vec<u8>, start: usize, gap: usize) -> Digest {
    let after = gap + HASH_MEMBER.len();
    let head = out.get(start..gap).unwrap_or_default();
    let tail = out.get(after..).unwrap_or_default();
    let hash = Digest::of_pieces([head, tail]);
    let mut spelled = Vec::with_capacity(71);
    hash.write_to(&mut spelled);
    let text = gap + HASH_MEMBER_PREFIX.len();
    if let Some(place) = out.get_mut(text..text + spelled.len()) {
        place.copy_from_slice(&spelled);
    }
    out.push(b'\n');
    hash
}

pub(crate) const HASH_MEMBER_PREFIX: &str = r#","record_hash":""#;
const HASH_MEMBER: &str = r#","record_hash":"sha256:0000000000000000000000000000000000000000000000000000000000000000""#;

/// The line being written.
pub(super) struct Line<'a>(pub(super) &'a mut Vec<u8>);

impl Line<'_> {
    pub(super) fn raw(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Text that needs no escapes.
    pub(super) fn quoted(&mut self, text: &[u8]) {
        self.0.push(b'"');
        self.0.extend_from_slice(text);
        self.0.push(b'"');
    }

    pub(super) fn trace_id(&mut self, id: TraceId) {
        self.0.push(b'"');
        id.write_to(self.0);
        self.0.push(b'"');
    }

    pub(super) fn receipt_id(&mut self, id: Option<ReceiptId>) {
        match id {
            Some(id) => {
                self.0.push(b'"');
                id.write_to(self.0);
                self.0.push(b'"');
            }
            None => self.raw("null"),
        }
    }

    pub(super) fn text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => write_text(text, self.0),
            None => self.raw("null"),
        }
    }

    pub(super) fn list<'t>(&mut self, items: impl Iterator<Item = &'t str>) {
        self.raw("[");
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.raw(",");
            }
            write_text(item, self.0);
        }
        self.raw("]");
    }

    pub(super) fn digest(&mut self, digest: Option<&Digest>) {
        match digest {
            Some(digest) => {
                self.0.push(b'"');
                digest.write_to(self.0);
                self.0.push(b'"');
            }
            None => self.raw("null"),
        }
    }

    /// A whole number. Past 2^53 the canonical form would round it, so it is held there.
    pub(super) fn number(&mut self, number: Option<u64>) {
        let Some(number) = number else { return self.raw("null") };
        let mut rest = number.min(9_007_199_254_740_991);
        let mut digits = [0u8; 20];
        let mut used = 0;
        for slot in digits.iter_mut().rev() {
            *slot = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            rest /= 10;
            used += 1;
            if rest == 0 {
                break;
            }
        }
        let (_, spelled) = digits.split_at(digits.len() - used);
        self.bytes(spelled);
    }

    pub(super) fn bool(&mut self, value: Option<bool>) {
        self.raw(match value {
            Some(true) => "true",
            Some(false) => "false",
            None => "null",
        });
    }

    /// Leaves room for `record_hash`; gives back where.
    pub(super) fn gap(&mut self) -> usize {
        let place = self.0.len();
        self.raw(HASH_MEMBER);
        place
    }
}

/// Writes a JSON string with RFC 8785's escapes: the short ones, `\u00xx` for other controls, nothing else.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut clean = text.as_bytes();
    while let Some(at) = clean.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        let (before, rest) = clean.split_at(at);
        out.extend_from_slice(before);
        let Some((byte, rest)) = rest.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            other => out.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
        }
        clean = rest;
    }
    out.extend_from_slice(clean);
    out.push(b'"');
}
