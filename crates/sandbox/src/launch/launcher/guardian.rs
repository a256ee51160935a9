//! Without a pid namespace: a process that stays beside the server and kills all it leaves behind.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_dumpable_behavior,
    wait,
};
use rustix::thread::{capabilities, set_no_new_privs};

use super::{BROKEN, Workshop, tell};
use crate::filesystem::rules;
use crate::launch::orders::{Answer, Walls};
use crate::launch::steps::failure;
use crate::limits::{self, Counted};
use crate::report::{Failure, Layer};
use crate::seccomp::{Filters, Ipc, Sockets};
use crate::sys::{self, Forked, Range};

impl Workshop {
    pub(super) fn with_guardian(mut self) -> Result<ExitCode, Failure> {
        let (ended, running) = self.steps.step(Layer::Init, || Ok(pipe_with(PipeFlags::CLOEXEC)?))?;
        match self.steps.step(Layer::Init, sys::fork)? {
            Forked::Child => {
                drop(ended);
                // Left to `execve` or to the end of the process: a failure must be told before the pipe closes.
                std::mem::forget(running);
                self.be_guarded()
            }
            Forked::Parent(server) => {
                drop((running, self.streams));
                let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
                let _ = sys::close_range(0, 2, Range::Close);
                sys::exit_now(guard(server, &self.control, &ended))
            }
        }
    }

    /// The future server. Its end of the pipe closes when it has become one, or has ended.
    fn be_guarded(mut self) -> Result<ExitCode, Failure> {
        let confined = self.orders.walls() == Walls::Landlock;
        let limits = self.orders.limits;
        self.steps
            .step(Layer::Limits, || limits::apply(&limits, Counted::WholeUser))?;
        self.steps.step(Layer::Capabilities, assert_no_capabilities)?;
        self.steps
            .step(Layer::NoNewPrivileges, || Ok(set_no_new_privs(true)?))?;
        let mut abi = 0;
        let mut filters = None;
        if confined {
            abi = self.restrict_files()?;
            let (net, limits, inotify) = (self.orders.net, self.orders.limits_kind, self.orders.inotify);
            if abi < rules::SCOPES {
                // Without the fence around signals a server could kill the gateway, which has the same uid.
                let missing = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
                return Err(failure(Layer::LandlockScope, "Landlock 6 is needed here", &missing));
            }
            filters = Some(self.steps.step(Layer::Handshake, || {
                Filters::compile(Sockets::without_namespace(net), Ipc::Shared, limits, inotify)
            })?);
        }
        self.shake_hands(&[], abi)?;
        self.steps.step(Layer::Limits, limits::apply_descriptors)?;
        self.become_server(filters.as_ref())
    }
}

/// Waits until the server ends or the gateway closes the socket, then kills every descendant.
fn guard(server: Pid, control: &OwnedFd, ended: &OwnedFd) -> i32 {
    let Ok(watched) = pidfd_open(server, PidfdFlags::empty()) else {
        return kill_all(server);
    };
    let mut executed = false;
    loop {
        let mut events = vec![
            PollFd::from_borrowed_fd(watched.as_fd(), PollFlags::IN),
            // Readable is "go", which is for the server to take; only the end concerns us.
            PollFd::from_borrowed_fd(control.as_fd(), PollFlags::empty()),
        ];
        if !executed {
            events.push(PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN));
        }
        match poll(&mut events, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return kill_all(server),
        }
        let happened = |index: usize| events.get(index).is_some_and(|event| !event.revents().is_empty());
        if happened(0) || happened(1) {
            return kill_all(server);
        }
        if happened(2) {
            // Nothing is ever written: readable means that the last writer is gone.
            let _ = read(ended, &mut [0u8; 1]);
            executed = true;
            tell(control, &Answer::Running, &[]);
        }
    }
}

/// Kills until no descendant is left: orphans become our children, so nobody can run away from us by forking.
fn kill_all(server: Pid) -> i32 {
    let mut code = i32::from(BROKEN);
    loop {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == server => {
                let killed = status.terminating_signal().map(|signal| 128 + signal);
                code = status.exit_status().or(killed).unwrap_or(code);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return code,
        }
    }
}

/// Whoever has this process for a parent, orphans of its descendants included.
pub(crate) fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero();
    let text = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
    let numbers = text.split_ascii_whitespace().filter_map(|number| number.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

/// An ordinary user has none, and neither has who gave up root; the bounding set then has nothing to bound.
fn assert_no_capabilities() -> io::Result<()> {
    let sets = capabilities(None)?;
    if (sets.effective | sets.permitted | sets.inheritable).is_empty() {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}
