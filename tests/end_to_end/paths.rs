//! Paths among arguments: what leads out of the workspace is refused before the server hears of it, whoever calls.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::environment::repository;
use crate::support::issuer::{but, claims};
use crate::support::{Agent, Answer, Gateway, Issuer, Setup, eventually};

/// A shelf in a workspace of its own, beside something that is none of its business.
struct Scene {
    gateway: Gateway,
    issuer: Issuer,
    place: TempDir,
}

impl Scene {
    async fn set(change: impl FnOnce(Setup) -> Setup) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let root = place.path().canonicalize().unwrap();
        for directory in ["workspace/notes", "outside", "data"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        std::fs::set_permissions(root.join("workspace"), std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::write(root.join("workspace/notes/a.txt"), "within").unwrap();
        std::fs::write(root.join("outside/secret.txt"), "hunter2").unwrap();
        std::fs::write(root.join("data/table.csv"), "shown").unwrap();
        let issuer = Issuer::start().await;
        let home = repository().join("tests/end_to_end/paths");
        let shelf = json!({
            "command": ["/usr/bin/python3", home.join("shelf.py")],
            "trust": "internal",
            "isolation": "shared",
            "sandbox": {"workspace": root.join("workspace"), "read": [home, root.join("data")]},
            "tools": {"copy": {"paths": ["/source", "/moves/*/to"]}, "request": {"detect_paths": false}},
        });
        let setup = Setup::new().issuer(&issuer).set("servers.shelf", shelf);
        let gateway = change(setup).start().await;
        Self { gateway, issuer, place }
    }

    fn root(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap()
    }

    fn workspace(&self) -> PathBuf {
        self.root().join("workspace")
    }

    async fn agent(&self, token: &str) -> Agent {
        let agent = Agent::connect(&self.gateway, "/mcp/shelf", token).await;
        eventually("the shelf is listed", 60, async || agent.names().await.len() == 6).await;
        agent
    }

    /// Somebody, and somebody who may do everything.
    async fn everybody(&self) -> [Agent; 2] {
        let admin = but(claims("root"), json!({"groups": ["admin"]}));
        [
            self.agent(&self.issuer.token("ann")).await,
            self.agent(&self.issuer.sign(&admin)).await,
        ]
    }
}

/// The text of a result that is no error.
async fn told(agent: &Agent, tool: &str, arguments: Value) -> String {
    let answer = agent.call(tool, arguments).await;
    let result = answer.result();
    assert_ne!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// How often the server was told anything.
async fn count(agent: &Agent) -> String {
    told(agent, "count", json!({})).await
}

/// Checks the shape of a refusal by preflight and gives its text.
pub(super) fn refused(answer: &Answer, code: &str) -> String {
    let result = answer.result();
    assert_eq!((answer.status, &result["isError"]), (200, &json!(true)), "{result}");
    assert_eq!(answer.reason_codes(), [code], "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Checks that all refusals with this code are on record, as refusals of preflight that reached nobody.
pub(super) fn recorded(gateway: &Gateway, code: &str, count: usize) {
    let receipts = gateway.receipts_after(0);
    let refused = receipts
        .iter()
        .filter(|receipt| receipt["decision"]["reason_codes"] == json!([code]));
    let mut found = 0;
    for receipt in refused {
        assert_eq!(receipt["decision"]["policy_id"], "builtin:preflight");
        assert_eq!(receipt["decision"]["result"], "deny");
        assert_eq!(receipt["outcome"]["executed"], false);
        found += 1;
    }
    assert_eq!(found, count, "{code}");
}

/// What leads out by its text; `{workspace}` becomes the workspace's path.
const CORPUS: &[&str] = &[
    "..",
    "../outside/secret.txt",
    "notes/../../outside/secret.txt",
    "notes/..",
    "{workspace}/../outside/secret.txt",
    "....//....//outside/secret.txt",
    "..;/outside",
    ".. /outside",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "{workspace}2/x",
    "/proc/self/root/etc/passwd",
    "%2e%2e%2foutside%2fsecret.txt",
    "%2e%2e/outside/secret.txt",
    "..%2foutside",
    "%252e%252e%252foutside",
    "..%c0%afoutside",
    "%u002e%u002e%u2215outside",
    "\u{ff0e}\u{ff0e}/outside",
    "\u{2025}/outside",
    "..\u{2215}outside",
    "..\u{ff0f}outside",
    ".\u{200b}./outside",
    "..\\outside\\secret.txt",
    "notes\\a.txt",
    "C:\\Windows\\win.ini",
    "C:/Windows/win.ini",
    "\\\\host\\share",
    "notes/a.txt\0.png",
    "notes\n/a.txt",
    "~",
    "~/.ssh/id_rsa",
    "~root/.ssh/id_rsa",
    "file:///etc/passwd",
    "FILE:/etc/passwd",
    "https://evil.test/x",
    " /etc/passwd",
    "\"/etc/passwd\"",
    "\"../outside/secret.txt\"",
    "link/secret.txt",
    "absolute",
    "chain/secret.txt",
    "link/new/deeper.txt",
    "dangling",
    "proc/self/environ",
];

fn links(workspace: &Path) {
    let link = |name: &str, target: &str| symlink(target, workspace.join(name)).unwrap();
    link("link", "../outside");
    link("absolute", &workspace.with_file_name("outside").display().to_string());
    link("chain", "link");
    link("dangling", "../outside/new");
    link("proc", "/proc");
    link("inner", "notes");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leads_out_of_the_workspace_is_refused_and_never_sent() {
    // R141, R143, R144
    let scene = Scene::set(|setup| setup).await;
    links(&scene.workspace());
    let workspace = scene.workspace().display().to_string();
    for agent in scene.everybody().await {
        for text in CORPUS {
            let path = text.replace("{workspace}", &workspace);
            for (tool, arguments, field) in [
                ("read", json!({"path": path}), "/path"),
                ("read_all", json!({"paths": ["notes/a.txt", path]}), "/paths/1"),
                (
                    "read_all",
                    json!({"edits": [{"filePath": path, "text": "../.."}]}),
                    "/edits/0/filePath",
                ),
                ("copy", json!({"source": path}), "/source"),
                ("copy", json!({"source": ".", "moves": [{"to": path}]}), "/moves/0/to"),
            ] {
                let answer = agent.call(tool, arguments).await;
                let told = refused(&answer, "DENY_PATH_TRAVERSAL");
                assert!(told.contains(&format!("the path in {field} ")), "{text:?}: {told}");
                assert!(told.contains(&format!("inside the workspace {workspace}")), "{told}");
                assert!(
                    !told.contains("secret.txt") && !told.contains("passwd"),
                    "it quotes nothing: {told}"
                );
            }
        }
        for value in [json!(null), json!(7), json!(["a"]), json!({"a": "b"})] {
            let answer = agent.call("copy", json!({"source": value})).await;
            refused(&answer, "DENY_SCHEMA_VIOLATION");
        }
        assert_eq!(count(&agent).await, "0");
    }
    recorded(&scene.gateway, "DENY_PATH_TRAVERSAL", 2 * 5 * CORPUS.len());
    recorded(&scene.gateway, "DENY_SCHEMA_VIOLATION", 2 * 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_inside_passes_however_it_is_named() {
    let scene = Scene::set(|setup| setup).await;
    links(&scene.workspace());
    let [agent, _] = scene.everybody().await;
    let inside = |name: &str| scene.workspace().join(name).display().to_string();
    for path in [
        "notes/a.txt".to_owned(),
        "./notes//a.txt".to_owned(),
        "inner/a.txt".to_owned(),
        inside("notes/a.txt"),
        inside("./notes/a.txt"),
    ] {
        assert_eq!(told(&agent, "read", json!({"path": path})).await, "within", "{path}");
    }
    let data = scene.root().join("data/table.csv");
    assert_eq!(
        told(&agent, "read", json!({"path": data})).await,
        "shown",
        "the operator shows it"
    );
    for path in [
        "",
        ".",
        "new.txt",
        "new/deeper/still.txt",
        "notes/",
        "Übersicht.md",
        "100%.txt",
        "./...",
    ] {
        told(&agent, "copy", json!({"source": path, "moves": [{"to": path}]})).await;
    }
    told(&agent, "request", json!({"path": "/v1/users/../42"})).await;
    let sent = told(&agent, "count", json!({})).await;
    assert_eq!(sent, "15");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_swapped_during_the_call_leads_nowhere() {
    let scene = Scene::set(|setup| setup).await;
    let [agent, _] = scene.everybody().await;
    let workspace = scene.workspace();
    symlink("notes", workspace.join("swapped")).unwrap();
    let arguments = json!({"path": "swapped/a.txt", "wait": true});
    let swap = async {
        eventually("the call is under way", 30, async || workspace.join("waiting").exists()).await;
        std::fs::remove_file(workspace.join("swapped")).unwrap();
        symlink(scene.root().join("outside"), workspace.join("swapped")).unwrap();
        std::fs::write(workspace.join("go"), "").unwrap();
    };
    let (text, ()) = tokio::join!(told(&agent, "read", arguments), swap);
    assert_eq!(
        text, "failed: FileNotFoundError",
        "the sandbox shows no more than the workspace"
    );
    let answer = agent.call("read", json!({"path": "swapped/a.txt"})).await;
    refused(&answer, "DENY_PATH_TRAVERSAL");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_is_swapped_for_a_link_during_the_call_shows_nothing_else() {
    // R144
    let scene = Scene::set(|setup| setup).await;
    let [agent, _] = scene.everybody().await;
    let (workspace, moved) = (scene.workspace(), scene.root().join("moved"));
    std::fs::create_dir(scene.root().join("outside/notes")).unwrap();
    std::fs::write(scene.root().join("outside/notes/a.txt"), "hunter2").unwrap();
    let arguments = json!({"path": "notes/a.txt", "wait": true});
    let swap = async {
        eventually("the call is under way", 30, async || workspace.join("waiting").exists()).await;
        std::fs::rename(&workspace, &moved).unwrap();
        symlink(scene.root().join("outside"), &workspace).unwrap();
        std::fs::write(moved.join("go"), "").unwrap();
    };
    let (text, ()) = tokio::join!(told(&agent, "read", arguments), swap);
    assert_eq!(text, "within", "the process has the directory that it was given");
    let answer = agent.call("read", json!({"path": "notes/a.txt"})).await;
    assert_eq!(answer.reason_codes(), ["DENY_SANDBOX_UNAVAILABLE"], "{}", answer.text());
    assert_eq!(count(&agent).await, "1");
    std::fs::remove_file(&workspace).unwrap();
    std::fs::rename(&moved, &workspace).unwrap();
    assert_eq!(told(&agent, "read", json!({"path": "notes/a.txt"})).await, "within");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_is_gone_or_a_link_ends_every_call_with_a_path() {
    // R144
    let scene = Scene::set(|setup| setup).await;
    let [agent, _] = scene.everybody().await;
    told(&agent, "read", json!({"path": "notes/a.txt"})).await;
    let (workspace, moved) = (scene.workspace(), scene.root().join("moved"));
    std::fs::rename(&workspace, &moved).unwrap();
    let unavailable = async || {
        let answer = agent.call("read", json!({"path": "notes/a.txt"})).await;
        assert_eq!(answer.error_code(), -32603, "{}", answer.text());
        assert_eq!(answer.reason_codes(), ["DENY_SANDBOX_UNAVAILABLE"]);
        assert_eq!(scene.gateway.receipt_named_by(&answer)["outcome"]["executed"], false);
    };
    unavailable().await;
    symlink(&moved, &workspace).unwrap();
    unavailable().await;
    assert_eq!(count(&agent).await, "1");
    std::fs::remove_file(&workspace).unwrap();
    std::fs::rename(&moved, &workspace).unwrap();
    told(&agent, "read", json!({"path": "notes/a.txt"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_workspace_for_each_principal_nobody_names_anothers() {
    // R143
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let pattern = place.path().canonicalize().unwrap().join("{principal}");
    let scene = Scene::set(|setup| {
        setup
            .set("servers.shelf.isolation", "per_principal")
            .set("servers.shelf.sandbox.workspace", &pattern)
    })
    .await;
    let [ann, root] = scene.everybody().await;
    // Nobody's is there before their first call.
    told(&ann, "copy", json!({"source": "new.txt"})).await;
    told(&root, "copy", json!({"source": "new.txt"})).await;
    let refusal = ann.call("read", json!({"path": "/etc/passwd"})).await;
    let text = refused(&refusal, "DENY_PATH_TRAVERSAL");
    let anns = text
        .split("inside the workspace ")
        .nth(1)
        .unwrap()
        .split([',', ':'])
        .next()
        .unwrap()
        .to_owned();
    std::fs::write(Path::new(&anns).join("a.txt"), "ann's").unwrap();
    let mine = json!({"path": format!("{anns}/a.txt")});
    assert_eq!(told(&ann, "read", mine.clone()).await, "ann's");
    refused(&root.call("read", mine).await, "DENY_PATH_TRAVERSAL");
    std::fs::remove_dir_all(&anns).unwrap();
    let gone = ann.call("read", json!({"path": "a.txt"})).await;
    assert_eq!(
        gone.reason_codes(),
        ["DENY_SANDBOX_UNAVAILABLE"],
        "its process works there"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_which_fields_are_paths() {
    let mut scene = Scene::set(|setup| setup).await;
    let [agent, _] = scene.everybody().await;
    refused(
        &agent.call("read", json!({"path": "/v1/users"})).await,
        "DENY_PATH_TRAVERSAL",
    );
    scene
        .gateway
        .home
        .rewrite(|setup| setup.set("servers.shelf.tools.read.detect_paths", false));
    eventually("the new configuration holds", 30, async || {
        agent.call("read", json!({"path": "/v1/users"})).await.result()["isError"] != true
    })
    .await;
}
