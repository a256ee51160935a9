//! The chain: every record names the hash of the one before it. [`Chain`] writes the next link; [`follow`] checks one.

use std::fmt;
use std::time::Instant;

use memchr::memmem;
use vocabulary::{Clock, Digest, Timestamp};

use crate::entry::Entry;
use crate::event::Event;
use crate::incident::IncidentMark;
use crate::record::{HASH_MEMBER_PREFIX, Request, Seal, write_event, write_request, write_text};

/// Where the chain stands after a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) seq: u64,
    pub(crate) hash: Digest,
    pub(crate) ts: Timestamp,
}

impl Head {
    /// The head of a log that has no record yet.
    pub(crate) fn of_origin(origin: &str) -> Self {
        Self {
            seq: 0,
            hash: Digest::of(origin.as_bytes()),
            ts: Timestamp::from_micros(0),
        }
    }
}

/// Writes records, each linked to the one before.
pub(crate) struct Chain {
    log: Vec<u8>,
    clock: Clock,
    head: Head,
    second: i64,
    second_text: Vec<u8>,
    /// The strictest incident that is on, as the last step that was written says.
    incident: Option<IncidentMark>,
}

impl Chain {
    pub(crate) fn new(origin: &str, clock: Clock, head: Head) -> Self {
        let mut log = Vec::new();
        write_text(origin, &mut log);
        Self {
            log,
            clock,
            head,
            second: i64::MIN,
            second_text: Vec::new(),
            incident: None,
        }
    }

    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// Forgets what was written after `head`: it never reached the log.
    pub(crate) fn return_to(&mut self, head: Head) {
        self.head = head;
    }

    /// Appends the entry's line to `out`; gives back its place in the log.
    pub(crate) fn write(&mut self, entry: &Entry, now: Instant, out: &mut Vec<u8>) -> u64 {
        let seq = self.link(out, |out, seal| match entry {
            Entry::Final(entry) => write_request(out, &Request::of_final(entry, now), seal),
            Entry::Intent(entry) => write_request(out, &Request::of_intent(entry), seal),
            Entry::Event(event) => write_event(out, event, seal),
        });
        if let Entry::Event(Event::Incident(step)) = entry {
            self.incident.clone_from(&step.then);
        }
        seq
    }

    /// Appends a line that `write` makes from the next seal.
    pub(crate) fn link(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>, &Seal<'_>) -> Digest) -> u64 {
        // Clocks are set back; the log's time is not.
        let ts = self.clock.now().max(self.head.ts);
        let text = self.spell(ts);
        let seq = self.head.seq + 1;
        let seal = Seal {
            log: &self.log,
            seq,
            ts: &text,
            prev: &self.head.hash,
            incident: self.incident.as_ref(),
        };
        let hash = write(out, &seal);
        self.head = Head { seq, hash, ts };
        seq
    }

    /// The time's spelling. All but the microseconds is kept for the rest of its second.
    fn spell(&mut self, ts: Timestamp) -> Vec<u8> {
        const UP_TO_THE_POINT: usize = 20;
        let second = ts.as_seconds();
        if second != self.second {
            self.second = second;
            self.second_text = ts.to_string().into_bytes();
            self.second_text.truncate(UP_TO_THE_POINT);
        }
        let mut text = Vec::with_capacity(UP_TO_THE_POINT + 7);
        text.extend_from_slice(&self.second_text);
        let mut divisor = 100_000;
        while divisor > 0 {
            let digit = ts.as_micros().div_euclid(divisor).rem_euclid(10);
            text.push(b'0' + u8::try_from(digit).unwrap_or_default());
            divisor /= 10;
        }
        text.push(b'Z');
        text
    }
}

