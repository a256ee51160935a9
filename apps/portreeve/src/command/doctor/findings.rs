//! What `doctor` looks at beside the sandbox: TLS, store and log, the clock, the runtimes of packages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gateway::edge::tls;
use sandbox::host::{self, HostCommand};
use vocabulary::{Clock, Timestamp};

use super::servers;
use crate::config::{Config, Fault, Tls, find_file};

/// One thing that was looked at.
pub(super) struct Finding {
    /// What it was.
    pub(super) check: &'static str,
    /// Whether it is well; `None` if there is nothing to judge.
    pub(super) ok: Option<bool>,
    /// What was found.
    pub(super) detail: String,
    /// What to do if it is not well.
    pub(super) remedy: Option<&'static str>,
}

pub(super) fn finding(check: &'static str, ok: Option<bool>, detail: impl Into<String>) -> Finding {
    Finding {
        check,
        ok,
        detail: detail.into(),
        remedy: None,
    }
}

/// The others are told by `check`.
const MOST_FAULTS: usize = 3;

/// Looks at everything, with or without a configuration.
pub(super) async fn all(given: Option<&Path>) -> Vec<Finding> {
    let loaded = find_file(given).map(|file| Config::load(&file));
    let mut found = match loaded {
        Ok(Ok(config)) => of_config(&config),
        Ok(Err(faults)) => vec![faulty(faults.as_slice())],
        Err(_) => vec![finding(
            "configuration",
            None,
            "none found; TLS, store and log were not looked at",
        )],
    };
    if !found.iter().any(|finding| finding.check == "clock") {
        found.push(clock(&Clock::system(), None));
    }
    if let Ok(Ok(config)) = find_file(given).map(|file| Config::load(&file)) {
        found.extend(servers::of(&config).await);
    }
    for (check, program) in [("node", "node"), ("npm", "npm"), ("python", "python3"), ("git", "git")] {
        found.push(runtime(check, program).await);
    }
    found
}

fn faulty(faults: &[Fault]) -> Finding {
    let told: Vec<String> = faults.iter().take(MOST_FAULTS).map(ToString::to_string).collect();
    let detail = format!("{} fault(s): {}", faults.len(), told.join("; ").replace('\n', " "));
    Finding {
        remedy: Some("see `portreeve check`"),
        ..finding("configuration", Some(false), detail)
    }
}

fn of_config(config: &Config) -> Vec<Finding> {
    let state = &config.state.dir;
    vec![
        match config.obstacles() {
            [] => finding("configuration", Some(true), config.file().display().to_string()),
            obstacles => faulty(obstacles),
        },
        certificate(config),
        writable("state", state),
        writable("store", &state.join("state.db")),
        writable("log", &state.join("ledger")),
        retention(config, &Clock::system()),
        clock(&Clock::system(), newest(&state.join("ledger"))),
    ]
}

fn certificate(config: &Config) -> Finding {
    match &config.listen.tls {
        Tls::Off => finding("tls", Some(true), "off: loopback only"),
        Tls::Files { .. } => finding("tls", Some(true), "the operator's own certificate"),
        Tls::Auto => {
            let authority = tls::local_ca(&config.state.dir.join("tls"));
            let detail = match authority.exists() {
                true => format!("local CA: {}", authority.display()),
                false => "local CA: made at the first start".to_owned(),
            };
            finding("tls", Some(true), detail)
        }
    }
}

/// Whether something can be written, or made where it is missing.
fn writable(check: &'static str, path: &Path) -> Finding {
    let there = path.ancestors().find(|place| place.exists());
    let access = |place: &Path| match place == path || place.is_dir() {
        true => rustix::fs::access(place, rustix::fs::Access::WRITE_OK),
        false => Err(rustix::io::Errno::NOTDIR),
    };
    match there.map(access) {
        Some(Ok(())) => finding(check, Some(true), path.display().to_string()),
        Some(Err(error)) => Finding {
            remedy: Some("give the gateway's user the directory, or name another `state.dir`"),
            ..finding(check, Some(false), format!("{}: {error}", path.display()))
        },
        None => finding(check, Some(false), format!("{}: no such directory", path.display())),
    }
}

