//! How a server ended, and why one was not started.

use std::fmt;
use std::io;

use thiserror::Error;

use crate::limits::Limit;
use crate::plan::{FsPolicy, NetPolicy};
use crate::probe::Tier;
use crate::report::{Failure, Layer};

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code. Codes above 128 may also stand for a signal, as in a shell.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It was killed for passing this limit.
    Passed(Limit),
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code @ 129..=192) => {
                write!(out, "exited with code {code}, as by signal {}", signal_text(code - 128))
            }
            Self::Exited(code) => write!(out, "exited with code {code}"),
            Self::Signalled(signal) => write!(out, "was ended by signal {}", signal_text(*signal)),
            Self::Passed(limit) => write!(out, "was ended for passing its limit `{}`", limit.as_str()),
        }
    }
}

/// A signal with its name, where it is one that ends programs.
fn signal_text(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return signal.to_string(),
    };
    format!("{signal} ({name})")
}

/// Why a server was not started. Nothing of it has run.
#[derive(Debug, Error)]
pub enum LaunchFailure {
    /// The plan asks for walls that this host cannot give.
    #[error("this host gives sandboxes of tier {tier}, which do not offer fs = \"{}\" with net = \"{}\": {missing}; see `portreeve doctor`", fs.as_str(), net.as_str(), tier = tier.as_str())]
    TierTooWeak {
        /// What the host gives.
        tier: Tier,
        /// What the plan asks for.
        fs: FsPolicy,
        /// What the plan asks for.
        net: NetPolicy,
        /// What the next tier would need.
        missing: String,
    },
    /// The host gives less than was asked for, or less than it gave before.
    #[error("this host gives sandboxes of tier {tier}, and tier {least} is the least that is used here: {missing}; see `portreeve doctor`", tier = tier.as_str(), least = least.as_str())]
    TierFell {
        /// What the host gives.
        tier: Tier,
        /// What it must give.
        least: Tier,
        /// What the next tier would need.
        missing: String,
    },
    /// It is not known what the host gives, for a reason that passes.
    #[error("it could not be told which sandboxes this host gives, so that nothing is started: {missing}")]
    Unsettled {
        /// What happened.
        missing: String,
    },
    /// Only a file tree of its own keeps the host's sockets away from a server.
    #[error("this host gives sandboxes of tier {tier}, in which `unix_sockets` would reach those of the host: {missing}; see `portreeve doctor`", tier = tier.as_str())]
    NoUnixSockets {
        /// What the host gives.
        tier: Tier,
        /// What the next tier would need.
        missing: String,
    },
    /// A wall could not be built.
    #[error("the sandbox could not be built at step `{}` (error {}): {}", .0.layer.as_str(), .0.errno, .0.detail)]
    Layer(Failure),
    /// The gateway could not do its part.
    #[error("{what} did not work")]
    Start {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The plan does not fit into a packet.
    #[error("command, environment and paths together are larger than 128 KiB; shorten them")]
    PlanTooLarge,
    /// Nobody would count its memory.
    #[error(
        "there is no control group here, and `/proc` does not show what a server starts, so that nobody would count its memory; mount `/proc` without `hidepid`, or give the gateway a control group of its own"
    )]
    Uncounted,
    /// The launcher ended or spoke out of turn.
    #[error("the launcher ended without a report")]
    Silent,
    /// The launcher took too long.
    #[error("the launcher did not report within 20 seconds")]
    TimedOut,
}

impl LaunchFailure {
    /// The step that failed, if it came to one, and the kernel's error number.
    pub(crate) fn place(&self) -> (Option<Layer>, i32) {
        if let Self::Layer(failure) = self {
            return (Some(failure.layer), failure.errno);
        }
        (None, 0)
    }
}
