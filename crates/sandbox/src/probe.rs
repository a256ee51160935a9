//! Finds out what this host really gives, by building sandboxes and running `true` in them; settings lie.

use serde::{Deserialize, Serialize};

use crate::launch::{self, Ending, LaunchFailure, Program};
use crate::limits::Delegated;
use crate::plan::{FsPolicy, NetPolicy, Plan, PlanDraft};
use crate::report::{Layer, LimitsKind, Report};

vocabulary::words! {
    /// How strong the walls of this host are.
    #[derive(Serialize, Deserialize)]
    pub enum Tier {
        /// Namespaces, Landlock, seccomp.
        A = "A",
        /// No user namespaces: Landlock and seccomp only.
        B = "B",
        /// Nothing that could hold a server.
        C = "C",
    }
}

impl Tier {
    /// Whether a plan with these policies can be carried out.
    #[must_use]
    pub fn offers(self, fs: FsPolicy, net: NetPolicy) -> bool {
        match (self, fs, net) {
            (Self::A, _, _) | (_, FsPolicy::Unconfined, NetPolicy::Unconfined) => true,
            (Self::B, FsPolicy::WorkspaceOnly | FsPolicy::ReadOnly, NetPolicy::BlockAll | NetPolicy::Unconfined) => {
                true
            }
            (Self::B, _, _) | (Self::C, _, _) => false,
        }
    }
}

/// What this host was found to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strength {
    /// The strongest tier that worked.
    pub tier: Tier,
    /// What stood in the way of each stronger tier.
    pub missing: Vec<Missing>,
    /// The Landlock version that was in force; 0 without Landlock.
    pub landlock_abi: u8,
    /// What holds resource limits.
    pub limits: LimitsKind,
}

/// What stood in the way of a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The tier that did not work.
    pub tier: Tier,
    /// The step that failed, if it came to one.
    pub layer: Option<Layer>,
    /// The kernel's error number; 0 if there is none.
    pub errno: i32,
    /// What happened, in words.
    pub detail: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Strength {
    /// What is missing, for a message.
    #[must_use]
    pub fn missing_text(&self) -> String {
        let told = self.missing.iter().map(|missing| {
            let tier = missing.tier.as_str();
            format!("tier {tier} failed: {}; {}", missing.detail, missing.remedy)
        });
        told.collect::<Vec<_>>().join("; ")
    }
}

/// Tries the tiers from the strongest down.
pub(crate) async fn probe(program: &Program, delegated: Option<&Delegated>) -> Strength {
    let limits = delegated.map_or(LimitsKind::Rlimit, |_| LimitsKind::Cgroup);
    let mut missing = Vec::new();
    for (tier, net) in [(Tier::A, NetPolicy::Allowlist), (Tier::B, NetPolicy::BlockAll)] {
        match try_tier(program, delegated, tier, net).await {
            Ok(report) => {
                return Strength {
                    tier,
                    missing,
                    landlock_abi: report.landlock_abi,
                    limits,
                };
            }
            Err(found) => missing.push(found),
        }
    }
    Strength {
        tier: Tier::C,
        missing,
        landlock_abi: 0,
        limits,
    }
}

async fn try_tier(
    program: &Program,
    delegated: Option<&Delegated>,
    tier: Tier,
    net: NetPolicy,
) -> Result<Report, Missing> {
    let found = |layer, errno, detail: String| Missing {
        tier,
        layer,
        errno,
        detail,
        remedy: remedy(layer, errno),
    };
    let plan = Plan::check(harmless(net)).map_err(|faults| {
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        found(None, 0, told.join("; "))
    })?;
    let failed = |failure: LaunchFailure| {
        let (layer, errno) = match &failure {
            LaunchFailure::Layer(failure) => (Some(failure.layer), failure.errno),
            LaunchFailure::TierTooWeak { .. }
            | LaunchFailure::Start { .. }
            | LaunchFailure::PlanTooLarge
            | LaunchFailure::Uncounted
            | LaunchFailure::Silent
            | LaunchFailure::NoUnixSockets { .. }
            | LaunchFailure::TimedOut => (None, 0),
        };
        found(layer, errno, failure.to_string())
    };
    let starting = launch::start(program, delegated, tier, &plan).await.map_err(failed)?;
    let report = starting.report().clone();
    let instance = starting.go().await.map_err(failed)?;
    match instance.wait().await {
        Ending::Exited(0) => Ok(report),
        other @ (Ending::Exited(_) | Ending::Signalled(_) | Ending::Passed(_)) => {
            Err(found(Some(Layer::Execute), 0, format!("inside, `true` {other}")))
        }
    }
}

/// A program that does nothing, in a directory every host has; nothing has to be made for it.
fn harmless(net: NetPolicy) -> PlanDraft {
    PlanDraft {
        fs: FsPolicy::ReadOnly,
        net,
        ..PlanDraft::new("/usr/bin", ["true"])
    }
}

/// What usually helps.
fn remedy(layer: Option<Layer>, errno: i32) -> &'static str {
    match (layer, errno) {
        (Some(Layer::UserNamespace), libc::ENOSPC) => "raise `user.max_user_namespaces`",
        (Some(Layer::UserNamespace), _) => {
            "allow unprivileged user namespaces (`kernel.unprivileged_userns_clone=1`; in a container, a seccomp profile that allows `unshare`)"
        }
        (Some(Layer::IdMap | Layer::NetNamespace | Layer::Doors | Layer::EgressTap), _) => {
            "give the binary an AppArmor profile with `userns,`, or set `kernel.apparmor_restrict_unprivileged_userns=0`"
        }
        (Some(Layer::Trees | Layer::Mounts), _) => {
            "in a container, leave `/proc` unmasked and allow mounts inside user namespaces"
        }
        (Some(Layer::Landlock | Layer::LandlockScope), _) => {
            "boot a kernel with Landlock: 6.2 for tier A, 6.12 for tier B, and `landlock` in the `lsm=` list"
        }
        (Some(Layer::UidDrop), _) => "start the gateway as root with CAP_SETUID and CAP_SETGID, or as an ordinary user",
        (Some(Layer::Seccomp), _) => "boot a kernel with CONFIG_SECCOMP_FILTER",
        _ => "run the gateway directly on a Linux host",
    }
}
