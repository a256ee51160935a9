//! Servers as they are published, over standard input and output, each in its sandbox without network.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{are_installed, modules};
use crate::support::environment::{self, Finished, command};
use crate::support::setup::Home;
use crate::support::{Agent, Gateway, Issuer, Setup, eventually};

/// One server, and one call to it.
pub(super) struct Case<'a> {
    command: Vec<String>,
    read: Vec<PathBuf>,
    env: Value,
    tool: &'a str,
    arguments: Value,
}

impl<'a> Case<'a> {
    /// A Node server: its script, then its arguments.
    pub(super) fn node(script: &str, arguments: &[&str]) -> Self {
        let script = modules().join("@modelcontextprotocol").join(script);
        let mut command = vec!["node".to_owned(), script.display().to_string()];
        command.extend(arguments.iter().map(|word| (*word).to_owned()));
        Self::of(command, vec![modules()])
    }

    /// A Python server: its script in the environment, run by the environment's interpreter.
    pub(super) fn python(script: &str, arguments: &[&str]) -> Self {
        let venv = environment::peers().join("venv");
        let bin = |name: &str| venv.join("bin").join(name).display().to_string();
        let mut command = vec![bin("python"), bin(script)];
        command.extend(arguments.iter().map(|word| (*word).to_owned()));
        // The interpreter of an environment may lie anywhere; what lies in /usr can be read anyway.
        let interpreter = venv.join("bin/python").canonicalize().unwrap_or_default();
        let prefix = interpreter.ancestors().nth(2).map(Path::to_owned);
        let prefix = prefix.filter(|prefix| !prefix.starts_with("/usr") && prefix.parent().is_some());
        Self::of(command, std::iter::once(venv.clone()).chain(prefix).collect())
    }

    fn of(command: Vec<String>, read: Vec<PathBuf>) -> Self {
        Self {
            command,
            read,
            env: json!({}),
            tool: "",
            arguments: json!({}),
        }
    }

    pub(super) fn env(self, env: Value) -> Self {
        Self { env, ..self }
    }

    fn call(self, tool: &'a str, arguments: Value) -> Self {
        Self {
            tool,
            arguments,
            ..self
        }
    }

    /// The program.
    pub(super) fn script(&self) -> PathBuf {
        PathBuf::from(&self.command[1])
    }

    /// What a configuration says of it.
    pub(super) fn entry(&self, trust: &str) -> Value {
        json!({"command": self.command, "trust": trust, "sandbox": {"read": self.read, "env": self.env}})
    }

    /// Makes the call through a gateway and gives its text; `None` where the server is not installed.
    async fn play(self, prepare: impl FnOnce(&Home)) -> Option<(String, Gateway)> {
        if !are_installed(&[&self.script()]) {
            return None;
        }
        let issuer = Issuer::start().await;
        let home = Setup::new()
            .issuer(&issuer)
            .set("servers.peer", self.entry("internal"))
            .home();
        prepare(&home);
        let gateway = home.serve().await;
        let agent = Agent::connect(&gateway, "/mcp/peer", &issuer.token("ann")).await;
        eventually("the server was discovered", 90, async || {
            agent.names().await.iter().any(|name| name == self.tool)
        })
        .await;
        let answer = agent.call(self.tool, self.arguments).await;
        let result = answer.result();
        assert_ne!(result["isError"], true, "{}\n{}", answer.text(), gateway.logs());
        let walls = gateway.receipt_of(&answer)["sandbox"].clone();
        assert_eq!(walls["fs_policy"], "workspace_only", "{walls}");
        assert_eq!(walls["net_policy"], "block_all", "{walls}");
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        Some((text, gateway))
    }
}

fn workspace(home: &Home) -> PathBuf {
    home.state().join("workspaces/peer")
}

