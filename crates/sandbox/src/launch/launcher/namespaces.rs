//! The walls of tier A: namespaces around a first process, which builds the rest and stays to reap.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use rustix::process::{
    DumpableBehavior, PidfdFlags, Signal, WaitOptions, getegid, geteuid, getpid, pidfd_open, set_dumpable_behavior,
    set_parent_process_death_signal, wait,
};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, UnshareFlags, clear_ambient_capability_set,
    set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use super::{INSIDE, Taken, Workshop, is_open};
use crate::filesystem::{self, Trees, rules};
use crate::launch::steps::failure;
use crate::limits::{self, Counted};
use crate::network;
use crate::plan::{FsPolicy, NetPolicy};
use crate::report::{Failure, Layer};
use crate::seccomp::{Filters, Ipc, Sockets};
use crate::sys::{self, Forked, Range};

impl Workshop {
    pub(super) fn with_namespaces(mut self, taken: Taken) -> Result<ExitCode, Failure> {
        self.enter_user_namespace()?;
        self.enter_other_namespaces(&taken)?;
        let doors = self.open_doors()?;
        match self.steps.step(Layer::Init, sys::fork)? {
            Forked::Child => self.be_first(taken, doors),
            Forked::Parent(first) => {
                // Nothing that is open here may keep a stream or the socket alive; only the waiting is left to do.
                let _ = sys::close_range(0, u32::MAX, Range::Close);
                let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
                sys::exit_now(wait_for(first))
            }
        }
    }

    fn has_own_tree(&self) -> bool {
        self.orders.fs != FsPolicy::Unconfined
    }

    fn has_own_network(&self) -> bool {
        self.orders.net != NetPolicy::Unconfined
    }

    fn enter_user_namespace(&mut self) -> Result<(), Failure> {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let inside = if self.has_own_tree() {
            (INSIDE, INSIDE)
        } else {
            (uid, gid)
        };
        let hint = "user namespaces are switched off here";
        self.steps
            .step_about(Layer::UserNamespace, hint, || sys::unshare(UnshareFlags::NEWUSER))?;
        let hint = "the host allows user namespaces but not to use them; AppArmor needs a profile with `userns,`";
        self.steps.step_about(Layer::IdMap, hint, || {
            std::fs::write("/proc/self/setgroups", "deny")?;
            std::fs::write("/proc/self/uid_map", format!("{} {uid} 1", inside.0))?;
            std::fs::write("/proc/self/gid_map", format!("{} {gid} 1", inside.1))
        })
    }

    /// One by one, so that a failure names the wall that is missing.
    fn enter_other_namespaces(&mut self, taken: &Taken) -> Result<(), Failure> {
        let tree = [
            (Layer::MountNamespace, UnshareFlags::NEWNS),
            (Layer::UtsNamespace, UnshareFlags::NEWUTS),
            (Layer::CgroupNamespace, UnshareFlags::NEWCGROUP),
        ];
        let network = [(Layer::NetNamespace, UnshareFlags::NEWNET)];
        let mut wanted = vec![(Layer::PidNamespace, UnshareFlags::NEWPID)];
        if !is_open(&self.orders) {
            wanted.push((Layer::IpcNamespace, UnshareFlags::NEWIPC));
        }
        match taken {
            Taken::Nothing | Taken::Tree(_) if self.has_own_tree() => wanted.extend(tree),
            Taken::Closed(closed) if !closed.is_empty() => wanted.push((Layer::MountNamespace, UnshareFlags::NEWNS)),
            Taken::Nothing | Taken::Tree(_) | Taken::Closed(_) => {}
        }
        if self.has_own_network() {
            wanted.extend(network);
        }
        wanted.retain(|(layer, _)| !self.steps.leaves_out(*layer));
        wanted.sort_by_key(|(layer, _)| *layer);
        for (layer, flag) in wanted {
            self.steps.step(layer, || sys::unshare(flag))?;
        }
        Ok(())
    }

    fn open_doors(&mut self) -> Result<Vec<OwnedFd>, Failure> {
        if !self.has_own_network() {
            return Ok(Vec::new());
        }
        let tap = self.steps.step(Layer::EgressTap, network::tap)?;
        let ports = &self.orders.ports;
        let (listeners, observer) = self.steps.step(Layer::Doors, || {
            Ok((network::open_doors(ports)?, limits::sockets::observer()?))
        })?;
        let mut handed = vec![observer];
        handed.extend(listeners.with_tap(tap));
        Ok(handed)
    }

