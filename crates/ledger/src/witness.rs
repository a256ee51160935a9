//! A copy of every checkpoint where somebody else looks after it: who rewrites the log afterwards has to rewrite that too. It is
//! made beside everything else, by a thread that nobody waits for. ADR 0123.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use crate::checkpoint::{CheckpointFiles, read_all};
use crate::segment::{LedgerReader, open_private};

/// How often new checkpoints are looked for.
const EVERY: Duration = Duration::from_secs(1);
/// How long the end of the log waits for the last copy.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
enum WitnessFault {
    #[error("checkpoints cannot be copied to the witness; it is tried again")]
    Disk(#[from] io::Error),
    #[error(
        "the witness remembers other checkpoints than the log has: the log was replaced by an older or another one, or the witness was; nothing is copied any more"
    )]
    Differs,
}

/// The end of the thread's rope.
pub(crate) struct WitnessThread {
    stop: Sender<()>,
    done: Receiver<()>,
}

impl WitnessThread {
    /// Copies the checkpoints of a state directory to `directory` from here on.
    pub(crate) fn start(state: &Path, directory: &Path) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let (tell, done) = channel();
        let mut copy = Copy::of(state, directory);
        Builder::new().name("ledger-witness".to_owned()).spawn(move || {
            copy.run(&stopped);
            // Whoever waited may have gone.
            let _ = tell.send(());
        })?;
        Ok(Self { stop, done })
    }

    /// Has it make the last copy. A directory that hangs is left behind.
    pub(crate) fn end(self) {
        drop(self.stop);
        if self.done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the witness did not take the last checkpoint in time");
        }
    }
}

/// The copy: both files, as the log has them.
struct Copy {
    own: PathBuf,
    list: PathBuf,
    latest: PathBuf,
    directory: PathBuf,
    /// Up to here the two lists were found to be the same.
    compared: u64,
    is_told: bool,
}

impl Copy {
    fn of(state: &Path, directory: &Path) -> Self {
        Self {
            own: CheckpointFiles::of(LedgerReader::of_state(state).folder()).all_path(),
            list: directory.join("checkpoints"),
            latest: directory.join("checkpoint"),
            directory: directory.to_owned(),
            compared: 0,
            is_told: false,
        }
    }

    fn run(&mut self, stop: &Receiver<()>) {
        loop {
            let stopped = stop.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
            match self.follow() {
                Ok(()) => self.is_told = false,
                Err(fault) => {
                    if !self.is_told {
                        tracing::error!(error = &fault as &dyn std::error::Error, "the log has no witness");
                    }
                    self.is_told = true;
                    if matches!(fault, WitnessFault::Differs) {
                        return;
                    }
                }
            }
            if stopped {
                return;
            }
        }
    }

    /// Adds what is new. What was copied once must still be what the log has.
    fn follow(&mut self) -> Result<(), WitnessFault> {
        fs::create_dir_all(&self.directory)?;
        let mut options = OpenOptions::new();
        let mut copy = open_private(&self.list, options.read(true).append(true).create(true))?;
        let length = copy.metadata()?.len();
        let mut own = match File::open(&self.own) {
            Ok(own) => own,
            Err(error) if error.kind() == io::ErrorKind::NotFound && length == 0 => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(WitnessFault::Differs),
            Err(error) => return Err(error.into()),
        };
        if length < self.compared || !are_same(&mut own, &mut copy, self.compared, length)? {
            return Err(WitnessFault::Differs);
        }
        let mut rest = Vec::new();
        own.seek(SeekFrom::Start(length))?;
        own.read_to_end(&mut rest)?;
        let new = rest.strip_prefix(b"\n").unwrap_or(&rest);
        let (notes, _) = read_all(new);
        let Some(last) = notes.last() else { return Ok(()) };
        let mut text = String::new();
        for stated in &notes {
            text.push_str(if length == 0 && text.is_empty() { "" } else { "\n" });
            text.push_str(&stated.note);
        }
        copy.write_all(text.as_bytes())?;
        copy.sync_data()?;
        self.compared = length + text.len() as u64;
        let beside = self.latest.with_extension("new");
        let mut latest = open_private(&beside, OpenOptions::new().write(true).create(true).truncate(true))?;
        latest.write_all(last.note.as_bytes())?;
        latest.sync_all()?;
        fs::rename(&beside, &self.latest)?;
        Ok(())
    }
}

/// Whether both files have the same bytes in this stretch.
fn are_same(own: &mut File, copy: &mut File, from: u64, to: u64) -> io::Result<bool> {
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(to.saturating_sub(from)).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    Ok(read(own)? == read(copy)?)
}
