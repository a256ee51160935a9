//! Starts the launcher's process and reaps it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread::Builder;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

use super::control::Control;
use super::{Ending, Program, Streams};
use crate::sys;

/// A launcher that waits for its orders.
pub(super) struct Spawned {
    pub(super) control: Control,
    pub(super) process: Process,
    pub(super) streams: Streams,
    /// The server's ends of the streams, to be sent with the orders.
    pub(super) handed: Vec<OwnedFd>,
}

/// The launcher's process. A task of its own reaps it, whoever else forgets it.
#[derive(Debug)]
pub(crate) struct Process {
    descriptor: OwnedFd,
    id: u32,
    ended: watch::Receiver<Option<Ending>>,
}

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn ended(&self) -> watch::Receiver<Option<Ending>> {
        self.ended.clone()
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Starts a launcher with nothing but the control socket, which is its standard input.
pub(super) async fn spawn(program: &Program) -> io::Result<Spawned> {
    let (control, theirs) = Control::pair()?;
    let child = start(program, theirs).await?;
    let process = watch_over(child)?;
    let (server_stdin, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stdout, server_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, server_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok(Spawned {
        control,
        process,
        streams: Streams {
            stdin: pipe::Sender::from_owned_fd(stdin)?,
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
        },
        handed: vec![server_stdin, server_stdout, server_stderr],
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where a server's process begins: our own binary, which builds the walls"
)]
async fn start(program: &Program, control: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(&program.executable);
    command
        .args(&program.arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(control))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let (reply, started) = oneshot::channel();
    let lost = || io::Error::other("the thread that starts processes is gone");
    SPAWNER
        .as_ref()
        .ok_or_else(lost)?
        .send((command, reply))
        .map_err(|_| lost())?;
    started.await.map_err(|_| lost())?
}

type Job = (Command, oneshot::Sender<io::Result<Child>>);

/// A thread that never ends, because "die with your parent" means the *thread* that started a process: a launcher
/// started from a worker of a runtime would be killed when that worker retires.
static SPAWNER: LazyLock<Option<mpsc::Sender<Job>>> = LazyLock::new(|| {
    let (jobs, inbox) = mpsc::channel::<Job>();
    Builder::new()
        .name("sandbox-spawn".to_owned())
        .spawn(move || {
            for (mut command, reply) in inbox {
                // Whoever asked may have given up; the child is then killed and reaped here.
                if let Err(Ok(mut child)) = reply.send(command.spawn()) {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        })
        .ok()
        .map(|_| jobs)
});

/// Reaps the child as soon as it ends.
pub(crate) fn watch_over(mut child: Child) -> io::Result<Process> {
    let id = child.id();
    let open = i32::try_from(id)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
        .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::NONBLOCK)?))
        .and_then(|descriptor| {
            let watched = sys::watch(descriptor.try_clone()?, Interest::READABLE)?;
            Ok((descriptor, watched))
        });
    let (descriptor, watched) = match open {
        Ok(opened) => opened,
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    let (tell, ended) = watch::channel(None);
    tokio::spawn(async move {
        let status = reap(&mut child, &watched).await;
        // Nobody may be left to be told.
        let _ = tell.send(Some(ending(status)));
    });
    Ok(Process { descriptor, id, ended })
}

async fn reap(child: &mut Child, watched: &AsyncFd<OwnedFd>) -> Option<ExitStatus> {
    loop {
        let ready = watched.readable().await;
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => ready.ok()?.clear_ready(),
            Err(_) => return None,
        }
    }
}

fn ending(status: Option<ExitStatus>) -> Ending {
    let Some(status) = status else {
        return Ending::Signalled(Signal::KILL.as_raw());
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or(Signal::KILL.as_raw())),
    }
}

/// Kills the process; it may be gone already, which is as good.
pub(super) fn kill(process: impl AsFd) {
    let _ = pidfd_send_signal(process, Signal::KILL);
}
