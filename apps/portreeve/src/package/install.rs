//! Runs npm or pip inside the sandbox: it sees its own directory and the programs of this machine, reaches the registry
//! and nothing else, and runs no script of a package. Then the tree is sealed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use sandbox::{
    Attempt, Egress, Ending, HostResolver, Launcher, NetPolicy, Plan, PlanDraft, ResourceLimits, Tier, Verdict, Witness,
};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use vocabulary::{ServerId, lock};

use super::files;
use super::installed::{Locked, Unfit, locked};
use super::interpreter::Interpreter;
use super::listed::Listed;
use super::log::InstallLog;
use super::pypi::{REPORT, VENV, do_without_late_parts};
use super::registry::{HOME, Settings, settings};
use super::seal::seal;
use super::spec::{Registry, Spec};
use crate::config::{packages, variable};
use crate::wire_up::{Memory, make_dir, probed};

/// Where the package of a server lies.
pub(crate) fn room(state: &Path, id: &ServerId) -> PathBuf {
    packages(state).join(id.to_string())
}

/// What is to be installed, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The package.
    pub(crate) spec: Spec,
    /// Another interpreter than the machine's.
    pub(crate) interpreter: Option<Interpreter>,
    /// What an official registry says of it.
    pub(crate) listed: Option<Listed>,
}

/// Installs a package for the server `id` and says what came of it. Whatever lay in its place is taken away first, and
/// nothing but the installer's log stays if it fails.
pub(crate) async fn install(wanted: &Wanted, state: &Path, id: &ServerId) -> anyhow::Result<Locked> {
    let dir = room(state, id);
    make_dir(state)?;
    prepare(state, &dir).with_context(|| format!("`{}` cannot be made", dir.display()))?;
    let log = InstallLog::begin(state, id).context("the installer's log cannot be made")?;
    let place = Place {
        state,
        dir: &dir,
        log: &log,
    };
    let installed = install_in(wanted, place).await;
    match &installed {
        Ok(_) => log.discard(),
        Err(_) => {
            keep_own_logs(&dir, &log);
            let _ = fs::remove_dir_all(&dir);
        }
    }
    installed
}

/// npm leaves more than it prints; it would go with the directory.
fn keep_own_logs(dir: &Path, log: &InstallLog) {
    let logs = fs::read_dir(dir.join(HOME).join(".npm/_logs")).into_iter().flatten();
    for file in logs.flatten().filter_map(|entry| fs::read(entry.path()).ok()) {
        let end = file.get(file.len().saturating_sub(LOGGED)..).unwrap_or_default();
        log.add("npm's own log", &String::from_utf8_lossy(end));
    }
}

/// Where an installation happens.
#[derive(Clone, Copy)]
struct Place<'a> {
    state: &'a Path,
    dir: &'a Path,
    log: &'a InstallLog,
}

async fn install_in(wanted: &Wanted, place: Place<'_>) -> anyhow::Result<Locked> {
    let Place { state, dir, log } = place;
    let (spec, interpreter) = (&wanted.spec, wanted.interpreter.as_ref());
    let launcher = probed(state, None, Memory::Look).await;
    let mut settings = settings(spec.registry, dir, variable)?;
    settings
        .read
        .extend(interpreter.into_iter().flat_map(Interpreter::read_to_install));
    let installer = Installer {
        launcher: &launcher,
        private: addresses(&settings.hosts).await,
        settings: &settings,
        state,
        dir,
        log,
    };
    for command in commands(spec, interpreter, dir) {
        installer.run(command).await?;
    }
    if let Some(listed) = &wanted.listed {
        listed.compare(dir, spec)?;
    }
    if spec.registry == Registry::Pypi {
        do_without_late_parts(dir).context("the installed files cannot be settled")?;
    }
    fs::remove_dir_all(dir.join(HOME)).context("the installer's leavings cannot be removed")?;
    seal(dir).context("the installed files cannot be sealed")?;
    let name = dir
        .file_name()
        .and_then(|name| name.to_str())
        .context("its directory has no name")?;
    files::record(&packages(state), name).context("the installed files cannot be written down")?;
    let locked = locked(dir, spec.registry, &spec.name)?;
    if locked.version != spec.version {
        return Err(Unfit(format!("{spec} was asked for, but version {} came", locked.version)).into());
    }
    Ok(locked)
}

