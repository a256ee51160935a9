//! Offline verification: reads the files and nothing else, and names the first break.

mod evidence;
mod files;
mod keys;
mod records;
mod tree;

use std::fmt;
use std::io;

use vocabulary::json::{Limits, Value};
use vocabulary::{Digest, canonical};

use crate::chain::{BreakKind, Head, follow, seq_of};
use crate::segment::{LedgerReader, Position, SegmentFile, Span};

/// What verification found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// Every record is as it was written, and in its place.
    Intact(Intact),
    /// The first place where that is not so.
    Broken(Break),
}

/// A log that verifies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intact {
    /// How many records it has.
    pub records: u64,
    /// The place of the newest; 0 in an empty log.
    pub last_seq: u64,
    /// The newest record's hash. A log that was cut short verifies too: compare this with one noted earlier.
    pub last_hash: Option<Digest>,
}

/// Where a log is broken, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Break {
    /// Where the line begins.
    pub position: Position,
    /// The place the record claims, where it can be read.
    pub seq: Option<u64>,
    /// What is wrong.
    pub kind: BreakKind,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { segment, offset } = self.position;
        match self.seq {
            Some(seq) => write!(f, "record {seq} (segment {segment:08}, byte {offset}) {}", self.kind),
            None => write!(f, "the record at segment {segment:08}, byte {offset} {}", self.kind),
        }
    }
}

/// Checks every record: canonical spelling, hash, link to the one before, sequence, time, and the log's name.
///
/// # Errors
/// When the files cannot be read.
pub fn verify(reader: &LedgerReader) -> io::Result<Finding> {
    let mut lines = reader.lines_from(Position::START)?;
    let mut walk = Walk::default();
    let mut line = Vec::new();
    let mut ends: Vec<Span> = Vec::new();
    while let Some(span) = lines.read_into(&mut line)? {
        if let Err(kind) = walk.step(span, &line).map(drop) {
            return Ok(Finding::Broken(Break {
                position: span.position,
                seq: seq_of(&line),
                kind,
            }));
        }
        match ends.last_mut() {
            Some(last) if last.position.segment == span.position.segment => *last = span,
            Some(_) | None => ends.push(span),
        }
    }
    if let Some(position) = leftover(reader, &ends)? {
        return Ok(Finding::Broken(Break {
            position,
            seq: None,
            kind: BreakKind::Incomplete,
        }));
    }
    Ok(Finding::Intact(Intact {
        records: walk.records,
        last_seq: walk.head.map_or(0, |head| head.seq),
        last_hash: walk.head.map(|head| head.hash),
    }))
}

pub use evidence::{CannotVerify, Fault, Question, Report, verify_state};
pub use files::verify_files;

/// What we wrote ourselves is as long as it is; nothing in it is deep.
const OF_RECORDS: Limits = Limits {
    max_bytes: usize::MAX,
    max_depth: 64,
    max_string: usize::MAX,
    max_items: usize::MAX,
};

#[derive(Default)]
struct Walk {
    head: Option<Head>,
    origin: Option<String>,
    records: u64,
}

impl Walk {
    /// Checks the next line, and gives it back read.
    fn step<'l>(&mut self, span: Span, line: &'l [u8]) -> Result<Value<'l>, BreakKind> {
        let record = Value::parse(line, &OF_RECORDS).map_err(|_| BreakKind::Spelling)?;
        let mut spelled = Vec::with_capacity(line.len());
        canonical::write(&record, &mut spelled);
        if spelled != line {
            return Err(BreakKind::Spelling);
        }
        let log = record
            .member("log")
            .and_then(Value::as_str)
            .ok_or(BreakKind::Spelling)?;
        if self.origin.as_deref().is_some_and(|origin| *origin != *log) {
            return Err(BreakKind::Log);
        }
        if self.origin.is_none() {
            self.origin = Some(log.to_owned());
            if span.position.segment == 1 || seq_of(line) == Some(1) {
                self.head = Some(Head::of_origin(log));
            }
        }
        self.head = Some(follow(line, self.head.as_ref())?);
        self.records += 1;
        Ok(record)
    }
}

/// Where bytes follow the last complete line of a segment.
fn leftover(reader: &LedgerReader, ends: &[Span]) -> io::Result<Option<Position>> {
    leftover_in(reader, reader.segments()?, ends)
}

/// The same of some segments.
fn leftover_in(
    reader: &LedgerReader,
    segments: impl IntoIterator<Item = u32>,
    ends: &[Span],
) -> io::Result<Option<Position>> {
    for segment in segments {
        let last = ends.iter().rfind(|span| span.position.segment == segment);
        let offset = last.map_or(0, |span| span.position.offset + span.length + 1);
        // A log that is being written may have grown by whole lines since.
        let next = reader.lines_from(Position { segment, offset })?.next().transpose()?;
        let grown = next.is_some_and(|(span, _)| span.position.segment == segment);
        if SegmentFile::open(&reader.path(segment))?.length()? > offset && !grown {
            return Ok(Some(Position { segment, offset }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
pub(crate) mod tests;
