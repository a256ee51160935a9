//! Looks at a running instance from outside, again and again, and says which limit it has passed as a whole.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::processor::Processor;
use super::{Limit, ResourceLimits, count, quota, sockets};
use crate::report::LimitsKind;

/// How long a server may be on its own between two looks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);

/// What a look at an instance showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It holds what it may.
    Within,
    /// It holds more.
    Passed(Limit),
    /// Its processes cannot be seen, or are gone.
    Nobody,
}

/// Looks at one instance.
#[derive(Debug)]
pub(crate) struct Observer {
    /// The process from which all others descend.
    root: u32,
    limits: ResourceLimits,
    kind: LimitsKind,
    /// Where it may write what stays.
    workspace: Option<PathBuf>,
    /// Answers for all sockets of its network.
    network: Option<OwnedFd>,
    processor: Processor,
    /// Walking through a workspace takes time.
    next_walk: Instant,
}

impl Observer {
    pub(crate) fn of(root: u32, limits: ResourceLimits, kind: LimitsKind) -> Self {
        Self {
            root,
            limits,
            kind,
            workspace: None,
            network: None,
            processor: Processor::default(),
            next_walk: Instant::now(),
        }
    }

    /// With a workspace the instance may write.
    pub(crate) fn writing(mut self, workspace: PathBuf) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// With what answers for the sockets of the instance's network.
    pub(crate) fn watch_network(&mut self, network: Option<OwnedFd>) {
        self.network = network;
    }

    /// One look. Blocks: reading `/proc` and walking through a workspace may take as long as the server likes to make it.
    pub(crate) fn look(&mut self) -> Sight {
        let family = count::family(self.root);
        let processes: Vec<u32> = family.iter().map(count::Member::process).collect();
        if self.kind == LimitsKind::Rlimit {
            if family.is_empty() {
                return Sight::Nobody;
            }
            let buffers = sockets::held(self.network.as_ref(), &processes);
            if count::is_over(&family, self.limits.memory.saturating_sub(buffers)) {
                return Sight::Passed(Limit::Memory);
            }
            let allowed = self.limits.cpu_seconds;
            if allowed.is_some_and(|allowed| self.processor.seconds(&processes) >= allowed) {
                return Sight::Passed(Limit::CpuSeconds);
            }
        }
        match self.walk(&processes) {
            Some(limit) => Sight::Passed(limit),
            None => Sight::Within,
        }
    }

    /// Looks at the workspace, unless it did so a moment ago.
    fn walk(&mut self, processes: &[u32]) -> Option<Limit> {
        let workspace = self.workspace.as_ref()?;
        let now = Instant::now();
        if now < self.next_walk {
            return None;
        }
        let passed = quota::passed(workspace, &self.limits, processes);
        // A tenth of the time at most.
        self.next_walk = now + (10 * now.elapsed()).max(BETWEEN_WALKS);
        passed
    }
}

const BETWEEN_WALKS: Duration = Duration::from_millis(600);
