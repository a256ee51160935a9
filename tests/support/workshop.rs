//! A harness directory with scripted runtimes, and the shipped binary that runs them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::environment::{Finished, command, portreeve};
use super::left_behind::look_through;

/// `{"verdict": "ok" | "block", "note"?: string}` and nothing else.
pub(crate) const SCHEMA: &str = r#"{"$id":"https://harness.example/verdict.v1.json","type":"object",
"properties":{"verdict":{"enum":["ok","block"]},"note":{"type":"string"},"count":{"type":"integer"}},
"required":["verdict"],"additionalProperties":false}"#;

/// The output most scripts give.
pub(crate) const GOOD: &str = r#"{"verdict":"ok"}"#;

/// See the module.
pub(crate) struct Workshop {
    root: PathBuf,
    /// `None` beside a gateway, whose directory it is then.
    home: Option<TempDir>,
    toml: String,
    environment: Vec<(String, String)>,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub code: i32,
    pub stdout: String,
    /// The object on standard error.
    pub object: Value,
}

impl Outcome {
    /// The run's directory.
    pub(crate) fn directory(&self) -> PathBuf {
        PathBuf::from(self.object["directory"].as_str().expect("a run has a directory"))
    }

    /// The names of published files.
    pub(crate) fn published(&self) -> Vec<String> {
        names(&self.directory().join("validated"))
    }

    /// The run's name.
    pub(crate) fn run(&self) -> &str {
        self.object["run"].as_str().expect("a run has a name")
    }

    /// Nothing left the controlled area.
    pub(crate) fn emitted_nothing(&self) -> bool {
        self.stdout.is_empty() && self.published().is_empty()
    }
}

impl Workshop {
    /// A harness without agents.
    pub(crate) fn new() -> Self {
        let home = TempDir::new().unwrap();
        // Runtimes of another uid pass through it where they have no walls.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let workshop = Self::in_directory(home.path().to_path_buf(), Some(home));
        workshop.write(
            "portreeve.toml",
            "[state]\ndir = \"state\"\n[audit]\norigin = \"test/harness\"\n",
        );
        workshop
    }

    /// A harness beside the configuration of a gateway.
    pub(crate) fn beside(home: &super::setup::Home) -> Self {
        Self::in_directory(home.path(""), None)
    }

    fn in_directory(root: PathBuf, home: Option<TempDir>) -> Self {
        let workshop = Self {
            root,
            home,
            toml: "version = 1\n".to_owned(),
            environment: Vec::new(),
        };
        workshop.write("schemas/verdict.v1.json", SCHEMA);
        workshop.write("prompts/verdict.md", "Say what you think of it, as JSON.\n");
        workshop
    }

    /// One agent whose runtime is this script.
    pub(crate) fn of(script: &str) -> Self {
        Self::new().agent("judge", script, "")
    }

    /// Adds an agent with a script; `more` are further tables, with `AGENT` for its path.
    pub(crate) fn agent(mut self, name: &str, script: &str, more: &str) -> Self {
        let program = format!("agents/{name}.sh");
        self.write(&program, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.path(&program), fs::Permissions::from_mode(0o755)).unwrap();
        let table = format!("agents.{name}");
        self.toml.push_str(&format!(
            "\n[{table}]\ncommand = [\"{program}\"]\nprompt = \"prompts/verdict.md\"\n"
        ));
        let more = more.replace("AGENT", &table);
        if more.contains(&format!("[{table}.output]")) {
            let head = format!("[{table}.output]\n");
            let schema = "schema = \"schemas/verdict.v1.json\"\n";
            self.toml.push_str(&more.replace(&head, &format!("{head}{schema}")));
        } else {
            self.toml.push_str(&format!(
                "[{table}.output]\nschema = \"schemas/verdict.v1.json\"\n{more}"
            ));
        }
        self.toml.push('\n');
        self
    }

    /// Adds text to harness.toml.
    pub(crate) fn toml(mut self, text: &str) -> Self {
        self.toml.push_str(text);
        self
    }

    /// Adds an executable file.
    pub(crate) fn executable(self, path: &str, text: &str) -> Self {
        self.write(path, text);
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// Gives the harness a variable.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What will be written as harness.toml.
    pub(crate) fn written(&self) -> String {
        self.toml.clone()
    }

    /// Writes harness.toml and its lock.
    pub(crate) fn ready(self) -> Self {
        self.write("harness.toml", &self.toml);
        let locked = self.harness(&["lock"]);
        assert_eq!(locked.code, Some(0), "{}", locked.stderr);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What a file says, which must be there.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// `portreeve harness …` in the harness directory.
    pub(crate) fn harness(&self, arguments: &[&str]) -> Finished {
        Finished::of(&mut self.command(arguments))
    }

    /// The same, not yet started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(portreeve());
        command
            .current_dir(&self.root)
            .arg("harness")
            .args(arguments)
            .envs(self.environment.iter().cloned());
        command
    }

    /// The same, started.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs with `--json`.
    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        let mut all = arguments.to_vec();
        all.push("--json");
        let finished = self.harness(&all);
        let object = serde_json::from_str(&finished.stderr)
            .unwrap_or_else(|_| panic!("not one object on standard error:\n{}", finished.stderr));
        Outcome {
            code: finished.code.unwrap_or(-1),
            stdout: finished.stdout,
            object,
        }
    }

    /// Runs the agent `judge`.
    pub(crate) fn judge(&self) -> Outcome {
        self.run(&["run", "judge"])
    }

    /// Records of a type, oldest first.
    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        self.listed(&["--type", kind])
    }

    /// Records as `activity list` gives them, oldest first.
    pub(crate) fn listed(&self, options: &[&str]) -> Vec<Value> {
        let mut command = command(portreeve());
        command.current_dir(&self.root);
        command
            .args(["activity", "list", "--json", "--limit", "1000"])
            .args(options);
        let text = Finished::of(&mut command).success();
        let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        records.reverse();
        records
    }

    /// The classes of all attempts, oldest first.
    pub(crate) fn classes(&self) -> Vec<String> {
        let attempts = self.records("harness_attempt");
        attempts
            .iter()
            .map(|record| record["class"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if self.home.is_some() {
            look_through(&self.path("state"), &[]);
        }
    }
}

/// The names in a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl Workshop {
    /// Adds text right behind a line of harness.toml.
    pub(crate) fn insert(mut self, line: &str, text: &str) -> Self {
        self.toml = self.toml.replacen(line, &format!("{line}{text}"), 1);
        self
    }
}
