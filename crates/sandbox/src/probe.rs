//! Finds out what this host really gives, by building sandboxes and running `true` in them; settings lie.
//! ADR 0063: what fails for a reason that passes says nothing about the host, and lowers no tier.

use std::time::Duration;

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
    /// Whether walls of this strength are at least as strong as `other`.
    #[must_use]
    pub fn reaches(self, other: Self) -> bool {
        let rank = |tier| match tier {
            Self::A => 2,
            Self::B => 1,
            Self::C => 0,
        };
        rank(self) >= rank(other)
    }

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
    /// The strongest tier that worked; C as long as it is not known.
    pub tier: Tier,
    /// Whether that is what the host gives, or only what it gave at a bad moment.
    pub standing: Standing,
    /// What stood in the way of each stronger tier.
    pub missing: Vec<Missing>,
    /// The Landlock version that was in force; 0 without Landlock.
    pub landlock_abi: u8,
    /// What holds resource limits.
    pub limits: LimitsKind,
}

/// Whether a tier was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was: the host gives this much and no more.
    Found,
    /// A stronger tier failed for a reason that passes, such as too many open files. Nothing is started until it is known.
    Unsettled,
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
    /// Whether it may be otherwise in a moment.
    pub passing: bool,
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

/// Tries the tiers from the strongest down. One that fails for a reason that passes is tried again, and then nothing is known.
pub(crate) async fn probe(program: &Program, delegated: Option<&Delegated>) -> Strength {
    let limits = delegated.map_or(LimitsKind::Rlimit, |_| LimitsKind::Cgroup);
    let mut strength = Strength {
        tier: Tier::C,
        standing: Standing::Found,
        missing: Vec::new(),
        landlock_abi: 0,
        limits,
    };
    for (tier, net) in [(Tier::A, NetPolicy::Allowlist), (Tier::B, NetPolicy::BlockAll)] {
        match try_patiently(program, delegated, tier, net).await {
            Ok(report) => {
                strength.tier = tier;
                strength.landlock_abi = report.landlock_abi;
                break;
            }
            Err(found) => {
                let passing = found.passing;
                strength.missing.push(found);
                if passing {
                    strength.standing = Standing::Unsettled;
                    break;
                }
            }
        }
    }
    strength
}

/// As [`try_tier`], again after a while where the reason may have passed.
async fn try_patiently(
    program: &Program,
    delegated: Option<&Delegated>,
    tier: Tier,
    net: NetPolicy,
) -> Result<Report, Missing> {
    let mut tried = try_tier(program, delegated, tier, net).await;
    for pause in PAUSES {
        if !matches!(&tried, Err(missing) if missing.passing) {
            break;
        }
        tokio::time::sleep(pause).await;
        tried = try_tier(program, delegated, tier, net).await;
    }
    tried
}

const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(400)];

async fn try_tier(
    program: &Program,
    delegated: Option<&Delegated>,
    tier: Tier,
    net: NetPolicy,
) -> Result<Report, Missing> {
    let found = |layer, errno, detail: String, passing| Missing {
        tier,
        layer,
        errno,
        detail,
        remedy: if passing { WAIT } else { remedy(layer, errno) },
        passing,
    };
    let plan = Plan::check(harmless(net)).map_err(|faults| {
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        found(None, 0, told.join("; "), false)
    })?;
    let failed = |failure: LaunchFailure| {
        let (layer, errno) = failure.place();
        found(layer, errno, failure.to_string(), is_passing(&failure))
    };
    let starting = launch::start(program, delegated, tier, &plan).await.map_err(failed)?;
    let report = starting.report().clone();
    let instance = starting.go().await.map_err(failed)?;
    match instance.wait().await {
        Ending::Exited(0) => Ok(report),
        other @ (Ending::Exited(_) | Ending::Signalled(_) | Ending::Passed(_)) => {
            let told = format!("inside, `true` {other}");
            Err(found(
                Some(Layer::Execute),
                0,
                told,
                !matches!(other, Ending::Exited(..=128)),
            ))
        }
    }
}

/// Whether a failure says something about this moment rather than about the host.
fn is_passing(failure: &LaunchFailure) -> bool {
    match failure {
        LaunchFailure::Layer(failure) => match (failure.layer, failure.errno) {
            // Switched off, which is what this setting is for; else so many are in use.
            (Layer::UserNamespace, libc::ENOSPC) => !user_namespaces_are_switched_off(),
            (_, errno) => PASSING.contains(&errno),
        },
        // The launcher was killed, or had no time, or the gateway could not do its own part.
        LaunchFailure::Start { .. } | LaunchFailure::Silent | LaunchFailure::TimedOut => true,
        LaunchFailure::TierTooWeak { .. }
        | LaunchFailure::TierFell { .. }
        | LaunchFailure::Unsettled { .. }
        | LaunchFailure::PlanTooLarge
        | LaunchFailure::Uncounted
        | LaunchFailure::NoUnixSockets { .. } => false,
    }
}

fn user_namespaces_are_switched_off() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/user/max_user_namespaces");
    setting.is_ok_and(|most| most.trim() == "0")
}

/// What the kernel says when there is too much of something at the moment, or too little.
const PASSING: [i32; 13] = [
    libc::EAGAIN,
    libc::EBUSY,
    libc::EDQUOT,
    libc::EINTR,
    libc::EIO,
    libc::EMFILE,
    libc::ENFILE,
    libc::ENOBUFS,
    libc::ENOMEM,
    libc::ENOSPC,
    libc::ETIMEDOUT,
    libc::ETOOMANYREFS,
    libc::ETXTBSY,
];

const WAIT: &str = "this passes: look at what uses up files, memory or processes of this user, and try again";

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
