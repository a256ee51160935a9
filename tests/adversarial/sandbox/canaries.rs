//! What must stay out of reach: files, a process, shared memory. Each holds a text that is nowhere else.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Map, Value, json};

use super::stage::Stage;

/// The files and processes of one stage.
pub(super) struct Canaries {
    stage: Stage,
    text: String,
    shared: PathBuf,
    process: Child,
    limits: String,
    memory: Child,
    /// Names of what the host's processes share.
    names: Map<String, Value>,
}

impl Canaries {
    /// Sets them out.
    pub(super) fn set(stage: &Stage, text: &str) -> Self {
        for directory in ["outside", "open", "keys"] {
            std::fs::create_dir(stage.path(directory)).unwrap();
            stage.give(&stage.path(directory));
        }
        let workspace = stage.path("workspace");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::set_permissions(&workspace, PermissionsExt::from_mode(0o700)).unwrap();
        stage.give(&workspace);
        std::fs::set_permissions(stage.path("open"), PermissionsExt::from_mode(0o777)).unwrap();
        let (memory, names) = share(stage, text);
        let process = lure(stage, text);
        let canaries = Self {
            stage: stage.clone(),
            text: text.to_owned(),
            shared: PathBuf::from("/tmp").join(text.replace("canary", "host")),
            limits: limits_of(&process),
            process,
            memory,
            names,
        };
        canaries.put_back();
        canaries
    }

    /// What attempts are told of them.
    pub(super) fn given(&self) -> Map<String, Value> {
        let mut given = self.names.clone();
        let path = |name: &str| json!(self.stage.path(name));
        given.extend([
            ("secret".to_owned(), path("outside/secret")),
            ("directory".to_owned(), path("outside")),
            ("open_directory".to_owned(), path("open")),
            ("append".to_owned(), path("open/append")),
            ("delete".to_owned(), path("open/delete")),
            ("key_file".to_owned(), path("keys/id_ed25519")),
            ("planted".to_owned(), path("workspace/planted")),
            ("setuid_program".to_owned(), path("workspace/setuid-program")),
            (
                "shared_name".to_owned(),
                json!(self.shared.file_name().unwrap().to_str()),
            ),
            ("pid".to_owned(), json!(self.process.id())),
        ]);
        given
    }

    /// Makes good what an attempt without a sandbox did.
    pub(super) fn put_back(&self) {
        let _ = std::fs::remove_dir_all(self.stage.path("open"));
        std::fs::create_dir(self.stage.path("open")).unwrap();
        std::fs::set_permissions(self.stage.path("open"), PermissionsExt::from_mode(0o777)).unwrap();
        self.stage.give(&self.stage.path("open"));
        for path in self.files() {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, self.contents()).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
            self.stage.give(&path);
        }
        let planted = self.stage.path("workspace/planted");
        let _ = std::fs::remove_file(&planted);
        std::os::unix::fs::symlink(self.stage.path("outside/secret"), planted).unwrap();
        // Moved, because a copy would have neither its owner nor its bits.
        let program = self.stage.path("workspace/setuid-program");
        if !program.exists() {
            std::fs::rename(self.stage.path("setuid-program"), &program).unwrap();
        }
    }

    /// Whether this row needs a program of root's, and nobody here could make one.
    pub(super) fn lacks_a_program_of_root(&self, row: &str) -> bool {
        let program = self.stage.path("workspace/setuid-program");
        row == "U1" && std::fs::metadata(program).unwrap().uid() != 0
    }

    /// Sets out another process, for one that was killed.
    pub(super) fn revive(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.process = lure(&self.stage, &self.text);
        self.limits = limits_of(&self.process);
    }

    /// Fails unless everything is as it was set out.
    pub(super) fn must_be_untouched(&self, what: &str) {
        for path in self.files() {
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(found, self.contents(), "{what}: {} was changed", path.display());
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode, 0o666, "{what}: {} has another mode", path.display());
        }
        let mut names: Vec<String> = std::fs::read_dir(self.stage.path("open"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["append", "delete"], "{what}: something else lies outside");
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        let state = state.rsplit(')').next().unwrap_or_default().trim().chars().next();
        assert_eq!(state, Some('S'), "{what}: the process outside does not run");
        assert_eq!(limits_of(&self.process), self.limits, "{what}: its limits were changed");
    }

    fn files(&self) -> Vec<PathBuf> {
        let inside = ["outside/secret", "open/append", "open/delete", "keys/id_ed25519"];
        let mut files: Vec<PathBuf> = inside.map(|name| self.stage.path(name)).into();
        files.push(self.shared.clone());
        files
    }

    fn contents(&self) -> String {
        format!("this must stay here: {}\n", self.text)
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.shared);
        for child in [&mut self.process, &mut self.memory] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A process of the server's uid that waits, with the text in its environment and in its arguments.
fn lure(stage: &Stage, text: &str) -> Child {
    let mut waiting = stage.unconfined("sh");
    waiting.args(["-c", "echo; read end", text]).env("SECRET", text);
    waiting.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = waiting.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    child
}

fn limits_of(process: &Child) -> String {
    std::fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap_or_default()
}

/// What processes of a host share, made by another program.
fn share(stage: &Stage, text: &str) -> (Child, Map<String, Value>) {
    let mut sharing = stage.unconfined("/usr/bin/python3");
    sharing.arg(stage.path("attacker/canary.py")).arg(text);
    sharing.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = sharing.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    child.stdin.as_mut().unwrap().flush().unwrap();
    (child, serde_json::from_str(&line).unwrap())
}
