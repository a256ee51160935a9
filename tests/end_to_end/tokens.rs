//! Agent tokens: made by the command line, shown once, bounded by time and by server, revoked at once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::agent::initialize_body;
use crate::support::{Agent, Ask, Issuer, Server, Setup, Town, tool};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_token_opens_the_gate_for_the_agent_it_names() {
    // R108, R166, R167, R168, R169
    let town = Town::with(&["read"], |setup| setup).await;
    let options = [
        "--sub", "ci-bot", "--client", "runner", "--org", "acme", "--group", "dev",
    ];
    let token = town.gateway.home.agent_token(&options);
    assert!(text(&token, "token").starts_with("ptr_agt_"));
    let agent = Agent::connect(&town.gateway, "/mcp/files", text(&token, "token")).await;
    let receipt = town.gateway.receipt_of(&agent.call("read", json!({})).await);
    let principal = &receipt["principal"];
    assert_eq!(
        (
            &principal["sub"],
            &principal["actor_type"],
            &principal["client_id"],
            &principal["org_id"],
            &principal["authn"]
        ),
        (
            &json!("ci-bot"),
            &json!("agent"),
            &json!("runner"),
            &json!("acme"),
            &json!("token")
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_made_before_the_first_start_works() {
    let server = Server::start(&[tool("read")]).await;
    let home = Setup::new().server("files", &server).home();
    let token = home.agent_token(&["--sub", "ci-bot"]);
    let gateway = home.serve().await;
    let agent = Agent::connect(&gateway, "/mcp/files", text(&token, "token")).await;
    assert_eq!(agent.names().await, ["read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_one_server_neither_sees_nor_calls_another() {
    // R111
    let (issuer, files, mail) = (
        Issuer::start().await,
        Server::start(&[tool("read")]).await,
        Server::start(&[tool("send")]).await,
    );
    let gateway = Setup::with(&issuer, &files).server("mail", &mail).start().await;
    let token = gateway.home.agent_token(&["--sub", "ci-bot", "--server", "files"]);
    let agent = Agent::connect(&gateway, "/mcp", text(&token, "token")).await;
    assert_eq!(agent.names().await, ["files__read"]);
    let answer = agent.call("mail__send", json!({})).await;
    assert_eq!(
        (answer.error_code(), answer.reason_codes()),
        (-32602, vec!["DENY_TOOL_NOT_FOUND".to_owned()])
    );
    assert_eq!(
        gateway.receipt_named_by(&answer)["decision"]["reason_codes"],
        json!(["DENY_NO_PERMISSION"])
    );
    assert_eq!(mail.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_with_its_time() {
    let town = Town::with(&["read"], |setup| setup).await;
    let token = town.gateway.home.agent_token(&["--sub", "ci-bot", "--ttl", "2s"]);
    assert_eq!(knock(&town, &token).await, 200);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(knock(&town, &token).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_is_refused_from_that_moment_in_open_sessions_too() {
    let town = Town::with(&["read"], |setup| setup).await;
    let token = town.gateway.home.agent_token(&["--sub", "ci-bot"]);
    let agent = Agent::connect(&town.gateway, "/mcp/files", text(&token, "token")).await;
    assert_eq!(agent.call("read", json!({})).await.status, 200);
    town.gateway
        .home
        .cli(&["token", "revoke", text(&token, "id")])
        .success();
    let seq = town.gateway.last_seq();
    assert_eq!(agent.call("read", json!({})).await.status, 401);
    assert_eq!(
        town.gateway.receipts_after(seq)[0]["decision"]["reason_codes"],
        json!(["DENY_TOKEN_REVOKED"])
    );
    assert_eq!(town.files.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_directory_holds_no_token_and_lists_show_none() {
    let town = Town::with(&["read"], |setup| setup).await;
    let token = town.gateway.home.agent_token(&["--sub", "ci-bot"]);
    knock(&town, &token).await;
    let secret = text(&token, "token").trim_start_matches("ptr_agt_").to_owned();
    for file in town.gateway.home.state_files() {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(&secret), "{}", file.display());
    }
    let listed = town.gateway.home.cli(&["token", "list", "--json"]).success();
    assert!(
        listed.contains("ci-bot") && listed.contains(text(&token, "id")) && !listed.contains(&secret),
        "{listed}"
    );
    assert!(!town.gateway.logs().contains(&secret));
}

#[tokio::test(flavor = "multi_thread")]
async fn switched_off_tokens_are_refused() {
    let town = Town::with(&["read"], |setup| setup).await;
    let token = town.gateway.home.agent_token(&["--sub", "ci-bot"]);
    let town = town
        .restarted_with(|setup| setup.set("identity.tokens.enabled", false))
        .await;
    assert_eq!(knock(&town, &token).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_nobody_made_is_refused() {
    let town = Town::with(&["read"], |setup| setup).await;
    let made = town.gateway.home.agent_token(&["--sub", "ci-bot"]);
    let genuine = text(&made, "token");
    let (shorter, last) = genuine.split_at(genuine.len() - 1);
    let other = if last == "A" { "B" } else { "A" };
    for forged in [
        format!("{shorter}{other}"),
        "ptr_agt_".to_owned(),
        format!("{genuine}x"),
    ] {
        assert_eq!(knock(&town, &json!({ "token": forged })).await, 401, "{forged}");
    }
}

async fn knock(town: &Town, token: &Value) -> u16 {
    town.gateway
        .ask(Ask::post("/mcp", initialize_body()).bearer(text(token, "token")))
        .await
        .status
}

fn text<'a>(token: &'a Value, member: &str) -> &'a str {
    token[member].as_str().unwrap()
}
