//! Configuration: all faults at once, and reloads that take the whole new state or nothing.

use rustix::process::Signal;
use serde_json::json;

use crate::support::environment::{Finished, command, portreeve};
use crate::support::setup::PERMIT_ALL;
use crate::support::{Agent, Issuer, Server, Setup, Town, eventually, tool};

#[tokio::test(flavor = "multi_thread")]
async fn five_mistakes_are_five_faults_with_their_lines() {
    // R101, R103
    let home = Setup::new().home();
    home.write_config(
        r#"[listen]
mcp = "127.0.0.1:0"
admin = "not an address"
[state]
dir = "state"
[limits]
timeout = "soon"
[servers.files]
url = "http://files.example/mcp"
trust = "friendly"
flavour = "vanilla"
"#,
    );
    let checked = home.cli(&["check"]);
    assert_eq!(checked.code, Some(1));
    let text = format!("{}{}", checked.stdout, checked.stderr);
    let faults: Vec<_> = text.lines().filter(|line| line.contains("portreeve.toml:")).collect();
    assert_eq!(faults.len(), 5, "{text}");
    for (line, word) in [
        (3, "listen.admin"),
        (7, "limits.timeout"),
        (9, "https"),
        (10, "friendly"),
        (11, "flavour"),
    ] {
        assert!(
            faults
                .iter()
                .any(|fault| fault.contains(&format!("portreeve.toml:{line}"))),
            "line {line}: {text}"
        );
        assert!(text.contains(word), "{word}: {text}");
    }
    let served = home.cli(&["serve"]);
    assert_eq!(served.code, Some(1));
    assert_eq!(
        served
            .stderr
            .lines()
            .filter(|line| line.contains("portreeve.toml:"))
            .count(),
        5,
        "{}",
        served.stderr
    );
    assert!(!home.state().exists(), "check and a failed start leave nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_a_reference_never_a_literal() {
    // R103
    let with = |credential: serde_json::Value| {
        Setup::new()
            .set("servers.files.url", "https://files.example/mcp")
            .set("servers.files.credential", credential)
            .variable("TOKEN", "x")
    };
    let checked = with(json!({"secret": "hunter2hunter2"})).home().cli(&["check"]);
    assert_eq!(checked.code, Some(1));
    assert!(
        !format!("{}{}", checked.stdout, checked.stderr).contains("hunter2"),
        "the fault does not repeat it"
    );
    assert_eq!(
        with(json!({"secret": "env:TOKEN"})).home().cli(&["check"]).code,
        Some(0)
    );
    assert_eq!(with(json!("none")).home().cli(&["check"]).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_usage_error_is_2_and_a_missing_configuration_is_1() {
    // R103
    let run = |arguments: &[&str]| Finished::of(command(portreeve()).args(arguments)).code;
    assert_eq!(run(&["no-such-command"]), Some(2));
    assert_eq!(run(&["activity", "list", "--no-such-flag"]), Some(2));
    assert_eq!(run(&["check", "--config", "/nonexistent/portreeve.toml"]), Some(1));
    assert_eq!(run(&["--version"]), Some(0));
    assert_eq!(run(&["--help"]), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_gateway_on_the_same_state_is_refused() {
    let town = Town::with(&["read"], |setup| setup).await;
    let second = town.gateway.home.cli(&["serve"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    assert_eq!(town.agent("ann").await.names().await, ["read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reloads_servers_and_policies_for_live_sessions() {
    // R115
    let mut town = Town::with(&["read"], |setup| setup.policy("")).await;
    let mail = Server::start(&[tool("send")]).await;
    let agent = Agent::connect(&town.gateway, "/mcp", &town.issuer.token("ann")).await;
    assert!(agent.names().await.is_empty());
    town.gateway
        .home
        .rewrite(|setup| setup.policy(PERMIT_ALL).server("mail", &mail));
    town.gateway.signal(Signal::HUP);
    eventually("the new server is there", 15, async || {
        agent.names().await == ["files__read", "mail__send"]
    })
    .await;
    assert_eq!(agent.call("mail__send", json!({})).await.result()["isError"], false);
    town.gateway.home.rewrite(|setup| setup.unset("servers.mail"));
    town.gateway.signal(Signal::HUP);
    eventually("the server is gone", 15, async || {
        agent.names().await == ["files__read"]
    })
    .await;
    assert_eq!(agent.call("mail__send", json!({})).await.error_code(), -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_reloads_by_itself() {
    // R115
    let mut town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, ["read"]);
    std::fs::write(town.gateway.home.path("policies/main.cedar"), "").unwrap();
    eventually("the policies are gone", 15, async || agent.names().await.is_empty()).await;
    town.gateway.home.rewrite(|setup| setup.set("limits.timeout", "30s"));
    eventually("they are back with the configuration", 15, async || {
        agent.names().await == ["read"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_fails_changes_nothing() {
    // R119
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let good = std::fs::read_to_string(town.gateway.home.config()).unwrap();
    for broken in [
        "[listen\n".to_owned(),
        good.replace("internal", "friendly"),
        format!("{good}\n[nonsense]\n"),
    ] {
        town.gateway.home.write_config(&broken);
        town.gateway.signal(Signal::HUP);
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        assert_eq!(agent.names().await, ["read"], "{broken}");
    }
    town.gateway.home.write_config(&good);
    std::fs::write(town.gateway.home.path("policies/main.cedar"), "permit (nonsense").unwrap();
    town.gateway.signal(Signal::HUP);
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    assert_eq!(agent.call("read", json!({})).await.result()["isError"], false);
    std::fs::write(town.gateway.home.path("policies/main.cedar"), "").unwrap();
    eventually("a good one is taken again", 15, async || agent.names().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn relative_paths_belong_to_the_configuration() {
    // R119
    let (issuer, files) = (Issuer::start().await, Server::start(&[tool("read")]).await);
    let home = Setup::with(&issuer, &files).home();
    let elsewhere = tempfile::TempDir::new().unwrap();
    let checked = Finished::of(
        command(portreeve())
            .current_dir(elsewhere.path())
            .arg("check")
            .arg("--config")
            .arg(home.config()),
    );
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let gateway = home.serve().await;
    assert!(gateway.home.state().join("admin.token").exists());
}
