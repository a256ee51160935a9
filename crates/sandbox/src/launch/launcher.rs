//! The launcher: a process of one thread that builds the walls around itself, step by step, and then becomes the
//! server. Each step that fails ends it; nothing runs half confined.

pub(crate) mod guardian;
mod namespaces;
mod server;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use rustix::process::{
    DumpableBehavior, Signal, geteuid, getppid, set_dumpable_behavior, set_parent_process_death_signal,
};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::control::{receive, send};
use super::orders::{Answer, GO, Orders, Walls};
use super::steps::{Steps, failure};
use crate::filesystem::closed::Closed;
use crate::filesystem::{self, PathError, Trees};
use crate::plan::{FsPolicy, User};
use crate::report::{Failure, Layer, Report};
use crate::sys::{self, Range};

pub use super::steps::Sabotage;

/// What `main` must do, before anything else, when its first argument is [`super::LAUNCHER_WORD`].
///
/// Must be called with one thread only. Comes back in up to three processes; `main` must end with the code at once.
#[must_use]
pub fn launcher_main() -> ExitCode {
    run(Steps::new(None))
}

/// A launcher one of whose steps fails; for tests of what happens then. The shipped binary does not call it.
#[must_use]
pub fn launcher_main_sabotaged(sabotage: Sabotage) -> ExitCode {
    run(Steps::new(Some(sabotage)))
}

/// What a launcher holds while it works.
pub(super) struct Workshop {
    pub(super) orders: Orders,
    pub(super) control: OwnedFd,
    /// The server's standard streams.
    pub(super) streams: [OwnedFd; 3],
    pub(super) steps: Steps,
}

/// What was taken hold of while the launcher was root.
pub(super) enum Taken {
    /// Nothing yet.
    Nothing,
    /// The server's whole file tree.
    Tree(Trees),
    /// What lies below directories that are closed to the server, which has the host's tree.
    Closed(Vec<Closed>),
}

fn run(mut steps: Steps) -> ExitCode {
    // The socket came as standard input; a descriptor above the standard ones survives their replacement.
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned() else {
        return ExitCode::from(BROKEN);
    };
    let outcome = prepare(&mut steps, &control).and_then(|(orders, streams)| {
        let told = control.try_clone().map_err(|error| failure(Layer::Plan, "", &error))?;
        let workshop = Workshop {
            orders,
            control: told,
            streams,
            steps,
        };
        workshop.work()
    });
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            tell(&control, &Answer::Failed(failure), &[]);
            ExitCode::from(BROKEN)
        }
    }
}

/// Closes what was inherited by mistake and takes the orders.
fn prepare(steps: &mut Steps, control: &OwnedFd) -> Result<(Orders, [OwnedFd; 3]), Failure> {
    steps.step(Layer::Plan, || {
        let own = u32::try_from(control.as_raw_fd()).map_err(io::Error::other)?;
        sys::close_range(own + 1, u32::MAX, Range::Close)?;
        if own > 3 {
            sys::close_range(3, own - 1, Range::Close)?;
        }
        let (packet, descriptors) = receive(control)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ECONNRESET))?;
        let orders = serde_json::from_slice(&packet).map_err(io::Error::other)?;
        let streams = descriptors
            .try_into()
            .map_err(|_| io::Error::from_raw_os_error(libc::EPROTO))?;
        Ok((orders, streams))
    })
}

impl Workshop {
    fn work(mut self) -> Result<ExitCode, Failure> {
        let walls = self.orders.walls();
        let parent = self.orders.parent;
        self.steps.step(Layer::DeathSignal, || match walls {
            Walls::Namespaces => die_with(parent),
            // A guardian must outlive the gateway by the moment it takes to kill the tree; it watches the socket.
            Walls::Landlock | Walls::Bare => {
                rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(io::Error::from)
            }
        })?;
        // As root, before it is given up: paths may lie below directories that the server's uid cannot pass.
        let taken = match walls {
            Walls::Namespaces if geteuid().is_root() => self.take_early()?,
            Walls::Namespaces | Walls::Landlock | Walls::Bare => Taken::Nothing,
        };
        self.give_up_root()?;
        if walls == Walls::Namespaces {
            self.steps.step(Layer::DeathSignal, || die_with(parent))?;
        }
        self.steps.step(Layer::Session, || Ok(rustix::process::setsid()?))?;
        match walls {
            Walls::Namespaces => self.with_namespaces(taken),
            Walls::Landlock | Walls::Bare => self.with_guardian(),
        }
    }

