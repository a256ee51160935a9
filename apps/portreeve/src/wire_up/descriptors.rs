//! How many files and sockets may be open at once, and who gets how many: no kind of work takes them from the others.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What there is at least, by any system's default.
const LEAST: u64 = 256;

/// The descriptors of each kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shares {
    /// Connections of clients.
    pub(super) connections: usize,
    /// Connections of operators.
    pub(super) administration: usize,
    /// Connections to servers.
    pub(super) upstream: usize,
}

impl Shares {
    /// Those of this process, whose limit is raised as far as it may be.
    pub(super) fn of_this_process() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        let limit = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit.maximum,
            Err(error) => {
                tracing::warn!(%error, "the limit on open files cannot be raised");
                limit.current
            }
        };
        Self::of(limit.unwrap_or(u64::MAX))
    }

    /// Half for clients, a quarter for servers, a sixteenth for operators. The rest is for processes, the log and the store.
    fn of(limit: u64) -> Self {
        let part = |parts: u64| usize::try_from(limit.max(LEAST) / parts).unwrap_or(usize::MAX);
        Self {
            connections: part(2),
            administration: part(16),
            upstream: part(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_leave_something_for_the_rest() {
        for limit in [0, 256, 1024, 524_288] {
            let shares = Shares::of(limit);
            let taken = shares.connections + shares.administration + shares.upstream;
            assert!(taken * 8 <= usize::try_from(limit.max(LEAST)).unwrap() * 7, "{limit}");
            assert!(shares.administration > 0);
        }
    }
}