#[tokio::test(flavor = "multi_thread")]
async fn server_filesystem_writes_into_its_workspace() {
    // R146
    let note = json!({"path": "note.txt", "content": "high water"});
    let case = Case::node("server-filesystem/dist/index.js", &["."]).call("write_file", note);
    let Some((_, gateway)) = case.play(|_| {}).await else {
        return;
    };
    let written = std::fs::read_to_string(workspace(&gateway.home).join("note.txt")).unwrap();
    assert_eq!(written, "high water");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_memory_remembers() {
    // R146
    let quay = json!({"entities": [{"name": "quay", "entityType": "place", "observations": ["old"]}]});
    let case = Case::node("server-memory/dist/index.js", &[]).call("create_entities", quay);
    // Its own place is beside its program, where nothing can be written.
    let case = case.env(json!({"MEMORY_FILE_PATH": "text:/tmp/memory.json"}));
    let Some((text, _gateway)) = case.play(|_| {}).await else {
        return;
    };
    assert!(text.contains("quay"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_everything_echoes() {
    // R146
    let case = Case::node("server-everything/dist/index.js", &["stdio"]);
    let case = case.call("echo", json!({"message": "ahoy"}));
    let Some((text, _gateway)) = case.play(|_| {}).await else {
        return;
    };
    assert_eq!(text, "Echo: ahoy");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_sequential_thinking_thinks() {
    // R146
    let thought = json!({"thought": "tide", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    let case = Case::node("server-sequential-thinking/dist/index.js", &[]).call("sequentialthinking", thought);
    let Some((text, _gateway)) = case.play(|_| {}).await else {
        return;
    };
    assert!(text.contains("\"thoughtNumber\": 1"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_server_time_knows_the_time() {
    // R146
    let case = Case::python("mcp-server-time", &["--local-timezone=UTC"]);
    let case = case.call("get_current_time", json!({"timezone": "Asia/Tokyo"}));
    let Some((text, _gateway)) = case.play(|_| {}).await else {
        return;
    };
    assert!(text.contains("Asia/Tokyo"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_server_git_reads_a_repository_in_its_workspace() {
    // R146
    let case = Case::python("mcp-server-git", &[]).call("git_status", json!({"repo_path": "."}));
    let Some((text, _gateway)) = case.play(repository_in).await else {
        return;
    };
    assert!(text.contains("cargo.txt"), "{text}");
}

/// A repository with a file that git does not know yet, owned by whom the server runs as.
pub(super) fn repository_in(home: &Home) {
    let at = workspace(home);
    std::fs::create_dir_all(&at).unwrap();
    Finished::of(command("/usr/bin/git").args(["init", "--quiet"]).arg(&at)).success();
    std::fs::write(at.join("cargo.txt"), "tea").unwrap();
    if rustix::process::geteuid().is_root() {
        Finished::of(command("chown").args(["-R", "65533:65533"]).arg(&at)).success();
    }
}

/// The question for its era has waited for it, and a process of this SDK that heard it takes no `initialize`.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_both_eras_that_is_slow_to_start_is_introduced_to_in_another_process() {
    let mut case = Case::python("mcp-server-time", &["--local-timezone=UTC"]);
    if !are_installed(&[&case.script()]) {
        return;
    }
    // The first of its processes is silent for longer than a server is waited for that may not know the question.
    let slow = r#"if mkdir slow; then sleep 11; fi; exec "$0" "$@""#;
    let command = ["sh", "-c", slow].map(str::to_owned).into_iter();
    case.command = command.chain(case.command).collect();
    let issuer = Issuer::start().await;
    let setup = Setup::new().issuer(&issuer).set("servers.peer", case.entry("internal"));
    let gateway = setup.start().await;
    let agent = Agent::connect(&gateway, "/mcp/peer", &issuer.token("ann")).await;
    eventually("the server was discovered", 90, async || {
        agent.names().await.iter().any(|name| name == "convert_time")
    })
    .await;
    let refused = gateway.logs().matches("refused `initialize`").count();
    assert_eq!(refused, 0, "{}", gateway.logs());
    assert!(workspace(&gateway.home).join("slow").is_dir(), "it was slow once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_walls_for_files_starts_in_its_own_workspace() {
    let script = modules().join("@modelcontextprotocol/server-memory/dist/index.js");
    if !are_installed(&[&script]) {
        return;
    }
    let issuer = Issuer::start().await;
    let sandbox = json!({"fs": "none", "env": {"MEMORY_FILE_PATH": "text:{workspace}/graph.jsonl"}});
    let entry = json!({"command": ["node", script], "trust": "internal", "sandbox": sandbox});
    let gateway = Setup::new().issuer(&issuer).set("servers.memory", entry).start().await;
    let agent = Agent::connect(&gateway, "/mcp/memory", &issuer.token("ann")).await;
    eventually("the server was discovered", 60, async || {
        agent.names().await.iter().any(|name| name == "create_entities")
    })
    .await;
    let harbour = json!({"entities": [{"name": "harbour", "entityType": "place", "observations": ["deep"]}]});
    let made = agent.call("create_entities", harbour).await;
    assert_eq!(gateway.receipt_of(&made)["sandbox"]["fs_policy"], "none");
    let kept = std::fs::read_to_string(gateway.home.state().join("workspaces/memory/graph.jsonl"));
    assert!(
        kept.as_ref().is_ok_and(|text| text.contains("harbour")),
        "{kept:?} {}",
        made.text()
    );
}
