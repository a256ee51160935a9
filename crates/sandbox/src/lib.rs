//! Starts a process inside walls and watches its doors. Namespaces are the wall, seccomp closes what they leave
//! open, Landlock is a second wall for files and signals; what cannot be built is refused, never left out. The only
//! crate with `unsafe` code (`sys.rs`) and the only one that starts processes.

mod beneath;
mod egress;
mod environment;
mod filesystem;
mod launch;
mod limits;
mod network;
mod plan;
mod probe;
mod report;
mod seccomp;
#[expect(unsafe_code, reason = "calls that have no safe wrapper")]
mod sys;

pub mod host;

pub use beneath::{Directory, Leads, NoDirectory, Patience};
pub use egress::{
    AllowedDestination, Allowlist, AllowlistFault, Answers, Attempt, Doors, Egress, Event, FaultKind, GATE_PORT, Gate,
    Host, HostResolver, Reason, Resolve, Verdict, Witness,
};
pub use launch::launcher::launcher_main;
pub use launch::{Ending, Instance, LAUNCHER_WORD, LaunchFailure, Launcher, Starting, Streams};
pub use limits::{Limit, ResourceLimits};
pub use plan::{DEDICATED_UID, FsPolicy, Inotify, NetPolicy, PlaceAccess, Plan, PlanDraft, PlanFault, UnixSockets};
pub use probe::{Missing, Standing, Strength, Tier};
pub use report::{Failure, Layer, LimitsKind, Report};

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use egress::fuzzing;
#[doc(hidden)]
pub use launch::launcher::{Sabotage, launcher_main_sabotaged};