/// Makes an empty directory that the installer's user owns.
fn prepare(state: &Path, dir: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(state)?;
    let packages = packages(state);
    fs::create_dir_all(&packages)?;
    // Servers of other users pass through it to their own package, and cannot list it.
    fs::set_permissions(&packages, fs::Permissions::from_mode(0o711))?;
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    for path in [dir.to_owned(), dir.join(HOME)] {
        fs::DirBuilder::new().mode(0o755).create(&path)?;
        if rustix::process::geteuid().is_root() {
            let uid = Some(sandbox::DEDICATED_UID);
            std::os::unix::fs::chown(&path, uid, uid)?;
        }
    }
    Ok(())
}

/// What is run, in order. No script of a package is: npm is told so, and pip takes wheels alone.
fn commands(spec: &Spec, interpreter: Option<&Interpreter>, dir: &Path) -> Vec<Vec<String>> {
    let (dir_text, exact) = (dir.display().to_string(), (&spec.name, &spec.version));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match spec.registry {
        Registry::Npm => {
            let named = interpreter.and_then(|node| Some([node.program.as_path(), node.npm.as_deref()?]));
            let mut npm = match named {
                Some(words) => words.map(|word| word.display().to_string()).to_vec(),
                None => words(&["npm"]),
            };
            npm.extend(words(&[
                "install",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--omit=dev",
            ]));
            npm.extend(words(&["--save-exact", "--loglevel=error", "--prefix", &dir_text]));
            npm.push(format!("{}@{}", exact.0, exact.1));
            vec![npm]
        }
        Registry::Pypi => {
            let venv = dir.join(VENV);
            let mut pip = vec![venv.join("bin/python").display().to_string()];
            pip.extend(words(&[
                "-m",
                "pip",
                "install",
                "--only-binary=:all:",
                "--no-input",
                "--no-cache-dir",
            ]));
            pip.extend(words(&["--disable-pip-version-check", "--quiet", "--report"]));
            pip.push(dir.join(REPORT).display().to_string());
            pip.push(format!("{}=={}", exact.0, exact.1));
            let python = interpreter.map(|python| python.program.display().to_string());
            let python = python.unwrap_or_else(|| "python3".to_owned());
            vec![words(&[&python, "-m", "venv", &venv.display().to_string()]), pip]
        }
    }
}

/// Where this machine's own resolver says the registry is: a mirror inside is as good as one outside, and no other
/// address inside can be reached.
async fn addresses(hosts: &[String]) -> Vec<String> {
    let mut ranges = BTreeSet::new();
    for host in hosts {
        let found = tokio::net::lookup_host(host.as_str()).await.into_iter().flatten();
        ranges.extend(found.map(|address| match address.ip() {
            std::net::IpAddr::V4(ip) => format!("{ip}/32"),
            std::net::IpAddr::V6(ip) => format!("{ip}/128"),
        }));
    }
    ranges.into_iter().collect()
}

/// One installation.
struct Installer<'a> {
    launcher: &'a Launcher,
    settings: &'a Settings,
    private: Vec<String>,
    state: &'a Path,
    dir: &'a Path,
    log: &'a InstallLog,
}

