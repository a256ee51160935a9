//! The words that pass between the gateway and its launcher, one JSON text per packet.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::egress::MOST_DOORS;
use crate::environment;
use crate::limits::ResourceLimits;
use crate::plan::{FsPolicy, Inotify, NetPolicy, Place, Plan, Shown, UnixSockets, User};
use crate::probe::Tier;
use crate::report::{Failure, LimitsKind, Report};

/// The largest packet in either direction; a plan beyond it is refused before anything is started.
pub(crate) const LARGEST: usize = 128 * 1024;

/// The most descriptors a packet carries: the first process, what answers for the sockets inside, the doors every sandbox has, and
/// those for further ports.
pub(crate) const MOST_DESCRIPTORS: usize = 9 + MOST_DOORS;

/// Everything the launcher must know. Goes through the socket only: arguments and environment can be read by others.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Orders {
    pub(crate) tier: Tier,
    pub(crate) instance: String,
    pub(crate) policy_hash: String,
    pub(crate) fs: FsPolicy,
    pub(crate) net: NetPolicy,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Ports beside 443 and 80 that get a door.
    pub(crate) ports: Vec<u16>,
    pub(crate) workspace: PathBuf,
    pub(crate) read: Vec<Shown>,
    pub(crate) places: Vec<Place>,
    pub(crate) unix_sockets: UnixSockets,
    pub(crate) inotify: Inotify,
    pub(crate) limits: ResourceLimits,
    pub(crate) limits_kind: LimitsKind,
    pub(crate) user: Option<User>,
    /// The gateway's process id: another parent means that it died before the launcher could ask to die with it.
    pub(crate) parent: u32,
}

impl Orders {
    pub(crate) fn of(plan: &Plan, tier: Tier, limits_kind: LimitsKind, instance: &str) -> Self {
        Self {
            tier,
            instance: instance.to_owned(),
            policy_hash: plan.policy_hash().to_string(),
            fs: plan.fs,
            net: plan.net,
            program: plan.program.clone(),
            arguments: plan.command.clone(),
            environment: environment::build(plan, tier),
            ports: plan.allowlist().door_ports().into_iter().collect(),
            workspace: plan.workspace.clone(),
            read: plan.read.clone(),
            places: plan.places.clone(),
            unix_sockets: plan.unix_sockets,
            inotify: plan.inotify,
            limits: plan.limits,
            limits_kind,
            user: plan.user,
            parent: std::process::id(),
        }
    }

    /// The packet; it holds secrets and is wiped after use.
    pub(crate) fn to_packet(&self) -> Option<Zeroizing<Vec<u8>>> {
        let packet = Zeroizing::new(serde_json::to_vec(self).ok()?);
        (packet.len() <= LARGEST).then_some(packet)
    }

    /// Whether the server may make Unix sockets. Without a file tree of its own it could name every one of the host's.
    pub(crate) fn has_unix_sockets(&self) -> bool {
        self.unix_sockets != UnixSockets::Denied && self.fs != FsPolicy::Unconfined && self.walls() == Walls::Namespaces
    }

    /// The tier of what will really stand: with files or network open it is none that a policy could count on.
    pub(crate) fn standing_tier(&self) -> Tier {
        match (self.fs, self.net) {
            (FsPolicy::Unconfined, _) | (_, NetPolicy::Unconfined) => Tier::C,
            (FsPolicy::WorkspaceOnly | FsPolicy::ReadOnly, _) => self.tier,
        }
    }

    /// Whether the server gets namespaces, or a guardian instead of its own first process.
    pub(crate) fn walls(&self) -> Walls {
        match (self.tier, self.fs, self.net) {
            (Tier::A, _, _) => Walls::Namespaces,
            (Tier::B | Tier::C, FsPolicy::Unconfined, NetPolicy::Unconfined) | (Tier::C, _, _) => Walls::Bare,
            (Tier::B, _, _) => Walls::Landlock,
        }
    }
}

/// The kind of walls to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walls {
    /// Namespaces, and what else the plan asks for.
    Namespaces,
    /// No namespaces: Landlock and seccomp in the host's.
    Landlock,
    /// None; only for plans that ask for none.
    Bare,
}

/// What the launcher says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// All walls but seccomp stand. Carries the first process and, with a network of its own, the doors.
    Ready(Report),
    /// A step failed; nothing runs.
    Failed(Failure),
    /// The program was executed; only said where a guardian keeps the socket, else its closing says so.
    Running,
}

/// The word that lets the server start.
pub(crate) const GO: &[u8] = b"go";
