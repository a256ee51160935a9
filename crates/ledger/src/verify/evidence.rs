//! The whole of a log's evidence: its records, the tree over them, the checkpoints and who signed them. Reads files and changes
//! none; a gateway may write the log meanwhile.

use std::io;
use std::path::{Path, PathBuf};

use vocabulary::note::Verifier;

use super::keys::KeyRing;
use super::records::{Gathered, Pruned};
use super::tree::ReadTree;
use super::{Walk, leftover, leftover_in};
use crate::chain::{BreakKind, Head, seq_of, text_member};
use crate::checkpoint::{Checkpoint, CheckpointFiles, Stated, read_all, read_if_there};
use crate::key::{LedgerKeyFault, stored_key};
use crate::retention::Handover;
use crate::segment::{LedgerReader, Lines, Position, Span};
use crate::tree::leaf_hash;

/// What is to be verified, and against what.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The log's key, an earlier or a later one of it; the state directory's own where none is given.
    pub key: Option<Verifier>,
    /// A checkpoint that was kept elsewhere, and its file.
    pub trusted: Option<(PathBuf, String)>,
    /// The first record that is looked at closely.
    pub from: Option<u64>,
    /// The last one.
    pub to: Option<u64>,
}

/// What verification found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Records that were looked at closely and found sound.
    pub records: u64,
    /// Checkpoints that were found sound.
    pub checkpoints: u64,
    /// How many records the latest checkpoint stands for.
    pub size: u64,
    /// Its root, as checkpoints spell it.
    pub root: Option<String>,
    /// Records that no checkpoint stands for yet.
    pub unsigned: u64,
    /// Intents without a final record: calls that are under way, or were when the process died.
    pub open_intents: u64,
    /// The first place where the log is not what it should be.
    pub fault: Option<Fault>,
}

/// Where a log is broken, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The record it is about, where that is known.
    pub seq: Option<u64>,
    /// The file.
    pub file: PathBuf,
    /// Bytes from its beginning.
    pub offset: u64,
    /// What is wrong.
    pub kind: BreakKind,
}

/// Why nothing can be said about a log.
#[derive(Debug, thiserror::Error)]
pub enum CannotVerify {
    /// There is none.
    #[error("there is no log in `{}`", .0.display())]
    NoLog(PathBuf),
    /// A file cannot be read.
    #[error("the log cannot be read")]
    Disk(#[from] io::Error),
    /// Nobody says whose signatures count.
    #[error("the state directory has no key; name the log's public key with --key")]
    NoKey,
    /// The state directory's key is none.
    #[error("the state directory's key cannot be used; name the log's public key with --key")]
    Key(#[from] LedgerKeyFault),
}

/// Verifies the log of a state directory. `progress` is told the place of every so many records.
///
/// # Errors
/// When the files cannot be read, or there is no key to go by.
pub fn verify_state(state: &Path, question: &Question, progress: &mut dyn FnMut(u64)) -> Result<Report, CannotVerify> {
    let reader = LedgerReader::of_state(state);
    let files = CheckpointFiles::of(reader.folder());
    // The latest before the list: while a gateway signs, the list has what was the latest a moment ago.
    let latest = read_if_there(&files.latest_path())?;
    let listed = read_if_there(&files.all_path())?.unwrap_or_default();
    if reader.segments()?.is_empty() && latest.is_none() && listed.is_empty() {
        return Err(CannotVerify::NoLog(state.to_owned()));
    }
    let key = match &question.key {
        Some(key) => key.clone(),
        None => stored_key(state)?.ok_or(CannotVerify::NoKey)?,
    };
    let mut examination = Examination {
        question,
        reader,
        files,
        report: Report::default(),
    };
    let fault = examination.run(&key, &listed, latest.as_deref(), progress)?;
    examination.report.fault = fault.err();
    Ok(examination.report)
}

impl Question {
    pub(super) fn covers(&self, seq: u64) -> bool {
        self.from.is_none_or(|from| seq >= from) && self.to.is_none_or(|to| seq <= to)
    }

    /// Looks at the record that has to stand at `place`.
    fn look(
        &self,
        walk: &mut Walk,
        gathered: &mut Gathered,
        (place, span): (u64, Span),
        line: &[u8],
    ) -> Result<(), BreakKind> {
        if self.covers(place) {
            let record = walk.step(span, line)?;
            return gathered.meet(place, &record);
        }
        if seq_of(line) != Some(place) {
            return Err(BreakKind::Sequence);
        }
        // Its hash counts in the tree; the next that is looked at closely is only linked to it.
        *walk = Walk::default();
        walk.skip(line);
        gathered.glance(place, line);
        Ok(())
    }
}

struct Examination<'q> {
    question: &'q Question,
    reader: LedgerReader,
    files: CheckpointFiles,
    report: Report,
}

/// What the records themselves told.
struct Told<'f> {
    tree: ReadTree<'f>,
    gathered: Gathered,
    /// The place and the predecessor's hash of the first record.
    first: Option<(u64, Option<vocabulary::Digest>, Position)>,
    last_seq: u64,
    /// Where the records end.
    end: Position,
}

