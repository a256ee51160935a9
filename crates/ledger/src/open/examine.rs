//! Reading the end of the log: does it verify, where does the chain stand, and what did a crash leave.

use std::collections::HashMap;
use std::fs;

use vocabulary::{Digest, ReceiptId};

use super::error::OpenError;
use crate::chain::{BreakKind, Head, follow, seq_of, text_member};
use crate::segment::{LedgerReader, Position, Span, last_line, read_open_intents};
use crate::tree::leaf_hash;
use crate::verify::Break;

/// What the files say.
pub(super) struct Found {
    pub(super) newest: Option<u32>,
    pub(super) head: Head,
    /// Where an incomplete last line begins, and its bytes.
    pub(super) cut: Option<(u64, u64)>,
    /// Intents without a final record, oldest first.
    pub(super) intents: Vec<Span>,
    /// The tree's hashes of the last records, the newest last.
    pub(super) leaves: Vec<Digest>,
}

/// Verifies the last segment that has records, and finds what a crash left.
pub(super) fn examine(reader: &LedgerReader, origin: &str) -> Result<Found, OpenError> {
    let disk = OpenError::disk;
    let segments = reader.segments().map_err(disk("list its segments"))?;
    let Some(&newest) = segments.last() else {
        return Ok(Found {
            newest: None,
            head: Head::of_origin(origin),
            cut: None,
            intents: Vec::new(),
            leaves: Vec::new(),
        });
    };
    let mut scanned = newest;
    let mut before = None;
    for (index, &number) in segments.iter().enumerate().rev() {
        scanned = number;
        before = index.checked_sub(1).and_then(|index| segments.get(index)).copied();
        if last_line(reader, number).map_err(disk("read a segment"))?.is_some() {
            break;
        }
    }
    let start = match before {
        Some(before) => Some(head_of(reader, before)?),
        None if scanned == 1 => Some(Head::of_origin(origin)),
        // Older segments are gone: the chain is taken up where it begins now.
        None => None,
    };
    let mut intents = Intents::default();
    for (id, span) in earlier_intents(reader, scanned, before)? {
        intents.add(id, span);
    }
    let Scanned { head, end, leaves } = scan(reader, scanned, start, &mut intents)?;
    let length = fs::metadata(reader.path(newest)).map_err(disk("read a segment"))?.len();
    let complete = if scanned == newest { end } else { 0 };
    let cut = length
        .checked_sub(complete)
        .filter(|cut| *cut > 0)
        .map(|cut| (complete, cut));
    Ok(Found {
        newest: Some(newest),
        head: head.or(start).unwrap_or(Head::of_origin(origin)),
        cut,
        intents: intents.in_order(),
        leaves,
    })
}

/// The head after the last record of a segment that is not the last.
fn head_of(reader: &LedgerReader, number: u32) -> Result<Head, OpenError> {
    let line = last_line(reader, number).map_err(OpenError::disk("read a segment"))?;
    let position = Position {
        segment: number,
        offset: 0,
    };
    let broken = |kind| {
        OpenError::Broken(Break {
            position,
            seq: None,
            kind,
        })
    };
    follow(&line.ok_or_else(|| broken(BreakKind::Spelling))?, None).map_err(broken)
}

/// One segment that was followed: the head, where the complete lines end, and their hashes.
struct Scanned {
    head: Option<Head>,
    end: u64,
    leaves: Vec<Digest>,
}

/// Follows the chain through one segment.
fn scan(reader: &LedgerReader, number: u32, start: Option<Head>, intents: &mut Intents) -> Result<Scanned, OpenError> {
    let disk = OpenError::disk;
    let mut lines = reader
        .lines_from(Position {
            segment: number,
            offset: 0,
        })
        .map_err(disk("read a segment"))?;
    let mut head = start;
    let mut end = 0;
    let mut leaves = Vec::new();
    let mut line = Vec::new();
    while let Some(span) = lines.read_into(&mut line).map_err(disk("read a segment"))? {
        if span.position.segment != number {
            break;
        }
        let next = follow(&line, head.as_ref()).map_err(|kind| {
            OpenError::Broken(Break {
                position: span.position,
                seq: seq_of(&line),
                kind,
            })
        })?;
        intents.meet(span, &line);
        leaves.push(leaf_hash(&line));
        head = Some(next);
        end = span.position.offset + span.length + 1;
    }
    Ok(Scanned { head, end, leaves })
}

/// The intents that were open when `scanned` began: from the list kept at rotation, or from all older segments.
fn earlier_intents(
    reader: &LedgerReader,
    scanned: u32,
    before: Option<u32>,
) -> Result<Vec<(ReceiptId, Span)>, OpenError> {
    let Some(_) = before else { return Ok(Vec::new()) };
    let listed = read_open_intents(reader, scanned).and_then(|positions| {
        positions
            .into_iter()
            .map(|position| intent_at(reader, position))
            .collect::<Option<Vec<_>>>()
    });
    if let Some(listed) = listed {
        return Ok(listed);
    }
    let mut intents = Intents::default();
    let disk = OpenError::disk;
    let mut lines = reader.lines_from(Position::START).map_err(disk("read a segment"))?;
    let mut line = Vec::new();
    while let Some(span) = lines.read_into(&mut line).map_err(disk("read a segment"))? {
        if span.position.segment >= scanned {
            break;
        }
        intents.meet(span, &line);
    }
    Ok(intents.open.into_iter().collect())
}

fn intent_at(reader: &LedgerReader, position: Position) -> Option<(ReceiptId, Span)> {
    let (span, line) = reader.lines_from(position).ok()?.next()?.ok()?;
    let whole = span.position == position && follow(&line, None).is_ok() && is_intent(&line);
    receipt_of(&line).filter(|_| whole).map(|id| (id, span))
}

/// Intents that have no final record so far.
#[derive(Default)]
struct Intents {
    open: HashMap<ReceiptId, Span>,
}

impl Intents {
    fn add(&mut self, id: ReceiptId, span: Span) {
        self.open.insert(id, span);
    }

    fn meet(&mut self, span: Span, line: &[u8]) {
        let Some(phase) = text_member(line, PHASE) else { return };
        let Some(id) = receipt_of(line) else { return };
        if phase == "intent" {
            self.open.insert(id, span);
        } else {
            self.open.remove(&id);
        }
    }

    fn in_order(self) -> Vec<Span> {
        let mut spans: Vec<Span> = self.open.into_values().collect();
        spans.sort_by_key(|span| span.position);
        spans
    }
}

const PHASE: &[u8] = br#","phase":""#;

fn is_intent(line: &[u8]) -> bool {
    text_member(line, PHASE) == Some("intent")
}

fn receipt_of(line: &[u8]) -> Option<ReceiptId> {
    text_member(line, br#","receipt_id":""#).and_then(ReceiptId::parse)
}