    /// Root without the right to mount, as in a container, takes them later and as the server's uid.
    fn take_early(&mut self) -> Result<Taken, Failure> {
        let orders = &self.orders;
        let take = || match (orders.fs, orders.user) {
            (FsPolicy::WorkspaceOnly | FsPolicy::ReadOnly, _) => filesystem::take(orders).map(Taken::Tree),
            (FsPolicy::Unconfined, Some(user)) => filesystem::closed::take(orders, user).map(Taken::Closed),
            (FsPolicy::Unconfined, None) => Ok(Taken::Nothing),
        };
        self.steps.step(Layer::Trees, || match take() {
            Err(error) if PathError::errno(&error) == libc::EPERM => Ok(Taken::Nothing),
            other => other,
        })
    }

    /// Host uid 0 must not run a server: files of the kernel's settings ask for the uid, not for capabilities.
    fn give_up_root(&mut self) -> Result<(), Failure> {
        let user = self.orders.user;
        self.steps
            .step_about(Layer::UidDrop, "servers are never run as root", || {
                if let Some(user) = user.filter(|_| geteuid().is_root()) {
                    become_user(user)?;
                }
                if geteuid().is_root() {
                    return Err(io::Error::from_raw_os_error(libc::EPERM));
                }
                // Else our own `/proc` entries would still belong to root, and the id map could not be written.
                Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
            })
    }

    /// Sends the report and what goes with it, then waits for "go".
    pub(super) fn shake_hands(&mut self, handed: &[BorrowedFd<'_>], landlock_abi: u8) -> Result<(), Failure> {
        let confined = self.orders.walls() != Walls::Bare && !is_open(&self.orders);
        let report = Report {
            tier: self.orders.standing_tier(),
            fs_policy: self.orders.fs,
            net_policy: self.orders.net,
            landlock_abi,
            limits: self.orders.limits_kind,
            policy_hash: self.orders.policy_hash.clone(),
            instance: self.orders.instance.clone(),
            uid: self.orders.user.map_or_else(host_uid, |user| user.uid),
            layers: self.steps.walls(confined.then_some(Layer::Seccomp)),
        };
        let control = &self.control;
        self.steps.step(Layer::Handshake, || {
            let packet = serde_json::to_vec(&Answer::Ready(report)).map_err(io::Error::other)?;
            send(control, &packet, handed)?;
            match receive(control)? {
                Some((word, _)) if word.as_slice() == GO => Ok(()),
                _ => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            }
        })
    }
}

/// Whether the plan leaves both files and network open, and hence system calls as well.
pub(super) fn is_open(orders: &Orders) -> bool {
    use crate::plan::NetPolicy;
    match (orders.fs, orders.net) {
        (FsPolicy::Unconfined, NetPolicy::Unconfined) => true,
        (FsPolicy::Unconfined | FsPolicy::WorkspaceOnly | FsPolicy::ReadOnly, _) => false,
    }
}

/// Tells the gateway; if it is gone there is nobody to tell.
pub(super) fn tell(control: impl AsFd, answer: &Answer, handed: &[BorrowedFd<'_>]) {
    if let Ok(packet) = serde_json::to_vec(answer) {
        let _ = send(control, &packet, handed);
    }
}

/// Asks to be killed when the gateway ends, and makes sure that it has not ended before we asked.
fn die_with(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let now = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

fn become_user(user: User) -> io::Result<()> {
    use rustix::process::{Gid, Uid};
    let refuse = || io::Error::from_raw_os_error(libc::EINVAL);
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    if uid.is_root() || gid.is_root() || user.uid == u32::MAX || user.gid == u32::MAX {
        return Err(refuse());
    }
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Who we are for the host, before any namespace renames us.
fn host_uid() -> u32 {
    std::fs::read_to_string("/proc/self/uid_map")
        .ok()
        .and_then(|map| map.split_ascii_whitespace().nth(1)?.parse().ok())
        .filter(|_| geteuid().as_raw() == INSIDE)
        .unwrap_or_else(|| geteuid().as_raw())
}

/// The one uid and gid inside a sandbox with its own file tree.
pub(super) const INSIDE: u32 = 1000;

/// The code of a launcher that could not do its work; the failure itself went over the socket.
pub(super) const BROKEN: u8 = 125;
