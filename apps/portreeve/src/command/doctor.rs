//! `doctor`: what this machine offers, found by trying, and what would make it better. Changes nothing.

mod findings;
mod servers;

use std::path::Path;
use std::process::ExitCode;

use sandbox::{Launcher, Standing, Strength, Tier};
use serde_json::{Value, json};

use self::findings::Finding;
use super::output::{self, Form};

#[derive(clap::Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    form: Form,
}

impl Doctor {
    /// 0 only where servers get the strongest walls.
    pub(super) async fn run(self, config: Option<&Path>) -> anyhow::Result<ExitCode> {
        let launcher = Launcher::probe().await;
        let strength = launcher.strength();
        let findings = findings::all(config).await;
        match self.form.json {
            true => output::line(&object(strength, &findings).to_string())?,
            false => for_people(strength, &findings)?,
        }
        Ok(match strength.tier {
            Tier::A => ExitCode::SUCCESS,
            Tier::B | Tier::C => ExitCode::FAILURE,
        })
    }
}

fn object(strength: &Strength, findings: &[Finding]) -> Value {
    let missing: Vec<Value> = strength
        .missing
        .iter()
        .map(|missing| {
            json!({
                "tier": missing.tier.as_str(),
                "layer": missing.layer.map(sandbox::Layer::as_str),
                "errno": missing.errno,
                "detail": missing.detail,
                "remedy": missing.remedy,
            })
        })
        .collect();
    let checks: Vec<Value> = findings
        .iter()
        .map(|finding| json!({"check": finding.check, "ok": finding.ok, "detail": finding.detail, "remedy": finding.remedy}))
        .collect();
    json!({
        "sandbox": {
            "tier": strength.tier.as_str(),
            "settled": strength.standing == Standing::Found,
            "landlock_abi": strength.landlock_abi,
            "limits": strength.limits,
            "uid": server_uid(),
            "missing": missing,
        },
        "checks": checks,
    })
}

/// The uid that packages are installed under, and servers without a user of their own.
fn server_uid() -> u32 {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        sandbox::DEDICATED_UID
    } else {
        uid.as_raw()
    }
}

fn for_people(strength: &Strength, findings: &[Finding]) -> anyhow::Result<()> {
    let offers = match strength.tier {
        Tier::A => "namespaces, Landlock and seccomp: files confined, network by allowlist, every attempt recorded",
        Tier::B => "Landlock and seccomp alone: files confined, no network; attempts are not recorded",
        Tier::C => "no walls: only servers with fs = \"none\" and net = \"none\" can be started",
    };
    let landlock = match strength.landlock_abi {
        0 => "none".to_owned(),
        abi => format!("ABI {abi}"),
    };
    let limits = match strength.limits {
        sandbox::LimitsKind::Cgroup => {
            "a control group: the kernel counts memory, processes and processor time of a server and all it starts"
        }
        sandbox::LimitsKind::Rlimit => {
            "no control group: every 200 ms the gateway counts memory and processor time of a server and all it starts, and memory that cannot be counted is denied"
        }
    };
    let sandbox = [
        (
            "sandbox",
            match strength.standing {
                Standing::Found => format!("tier {}: {offers}", strength.tier.as_str()),
                Standing::Unsettled => "cannot be told now, so that nothing is started".to_owned(),
            },
        ),
        ("landlock", landlock),
        ("limits", limits.to_owned()),
        ("servers run as", format!("uid {}", server_uid())),
    ];
    let mut rows: Vec<Vec<String>> = sandbox
        .into_iter()
        .map(|(check, detail)| {
            vec![
                word(check != "sandbox" || strength.tier == Tier::A),
                check.to_owned(),
                detail,
            ]
        })
        .collect();
    rows.extend(findings.iter().map(|finding| {
        let state = finding.ok.map_or("-".to_owned(), word);
        vec![state, finding.check.to_owned(), finding.detail.clone()]
    }));
    output::table(&["", "check", "found"], rows)?;
    for missing in &strength.missing {
        let layer = missing.layer.map_or("-", sandbox::Layer::as_str);
        let tier = missing.tier.as_str();
        output::line(&format!(
            "tier {tier} is missing at step `{layer}` (error {}): {}",
            missing.errno,
            output::printable(&missing.detail)
        ))?;
        output::line(&format!("    remedy: {}", missing.remedy))?;
    }
    let ill = findings.iter().filter(|finding| finding.ok == Some(false));
    for (finding, remedy) in ill.filter_map(|finding| Some((finding, finding.remedy?))) {
        output::line(&format!("{}: remedy: {remedy}", finding.check))?;
    }
    Ok(())
}

fn word(ok: bool) -> String {
    if ok { "ok" } else { "NO" }.to_owned()
}
