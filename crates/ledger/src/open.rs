//! Opening the log: one writer, one name, a tail that verifies; what a crash left is mended and said so.

mod error;
mod examine;
mod interrupted;
mod origin;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::append::Ledger;
use crate::chain::{BreakKind, Chain};
use crate::entry::Entry;
use crate::event::{Event, Note};
use crate::payload::{self, Payloads};
use crate::retention::Keeper;
use crate::segment::{LedgerReader, Tail, open_private};
use crate::settings::Settings;
use crate::sign::{self, CheckpointSigner, ReadBack};
use crate::verify::Break;
use crate::witness::WitnessThread;
use examine::{Found, examine};
use interrupted::write_interrupted;

pub use error::OpenError;
pub use origin::stored_origin;

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

impl Ledger {
    /// Opens the log in `ledger/` of the state directory, checks its tail, mends what a crash left and starts writing.
    ///
    /// # Errors
    /// When another process writes it, its name differs, its tail does not verify, or the disk fails.
    pub fn open(state: &Path, settings: Settings) -> Result<(Self, Opened), OpenError> {
        let wanted = settings.payloads.arguments || settings.payloads.results;
        let payloads = wanted
            .then(|| Payloads::open(state))
            .transpose()
            .map_err(OpenError::Payload)?;
        let prepared = prepare(state, &settings)?;
        let opened = prepared.opened;
        let ledger = Self::start(prepared.tail, prepared.chain, prepared.signer, &settings, payloads)
            .map_err(OpenError::disk("start its threads"))?;
        if let Some(directory) = &settings.witness {
            let witness = WitnessThread::start(state, directory).map_err(OpenError::disk("start its threads"))?;
            ledger.be_witnessed(witness);
        }
        if let Some(retention) = settings.retention {
            let keeper = Keeper {
                reader: LedgerReader::of_state(state),
                payloads: payload::folder_of(state),
                retention,
                clock: settings.clock,
                handovers: None,
            };
            ledger.keep(keeper).map_err(OpenError::disk("start its threads"))?;
        }
        Ok((ledger, opened))
    }
}

/// A log that was checked and mended, with nobody writing yet.
pub(crate) struct Prepared {
    pub(crate) tail: Tail,
    pub(crate) chain: Chain,
    pub(crate) signer: CheckpointSigner,
    pub(crate) opened: Opened,
}

/// Everything up to the start of the threads.
pub(crate) fn prepare(state: &Path, settings: &Settings) -> Result<Prepared, OpenError> {
    let reader = LedgerReader::of_state(state);
    let folder = reader.folder();
    let create = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    create.map_err(OpenError::disk("make its directory"))?;
    let lock = Arc::new(lock(folder)?);
    fix_origin(state, &settings.origin)?;
    let found = examine(&reader, &settings.origin)?;
    let read_back = ReadBack {
        last_seq: found.head.seq,
        leaves: &found.leaves,
    };
    // Before anything is mended: what does not fit what was signed stays as it is.
    let signer = sign::prepare(state, settings, &read_back, Arc::clone(&lock))?;
    let number = found.newest.unwrap_or(1);
    let mut tail = Tail::open(reader.clone(), number, lock).map_err(OpenError::disk("open its last segment"))?;
    let mut chain = Chain::new(&settings.origin, settings.clock.clone(), found.head);
    mend(&mut tail, &mut chain, &found, &reader)?;
    let opened = Opened {
        last_seq: chain.head().seq,
        cut_bytes: found.cut.map_or(0, |(_, cut)| cut),
        interrupted: found.intents.len(),
    };
    Ok(Prepared {
        tail,
        chain,
        signer,
        opened,
    })
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

#[cfg(test)]
mod crash;