impl Installer<'_> {
    /// Runs one command to its end, inside.
    async fn run(&self, command: Vec<String>) -> anyhow::Result<()> {
        let (program, line) = (command.first().cloned().unwrap_or_default(), command.join(" "));
        let plan = Plan::check(self.draft(command)?).map_err(|faults| {
            let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("the installer cannot be run: {}", told.join("; "))
        })?;
        let mut starting = self.launcher.start(&plan).await?;
        let blocked = Arc::new(Blocked::default());
        let names = Arc::new(HostResolver);
        let _egress = match starting.take_doors() {
            Some(doors) => Some(Egress::serve(doors, plan.allowlist().clone(), names, blocked.clone())?),
            None => None,
        };
        let mut instance = starting.go().await?;
        let streams = instance.take_streams().context("the installer's streams are gone")?;
        let (said, complained) = (tokio::spawn(tail(streams.stdout)), tokio::spawn(tail(streams.stderr)));
        let how = match tokio::time::timeout(PATIENCE, instance.wait()).await {
            Ok(Ending::Exited(0)) => return Ok(()),
            Ok(ending) => ending.to_string(),
            Err(_) => {
                instance.kill();
                format!("took longer than {} minutes and was ended", PATIENCE.as_secs() / 60)
            }
        };
        let told = [complained.await?, said.await?].concat();
        self.log.add(&format!("{line} ({how})"), &told);
        let shown = told.get(told.ceil_char_boundary(told.len().saturating_sub(KEPT))..);
        anyhow::bail!(
            "`{program}` {how}{}\n{}\nall it said: {}",
            blocked.told(),
            shown.unwrap_or_default().trim(),
            self.log.path().display()
        )
    }

    fn draft(&self, command: Vec<String>) -> anyhow::Result<PlanDraft> {
        let net = match self.launcher.strength().tier {
            Tier::A => NetPolicy::Allowlist,
            // Hosts cannot be told apart there; files still are.
            Tier::B => NetPolicy::Unconfined,
            Tier::C => anyhow::bail!(
                "this machine gives no sandbox to install in ({}); install the package yourself and add it with `-- COMMAND`",
                self.launcher.strength().missing_text()
            ),
        };
        let listed = |list: &[String]| match net {
            NetPolicy::Allowlist => list.to_vec(),
            NetPolicy::BlockAll | NetPolicy::Unconfined => Vec::new(),
        };
        Ok(PlanDraft {
            net,
            read: self.settings.read.clone(),
            env: self.settings.env.clone(),
            allow: listed(&self.settings.hosts),
            private: listed(&self.private),
            limits: ResourceLimits {
                memory: 4 << 30,
                ..ResourceLimits::default()
            },
            state_dir: Some(self.state.to_owned()),
            state_rooms: vec![packages(self.state)],
            ..PlanDraft::new(self.dir, command)
        })
    }
}

/// What the installer could not reach, for the message.
#[derive(Default)]
struct Blocked(Mutex<BTreeSet<String>>);

impl Witness for Blocked {
    fn saw(&self, attempt: Attempt) {
        if attempt.verdict == Verdict::Blocked {
            let line = format!("{}:{} ({})", attempt.host, attempt.port, attempt.reason.as_str());
            lock(&self.0).insert(line);
        }
    }
}

impl Blocked {
    fn told(&self) -> String {
        let hosts = lock(&self.0);
        match hosts.is_empty() {
            true => String::new(),
            false => format!(
                "; not reached: {}",
                hosts.iter().cloned().collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// Reads to the end and keeps the last of it.
async fn tail(mut stream: impl AsyncRead + Unpin) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        kept.extend_from_slice(piece.get(..read).unwrap_or_default());
        let surplus = kept.len().saturating_sub(LOGGED);
        kept.drain(..surplus);
    }
    // Strangers' words: nothing in them moves a cursor.
    let plain = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    String::from_utf8_lossy(&kept).chars().map(plain).collect()
}

const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// So much of it is shown, and so much kept.
const KEPT: usize = 4096;
const LOGGED: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(spec: &str, interpreter: Option<&Interpreter>) -> Vec<String> {
        let spec = Spec::parse(spec).unwrap().unwrap();
        let commands = commands(&spec, interpreter, Path::new("/p"));
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn installers_are_told_to_run_nothing_and_to_build_nothing() {
        assert_eq!(
            lines("npm:@a/b@1.0.0", None),
            [
                "npm install --ignore-scripts --no-audit --no-fund --omit=dev --save-exact --loglevel=error --prefix /p @a/b@1.0.0"
            ]
        );
        assert_eq!(
            lines("pypi:a@1.0", None),
            [
                "python3 -m venv /p/venv",
                "/p/venv/bin/python -m pip install --only-binary=:all: --no-input --no-cache-dir --disable-pip-version-check --quiet --report /p/report.json a==1.0"
            ]
        );
    }
    #[test]
    fn another_interpreter_installs_what_it_will_run() {
        let named = |program: &str, npm: Option<&str>| Interpreter {
            program: program.into(),
            read: Vec::new(),
            npm: npm.map(Into::into),
        };
        let python = named("/opt/python/bin/python3.14", None);
        assert_eq!(
            lines("pypi:a@1.0", Some(&python))[0],
            "/opt/python/bin/python3.14 -m venv /p/venv"
        );
        let node = named("/opt/node/bin/node", Some("/opt/node/lib/npm-cli.js"));
        let told = lines("npm:a@1.0.0", Some(&node));
        assert!(
            told[0].starts_with("/opt/node/bin/node /opt/node/lib/npm-cli.js install --ignore-scripts "),
            "{told:?}"
        );
        let alone = named("/opt/node/bin/node", None);
        assert!(lines("npm:a@1.0.0", Some(&alone))[0].starts_with("npm install "));
    }
}