impl Told<'_> {
    /// The record that says that everything before the record at `seq` was removed.
    fn removal(&self, seq: u64, prev: Option<vocabulary::Digest>) -> Option<&Pruned> {
        let mut removals = self.gathered.pruned.iter();
        removals.find(|removal| removal.seq.checked_add(1) == Some(seq) && Some(removal.hash) == prev)
    }

    /// The keys that handed over, in records that were removed and in those that are there.
    fn handovers(&self) -> impl Iterator<Item = &Handover> {
        let removal = self.first.and_then(|(seq, prev, _)| self.removal(seq, prev));
        let gone = removal.map(|removal| removal.handovers.as_slice()).unwrap_or_default();
        gone.iter().chain(&self.gathered.rotations)
    }
}

type Sound<T> = Result<T, Fault>;

/// Keeps the last line of each segment.
fn keep_end(ends: &mut Vec<Span>, span: Span) {
    match ends.last_mut() {
        Some(last) if last.position.segment == span.position.segment => *last = span,
        Some(_) | None => ends.push(span),
    }
}

/// Whether an error says that a packed segment is not what was packed.
pub(super) fn is_unsound(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

impl Examination<'_> {
    fn run(
        &mut self,
        key: &Verifier,
        listed: &[u8],
        latest: Option<&[u8]>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Sound<()>, CannotVerify> {
        let (notes, unreadable) = read_all(listed);
        let size = notes.last().map_or(0, |stated| stated.checkpoint.size);
        self.report.size = size;
        self.report.root = notes.last().map(|stated| stated.checkpoint.root_text());
        let trusted = self.question.trusted.as_ref();
        let trusted_size = trusted
            .and_then(|(_, note)| Checkpoint::read(note).ok())
            .map(|kept| kept.size);
        let wanted = notes.iter().map(|stated| stated.checkpoint.size).chain(trusted_size);
        let folder = self.reader.folder().to_owned();
        let told = match self.read(&folder, size, wanted, progress)? {
            Ok(told) => told,
            Err(fault) => return Ok(Err(fault)),
        };
        self.report.unsigned = told.last_seq.saturating_sub(size);
        self.report.open_intents = told.gathered.open_intents();
        let judged = self
            .judge_start(&told)
            .and_then(|()| self.judge_checkpoints(key, &notes, &told))
            .and_then(|()| match unreadable {
                Some(offset) => Err(self.at_list(None, offset, BreakKind::Signature)),
                None => Ok(()),
            })
            .and_then(|()| self.judge_latest(&notes, latest))
            .and_then(|()| self.judge_tiles(&told))
            .and_then(|()| self.judge_trusted(key, &told));
        Ok(judged)
    }

    /// Reads all records.
    fn read<'f>(
        &mut self,
        folder: &'f Path,
        signed: u64,
        wanted: impl Iterator<Item = u64>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Sound<Told<'f>>, CannotVerify> {
        const TOLD_EVERY: u64 = 1 << 16;
        let mut lines = self.reader.lines_from(Position::START)?;
        let (mut line, mut ends): (Vec<u8>, Vec<Span>) = (Vec::new(), Vec::new());
        let mut walk = Walk::default();
        let mut next = match self.next(&mut lines, &mut line)? {
            Ok(next) => next,
            Err(fault) => return Ok(Err(fault)),
        };
        // Only later segments can begin later: what the first one says of itself is for its records to show.
        let is_later = next.is_some_and(|span| span.position.segment > 1);
        let first_seq = seq_of(&line).filter(|_| is_later).unwrap_or(1);
        let prev = text_member(&line, br#","prev_hash":""#).and_then(vocabulary::Digest::parse);
        let first = next.map(|span| (first_seq, prev, span.position));
        let position = next.map(|span| span.position);
        let tree = match ReadTree::after(first_seq.saturating_sub(1), folder, signed, wanted) {
            Ok(tree) => tree,
            Err(_) => return Ok(Err(self.at(position, Some(first_seq), BreakKind::Pruned))),
        };
        let mut told = Told {
            tree,
            gathered: Gathered::default(),
            first,
            last_seq: first_seq.saturating_sub(1),
            end: Position { segment: 1, offset: 0 },
        };
        let segments = self.reader.segments()?;
        while let Some(span) = next {
            let seq = seq_of(&line);
            let place = told.last_seq + 1;
            let left_behind = told.end.segment..span.position.segment;
            let left_behind = segments.iter().copied().filter(|segment| left_behind.contains(segment));
            if let Some(position) = leftover_in(&self.reader, left_behind, &ends)? {
                let missing = if ends.is_empty() { 1 } else { place };
                return Ok(Err(self.at(Some(position), Some(missing), BreakKind::Incomplete)));
            }
            let checked = self.question.look(&mut walk, &mut told.gathered, (place, span), &line);
            if let Err(kind) = checked {
                return Ok(Err(self.at(Some(span.position), seq, kind)));
            }
            self.report.records += u64::from(self.question.covers(place));
            told.tree.push(leaf_hash(&line), Some(span.position));
            told.last_seq = place;
            told.end = Position {
                offset: span.position.offset + span.length + 1,
                ..span.position
            };
            keep_end(&mut ends, span);
            if place.is_multiple_of(TOLD_EVERY) {
                progress(place);
            }
            next = match self.next(&mut lines, &mut line)? {
                Ok(next) => next,
                Err(fault) => return Ok(Err(fault)),
            };
        }
        Ok(match leftover(&self.reader, &ends)? {
            Some(position) => Err(self.at(Some(position), Some(told.last_seq + 1), BreakKind::Incomplete)),
            None => Ok(told),
        })
    }

    /// The next line; a packed segment that does not unpack is a break, and no fault of the disk.
    fn next(&self, lines: &mut Lines, line: &mut Vec<u8>) -> io::Result<Sound<Option<Span>>> {
        match lines.read_into(line) {
            Ok(next) => Ok(Ok(next)),
            Err(error) if is_unsound(&error) => {
                let position = Position {
                    segment: lines.segment(),
                    offset: 0,
                };
                Ok(Err(self.at(Some(position), None, BreakKind::Unreadable)))
            }
            Err(error) => Err(error),
        }
    }

    /// A log that does not begin with its first record must say what was removed.
    fn judge_start(&self, told: &Told<'_>) -> Sound<()> {
        match told.first {
            Some((seq, prev, position)) if seq > 1 => {
                let removed = told.removal(seq, prev).is_some();
                let is_range = self.question.from.is_some() || self.question.to.is_some();
                match removed || is_range {
                    true => Ok(()),
                    false => Err(self.at(Some(position), Some(seq), BreakKind::Pruned)),
                }
            }
            Some(_) | None => Ok(()),
        }
    }

    fn judge_checkpoints(&mut self, key: &Verifier, notes: &[Stated], told: &Told<'_>) -> Sound<()> {
        let Some(ring) = KeyRing::around(key, told.handovers()) else {
            return Err(self.at_list(None, 0, BreakKind::Signature));
        };
        if notes.is_empty() {
            return Err(Fault {
                seq: None,
                file: self.files.latest_path(),
                offset: 0,
                kind: BreakKind::Signature,
            });
        }
        let mut before = 0;
        for stated in notes {
            let Checkpoint { origin, size, root } = &stated.checkpoint;
            let fault = |kind| Err(self.at_list(Some(*size), stated.offset, kind));
            if !ring.accepts(stated, before) || *origin != *key.name().as_str() {
                return fault(BreakKind::Signature);
            }
            if *size <= before {
                return fault(BreakKind::Consistency);
            }
            if *size > told.last_seq {
                return Err(self.at(Some(told.end), Some(told.last_seq + 1), BreakKind::Cut));
            }
            if told.tree.root_at(*size) != Some(*root) {
                return Err(self.wrong_root(told, stated));
            }
            before = *size;
            self.report.checkpoints += 1;
        }
        Ok(())
    }

    /// Where the tiles know which record is another than was signed, there; else at the checkpoint.
    fn wrong_root(&self, told: &Told<'_>, stated: &Stated) -> Fault {
        match told.tree.doubt().filter(|doubt| doubt.seq <= stated.checkpoint.size) {
            Some(doubt) if doubt.record.is_some() => self.at(doubt.record, Some(doubt.seq), BreakKind::Root),
            Some(_) | None => self.at_list(Some(stated.checkpoint.size), stated.offset, BreakKind::Root),
        }
    }

    /// The latest is the last of the list, or the one before it where the process died between the two.
    fn judge_latest(&self, notes: &[Stated], latest: Option<&[u8]>) -> Sound<()> {
        let listed = notes
            .iter()
            .rev()
            .take(2)
            .any(|stated| Some(stated.note.as_bytes()) == latest);
        // One that is gone while the list stands was lost with the process as well: before its first was put in its place.
        let is_first = latest.is_none() && notes.len() == 1;
        // A gateway that signs may have added several.
        let moved = || {
            let now = read_if_there(&self.files.all_path()).ok().flatten().unwrap_or_default();
            let (now, _) = read_all(&now);
            now.len() > notes.len() && now.iter().any(|stated| Some(stated.note.as_bytes()) == latest)
        };
        match listed || is_first || moved() {
            true => Ok(()),
            false => Err(Fault {
                seq: None,
                file: self.files.latest_path(),
                offset: 0,
                kind: match latest.map(read_all) {
                    Some((notes, None)) if notes.len() == 1 => BreakKind::Consistency,
                    Some(_) | None => BreakKind::Signature,
                },
            }),
        }
    }

    fn judge_tiles(&self, told: &Told<'_>) -> Sound<()> {
        match told.tree.doubt() {
            Some(doubt) => Err(Fault {
                seq: Some(doubt.seq),
                file: doubt.tile.clone(),
                offset: doubt.offset,
                kind: BreakKind::Root,
            }),
            None => Ok(()),
        }
    }

    /// The log must continue the checkpoint that was kept elsewhere.
    fn judge_trusted(&self, key: &Verifier, told: &Told<'_>) -> Sound<()> {
        let Some((file, note)) = &self.question.trusted else {
            return Ok(());
        };
        let fault = |kind| {
            Err(Fault {
                seq: None,
                file: file.clone(),
                offset: 0,
                kind,
            })
        };
        let ring = KeyRing::around(key, told.handovers());
        let keys = ring.as_ref().map_or(&[][..], KeyRing::all);
        match Checkpoint::open(note, keys) {
            Err(_) => fault(BreakKind::Signature),
            Ok((kept, _)) if kept.size > told.last_seq => {
                Err(self.at(Some(told.end), Some(told.last_seq + 1), BreakKind::Cut))
            }
            Ok((kept, _)) if kept.size > 0 && told.tree.root_at(kept.size) != Some(kept.root) => {
                fault(BreakKind::Consistency)
            }
            Ok(_) => Ok(()),
        }
    }

    fn at(&self, position: Option<Position>, seq: Option<u64>, kind: BreakKind) -> Fault {
        let Position { segment, offset } = position.unwrap_or(Position { segment: 1, offset: 0 });
        Fault {
            seq,
            file: self.reader.file_of(segment),
            offset,
            kind,
        }
    }

    fn at_list(&self, seq: Option<u64>, offset: u64, kind: BreakKind) -> Fault {
        Fault {
            seq,
            file: self.files.all_path(),
            offset,
            kind,
        }
    }
}

impl Walk {
    /// Passes over a record: only its hash, its place and its time are gone by.
    fn skip(&mut self, line: &[u8]) {
        self.head = crate::chain::follow(line, None::<&Head>).ok();
        self.origin = text_member(line, br#","log":""#).map(str::to_owned);
    }
}
