//! The thread that removes and packs segments: at the start, and every hour.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use vocabulary::json::{Limits, Value};
use vocabulary::{Clock, Timestamp};

use super::bounds::Retention;
use super::handover::{Handover, PRUNED, read_handovers, write_handovers};
use super::survey::{COLD_AFTER, Finished, Survey, is_older};
use crate::chain::{follow, seq_of, text_member};
use crate::event::{Event, Note};
use crate::payload::{day_of, forget_before};
use crate::receipt::LedgerDown;
use crate::segment::{LedgerReader, Position, cold_path, freeze};
use crate::tiles::{TileFault, TileReader};
use crate::tree::leaf_hash;

/// How often it is looked.
const EVERY: Duration = Duration::from_hours(1);

/// Why nothing was removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepFault {
    #[error("a segment cannot be removed or packed")]
    Disk(#[from] io::Error),
    #[error("the tree's tiles do not stand for what would be removed")]
    Tile(#[from] TileFault),
    #[error("the removal cannot be recorded")]
    Down(#[from] LedgerDown),
    #[error(
        "the log does not begin with its first record, and no record says why; `portreeve receipt verify` says more"
    )]
    Unaccounted,
    #[error("record {0} is not the one that was signed; `portreeve receipt verify` says more")]
    Differs(u64),
}

/// What keeps the log as large as it may be.
pub(crate) struct Keeper {
    pub(crate) reader: LedgerReader,
    /// Where arguments and answers are kept.
    pub(crate) payloads: PathBuf,
    pub(crate) retention: Retention,
    pub(crate) clock: Clock,
    /// Keys that handed over in records that are gone; known once something was removed.
    pub(crate) handovers: Option<Vec<Handover>>,
}

/// What the keeper needs of the log that it keeps.
pub(crate) trait Kept {
    /// Records an event; it is on the disk when this returns.
    fn record(&self, event: Event) -> Result<(), LedgerDown>;
    /// Hears whether the log is larger than it may be.
    fn tell(&self, is_pressed: bool);
}