/// Whether the log stays as small as it is meant to.
fn retention(config: &Config, clock: &Clock) -> Finding {
    let wanted = crate::wire_up::retention(&config.audit);
    let room = match ledger::room(&config.state.dir, &wanted, clock.now()) {
        Ok(room) => room,
        Err(error) => return finding("retention", Some(false), format!("the log cannot be read: {error}")),
    };
    let told = format!("the log has {} bytes and may have {}", room.bytes, wanted.max_bytes);
    match room.is_pressed(&wanted) {
        false => finding("retention", Some(true), told),
        true => Finding {
            remedy: Some("make room: raise `audit.retention.max_bytes` beside a larger disk, or lower `min_days`"),
            ..finding(
                "retention",
                Some(false),
                format!("pressure: {told}; {} of them may not go", room.floor_bytes),
            )
        },
    }
}

/// The time of the newest file in a directory.
fn newest(directory: &Path) -> Option<Timestamp> {
    let files = directory.read_dir().ok()?.flatten();
    let times = files.filter_map(|file| {
        let modified = file.metadata().ok()?.modified().ok()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Timestamp::from_micros(i64::try_from(since.as_micros()).ok()?))
    });
    times.max()
}

/// A clock that is before this program or before its own log is wrong: tokens and certificates would be judged by it.
fn clock(clock: &Clock, log: Option<Timestamp>) -> Finding {
    let now = clock.now();
    let early = Timestamp::parse(NOT_BEFORE).is_some_and(|limit| now < limit);
    let behind = log.is_some_and(|log| log > now.plus(TOLERANCE));
    let detail = match (early, behind) {
        (true, _) => format!("{now} is before this program was written"),
        (false, true) => format!("{now} is before the newest record of the log"),
        (false, false) => now.to_string(),
    };
    Finding {
        remedy: Some("set the clock, and keep it set by NTP"),
        ..finding("clock", Some(!early && !behind), detail)
    }
}

/// The version of a program that packages need; none is fine where no server needs it.
async fn runtime(check: &'static str, program: &str) -> Finding {
    let command = HostCommand {
        command: vec![program.to_owned(), "--version".to_owned()],
        directory: PathBuf::from("/"),
        env: BTreeMap::new(),
        timeout: Duration::from_secs(20),
        keep: 256,
    };
    match host::run(command).await {
        Ok(output) if output.code == Some(0) => {
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            finding(check, Some(true), text)
        }
        Ok(output) => finding(
            check,
            None,
            format!("`{program} --version` ended with {:?}", output.code),
        ),
        Err(_) => finding(check, None, "not in /usr/local/bin, /usr/bin or /bin"),
    }
}

const NOT_BEFORE: &str = "2026-01-01T00:00:00Z";
const TOLERANCE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_the_program_or_its_log_is_wrong() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let judged = |now: &str, log: Option<&str>| clock(&Clock::standing_at(at(now)), log.map(at)).ok;
        assert_eq!(judged("1970-01-01T00:10:00Z", None), Some(false));
        assert_eq!(judged("2027-01-01T00:00:00Z", Some("2026-12-31T00:00:00Z")), Some(true));
        assert_eq!(judged("2027-01-01T00:00:00Z", Some("2027-01-01T00:04:00Z")), Some(true));
        assert_eq!(
            judged("2027-01-01T00:00:00Z", Some("2027-01-02T00:00:00Z")),
            Some(false)
        );
    }

    #[test]
    fn what_is_missing_is_writable_if_it_can_be_made() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(writable("state", &home.path().join("a/b")).ok, Some(true));
        std::fs::write(home.path().join("file"), "").unwrap();
        assert_eq!(writable("state", &home.path().join("file/below")).ok, Some(false));
    }
}
