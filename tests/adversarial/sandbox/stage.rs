//! Puts a test on a stage: the test starts itself again in namespaces of its own, where it is alone with its addresses,
//! its processes and its shared memory. Nothing of it outlives the test.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::process::{geteuid, getuid};
use tempfile::TempDir;

use crate::support::environment::{command, not_here, portreeve, repository, stage};
use crate::support::records::sha256;

/// Who starts the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cast {
    /// Root, whose servers run under a uid of their own.
    Root,
    /// An ordinary user, whose servers are that user.
    Ordinary,
}

/// The uid of servers of a gateway that is root.
pub(super) const DEDICATED: u32 = 65_533;

/// The ordinary user, where root chooses one.
const ORDINARY: u32 = 4711;

/// The file that a test leaves behind when it has come to its end.
const PLAYED: &str = "played";

/// Where a test takes place.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub directory: PathBuf,
    /// The host uid of the server, and of whoever tries the same without a sandbox.
    pub uid: u32,
}

impl Stage {
    /// A path on it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Gives a file to the server's uid.
    pub(super) fn give(&self, path: &Path) {
        if geteuid().is_root() {
            std::os::unix::fs::lchown(path, Some(self.uid), Some(self.uid)).unwrap();
        }
    }

    /// A program that runs as the server's uid, without a sandbox.
    pub(super) fn unconfined(&self, program: &str) -> std::process::Command {
        if !geteuid().is_root() {
            return command(program);
        }
        let mut changed = command("setpriv");
        changed.args([
            format!("--reuid={}", self.uid),
            format!("--regid={}", self.uid),
            "--clear-groups".to_owned(),
        ]);
        changed.arg(program);
        changed
    }
}

/// Runs `act` on a stage; `test` is the full name of the calling test.
pub(super) fn play<T: Future<Output = ()>>(test: &str, cast: Cast, act: impl FnOnce(Stage) -> T) {
    let Some(directory) = stage() else {
        return lift(test.strip_prefix("suite::").unwrap_or(test), cast);
    };
    let uid = match geteuid().is_root() {
        true => DEDICATED,
        false => geteuid().as_raw(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let played = directory.join(PLAYED);
    runtime.block_on(act(Stage { directory, uid }));
    std::fs::write(played, "").unwrap();
}

/// Starts this test again, on a stage.
fn lift(test: &str, cast: Cast) {
    let is_root = getuid().is_root();
    if cast == Cast::Root && !is_root {
        return not_here(&format!("{test}: it takes root to start a gateway as root"));
    }
    let directory = TempDir::new().unwrap();
    let uid = match (cast, is_root) {
        (Cast::Root, _) => 0,
        (Cast::Ordinary, true) => ORDINARY,
        (Cast::Ordinary, false) => getuid().as_raw(),
    };
    furnish(directory.path(), uid);
    let mut curtain = command("unshare");
    if !is_root {
        curtain.args(["--user", "--map-root-user"]);
    }
    curtain.args(["--net", "--mount", "--pid", "--ipc", "--uts"]);
    curtain.args(["--fork", "--kill-child", "--mount-proc", "sh"]);
    curtain.arg(directory.path().join("attacker/stage.sh"));
    curtain.arg(directory.path()).arg(uid.to_string());
    curtain.arg(portreeve()).arg(std::env::current_exe().unwrap()).arg(test);
    let status = curtain.status().unwrap();
    assert!(status.success(), "{test} as {cast:?} on its stage: {status}");
    // A name that nobody knows would be no test at all, and no failure.
    assert!(directory.path().join(PLAYED).exists(), "{test} was not played");
}

/// Makes what must be there before the namespaces are.
fn furnish(directory: &Path, uid: u32) {
    let attacker = directory.join("attacker");
    let etc = directory.join("etc");
    for made in [&attacker, &etc] {
        std::fs::create_dir(made).unwrap();
    }
    for entry in std::fs::read_dir(repository().join("tests/adversarial/sandbox")).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("py" | "sh" | "json")) {
            std::fs::copy(&path, attacker.join(path.file_name().unwrap())).unwrap();
        }
    }
    let digest = sha256(directory.display().to_string().as_bytes());
    let hex: Vec<char> = digest.chars().filter(char::is_ascii_hexdigit).collect();
    let part = |at: usize| hex.iter().skip(at).take(16).collect::<String>();
    let texts = format!("canary-{} welcome-{}\n", part(16), part(32));
    std::fs::write(directory.join("texts"), texts).unwrap();
    let made = command("mkfifo").arg(directory.join("go")).status().unwrap();
    assert!(made.success());
    std::fs::write(etc.join("hosts"), "127.0.0.1 localhost\n::1 localhost\n").unwrap();
    std::fs::write(
        etc.join("resolv.conf"),
        "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n",
    )
    .unwrap();
    std::fs::write(
        etc.join("nsswitch.conf"),
        "passwd: files\ngroup: files\nhosts: files dns\n",
    )
    .unwrap();
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    if getuid().is_root() {
        chown(directory, Some(uid), Some(uid)).unwrap();
    }
}

/// Declares tests that take place on a stage of their own.
macro_rules! on_stage {
    ($($(#[$attribute:meta])* fn $name:ident, $cast:ident, $act:expr;)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            $crate::adversarial::sandbox::stage::play(name, $crate::adversarial::sandbox::stage::Cast::$cast, $act);
        }
    )*};
}
pub(super) use on_stage;
