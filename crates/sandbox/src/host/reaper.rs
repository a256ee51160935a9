//! A process of one thread beside each command on the host. Orphans of the command become its children, so that none can
//! run away by forking, by a session or by a group of its own; it kills them when the command has ended, when the
//! one who ordered it says so, and when that one is gone.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_child_subreaper, wait,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use super::{HostCommand, REAPER_WORD};
use crate::environment;
use crate::launch::launcher::guardian::children;
use crate::launch::spawn::{Process, watch_over};
use crate::sys::{self, Range};

/// What a reaper says of its command, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// It ended with this code, or by a signal.
    Ended(Option<i32>),
    /// It could not be started.
    NotStarted(i32),
}

/// A command and its reaper, seen from where it was ordered. Dropping it kills both.
pub(super) struct Reaped {
    control: tokio::net::UnixStream,
    process: Process,
    streams: Option<(ChildStdout, ChildStderr)>,
}

impl Reaped {
    #[expect(
        clippy::disallowed_methods,
        reason = "the door for installers and hooks; `env` is cleared and the operator wrote the command"
    )]
    pub(super) fn start(reaper: &Path, command: &HostCommand) -> io::Result<Self> {
        let mut variables = environment::of_host_command(&command.directory);
        let own = command.env.iter();
        variables.extend(own.map(|(name, value)| (name.clone(), value.expose().to_owned())));
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = Command::new(reaper)
            .arg(REAPER_WORD)
            .args(&command.command)
            .env_clear()
            .envs(&variables)
            .current_dir(&command.directory)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let streams = child.stdout.take().zip(child.stderr.take());
        let process = watch_over(child)?;
        ours.set_nonblocking(true)?;
        Ok(Self {
            control: tokio::net::UnixStream::from_std(ours)?,
            process,
            streams,
        })
    }

    pub(super) fn take_streams(&mut self) -> io::Result<(Receiver, Receiver)> {
        let (stdout, stderr) = self.streams.take().ok_or_else(|| io::Error::other("taken already"))?;
        Ok((
            Receiver::from_owned_fd(stdout.into())?,
            Receiver::from_owned_fd(stderr.into())?,
        ))
    }

    /// What the reaper says, as soon as everything the command started is dead.
    pub(super) async fn word(&mut self) -> io::Result<Word> {
        let mut text = String::new();
        (&mut self.control).take(64).read_to_string(&mut text).await?;
        Word::parse(&text).ok_or_else(|| io::Error::other("the process beside it was killed"))
    }

    /// Tells the reaper to kill what is left, and waits until it has.
    pub(super) async fn end(self) {
        drop(self.control);
        let mut ended = self.process.ended();
        let _ = timeout(GRACE + GRACE, ended.wait_for(Option::is_some)).await;
    }
}

impl Word {
    fn of(status: ExitStatus) -> Self {
        Self::Ended(status.code())
    }

    fn text(self) -> String {
        match self {
            Self::Ended(Some(code)) => format!("ended {code}\n"),
            Self::Ended(None) => "ended -\n".to_owned(),
            Self::NotStarted(errno) => format!("failed {errno}\n"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('\n')?.split_once(' ')? {
            ("ended", "-") => Some(Self::Ended(None)),
            ("ended", code) => Some(Self::Ended(Some(code.parse().ok()?))),
            ("failed", errno) => Some(Self::NotStarted(errno.parse().ok()?)),
            _ => None,
        }
    }
}

/// What `main` must do, before anything else, when its first argument is [`REAPER_WORD`].
///
/// Must be called with one thread only; `main` must end with the code at once.
#[must_use]
pub fn reaper_main() -> ExitCode {
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned() else {
        return ExitCode::FAILURE;
    };
    let word = keep(&control).unwrap_or_else(|error| Word::NotStarted(error.raw_os_error().unwrap_or(libc::EIO)));
    let mut control = UnixStream::from(control);
    // Whoever ordered it may be gone.
    let _ = control.write_all(word.text().as_bytes());
    let _ = control.shutdown(Shutdown::Both);
    ExitCode::SUCCESS
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command that `Reaped::start` was given; environment and directory are this process's own"
)]
fn keep(control: &OwnedFd) -> io::Result<Word> {
    let own = u32::try_from(control.as_raw_fd()).map_err(io::Error::other)?;
    sys::close_range(own + 1, u32::MAX, Range::Close)?;
    if own > 3 {
        sys::close_range(3, own - 1, Range::Close)?;
    }
    // Without it there would be no hold on what leaves its parent.
    set_child_subreaper(Some(getpid()))?;
    let mut words = std::env::args_os().skip(2);
    let program: OsString = words.next().ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    let child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()?;
    // Only the command and what it starts hold its streams from here on.
    sys::close_range(0, 2, Range::Close)?;
    let command = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let command = command.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    if let Ok(watched) = pidfd_open(command, PidfdFlags::empty()) {
        wait_for_either(&watched, control);
    }
    Ok(Word::of(
        kill_all(command).unwrap_or_else(|| ExitStatus::from_raw(libc::SIGKILL)),
    ))
}

/// Waits until the command has ended or the other end of the socket is closed.
fn wait_for_either(command: &OwnedFd, control: &OwnedFd) {
    loop {
        let mut events = [
            PollFd::from_borrowed_fd(command.as_fd(), PollFlags::IN),
            // Nothing is ever sent to us.
            PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN | PollFlags::RDHUP),
        ];
        match poll(&mut events, None) {
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Kills until no descendant is left, or none that can be killed: one that became another user cannot.
fn kill_all(command: Pid) -> Option<ExitStatus> {
    let until = Instant::now() + GRACE;
    let mut status = None;
    loop {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) if pid == command => status = Some(ExitStatus::from_raw(ended.as_raw())),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) if Instant::now() < until => std::thread::sleep(PAUSE),
            Ok(None) | Err(_) => return status,
        }
    }
}

/// How long the dying may take.
const GRACE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);