/// What is wrong with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakKind {
    /// It is not a record in its canonical spelling.
    Spelling,
    /// Its hash is not the one it states.
    RecordHash,
    /// It does not follow the record before it.
    PreviousHash,
    /// A record is missing before it, or it stands twice.
    Sequence,
    /// It is older than the record before it.
    Time,
    /// It belongs to another log.
    Log,
    /// The last line is incomplete.
    Incomplete,
    /// The tree over the records has another root than the signed one, or its tiles have other hashes.
    Root,
    /// Two checkpoints contradict each other.
    Consistency,
    /// A checkpoint is not signed by the log's key, or there is none.
    Signature,
    /// A final record does not fit the intent it ends.
    Intent,
    /// Fewer records are there than were signed.
    Cut,
    /// Records are gone from the beginning, and none says that they were removed.
    Pruned,
    /// It cannot be read at all.
    Unreadable,
}

impl BreakKind {
    /// Its name for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spelling => "spelling",
            Self::RecordHash => "hash",
            Self::PreviousHash | Self::Log => "chain",
            Self::Sequence => "sequence",
            Self::Time => "time",
            Self::Incomplete | Self::Cut => "cut",
            Self::Root => "root",
            Self::Consistency => "consistency",
            Self::Signature => "signature",
            Self::Intent => "intent",
            Self::Pruned => "pruned",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for BreakKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spelling => "is not a record in canonical spelling",
            Self::RecordHash => "does not have the hash it states",
            Self::PreviousHash => "does not follow the record before it",
            Self::Sequence => "is out of sequence",
            Self::Time => "is older than the record before it",
            Self::Log => "belongs to another log",
            Self::Incomplete => "is incomplete",
            Self::Root => "is not what was signed: the tree has another root or another hash there",
            Self::Consistency => "contradicts another checkpoint",
            Self::Signature => "is not signed by the log's key",
            Self::Intent => "does not fit the intent it ends",
            Self::Cut => "is missing: more records were signed than are there",
            Self::Pruned => "is the first that is left, and no record says that those before it were removed",
            Self::Unreadable => "cannot be read",
        })
    }
}

/// Checks that `line` (without its newline) is a whole record and follows `before`; gives back the new head.
///
/// Without a head the line is taken as the first that is left of a longer log.
pub(crate) fn follow(line: &[u8], before: Option<&Head>) -> Result<Head, BreakKind> {
    let (stated, computed) = hashes(line).ok_or(BreakKind::Spelling)?;
    if stated != computed {
        return Err(BreakKind::RecordHash);
    }
    let prev = text_member(line, br#","prev_hash":""#)
        .and_then(Digest::parse)
        .ok_or(BreakKind::Spelling)?;
    let seq = seq_of(line).ok_or(BreakKind::Spelling)?;
    let ts = text_member(line, br#","ts":""#)
        .and_then(Timestamp::parse)
        .ok_or(BreakKind::Spelling)?;
    if let Some(before) = before {
        if seq != before.seq + 1 {
            return Err(BreakKind::Sequence);
        }
        if prev != before.hash {
            return Err(BreakKind::PreviousHash);
        }
        if ts < before.ts {
            return Err(BreakKind::Time);
        }
    }
    Ok(Head { seq, hash: stated, ts })
}

/// The hash a line states and the one it has.
///
/// A name between unescaped quotes after a comma can only be a member's, and no nested object has a `record_hash`.
fn hashes(line: &[u8]) -> Option<(Digest, Digest)> {
    let gap = memmem::find(line, HASH_MEMBER_PREFIX.as_bytes())?;
    let (head, rest) = line.split_at(gap);
    let stated = Digest::parse(std::str::from_utf8(rest.get(16..87)?).ok()?)?;
    let tail = rest.get(87..)?.strip_prefix(b"\"")?;
    Some((stated, Digest::of_pieces([head, tail])))
}

/// The place of a line in its log.
pub(crate) fn seq_of(line: &[u8]) -> Option<u64> {
    const NAME: &[u8] = br#","seq":"#;
    let rest = line.get(memmem::find(line, NAME)? + NAME.len()..)?;
    let length = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(rest.get(..length)?).ok()?.parse().ok()
}

/// The text after `name` (`,"member":"`) up to the next quote, for members that hold no escapes.
pub(crate) fn text_member<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let rest = line.get(memmem::find(line, name)? + name.len()..)?;
    std::str::from_utf8(rest.get(..memchr::memchr(b'"', rest)?)?).ok()
}
