//! The door for trusted commands: installers and hooks that an operator wrote down run on the host itself, without
//! walls, but with an environment built from nothing, a time limit and a bounded output.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use vocabulary::Secret;

use crate::environment;

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
    /// Its output could not be read.
    #[error("the output of `{program}` could not be read")]
    Output {
        /// The program.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Runs a trusted command without walls and waits for it. Never for anything a server or a model has written.
pub async fn run(command: HostCommand) -> Result<Output, HostFailure> {
    let program = command.command.first().cloned().ok_or(HostFailure::Empty)?;
    let (name, limit) = (program.clone(), command.timeout);
    let done = tokio::task::spawn_blocking(move || run_blocking(&program, &command)).await;
    done.unwrap_or(Err(HostFailure::TimedOut { program: name, limit }))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the door for installers and hooks; `env` is cleared and the operator wrote the command"
)]
fn run_blocking(program: &str, command: &HostCommand) -> Result<Output, HostFailure> {
    let mut variables = environment::of_host_command(&command.directory);
    variables.extend(
        command
            .env
            .iter()
            .map(|(name, value)| (name.clone(), value.expose().to_owned())),
    );
    let started = Command::new(program)
        .args(command.command.get(1..).unwrap_or_default())
        .env_clear()
        .envs(&variables)
        .current_dir(&command.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let child = started.map_err(|source| HostFailure::Start {
        program: program.to_owned(),
        source,
    })?;
    collect(child, program, command)
}

fn collect(mut child: Child, program: &str, command: &HostCommand) -> Result<Output, HostFailure> {
    let keep = command.keep;
    let stdout = child
        .stdout
        .take()
        .map(|pipe| std::thread::spawn(move || drain(pipe, keep)));
    let stderr = child
        .stderr
        .take()
        .map(|pipe| std::thread::spawn(move || drain(pipe, keep)));
    let failed = |source| HostFailure::Output {
        program: program.to_owned(),
        source,
    };
    let deadline = Instant::now() + command.timeout;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break Some(status),
            None if Instant::now() >= deadline => break None,
            None => std::thread::sleep(POLL),
        }
    };
    // Whatever it left behind in its group goes too; else a daemon would hold the pipes open for good.
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let Some(status) = status else {
        let _ = child.wait();
        return Err(HostFailure::TimedOut {
            program: program.to_owned(),
            limit: command.timeout,
        });
    };
    let kept = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    Ok(Output {
        code: status.code(),
        stdout: kept(stdout),
        stderr: kept(stderr),
    })
}

/// Reads to the end, keeps the beginning.
fn drain(mut pipe: impl Read, keep: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut piece = [0u8; 8192];
    while let Ok(read @ 1..) = pipe.read(&mut piece) {
        let room = keep.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(piece.get(..room).unwrap_or_default());
    }
    kept
}

const POLL: Duration = Duration::from_millis(5);
