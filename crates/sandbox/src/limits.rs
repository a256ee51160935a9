//! What an instance may use: control groups where one was handed down to the gateway, process limits everywhere.
//! ADR 0023: who counts memory where no control group does. ADR 0065: and what else is counted.

pub(crate) mod count;
mod group;
mod observe;
mod processor;
mod quota;
pub(crate) mod sockets;

use std::io;

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

pub(crate) use self::group::{Delegated, Group};
pub(crate) use self::observe::{INTERVAL, Observer, Sight};

/// What one instance may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceLimits {
    /// Bytes of memory of the whole instance, socket buffers included. Without a control group the gateway counts them every
    /// 200 ms.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u32,
    /// Processor seconds of the whole instance; `None` for servers that stay.
    pub cpu_seconds: Option<u64>,
    /// Bytes in `/tmp`, in the home directory and in `/dev/shm`, each.
    pub temporary: u64,
    /// Bytes in one file.
    pub file: u64,
    /// Bytes in the workspace, and in files of its file system that were deleted and are still held.
    pub workspace: Option<u64>,
    /// Files, directories and links in the workspace.
    pub files: Option<u64>,
}

impl ResourceLimits {
    /// With a quota for a workspace of the gateway's own, which nobody else keeps anything in.
    #[must_use]
    pub fn with_quota(self) -> Self {
        Self {
            workspace: self.workspace.or(Some(4 << 30)),
            files: self.files.or(Some(200_000)),
            ..self
        }
    }
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            memory: 1 << 30,
            processes: 256,
            cpu_seconds: None,
            temporary: 256 << 20,
            file: 1 << 30,
            workspace: None,
            files: None,
        }
    }
}

vocabulary::words! {
    /// A limit that ends an instance as a whole; the others fail the call that would pass them.
    pub enum Limit {
        /// [`ResourceLimits::memory`].
        Memory = "memory",
        /// [`ResourceLimits::cpu_seconds`].
        CpuSeconds = "cpu_seconds",
        /// [`ResourceLimits::workspace`].
        Workspace = "workspace",
        /// [`ResourceLimits::files`].
        Files = "files",
    }
}

/// Whose processes the process limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Those of the sandbox: it has a user namespace.
    Own,
    /// All of this uid on the host.
    WholeUser,
}

/// Sets every process limit but those on memory and on descriptors. Soft and hard alike, so that none can be raised.
pub(crate) fn apply(limits: &ResourceLimits, counted: Counted) -> io::Result<()> {
    let processes = match counted {
        // The launcher's two processes count too.
        Counted::Own => u64::from(limits.processes) + 2,
        Counted::WholeUser => u64::from(limits.processes) + tasks_of_this_user(),
    };
    set(Resource::Nproc, processes)?;
    if let Some(seconds) = limits.cpu_seconds {
        set(Resource::Cpu, seconds)?;
    }
    set(Resource::Fsize, limits.file)?;
    set(Resource::Core, 0)?;
    set(Resource::Memlock, LOCKED)?;
    set(Resource::Msgqueue, 0)
}

/// Limits open files. After everything was handed over: the kernel lets a process pass descriptors on only while those of its
/// user that are on their way are fewer than it may open, and a server may have put as many on the way as *it* may open.
/// A server gets half of what we have at most, so that there is always room for ours.
pub(crate) fn apply_descriptors() -> io::Result<()> {
    let ours = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    set(Resource::Nofile, OPEN_FILES.min(ours / 2))
}

/// Lets this process open as many files as it may: what a server holds must not be in our way.
pub(crate) fn reach_for_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // With fewer we go on; a start that needs more is refused then.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Limits the data of each process. Never its address space: runtimes reserve far more of that than they use.
///
/// This holds one process at once; what all of them hold together is counted from outside (`count.rs`).
pub(crate) fn apply_memory(limits: &ResourceLimits) -> io::Result<()> {
    set(Resource::Data, limits.memory)
}

/// Never above what we ourselves are held to.
fn set(resource: Resource, value: u64) -> io::Result<()> {
    let allowed = getrlimit(resource).maximum.map_or(value, |maximum| maximum.min(value));
    let limit = Rlimit {
        current: Some(allowed),
        maximum: Some(allowed),
    };
    Ok(setrlimit(resource, limit)?)
}

/// How many threads this uid has on the host, as far as `/proc` shows them.
fn tasks_of_this_user() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let me = geteuid().as_raw();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mine = processes.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == me));
    let tasks = mine.filter_map(|entry| std::fs::read_dir(entry.path().join("task")).ok());
    tasks.map(|tasks| tasks.count() as u64).sum()
}

const OPEN_FILES: u64 = 4096;
const LOCKED: u64 = 64 << 10;
