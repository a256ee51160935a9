//! The door for trusted commands: installers and hooks that an operator wrote down run on the host itself, without
//! walls, but with an environment built from nothing, a time limit and a bounded output. Nothing they start outlives
//! them, whatever session or group it went to: a reaper stays beside each. ADR 0048 says why by a process of its own.

mod reaper;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use vocabulary::Secret;

use self::reaper::{Reaped, Word};

pub use self::reaper::reaper_main;

/// The first argument that makes the gateway's binary a reaper; `main` must look for it before anything else.
pub const REAPER_WORD: &str = "host-keep";

/// A command of the operator's own.
#[derive(Debug)]
pub struct HostCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs; also its home.
    pub directory: PathBuf,
    /// Variables beside `PATH`, `LANG` and `HOME`.
    pub env: BTreeMap<String, Secret>,
    /// How long it may take.
    pub timeout: Duration,
    /// How many bytes of each stream are kept; the rest is read and thrown away.
    pub keep: usize,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    /// The code it ended with; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The beginning of what it wrote.
    pub stdout: Vec<u8>,
    /// The beginning of what it complained about.
    pub stderr: Vec<u8>,
}

/// Why a command came to nothing.
#[derive(Debug, Error)]
pub enum HostFailure {
    /// There is nothing to start.
    #[error("the command is empty; name the program and its arguments")]
    Empty,
    /// It could not be started.
    #[error("`{program}` could not be started on the host; is it installed in /usr/local/bin, /usr/bin or /bin?")]
    Start {
        /// The program.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It took too long; it and what it started were killed.
    #[error("`{program}` took longer than {} s and was killed; raise its time or look at what it waits for", limit.as_secs())]
    TimedOut {
        /// The program.
        program: String,
        /// The time it had.
        limit: Duration,
    },
    /// Nobody wanted it any more; it and what it started were killed.
    #[error("`{program}` was told to end and was killed")]
    Stopped {
        /// The program.
        program: String,
    },
    /// The process beside it could not do its work, or was killed.
    #[error("what `{program}` starts cannot be kept together, so it is not run")]
    Reaper {
        /// The program.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Whether standard output was closed when this process began, so that what is written there goes nowhere.
#[must_use]
pub fn stdout_was_closed() -> bool {
    crate::sys::streams::stdout_was_closed()
}

/// Runs a trusted command without walls and waits for it. Never for anything a server or a model has written.
///
/// # Errors
/// When it did not come to an end by itself.
pub async fn run(command: HostCommand) -> Result<Output, HostFailure> {
    run_until(command, std::future::pending()).await
}

/// The same, until `stop` says that nobody wants it any more.
///
/// # Errors
/// When it did not come to an end by itself.
pub async fn run_until(command: HostCommand, stop: impl Future<Output = ()>) -> Result<Output, HostFailure> {
    run_reaped_by(Path::new("/proc/self/exe"), command, stop).await
}

/// The same with another binary as the reaper; for tests, which are none.
#[doc(hidden)]
pub async fn run_reaped_by(
    reaper: &Path,
    command: HostCommand,
    stop: impl Future<Output = ()>,
) -> Result<Output, HostFailure> {
    let program = command.command.first().cloned().ok_or(HostFailure::Empty)?;
    let failed = |source| HostFailure::Reaper {
        program: program.clone(),
        source,
    };
    let mut reaped = Reaped::start(reaper, &command).map_err(failed)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let word = {
        let (out, err) = reaped.take_streams().map_err(failed)?;
        let drains = async {
            tokio::join!(
                drain(out, &mut stdout, command.keep),
                drain(err, &mut stderr, command.keep)
            );
        };
        let word = reaped.word();
        tokio::pin!(drains, word, stop);
        let time = tokio::time::sleep(command.timeout);
        tokio::pin!(time);
        let mut open = true;
        let word = loop {
            tokio::select! {
                () = &mut drains, if open => open = false,
                word = &mut word => break word.map_err(failed),
                () = &mut time => break Err(HostFailure::TimedOut { program: program.clone(), limit: command.timeout }),
                () = &mut stop => break Err(HostFailure::Stopped { program: program.clone() }),
            }
        };
        if open && word.is_ok() {
            // Whoever could write is dead; only a descriptor that was handed to somebody else could still be open.
            let _ = timeout(LINGER, &mut drains).await;
        }
        word
    };
    // The reaper kills what is left and ends.
    reaped.end().await;
    match word? {
        Word::Ended(code) => Ok(Output { code, stdout, stderr }),
        Word::NotStarted(errno) => Err(HostFailure::Start {
            program,
            source: io::Error::from_raw_os_error(errno),
        }),
    }
}

/// Reads to the end, keeps the beginning.
async fn drain(mut pipe: impl AsyncRead + Unpin, kept: &mut Vec<u8>, keep: usize) {
    let mut piece = [0u8; 8192];
    while let Ok(read @ 1..) = pipe.read(&mut piece).await {
        let room = keep.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(piece.get(..room).unwrap_or_default());
    }
}

/// How long a stream may stay open after everybody it was given to is dead.
const LINGER: Duration = Duration::from_secs(1);