    /// The first process of the namespaces: when it ends, the kernel kills everything inside.
    fn be_first(mut self, taken: Taken, doors: Vec<OwnedFd>) -> Result<ExitCode, Failure> {
        // The launcher may have ended before this; then the socket's end is seen while waiting for "go".
        self.steps.step(Layer::DeathSignal, || {
            Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
        })?;
        self.lay_out_files(taken)?;
        let limits = self.orders.limits;
        self.steps
            .step(Layer::Limits, || limits::apply(&limits, Counted::Own))?;
        self.steps.step(Layer::Capabilities, drop_capabilities)?;
        self.steps
            .step(Layer::NoNewPrivileges, || Ok(set_no_new_privs(true)?))?;
        let abi = if self.has_own_tree() { self.restrict_files()? } else { 0 };
        let filters = self.filters(abi)?;
        let own = self
            .steps
            .step(Layer::Handshake, || Ok(pidfd_open(getpid(), PidfdFlags::empty())?))?;
        let handed: Vec<BorrowedFd<'_>> = std::iter::once(&own).chain(&doors).map(AsFd::as_fd).collect();
        self.shake_hands(&handed, abi)?;
        drop((own, doors));
        self.steps.step(Layer::Limits, limits::apply_descriptors)?;
        match self.steps.step(Layer::Server, sys::fork)? {
            Forked::Child => self.become_server(filters.as_ref()),
            Forked::Parent(server) => {
                let _ = sys::close_range(0, u32::MAX, Range::Close);
                if set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err()
                    || filters.is_some_and(|filters| filters.apply().is_err())
                {
                    // An unfiltered first process would be a hole; its end is the end of everything inside.
                    sys::exit_now(i32::from(super::BROKEN));
                }
                sys::exit_now(wait_for(server))
            }
        }
    }

    fn lay_out_files(&mut self, taken: Taken) -> Result<(), Failure> {
        match taken {
            Taken::Tree(trees) => self.build_tree(trees),
            Taken::Closed(closed) => self.steps.step(Layer::Mounts, || filesystem::closed::cover(closed)),
            Taken::Nothing if self.has_own_tree() => {
                let orders = &self.orders;
                let trees = self.steps.step(Layer::Trees, || filesystem::take(orders))?;
                self.build_tree(trees)
            }
            Taken::Nothing => Ok(()),
        }
    }

    fn build_tree(&mut self, trees: Trees) -> Result<(), Failure> {
        let orders = &self.orders;
        let root = self
            .steps
            .step(Layer::Mounts, || filesystem::build(trees, &orders.limits))?;
        self.steps
            .step(Layer::HostName, || Ok(rustix::system::sethostname(b"sandbox")?))?;
        self.steps
            .step(Layer::NoUserNamespaces, || root.forbid_user_namespaces())?;
        self.steps.step(Layer::Mounts, || filesystem::pivot(&root))
    }

    /// Landlock, and from its version 6 on the fence around signals.
    pub(super) fn restrict_files(&mut self) -> Result<u8, Failure> {
        if self.steps.leaves_out(Layer::Landlock) {
            return rules::abi().map_err(|error| failure(Layer::Landlock, "", &error));
        }
        let orders = &self.orders;
        let abi = self.steps.step(Layer::Landlock, || {
            let abi = rules::abi()?;
            rules::apply(orders, abi).map(|()| abi)
        })?;
        if abi >= rules::SCOPES {
            self.steps.step(Layer::LandlockScope, || Ok(()))?;
        }
        Ok(abi)
    }

    /// Made early, while memory is not yet limited; put in force last.
    fn filters(&mut self, abi: u8) -> Result<Option<Filters>, Failure> {
        if is_open(&self.orders) {
            return Ok(None);
        }
        let sockets = match self.orders.has_unix_sockets() {
            false => Sockets::Internet,
            // Sockets without a path belong to the network, which may be the host's; then Landlock has to keep them apart.
            true if !self.has_own_network() && abi < rules::SCOPES => {
                let missing = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
                let hint = "`unix_sockets` with `net = \"none\"` needs Landlock 6";
                return Err(failure(Layer::LandlockScope, hint, &missing));
            }
            true => Sockets::InternetAndUnix,
        };
        Filters::compile(sockets, Ipc::Separate, self.orders.limits_kind, self.orders.inotify)
            .map(Some)
            .map_err(|error| failure(Layer::Seccomp, "", &error))
    }
}

fn drop_capabilities() -> io::Result<()> {
    set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    for capability in 0..64 {
        match sys::drop_from_bounding_set(capability) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && capability > 0 => break,
            Err(error) => return Err(error),
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, none)?)
}

/// Reaps whoever ends until `child` has; its code, or 128 and the signal that ended it.
fn wait_for(child: rustix::process::Pid) -> i32 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => {
                let killed = status.terminating_signal().map(|signal| 128 + signal);
                return status.exit_status().or(killed).unwrap_or(i32::from(super::BROKEN));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return i32::from(super::BROKEN),
        }
    }
}
