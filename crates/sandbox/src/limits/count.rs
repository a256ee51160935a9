//! Counts what the processes of an instance hold, from outside and by `/proc`, where no control group counts it.
//!
//! Memory that no process has mapped is seen by nobody here: `seccomp.rs` denies the calls that make it.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::sys;

/// Whether they hold more than `allowed` together.
pub(super) fn is_over(family: &[Member], allowed: u64) -> bool {
    let rough: u64 = family.iter().map(Member::rough).sum();
    rough > allowed && exact(family, allowed) > allowed
}

/// Whether more than `root` itself can be seen. A `/proc` that hides processes would make every count too low.
pub(crate) fn can_see_below(root: u32) -> bool {
    family(root).len() > 1
}

/// A process, by a thread of it that still has its memory.
#[derive(Debug)]
pub(super) struct Member {
    process: u32,
    thread: u32,
    directory: PathBuf,
    /// What it has mapped; what it shares with others is in theirs too.
    mapped: u64,
    /// What it shares with nobody: page tables, pages of the huge kind.
    own: u64,
}

impl Member {
    /// Its number.
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    fn read(process: u32, thread: u32, directory: PathBuf) -> Option<Self> {
        let status = Figures::read(directory.join("status"))?;
        // A leader that ended before its threads has no memory to its name, but the process still has.
        let anonymous = status.bytes("RssAnon:")?;
        let sum = |names: &[&str]| names.iter().filter_map(|name| status.bytes(name)).sum::<u64>();
        Some(Self {
            process,
            thread,
            directory,
            mapped: anonymous + sum(&["RssShmem:", "VmSwap:"]),
            own: sum(&["VmPTE:", "HugetlbPages:"]),
        })
    }

    fn rough(&self) -> u64 {
        self.mapped + self.own
    }

    /// Its share of what it has mapped: a page of four processes is a quarter of a page for each of them.
    fn shares(&self) -> Option<u64> {
        let rollup = Figures::read(self.directory.join("smaps_rollup"))?;
        Some(rollup.bytes("Pss_Anon:")? + rollup.bytes("Pss_Shmem:")? + rollup.bytes("SwapPss:")?)
    }
}

/// What a family holds, each page counted once; stops where it is known to be more than `allowed`.
///
/// Walking through memory takes time. Who holds so much in so many processes that [`ENOUGH`] is not enough for it is
/// taken at the rough figure, which is never too low.
fn exact(family: &[Member], allowed: u64) -> u64 {
    let until = Instant::now() + ENOUGH;
    let mut counted: Vec<u32> = Vec::new();
    let mut sum = 0;
    for member in family {
        // Between `vfork` and `execve` a child has its parent's memory, and not a copy of it.
        if counted.iter().any(|other| sys::share_memory(member.thread, *other)) {
            continue;
        }
        counted.push(member.thread);
        let shares = if Instant::now() < until { member.shares() } else { None };
        let held = shares.map(|shares| shares + member.own);
        // One that has ended since it was seen holds nothing.
        let again = || Some(Member::read(member.process, member.thread, member.directory.clone())?.rough());
        sum += held.or_else(again).unwrap_or(0);
        if sum > allowed {
            break;
        }
    }
    sum
}

/// Everybody who descends from `root`, itself included. Orphans stay in it: the first process inside, or the guardian,
/// takes them over.
pub(super) fn family(root: u32) -> Vec<Member> {
    let mut members = Vec::new();
    let mut known = HashSet::new();
    let mut waiting = vec![root];
    while let Some(process) = waiting.pop() {
        if !known.insert(process) {
            continue;
        }
        let tasks = PathBuf::from(format!("/proc/{process}/task"));
        let threads: Vec<u32> = fs::read_dir(&tasks)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        let mut one = threads.iter();
        members.extend(one.find_map(|thread| Member::read(process, *thread, tasks.join(thread.to_string()))));
        // Each thread has children of its own.
        for thread in threads {
            let children = fs::read_to_string(tasks.join(format!("{thread}/children"))).unwrap_or_default();
            waiting.extend(
                children
                    .split_ascii_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
    }
    members
}

/// A file of `/proc` with a name and a figure in each line.
struct Figures(String);

impl Figures {
    /// Whatever is in it: a process chooses its name, and that need not be text.
    fn read(path: PathBuf) -> Option<Self> {
        Some(Self(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned()))
    }

    fn bytes(&self, name: &str) -> Option<u64> {
        let figure = self.0.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = figure.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    }
}

/// How long one exact count may take.
const ENOUGH: Duration = Duration::from_millis(300);
