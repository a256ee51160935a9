//! Opening the log: one writer, one name, a tail that verifies; what a crash left is mended and said so.

mod error;
mod examine;
mod interrupted;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Instant;

use crate::append::Ledger;
use crate::chain::{BreakKind, Chain, text_member};
use crate::entry::Entry;
use crate::event::{Event, Note};
use crate::segment::{LedgerReader, Tail, last_line, open_private};
use crate::settings::Settings;
use crate::verify::Break;
use examine::{Found, examine};
use interrupted::write_interrupted;

pub use error::OpenError;

/// What was found and mended when the log was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The place of the newest record, the mending included; 0 in an empty log.
    pub last_seq: u64,
    /// Bytes of an incomplete last line that were cut off.
    pub cut_bytes: u64,
    /// Intents without a final record that got one.
    pub interrupted: usize,
}

/// The name the log of a state directory got at its first start, if there was one.
#[must_use]
pub fn stored_origin(state: &Path) -> Option<String> {
    let kept = fs::read_to_string(state.join("ledger/origin")).ok();
    let kept = kept.and_then(|text| {
        text.strip_suffix('\n')
            .filter(|origin| !origin.is_empty())
            .map(str::to_owned)
    });
    // Without the file the records themselves say it.
    kept.or_else(|| {
        let reader = LedgerReader::of_state(state);
        let segments = reader.segments().ok()?;
        let line = segments
            .iter()
            .rev()
            .find_map(|number| last_line(&reader, *number).ok().flatten())?;
        text_member(&line, br#","log":""#).map(str::to_owned)
    })
}

impl Ledger {
    /// Opens the log in `ledger/` of the state directory, checks its tail, mends what a crash left and starts writing.
    ///
    /// # Errors
    /// When another process writes it, its name differs, its tail does not verify, or the disk fails.
    pub fn open(state: &Path, settings: Settings) -> Result<(Self, Opened), OpenError> {
        let (tail, chain, opened) = prepare(state, &settings)?;
        let ledger = Self::start(tail, chain, &settings).map_err(OpenError::disk("start its threads"))?;
        Ok((ledger, opened))
    }
}

/// Everything up to the start of the threads.
pub(crate) fn prepare(state: &Path, settings: &Settings) -> Result<(Tail, Chain, Opened), OpenError> {
    let reader = LedgerReader::of_state(state);
    let folder = reader.folder();
    let create = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    create.map_err(OpenError::disk("make its directory"))?;
    let lock = lock(folder)?;
    fix_origin(state, &settings.origin)?;
    let found = examine(&reader, &settings.origin)?;
    let number = found.newest.unwrap_or(1);
    let mut tail = Tail::open(reader.clone(), number, lock).map_err(OpenError::disk("open its last segment"))?;
    let mut chain = Chain::new(&settings.origin, settings.clock.clone(), found.head);
    mend(&mut tail, &mut chain, &found, &reader)?;
    let opened = Opened {
        last_seq: chain.head().seq,
        cut_bytes: found.cut.map_or(0, |(_, cut)| cut),
        interrupted: found.intents.len(),
    };
    Ok((tail, chain, opened))
}

fn lock(folder: &Path) -> Result<File, OpenError> {
    let file = open_private(&folder.join("lock"), OpenOptions::new().write(true).create(true))
        .map_err(OpenError::disk("open its lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse),
        Err(TryLockError::Error(source)) => Err(OpenError::Disk {
            doing: "take its lock",
            source,
        }),
    }
}

/// Keeps the log's name, or checks it against the kept one.
fn fix_origin(state: &Path, origin: &str) -> Result<(), OpenError> {
    let spelled =
        (1..=200).contains(&origin.len()) && origin.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'+');
    if !spelled {
        return Err(OpenError::OriginSpelling(origin.to_owned()));
    }
    match stored_origin(state) {
        Some(stored) if stored == origin => Ok(()),
        Some(stored) => Err(OpenError::OriginDiffers {
            stored,
            configured: origin.to_owned(),
        }),
        None => {
            let folder = state.join("ledger");
            let keep = || {
                let mut options = OpenOptions::new();
                let mut file = open_private(
                    &folder.join("origin.new"),
                    options.write(true).create(true).truncate(true),
                )?;
                file.write_all(format!("{origin}\n").as_bytes())?;
                file.sync_all()?;
                fs::rename(folder.join("origin.new"), folder.join("origin"))?;
                File::open(&folder)?.sync_all()
            };
            keep().map_err(OpenError::disk("keep its origin"))
        }
    }
}

/// Cuts an incomplete line, closes open intents, and brings what it wrote to the disk.
fn mend(tail: &mut Tail, chain: &mut Chain, found: &Found, reader: &LedgerReader) -> Result<(), OpenError> {
    let mut lines = Vec::new();
    if let Some((complete, cut)) = found.cut {
        tail.cut_to(complete)
            .map_err(OpenError::disk("cut an incomplete line"))?;
        let message = format!("an incomplete last line of {cut} bytes was cut off");
        let note = Note::done("ledger.cut", "portreeve", None, &message);
        chain.write(&Entry::Event(Event::Admin(note)), Instant::now(), &mut lines);
    }
    let intents = reader
        .read_lines(found.intents.iter().copied())
        .map_err(OpenError::disk("read an intent"))?;
    for (span, line) in found.intents.iter().zip(intents) {
        let broken = || {
            OpenError::Broken(Break {
                position: span.position,
                seq: None,
                kind: BreakKind::Spelling,
            })
        };
        write_interrupted(&line.ok_or_else(broken)?, chain, &mut lines).ok_or_else(broken)?;
    }
    if !lines.is_empty() {
        tail.append(&lines).map_err(OpenError::disk("write"))?;
    }
    tail.file()
        .sync_data()
        .map_err(OpenError::disk("bring its records to the disk"))
}
