//! Processes a run starts: parts of this rig, and the gateway. They end with the run, also when it is
//! told to end early.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// A process that is killed when it is no longer needed.
pub(crate) struct Started(Child);

impl Started {
    fn new(child: Child) -> Self {
        running().insert(child.id());
        Self(child)
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        kill_process(pid(self.0.id()).context("no process id")?, Signal::TERM)?;
        let asked = Instant::now();
        while self.0.try_wait()?.is_none() {
            ensure!(
                asked.elapsed() < Duration::from_secs(40),
                "a process did not end when asked to"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        running().remove(&self.0.id());
    }
}

static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

/// From now on, being told to end kills what was started; the run then fails, and cleans up, by itself.
pub(crate) fn end_early_when_told() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut asked, mut interrupted) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = asked.recv() => {}, _ = interrupted.recv() => {} }
        });
        for process in running().iter().filter_map(|process| pid(*process)) {
            let _ = kill_process(process, Signal::KILL);
        }
    });
    Ok(())
}

/// Starts a serving part of this rig; gives the address it says it serves at.
pub(crate) fn start_part(arguments: &[&str]) -> Result<(Started, String)> {
    let mut command = command(&this_program()?);
    let mut child = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("no output to read")?;
    let started = Started::new(child);
    let mut url = String::new();
    BufReader::new(output).read_line(&mut url)?;
    ensure!(!url.trim().is_empty(), "`{}` did not start", arguments.join(" "));
    Ok((started, url.trim().to_owned()))
}

/// Runs a part of this rig to its end: text in, text out.
pub(crate) fn ask_part(argument: &str, input: &str) -> Result<String> {
    let mut command = command(&this_program()?);
    let mut child = command
        .arg(argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .context("no input to write")?
        .write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "`{argument}` failed: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Starts another program; what it says goes to `log`.
pub(crate) fn start(program: &Path, arguments: &[&str], log: &Path) -> Result<Started> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = command(program);
    let command = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    Ok(Started::new(command.spawn().with_context(|| {
        format!("`{}` cannot be started", program.display())
    })?))
}

/// Runs another program to its end and gives what it printed.
pub(crate) fn ask(program: &Path, arguments: &[&str]) -> Result<String> {
    let output = command(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("`{}` cannot be started", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed: {said}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}

/// The program this is.
pub(crate) fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("this program cannot find itself")
}

#[expect(
    clippy::disallowed_methods,
    reason = "a rig has to start what it measures; no server of an operator is started here"
)]
fn command(program: &Path) -> Command {
    Command::new(program)
}
