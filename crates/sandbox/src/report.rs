//! What the launcher says it did: the only source of `fs_policy` and `net_policy` on receipts.

use serde::{Deserialize, Serialize};

use crate::plan::{FsPolicy, NetPolicy};
use crate::probe::Tier;

/// The walls that stand around one instance, as the launcher built them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The strength of what stands; C where files or network are open.
    pub tier: Tier,
    /// How files are confined.
    pub fs_policy: FsPolicy,
    /// How the network is confined.
    pub net_policy: NetPolicy,
    /// The Landlock version that is in force; 0 without Landlock.
    pub landlock_abi: u8,
    /// What holds the resource limits.
    pub limits: LimitsKind,
    /// The digest of the plan, values of the environment left out.
    pub policy_hash: String,
    /// The name of this instance.
    pub instance: String,
    /// The host uid the server runs under.
    pub uid: u32,
    /// Every wall, in the order of building; seccomp follows as the last step before the server's first instruction.
    pub layers: Vec<Layer>,
}

/// What holds the resource limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitsKind {
    /// A control group: the kernel counts memory, processes and processor time of the whole instance.
    Cgroup,
    /// Process limits. Memory and processor time of the whole instance are counted by the gateway, and memory that it could not
    /// count is denied.
    Rlimit,
}

/// Why nothing was started: the step that failed, and the kernel's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The step.
    pub layer: Layer,
    /// The kernel's error number; 0 if the launcher itself refused.
    pub errno: i32,
    /// What was being done, for the operator.
    pub detail: String,
}

macro_rules! layers {
    ($($(#[$doc:meta])* $variant:ident $name:literal;)*) => {
        vocabulary::words! {
            /// A wall, or a step on the way to one, in the order of building.
            #[derive(PartialOrd, Ord, Serialize, Deserialize)]
            pub enum Layer {
                $($(#[$doc])* #[serde(rename = $name)] $variant = $name,)*
            }
        }
    };
}

layers! {
    /// The plan reached the launcher and could be read.
    Plan "plan";
    /// The process dies with the gateway.
    DeathSignal "death-signal";
    /// The host's directories are taken hold of.
    Trees "trees";
    /// Root is given up for a dedicated uid.
    UidDrop "uid-drop";
    /// A session of its own.
    Session "session";
    /// User namespace.
    UserNamespace "userns";
    /// The one uid and gid of the user namespace.
    IdMap "id-map";
    /// Mount namespace.
    MountNamespace "mntns";
    /// Process id namespace.
    PidNamespace "pidns";
    /// System V and POSIX queue namespace.
    IpcNamespace "ipcns";
    /// Host name namespace.
    UtsNamespace "utsns";
    /// Control group namespace.
    CgroupNamespace "cgroupns";
    /// Network namespace.
    NetNamespace "netns";
    /// Routes and listeners of the network namespace.
    Doors "doors";
    /// The tap that sees what found no door.
    EgressTap "egress-tap";
    /// The first process of the namespaces.
    Init "init";
    /// The file tree the server sees.
    Mounts "mounts";
    /// The host name the server sees.
    HostName "host-name";
    /// No user namespaces below this one.
    NoUserNamespaces "no-userns";
    /// Resource limits.
    Limits "limits";
    /// No capabilities.
    Capabilities "caps";
    /// No privileges by executing files.
    NoNewPrivileges "nnp";
    /// Landlock: files.
    Landlock "landlock";
    /// Landlock: signals and abstract sockets.
    LandlockScope "landlock-scope";
    /// The report was sent and "go" received.
    Handshake "handshake";
    /// The server's process.
    Server "server";
    /// No descriptor above the three standard streams.
    Descriptors "descriptors";
    /// The server's working directory.
    WorkingDirectory "working-directory";
    /// The filters on system calls.
    Seccomp "seccomp";
    /// The server's program.
    Execute "execute";
}