impl Keeper {
    /// Keeps the log until it is told to stop, or the log is gone.
    pub(crate) fn run<K: Kept>(mut self, stop: &Receiver<()>, log: impl Fn() -> Option<K>) {
        loop {
            let Some(kept) = log() else { return };
            let mut stops = || !matches!(stop.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
            if let Err(fault) = self.round(&kept, &mut stops) {
                tracing::error!(
                    error = &fault as &dyn std::error::Error,
                    "the log's old segments stay as they are; it is tried again in an hour"
                );
            }
            drop(kept);
            match stop.recv_timeout(EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// One look at the log.
    pub(super) fn round<K: Kept>(&mut self, log: &K, stops: &mut dyn FnMut() -> bool) -> Result<(), KeepFault> {
        let now = self.clock.now();
        let survey = Survey::take(&self.reader)?;
        let going = survey.goes(&self.retention, now);
        log.tell(survey.room(&self.retention, now).is_pressed(&self.retention));
        let mut left = survey.bytes;
        let (goes, stays) = survey.finished.split_at(going.segments);
        for segment in goes {
            if stops() {
                return Ok(());
            }
            self.remove(segment, left, now, log)?;
            left -= segment.bytes;
        }
        self.forget_payloads()?;
        let cold = stays
            .iter()
            .filter(|segment| !segment.is_packed && is_older(segment, COLD_AFTER, now));
        for segment in cold {
            if stops() {
                return Ok(());
            }
            freeze(&self.reader.path(segment.number))?;
        }
        // What was packed takes less.
        let room = Survey::take(&self.reader)?.room(&self.retention, now);
        log.tell(room.is_pressed(&self.retention));
        Ok(())
    }

    /// What was kept of days that no record is left of goes with them.
    fn forget_payloads(&self) -> Result<(), KeepFault> {
        let first = self.reader.lines_from(Position::START)?.next().transpose()?;
        let head = first.and_then(|(_, line)| follow(&line, None).ok());
        match head {
            Some(head) => Ok(forget_before(&self.payloads, day_of(head.ts))?),
            None => Ok(()),
        }
    }

    /// INVARIANT: recorded, on the disk, before it goes; one after another, so that the record always says where the log begins.
    fn remove<K: Kept>(&mut self, segment: &Finished, bytes: u64, now: Timestamp, log: &K) -> Result<(), KeepFault> {
        let mut handovers = match self.handovers.take() {
            Some(known) => known,
            None => self.told_before()?,
        };
        self.match_tiles(segment, &mut handovers)?;
        // What stands for the records from here on must not be lost with the power.
        rustix::fs::syncfs(File::open(self.reader.folder())?).map_err(io::Error::from)?;
        let subject = format!("{} {}", segment.last.seq, segment.last.hash);
        let days = |duration: Duration| duration.as_secs() / 86_400;
        let why = match is_older(segment, self.retention.keep, now) {
            true => format!("they are older than {} days", days(self.retention.keep)),
            false => format!("the log has {bytes} bytes and may have {}", self.retention.max_bytes),
        };
        let message = format!(
            "segment {:08} with all records up to {} of {} was removed: {why}{}",
            segment.number,
            segment.last.seq,
            segment.last.ts,
            write_handovers(&handovers)
        );
        log.record(Event::Admin(Note::done(PRUNED, "portreeve", Some(&subject), &message)))?;
        let plain = self.reader.path(segment.number);
        for path in [cold_path(&plain), plain] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        File::open(self.reader.folder())?.sync_all()?;
        self.handovers = Some(handovers);
        Ok(())
    }

    /// Holds the tiles to the records of a segment, and takes from these the keys that handed over.
    fn match_tiles(&self, segment: &Finished, handovers: &mut Vec<Handover>) -> Result<(), KeepFault> {
        let mut tiles = TileReader::new(self.reader.folder(), segment.last.seq);
        let start = Position {
            segment: segment.number,
            offset: 0,
        };
        let mut lines = self.reader.lines_from(start)?;
        let mut line = Vec::new();
        while let Some(span) = lines.read_into(&mut line)? {
            if span.position.segment != segment.number {
                break;
            }
            let seq = seq_of(&line).ok_or(KeepFault::Unaccounted)?;
            let index = seq.checked_sub(1).ok_or(KeepFault::Unaccounted)?;
            if tiles.leaf(index)? != leaf_hash(&line) {
                return Err(KeepFault::Differs(seq));
            }
            let told = about_the_log(&line).and_then(|record| Handover::of_record(seq, &record));
            // A removal that was recorded and then cut short is made again.
            handovers.extend(told.filter(|told| handovers.iter().all(|known| known.seq < told.seq)));
        }
        Ok(())
    }

    /// The keys that the record of the last removal says.
    fn told_before(&self) -> Result<Vec<Handover>, KeepFault> {
        let first = self.reader.lines_from(Position::START)?.next().transpose()?;
        let Some((_, first)) = first else { return Ok(Vec::new()) };
        let head = follow(&first, None).map_err(|_| KeepFault::Unaccounted)?;
        if head.seq == 1 {
            return Ok(Vec::new());
        }
        let before = text_member(&first, br#","prev_hash":""#).unwrap_or_default();
        let subject = format!("{} {before}", head.seq - 1);
        for segment in self.reader.segments()?.into_iter().rev() {
            let mut lines = self.reader.lines_from(Position { segment, offset: 0 })?;
            let (mut line, mut told) = (Vec::new(), None);
            while let Some(span) = lines.read_into(&mut line)? {
                if span.position.segment != segment {
                    break;
                }
                let record = about_the_log(&line);
                told = record.and_then(|record| keys_of(&record, &subject)).or(told);
            }
            if let Some(told) = told {
                return Ok(told);
            }
        }
        Err(KeepFault::Unaccounted)
    }
}

/// The keys a record says, if it is that of the removal named by `subject`.
fn keys_of(record: &Value<'_>, subject: &str) -> Option<Vec<Handover>> {
    let text = |name| record.member(name).and_then(Value::as_str);
    let is_it = text("action") == Some(PRUNED) && text("subject") == Some(subject);
    read_handovers(text("message").filter(|_| is_it)?)
}

/// A record that is about the log itself.
fn about_the_log(line: &[u8]) -> Option<Value<'_>> {
    let limits = Limits {
        max_bytes: usize::MAX,
        max_depth: 16,
        max_string: usize::MAX,
        max_items: 100_000,
    };
    line.starts_with(br#"{"action":"ledger."#)
        .then(|| Value::parse(line, &limits).ok())
        .flatten()
}
