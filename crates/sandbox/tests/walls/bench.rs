//! What the tests work with: a workspace, a draft, and a server that is a shell script.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use portreeve_sandbox::{Ending, Instance, LAUNCHER_WORD, LaunchFailure, Launcher, Plan, PlanDraft, Report};
use tokio::io::AsyncReadExt;

/// The example beside this test; cargo builds both.
pub(crate) fn walled() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().unwrap().parent().unwrap().join("examples/walled");
    assert!(path.exists(), "{} is missing: build the examples too", path.display());
    path
}

pub(crate) async fn launcher() -> Launcher {
    Launcher::probe_with(walled(), vec![LAUNCHER_WORD.into()]).await
}

/// A launcher one of whose steps fails.
pub(crate) fn sabotaged(layer: &str, errno: i32) -> Vec<OsString> {
    vec![LAUNCHER_WORD.into(), layer.into(), errno.to_string().into()]
}

/// A directory below `/tmp` that everybody may use, and that is gone after the test.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/tmp/walls-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        open_to_all(&path);
        Self(path)
    }

    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir(&path).unwrap();
        open_to_all(&path);
        path
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// Whether this is root. Where everything must be there, it has to be.
pub(crate) fn is_root() -> bool {
    is_here(rustix::process::geteuid().is_root(), "this takes root")
}

/// Whether a program is installed. Where everything must be there, it has to be.
pub(crate) fn is_installed(program: &str) -> bool {
    is_here(Path::new(program).exists(), program)
}

#[expect(clippy::disallowed_methods, reason = "the tests are configured by their caller")]
fn is_here(here: bool, what: &str) -> bool {
    let everything_must_be = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(here || !everything_must_be, "{what}: missing, and CI=true");
    if !here {
        println!("SKIPPED: {what}");
    }
    here
}

pub(crate) fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn draft(workspace: &Path, command: &[&str]) -> PlanDraft {
    PlanDraft::new(workspace, command.iter().copied())
}

pub(crate) fn script(workspace: &Path, text: &str) -> PlanDraft {
    draft(workspace, &["sh", "-c", text])
}

/// Everything a server said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) ending: Ending,
    pub(crate) report: Report,
}

pub(crate) async fn run(draft: PlanDraft) -> Said {
    run_with(&launcher().await, draft).await.unwrap()
}

pub(crate) async fn run_with(launcher: &Launcher, draft: PlanDraft) -> Result<Said, LaunchFailure> {
    let plan = Plan::check(draft).unwrap();
    let instance = launcher.start(&plan).await?.go().await?;
    Ok(finish(instance).await)
}

pub(crate) async fn finish(mut instance: Instance) -> Said {
    let mut streams = instance.take_streams().unwrap();
    drop(streams.stdin);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let both = async {
        let _ = tokio::join!(
            streams.stdout.read_to_end(&mut stdout),
            streams.stderr.read_to_end(&mut stderr)
        );
    };
    tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    Said {
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        ending: instance.wait().await,
        report: instance.report().clone(),
    }
}

/// The host uid of servers in these tests: the suite may run as root or not.
pub(crate) fn server_uid() -> u32 {
    let own = rustix::process::geteuid();
    if own.is_root() {
        portreeve_sandbox::DEDICATED_UID
    } else {
        own.as_raw()
    }
}

/// What a process of its own said.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) complaints: String,
}

/// A copy that any user can execute, wherever the target directory is.
pub(crate) fn own_copy(place: &Place) -> PathBuf {
    let copy = place.0.join("walled");
    std::fs::copy(walled(), &copy).unwrap();
    open_to_all(&copy);
    copy
}

/// Runs the example as uid 1500, or as whoever we are if we are not root.
pub(crate) fn as_ordinary_user(place: &Place, words: &[&str]) -> Output {
    let copy = own_copy(place);
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = command("setpriv");
        command
            .args(["--reuid", "1500", "--regid", "1500", "--clear-groups"])
            .arg(copy);
        command
    } else {
        command(copy.to_str().unwrap())
    };
    heard(command.args(words))
}

/// The same on a host whose `/proc` shows nobody the processes of others; takes root to set up.
pub(crate) fn among_hidden_processes(place: &Place, words: &[&str]) -> Output {
    let mut alone = command("unshare");
    alone
        .args(["--mount", "--pid", "--fork", "sh", "-c"])
        .arg("mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 1500 --regid 1500 --clear-groups \"$@\"");
    heard(alone.arg("sh").arg(own_copy(place)).args(words))
}

fn heard(command: &mut std::process::Command) -> Output {
    let output = command.output().unwrap();
    Output {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        complaints: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub(crate) fn start_walled(program: &Path, words: &[&str]) -> std::process::Child {
    command(program.to_str().unwrap())
        .args(words)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test plays the part of whoever starts the gateway"
)]
pub(crate) fn command(program: &str) -> std::process::Command {
    std::process::Command::new(program)
}

/// Waits until no process works in the place: its directory is the working directory of every server in it.
pub(crate) async fn nothing_is_left_of(place: &Place) {
    let until = std::time::Instant::now() + Duration::from_secs(5);
    loop {
        let left = left_of(place);
        if left.is_empty() {
            return;
        }
        assert!(std::time::Instant::now() < until, "still there: {left:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn left_of(place: &Place) -> Vec<String> {
    let name = place.0.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let told = processes.filter_map(|entry| {
        let path = entry.path();
        let works_there = std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.to_string_lossy().contains(name));
        let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let is_ours = works_there || words.contains(name);
        (is_ours && !words.is_empty()).then_some(words)
    });
    told.collect()
}
