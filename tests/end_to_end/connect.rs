//! `portreeve connect`: clients that only spawn commands, through a real gateway.

mod eras;
mod failures;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::environment::command;
use crate::support::server::Act;
use crate::support::{Front, Gateway, Town};

/// The front of this gateway, with a token of `sub`.
fn front_of(town: &Town, arguments: &[&str]) -> Front {
    let mut front = Front::command();
    front.args(arguments).arg("--config").arg(town.gateway.home.config());
    Front::start(front.env("PORTREEVE_TOKEN", town.issuer.token("ann")))
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("no tools: {answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {answer}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_and_called_on_both_routes_with_and_without_tls() {
    for tls in ["auto", "off"] {
        let town = Town::with(&["read"], |setup| setup.set("listen.tls.mode", tls)).await;
        for (arguments, tool) in [(vec![], "files__read"), (vec!["--server", "files"], "read")] {
            let mut front = front_of(&town, &arguments);
            assert_eq!(front.open().await["result"]["serverInfo"]["name"], "portreeve");
            assert_eq!(names(&front.exchange(1, "tools/list", json!({})).await), [tool]);
            let called = front
                .exchange("b", "tools/call", json!({"name": tool, "arguments": {}}))
                .await;
            assert_eq!(text_of(&called), "read ran");
            let left = front.leave().await;
            assert_eq!((left.code, left.lines.len()), (Some(0), 0), "{left:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_is_found_by_its_url_and_its_ca() {
    let town = Town::with(&["read"], |setup| setup.unset("listen.tls")).await;
    let start = |ca: Option<&str>| {
        let mut front = Front::command();
        front
            .current_dir("/")
            .env("PORTREEVE_URL", town.gateway.ready["mcp"].as_str().unwrap())
            .env("PORTREEVE_TOKEN", town.issuer.token("ann"));
        Front::start(ca.iter().fold(&mut front, |front, ca| front.env("PORTREEVE_CA", ca)))
    };
    let mut front = start(town.gateway.ready["ca"].as_str());
    front.open().await;
    assert_eq!(
        names(&front.exchange(1, "tools/list", json!({})).await),
        ["files__read"]
    );
    // Without the CA the platform's roots count, and none of them has signed this certificate.
    let mut front = start(None);
    let refused = front.exchange(1, "tools/list", json!({})).await;
    assert_eq!(refused["error"]["code"], -32603);
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("certificate"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_may_be_said_at_once_and_is_answered_before_the_end() {
    let town = Town::with(&["read", "slow"], |setup| setup).await;
    town.files.on("slow", Act::Wait(Duration::from_secs(1)));
    let mut front = front_of(&town, &["--server", "files"]);
    front.ask("open", "initialize", crate::support::agent::initialize());
    front.tell("notifications/initialized", json!({}));
    front.ask(1, "tools/call", json!({"name": "slow", "arguments": {}}));
    front.ask(2, "tools/call", json!({"name": "read", "arguments": {}}));
    let left = front.leave().await;
    assert_eq!(left.code, Some(0), "{left:?}");
    let answers: Vec<Value> = left
        .lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(
        ids,
        [json!("open"), json!(2), json!(1)],
        "the slow call holds nothing up"
    );
    assert_eq!((text_of(&answers[1]), text_of(&answers[2])), ("read ran", "fine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_was_started_anew_is_found_and_the_session_opened_again() {
    let town = Town::with(&["read"], |setup| setup).await;
    let mut front = front_of(&town, &["--server", "files"]);
    front.open().await;
    assert_eq!(names(&front.exchange(1, "tools/list", json!({})).await), ["read"]);
    let town = town.restarted().await;
    let called = front
        .exchange(2, "tools/call", json!({"name": "read", "arguments": {}}))
        .await;
    assert_eq!(text_of(&called), "read ran");
    // Down when the request comes, up a moment later.
    let home = town.gateway.stop().await;
    front.ask(3, "tools/call", json!({"name": "read", "arguments": {}}));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let _gateway: Gateway = home.serve().await;
    assert_eq!(text_of(&front.hear().await), "read ran");
    let left = front.leave().await;
    assert_eq!((left.code, left.lines.len()), (Some(0), 0), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_file_wins_and_is_read_again_when_its_token_is_refused() {
    let town = Town::with(&["read"], |setup| setup).await;
    let home = &town.gateway.home;
    let token = || home.agent_token(&["--sub", "bot"]);
    let first = token();
    let file = home.path("token");
    std::fs::write(&file, format!("{}\n", first["token"].as_str().unwrap())).unwrap();
    let mut command = Front::command();
    command
        .arg("--config")
        .arg(home.config())
        .arg("--token-file")
        .arg(&file);
    let mut front = Front::start(command.env("PORTREEVE_TOKEN", "ptr_agt_wrong"));
    front.open().await;
    assert_eq!(
        names(&front.exchange(1, "tools/list", json!({})).await),
        ["files__read"]
    );
    home.cli(&["token", "revoke", first["id"].as_str().unwrap()]).success();
    let refused = front.exchange(2, "tools/list", json!({})).await;
    assert!(refused["error"]["code"].is_number(), "{refused}");
    std::fs::write(&file, token()["token"].as_str().unwrap()).unwrap();
    assert_eq!(
        names(&front.exchange(3, "tools/list", json!({})).await),
        ["files__read"]
    );
    let left = front.leave().await;
    assert_eq!(left.code, Some(0));
    assert!(!left.stderr.contains("ptr_agt_"), "{}", left.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_an_answer_and_a_missing_one_a_wrong_call() {
    let town = Town::with(&["read"], |setup| setup).await;
    let config = town.gateway.home.config();
    let mut bad = Front::command();
    let mut front = Front::start(bad.arg("--config").arg(&config).env("PORTREEVE_TOKEN", "ptr_agt_wrong"));
    let refused = front
        .exchange("open", "initialize", crate::support::agent::initialize())
        .await;
    assert!(refused["error"]["message"].is_string(), "{refused}");
    let left = front.leave().await;
    assert_eq!(left.code, Some(0));
    assert!(
        left.stderr.contains("401") && !left.stderr.contains("ptr_agt_wrong"),
        "{}",
        left.stderr
    );
    for (arguments, says) in [
        (vec![], "PORTREEVE_TOKEN"),
        (vec!["--token-file", "/no/such/token"], "/no/such/token"),
        (vec!["--server", "No_Such"], "--server"),
    ] {
        let mut none = Front::command();
        let left = Front::start(none.args(arguments).arg("--config").arg(&config))
            .leave()
            .await;
        assert_eq!((left.code, left.lines.len()), (Some(2), 0), "{left:?}");
        assert!(left.stderr.contains(says), "{}", left.stderr);
    }
}

#[test]
fn the_command_is_in_the_help() {
    let help =
        crate::support::environment::Finished::of(command(crate::support::environment::portreeve()).arg("--help"));
    assert!(help.success().contains("connect"));
}
