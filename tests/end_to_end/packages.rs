//! Servers added, shown and removed by command: the file keeps its owner's hand, packages are installed and locked, and
//! what differs from the lock is not started.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::environment::{self, Finished, command, portreeve};
use crate::support::setup::Home;
use crate::support::{Agent, Gateway, Issuer, Server, Setup, eventually, tool};

const MEMORY: &str = "npm:@modelcontextprotocol/server-memory@2026.8.31";
const TIME: &str = "pypi:mcp-server-time@2026.10.19";

const WRITTEN: &str = r#"# The gateway of the harbour.

[state]
dir = "state"   # beside this file

# Everything below was added by hand.

# Files, by the old quay.
[servers.files]
url   = "https://files.example/mcp"
"#;

/// `server` with these words; the configuration is named before them, because some end with a command.
fn server(home: &Home, words: &[&str]) -> Finished {
    let mut cli = command(portreeve());
    cli.current_dir(home.path("")).arg("--config").arg(home.config());
    Finished::of(cli.arg("server").args(words).envs(home.variables()))
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Whether a package could be installed; says so where no registry answers, and fails the test for any other reason.
pub(crate) fn is_added(added: &Finished) -> bool {
    if added.code == Some(0) {
        return true;
    }
    let signs = [
        "ENOTFOUND",
        "EAI_AGAIN",
        "ETIMEDOUT",
        "dns_failure",
        "upstream_connect_failed",
    ];
    let unreachable = signs.iter().any(|sign| added.stderr.contains(sign));
    assert!(unreachable && !environment::is_ci(), "{added:#?}");
    println!("SKIPPED: the registry cannot be reached: {}", added.stderr);
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn adding_and_removing_keeps_what_people_wrote() {
    let home = Setup::new().home();
    home.write_config(WRITTEN);
    let added = server(
        &home,
        &["add", "mail", "https://mail.example/mcp", "--trust", "verified"],
    );
    assert!(added.success().contains("mail is configured"));
    let command = ["add", "echo", "--json", "--", "cat", "-u"];
    let told: Value = serde_json::from_str(&server(&home, &command).success()).unwrap();
    let members = ["id", "reach", "package", "reloaded", "server"].map(|name| told[name].clone());
    assert_eq!(
        members,
        [json!("echo"), json!("cat -u"), json!(null), json!(false), json!(null)]
    );
    let now = text(&home.config());
    assert!(now.starts_with(WRITTEN), "{now}");
    assert!(
        now.contains("[servers.mail]\nurl = \"https://mail.example/mcp\"\ntrust = \"verified\"\n"),
        "{now}"
    );
    assert!(now.contains("[servers.echo]\ncommand = [\"cat\", \"-u\"]\n"), "{now}");
    let shown: Value = serde_json::from_str(&server(&home, &["show", "echo", "--json"]).success()).unwrap();
    let walls = (&shown["url"], &shown["sandbox"]["fs"], &shown["sandbox"]["net"]);
    assert_eq!(walls, (&json!("cat -u"), &json!("workspace_only"), &json!("block_all")));
    assert_eq!(server(&home, &["show", "nobody"]).code, Some(1));
    for id in ["echo", "mail"] {
        server(&home, &["remove", id]).success();
    }
    assert_eq!(text(&home.config()), WRITTEN);
    server(&home, &["remove", "files"]).success();
    let left = text(&home.config());
    assert!(left.contains("# The gateway") && left.contains("# Everything below") && left.contains("# beside"));
    assert!(!left.contains("old quay") && !left.contains("files.example"), "{left}");
    assert_eq!(server(&home, &["remove", "files"]).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_added_changes_nothing() {
    let home = Setup::new().home();
    home.write_config(WRITTEN);
    let cases: [(&[&str], i32, &str); 17] = [
        (&["add", "files", "https://a.example/"], 1, "already"),
        (&["add", "Files", "https://a.example/"], 2, "a-z"),
        (&["add", "a", "http://a.example/"], 2, "loopback"),
        (&["add", "a", "a.example"], 2, "absolute"),
        (&["add", "a", "npm:left-pad@latest"], 2, "exact version"),
        (&["add", "a", "npm:left-pad@^1.3.0"], 2, "exact version"),
        (&["add", "a", "npm:left-pad"], 2, "no version"),
        (&["add", "a", "npm:git+https://host/x@1.0.0"], 2, "not the name"),
        (&["add", "a", "pypi:thing@>=1.0"], 2, "exact version"),
        (&["add", "a", "pypi:./thing@1.0"], 2, "not the name"),
        (
            &["add", "a", "https://a.example/", "--trust", "friendly"],
            2,
            "verified",
        ),
        (&["add", "a", "https://a.example/", "--", "x"], 2, "--bin"),
        (&["add", "a", "--", "no-such-program"], 1, "was not found"),
        (&["add", "a"], 2, "required"),
        (
            &["add", "a", "npm:left-pad@1.3.0", "--python", "/usr/bin/python3"],
            2,
            "--python",
        ),
        (&["add", "a", "--node", "/usr/bin/node", "--", "cat"], 2, "--node"),
        (
            &["add", "a", "pypi:thing@1.0", "--python", "/nowhere/bin/python3"],
            1,
            "is not there",
        ),
    ];
    for (words, code, message) in cases {
        let refused = server(&home, words);
        assert_eq!(refused.code, Some(code), "{words:?}: {refused:#?}");
        assert!(refused.stderr.contains(message), "{words:?}: {}", refused.stderr);
        assert_eq!(text(&home.config()), WRITTEN, "{words:?}");
    }
    home.write_config("[state]\ndir = \"state\"\n[limits]\ntimeout = \"soon\"\nflavour = 1\n");
    let refused = server(&home, &["add", "a", "https://a.example/"]);
    assert_eq!(refused.code, Some(1));
    for fault in ["limits.timeout", "limits.flavour"] {
        assert!(refused.stderr.contains(fault), "{}", refused.stderr);
    }
    let left: Vec<_> = std::fs::read_dir(home.path("")).unwrap().flatten().collect();
    let names: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".portreeve")),
        "{names:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_gateway_takes_the_change_at_once() {
    let (issuer, mail) = (Issuer::start().await, Server::start(&[tool("send")]).await);
    let gateway = Setup::new().issuer(&issuer).start().await;
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    let added = server(&gateway.home, &["add", "mail", &mail.url(), "--trust", "internal"]);
    assert!(added.stderr.contains("running gateway"), "{added:?}");
    assert_eq!(agent.names().await, ["mail__send"]);
    server(&gateway.home, &["remove", "mail"]).success();
    assert!(agent.names().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_command_is_read_once() {
    let mail = Server::start(&[tool("send")]).await;
    let gateway = Setup::new().start().await;
    let reloads = || {
        let listed = gateway
            .home
            .cli(&["activity", "list", "--type", "admin", "--json", "--limit", "100"]);
        let listed = listed.success();
        listed.lines().filter(|line| line.contains("gateway.reload")).count()
    };
    server(&gateway.home, &["add", "mail", &mail.url()]).success();
    // Longer than the watch on the file waits for a change to settle.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(reloads(), 1);
    gateway
        .home
        .write_config(&format!("{}\n# by hand\n", text(&gateway.home.config())));
    eventually("an edit by hand is read", 10, async || reloads() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_to_do_is_said_when_a_server_is_added_and_by_check() {
    let mail = Server::start(&[tool("send"), tool("read")]).await;
    let only_files = "permit (principal, action, resource in Server::\"files\");";
    let mut gateway = Setup::new().policy(only_files).start().await;
    let added = server(&gateway.home, &["add", "mail", &mail.url()]).stderr;
    let approve = "2 of its 2 tools wait for approval: look with `portreeve tool list --server mail`, then `portreeve tool approve \
                   'mail/*'`";
    let policy = "no policy permits anything of it, so all is denied";
    for part in ["it answers: 2 tools", approve, policy, "resource in Server::\"mail\""] {
        assert!(added.contains(part), "{part}: {added}");
    }
    let explain = ["policy", "explain", "--sub", "ann", "--tool", "mail/send"];
    assert!(gateway.home.cli(&explain).stderr.contains("waits for approval"));
    let checked = gateway.home.cli(&["check"]);
    for part in ["2 of its 2 tools wait for approval", policy] {
        assert!(checked.stdout.contains(part), "{part}: {}", checked.stdout);
    }
    assert!(checked.stderr.contains("no warnings"), "{}", checked.stderr);
    let approved = gateway.home.cli(&["tool", "approve", "mail/*"]).success();
    assert!(
        approved.contains("mail/read is approved") && approved.contains("mail/send is approved"),
        "{approved}"
    );
    assert!(
        gateway
            .home
            .cli(&["tool", "approve", "mail/*"])
            .stderr
            .contains("nothing of mail waits")
    );
    assert_eq!(gateway.home.cli(&["tool", "approve", "post/*"]).code, Some(1));
    // The file has the server now, and the set-up of the test does not.
    let written = text(&gateway.home.config());
    gateway
        .home
        .rewrite(|setup| setup.policy("permit (principal, action, resource == Tool::\"mail/send\");"));
    gateway.home.write_config(&written);
    let checked = gateway.home.cli(&["check"]);
    assert_eq!(checked.stdout, "", "nothing is left to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_is_silent_about_what_server_add_wrote() {
    let home = Setup::new().home();
    server(&home, &["add", "echo", "--trust", "internal", "--", "cat", "-u"]).success();
    let checked = home.cli(&["check"]);
    assert!(
        checked.stderr.contains("no warnings") && !checked.stdout.contains("warning"),
        "{checked:?}"
    );
    assert!(
        checked.stdout.contains("its processes share its workspace"),
        "{checked:?}"
    );
    let explained = home.cli(&["policy", "explain", "--sub", "ann", "--tool", "echo/say", "--json"]);
    let explained: Value = serde_json::from_str(&explained.success()).unwrap();
    assert_eq!(explained["standing"], "undiscovered");
    assert_eq!(
        (&explained["decision"], &explained["policy_id"]),
        (&json!("allow"), &json!("permit-all"))
    );
    let nowhere = home.cli(&["policy", "explain", "--sub", "ann", "--tool", "nowhere/say"]);
    assert!(
        nowhere.stderr.contains("no server `nowhere` is configured"),
        "{nowhere:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_fails_keeps_its_log_and_one_survives_an_edit_meanwhile() {
    let home = Setup::new().home();
    let missing = server(&home, &["add", "none", "npm:@modelcontextprotocol/server-memory@0.0.0"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    let log = home.state().join("logs/install-none.log");
    assert!(
        missing.stderr.contains(&log.display().to_string()),
        "{}",
        missing.stderr
    );
    assert!(text(&log).contains("npm install"), "{}", text(&log));
    assert!(!home.state().join("packages/none").exists());
    let mut cli = command(portreeve());
    cli.current_dir(home.path("")).arg("--config").arg(home.config());
    let adding = cli
        .args(["server", "add", "memory", MEMORY])
        .stderr(std::process::Stdio::piped());
    let adding = adding.stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually("the installation runs", 60, async || {
        home.state().join("packages/memory").exists()
    })
    .await;
    home.write_config(&format!("# by hand\n{}", text(&home.config())));
    let output = adding.wait_with_output().unwrap();
    let added = Finished {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    if !is_added(&added) {
        return;
    }
    let now = text(&home.config());
    assert!(
        now.starts_with("# by hand\n") && now.contains("[servers.memory]"),
        "{now}"
    );
    assert!(!home.state().join("logs/install-memory.log").exists());
}

/// A gateway without servers, and somebody who may do everything.
async fn empty() -> (Gateway, Issuer) {
    let issuer = Issuer::start().await;
    let gateway = Setup::new().issuer(&issuer).start().await;
    (gateway, issuer)
}

async fn connected(gateway: &Gateway, issuer: &Issuer, id: &str, tool: &str) -> Agent {
    let agent = Agent::connect(gateway, &format!("/mcp/{id}"), &issuer.token("ann")).await;
    let known = agent.clone();
    eventually("the server was discovered", 60, async || {
        known.names().await.iter().any(|name| name == tool)
    })
    .await;
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_of_npm_is_installed_locked_and_runs_without_network() {
    // R146
    let (gateway, issuer) = empty().await;
    let home = &gateway.home;
    if !is_added(&server(home, &["add", "memory", MEMORY, "--trust", "internal"])) {
        return;
    }
    let lock: toml::Table = text(&home.path("servers.lock")).parse().unwrap();
    let entry = &lock["servers"]["memory"];
    assert_eq!(entry["version"].as_str(), Some("2026.8.31"));
    assert!(entry["digest"].as_str().unwrap().starts_with("sha512-"), "{entry}");
    assert!(entry["tree"].as_str().unwrap().starts_with("sha256:"), "{entry}");
    let agent = connected(&gateway, &issuer, "memory", "read_graph").await;
    let read = agent.call("read_graph", json!({})).await;
    assert_eq!(
        read.result()["structuredContent"],
        json!({"entities": [], "relations": []})
    );
    let receipt = gateway.receipt_of(&read);
    assert_eq!(receipt["sandbox"]["net_policy"], "block_all");
    assert_eq!(receipt["sandbox"]["fs_policy"], "workspace_only");
    refuses_what_is_not_locked(gateway).await;
}

/// Another tree than the locked one is a fault, at `check` and at the start.
async fn refuses_what_is_not_locked(gateway: Gateway) {
    let home = gateway.stop().await;
    assert_eq!(home.cli(&["check"]).code, Some(0));
    let installed = home.state().join("packages/memory/package-lock.json");
    let honest = text(&installed);
    std::fs::write(&installed, honest.replacen("\"version\": \"", "\"version\": \"9", 2)).unwrap();
    let differs = "servers.lock has @modelcontextprotocol/server-memory@2026.8.31";
    let refused = home.cli(&["check"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stdout.contains(differs), "{refused:?}");
    // The gateway starts, and this server does not.
    let gateway = home.serve().await;
    eventually("it is not started, and told why", 30, async || {
        let listed = gateway.home.cli(&["server", "list", "--json"]).success();
        let memory: Value = serde_json::from_str(&listed).unwrap();
        memory["reach"] == "down" && memory["reason"].as_str().is_some_and(|why| why.contains(differs))
    })
    .await;
    let home = gateway.stop().await;
    std::fs::write(&installed, honest).unwrap();
    let lock = home.path("servers.lock");
    let locked = text(&lock);
    std::fs::remove_file(&lock).unwrap();
    let refused = home.cli(&["check"]);
    assert!(refused.stdout.contains("not in servers.lock"), "{refused:?}");
    std::fs::write(&lock, locked.replace("sha512-", "sha512-0")).unwrap();
    assert!(home.cli(&["check"]).stdout.contains("its digest is"));
    // Removing is the way out, and takes the package along.
    server(&home, &["remove", "memory"]).success();
    assert!(!lock.exists() && !home.state().join("packages/memory").exists());
    assert_eq!(home.cli(&["check"]).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_of_pypi_is_installed_locked_and_runs_without_network() {
    // R146
    let (gateway, issuer) = empty().await;
    let words = ["add", "time", TIME, "--trust", "internal", "--", "--local-timezone=UTC"];
    if !is_added(&server(&gateway.home, &words)) {
        return;
    }
    let shown: Value = serde_json::from_str(&server(&gateway.home, &["show", "time", "--json"]).success()).unwrap();
    assert_eq!(shown["package"]["name"], "mcp-server-time");
    assert!(
        shown["package"]["digest"].as_str().unwrap().starts_with("sha256:"),
        "{shown}"
    );
    let agent = connected(&gateway, &issuer, "time", "get_current_time").await;
    let told = agent
        .call("get_current_time", json!({"timezone": "Europe/Vienna"}))
        .await;
    let answer = told.result()["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(answer.contains("Europe/Vienna"), "{answer}");
    assert_eq!(gateway.receipt_of(&told)["sandbox"]["net_policy"], "block_all");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_of_npm_runs_with_the_node_that_is_named() {
    // A Node below `/usr` would be seen anyway; its copy elsewhere is another one.
    let elsewhere = tempfile::TempDir::new().unwrap();
    let node = elsewhere.path().join("bin/node");
    std::fs::create_dir(node.parent().unwrap()).unwrap();
    let Some(own) = ["/usr/local/bin/node", "/usr/bin/node"]
        .iter()
        .find(|path| Path::new(path).exists())
    else {
        return environment::not_here("there is no node");
    };
    std::fs::copy(own, &node).unwrap();
    let (gateway, issuer) = empty().await;
    let words = [
        "add",
        "memory",
        MEMORY,
        "--trust",
        "internal",
        "--node",
        node.to_str().unwrap(),
    ];
    if !is_added(&server(&gateway.home, &words)) {
        return;
    }
    let written = text(&gateway.home.config());
    assert!(
        written.contains(&format!("command = [\"{}\", ", node.display())),
        "{written}"
    );
    let agent = connected(&gateway, &issuer, "memory", "read_graph").await;
    assert!(agent.call("read_graph", json!({})).await.result()["structuredContent"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_of_pypi_runs_with_the_python_that_is_named() {
    let elsewhere = tempfile::TempDir::new().unwrap();
    let prefix = elsewhere.path().canonicalize().unwrap();
    let own = Path::new("/usr/bin/python3").canonicalize();
    let Ok(own) = own else {
        return environment::not_here("there is no python3");
    };
    let python = prefix.join("bin").join(own.file_name().unwrap());
    for place in ["bin", "lib"] {
        std::fs::create_dir(prefix.join(place)).unwrap();
    }
    std::fs::copy(&own, &python).unwrap();
    let library = Path::new("lib").join(own.file_name().unwrap());
    std::os::unix::fs::symlink(Path::new("/usr").join(&library), prefix.join(&library)).unwrap();
    let (gateway, issuer) = empty().await;
    let words = [
        "add",
        "time",
        TIME,
        "--trust",
        "internal",
        "--python",
        python.to_str().unwrap(),
    ];
    if !is_added(&server(&gateway.home, &words)) {
        return;
    }
    let written = text(&gateway.home.config());
    assert!(written.contains(&format!("\"{}\"]", prefix.display())), "{written}");
    let linked = gateway
        .home
        .state()
        .join("packages/time/venv/bin/python")
        .canonicalize()
        .unwrap();
    assert_eq!(linked, python);
    connected(&gateway, &issuer, "time", "get_current_time").await;
}
