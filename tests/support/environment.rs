//! The only place where the tests look at their environment and start processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The shipped binary: `PORTREEVE_BIN`, else the one built into the same target directory.
pub(crate) fn portreeve() -> PathBuf {
    if let Some(path) = variable("PORTREEVE_BIN") {
        return PathBuf::from(path);
    }
    built("portreeve")
}

/// A program of this workspace, built into the same target directory.
pub(crate) fn built(name: &str) -> PathBuf {
    let beside = target().join(name);
    assert!(
        beside.exists(),
        "{} is missing: `make test` builds it before the tests",
        beside.display()
    );
    beside
}

/// The profile's directory, `target/debug`.
pub(crate) fn target() -> PathBuf {
    let here = std::env::current_exe().expect("a running test has a path");
    here.ancestors()
        .nth(2)
        .expect("tests lie in target/<profile>/deps")
        .to_owned()
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a member of the workspace")
        .to_owned()
}

/// Where `make test` puts the clients and servers of other people.
pub(crate) fn peers() -> PathBuf {
    variable("PORTREEVE_PEERS").map_or_else(|| repository().join("target/peers"), PathBuf::from)
}

/// Whether whatever is missing is a failure.
pub(crate) fn is_ci() -> bool {
    variable("CI").is_some_and(|value| value == "true")
}

/// Says why a test cannot take place here. Where everything must be there, that is a failure.
pub(crate) fn not_here(why: &str) {
    assert!(!is_ci(), "{why}");
    println!("SKIPPED: {why}");
}

/// Whether pages that are made from the tree are written instead of compared.
pub(crate) fn writes_pages() -> bool {
    variable("PORTREEVE_WRITE_PAGES").is_some()
}

/// The directory of the stage this process was put on, if it was.
pub(crate) fn stage() -> Option<PathBuf> {
    variable("PORTREEVE_STAGE").map(PathBuf::from)
}

#[expect(clippy::disallowed_methods, reason = "the tests are configured by their caller")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests start the shipped binary and other people's programs"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .env("NO_COLOR", "1")
        .env_remove("PORTREEVE_ADMIN_TOKEN")
        .env_remove("PORTREEVE_CONFIG");
    command
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// Runs a program to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the program starts");
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What it printed, if it ended well.
    pub(crate) fn success(self) -> String {
        assert_eq!(self.code, Some(0), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self.stdout
    }
}
