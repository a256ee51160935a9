//! Opening the log: one writer, one name, a tail that verifies; what a crash left is mended and said so.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Instant;

use crate::append::flood::Floods;
use crate::append::inline::Pen;
use crate::append::slow_disk::Caution;
use crate::append::sync::Syncer;
use crate::append::writer::Appender;
use crate::append::{Entry, Health};
use crate::chain::{Scribe, text_member};
use crate::segment::{LedgerReader, Tail, last_line, open_private};
use crate::verify::{Break, BreakKind};
use crate::{Event, Ledger, Note, Settings};

mod examine;
mod interrupted;

use examine::{Found, examine};
use interrupted::write_interrupted;

/// Records that may wait for the appender. One more is refused.
const QUEUE: usize = 8192;

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

/// Why the log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process writes it.
    #[error("the ledger is in use by another process")]
    InUse,
    /// The name cannot be a log's.
    #[error("the ledger's origin `{0}` must be 1 to 200 visible ASCII characters without space and `+`")]
    OriginSpelling(String),
    /// The log has another name.
    #[error(
        "the ledger's origin is `{stored}`, fixed at its first start, but `{configured}` is configured; set `[audit] origin` back or use a new state directory"
    )]
    OriginDiffers {
        /// The name it got at first start.
        stored: String,
        /// The name it was to be opened under.
        configured: String,
    },
    /// Its tail does not verify.
    #[error("the ledger does not verify: {0}; keep it for examination and start with a new state directory")]
    Broken(Break),
    /// The disk failed.
    #[error("the ledger cannot {doing}")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl OpenError {
    fn disk(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Disk { doing, source }
    }
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

pub(crate) fn open(state: &Path, settings: Settings) -> Result<(Ledger, Opened), OpenError> {
    let (tail, scribe, opened) = prepare(state, &settings)?;
    let ledger = start(tail, scribe, settings).map_err(OpenError::disk("start its threads"))?;
    Ok((ledger, opened))
}

/// Everything up to the start of the threads.
pub(crate) fn prepare(state: &Path, settings: &Settings) -> Result<(Tail, Scribe, Opened), OpenError> {
    let reader = LedgerReader::of_state(state);
    let folder = reader.folder();
    let create = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    create.map_err(OpenError::disk("make its directory"))?;
    let lock = lock(folder)?;
    fix_origin(state, &settings.origin)?;
    let found = examine(&reader, &settings.origin)?;
    let number = found.newest.unwrap_or(1);
    let mut tail = Tail::open(reader.clone(), number, lock).map_err(OpenError::disk("open its last segment"))?;
    let mut scribe = Scribe::new(&settings.origin, settings.clock.clone(), found.head);
    mend(&mut tail, &mut scribe, &found, &reader)?;
    let opened = Opened {
        last_seq: scribe.head().seq,
        cut_bytes: found.cut.map_or(0, |(_, cut)| cut),
        interrupted: found.intents.len(),
    };
    Ok((tail, scribe, opened))
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
fn mend(tail: &mut Tail, scribe: &mut Scribe, found: &Found, reader: &LedgerReader) -> Result<(), OpenError> {
    let mut lines = Vec::new();
    if let Some((complete, cut)) = found.cut {
        tail.cut_to(complete)
            .map_err(OpenError::disk("cut an incomplete line"))?;
        let message = format!("an incomplete last line of {cut} bytes was cut off");
        let note = Note::done("ledger.cut", "portreeve", None, &message);
        scribe.write(&Entry::Event(Event::Admin(note)), Instant::now(), &mut lines);
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
        write_interrupted(&line.ok_or_else(broken)?, scribe, &mut lines).ok_or_else(broken)?;
    }
    if !lines.is_empty() {
        tail.append(&lines).map_err(OpenError::disk("write"))?;
    }
    tail.file()
        .sync_data()
        .map_err(OpenError::disk("bring its records to the disk"))
}

pub(crate) fn start(tail: Tail, scribe: Scribe, settings: Settings) -> io::Result<Ledger> {
    let health = Arc::new(Health {
        written: AtomicBool::new(true),
        synced: AtomicBool::new(true),
        last_seq: AtomicU64::new(scribe.head().seq),
    });
    let (queue, inbox) = sync_channel(QUEUE);
    let (syncer, sync_thread) = Syncer::start(settings.commit_interval, Arc::clone(&health))?;
    let appender = Appender {
        tail,
        scribe,
        syncer,
        health: Arc::clone(&health),
        durability: settings.durability,
        segment_bytes: settings.segment_bytes,
        floods: Floods::default(),
        open: HashMap::new(),
        outage: None,
        buffer: Vec::new(),
        caution: Caution::default(),
    };
    let pen = Arc::new(Pen::new(appender));
    let shared = Arc::clone(&pen);
    let append_thread = Builder::new()
        .name("ledger-append".to_owned())
        .spawn(move || shared.serve(&inbox))?;
    Ok(Ledger::assemble(queue, pen, health, vec![append_thread, sync_thread]))
}
