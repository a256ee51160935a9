//! What there is of a log, and how much of it may go.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use vocabulary::Timestamp;

use super::bounds::{Retention, Room};
use crate::chain::{Head, follow};
use crate::checkpoint::{Checkpoint, CheckpointFiles};
use crate::segment::{LedgerReader, cold_path, last_line, read_open_intents};

/// After so long without a new record a segment is packed.
pub(super) const COLD_AFTER: Duration = Duration::from_hours(24);

/// How the log of a state directory stands. Reads files and changes none.
///
/// # Errors
/// When they cannot be read.
pub fn room(state: &Path, retention: &Retention, now: Timestamp) -> io::Result<Room> {
    Survey::take(&LedgerReader::of_state(state)).map(|survey| survey.room(retention, now))
}

/// The segments of a log.
pub(super) struct Survey {
    /// The bytes of all of them, as they lie on the disk.
    pub(super) bytes: u64,
    /// Those that are finished, oldest first: nothing is written to them, a checkpoint stands over all they have, and no call
    /// under way began in one of them or before it.
    pub(super) finished: Vec<Finished>,
}

/// A segment that is finished.
pub(super) struct Finished {
    pub(super) number: u32,
    pub(super) bytes: u64,
    /// Its last record.
    pub(super) last: Head,
    pub(super) is_packed: bool,
}

/// What may go.
pub(super) struct Going {
    /// So many of the oldest.
    pub(super) segments: usize,
    pub(super) bytes: u64,
}

impl Survey {
    pub(super) fn take(reader: &LedgerReader) -> io::Result<Self> {
        let segments = reader.segments()?;
        let note = CheckpointFiles::of(reader.folder()).current()?;
        let signed = note
            .and_then(|note| Checkpoint::read(&note).ok())
            .map_or(0, |checkpoint| checkpoint.size);
        let newest = segments.last().copied().unwrap_or_default();
        let open = read_open_intents(reader, newest).unwrap_or_default();
        let until = open
            .iter()
            .map(|position| position.segment)
            .min()
            .unwrap_or(newest)
            .min(newest);
        let mut survey = Self {
            bytes: 0,
            finished: Vec::new(),
        };
        let mut is_finished = true;
        for number in segments {
            let plain = reader.path(number);
            let (bytes, is_packed) = match fs::metadata(&plain) {
                Ok(found) => (found.len(), false),
                Err(error) if error.kind() == io::ErrorKind::NotFound => (fs::metadata(cold_path(&plain))?.len(), true),
                Err(error) => return Err(error),
            };
            survey.bytes += bytes;
            let last = match is_finished && number < until {
                true => last_line(reader, number)?.and_then(|line| follow(&line, None).ok()),
                false => None,
            };
            let last = last.filter(|last| last.seq <= signed);
            is_finished &= last.is_some();
            survey.finished.extend(last.map(|last| Finished {
                number,
                bytes,
                last,
                is_packed,
            }));
        }
        Ok(survey)
    }

    pub(super) fn room(&self, retention: &Retention, now: Timestamp) -> Room {
        Room {
            bytes: self.bytes,
            floor_bytes: self.bytes - self.goes(retention, now).bytes,
        }
    }

    /// How many of the oldest segments may go. INVARIANT: none whose last record is younger than the floor.
    pub(super) fn goes(&self, retention: &Retention, now: Timestamp) -> Going {
        let mut going = Going { segments: 0, bytes: 0 };
        for segment in &self.finished {
            let is_over = self.bytes - going.bytes > retention.max_bytes;
            let may_go = is_older(segment, retention.floor, now);
            if !may_go || !(is_over || is_older(segment, retention.keep, now)) {
                break;
            }
            going.segments += 1;
            going.bytes += segment.bytes;
        }
        going
    }
}

/// Whether the last record of a segment is older than `age`.
pub(super) fn is_older(segment: &Finished, age: Duration, now: Timestamp) -> bool {
    segment.last.ts.plus(age) < now
}
