//! What was approved of one server is not approved of another that takes its name: while the gateway runs, across restarts, and
//! while none runs.

use serde_json::{Value, json};

use super::super::inventory::entries;
use crate::support::setup::Home;
use crate::support::{Agent, Gateway, Issuer, Server, Setup, eventually, records, tool};

/// Two servers that offer the same, the gateway being configured with the first.
async fn twins(trust: &str) -> (Issuer, [Server; 2], Gateway) {
    let issuer = Issuer::start().await;
    let definitions = [tool("read"), tool("write")];
    let servers = [Server::start(&definitions).await, Server::start(&definitions).await];
    servers
        .iter()
        .for_each(|server| server.instruct("Read before you write."));
    let setup = Setup::with(&issuer, &servers[0]).set("servers.files.trust", trust);
    let gateway = setup.start().await;
    (issuer, servers, gateway)
}

fn show(home: &Home) -> Value {
    serde_json::from_str(&home.cli(&["server", "show", "files", "--json"]).success()).unwrap()
}

/// What everything of the server stands like, and why.
fn standings(home: &Home) -> Vec<(String, Value)> {
    let listed = entries(home);
    let told = |entry: &Value| (entry["standing"].as_str().unwrap().to_owned(), entry["cause"].clone());
    listed.iter().map(told).collect()
}

/// What the log says of servers that took another's place, oldest first.
fn changes(home: &Home) -> Vec<String> {
    let listed = records::list(home, &["--type", "inventory"]);
    let mut told: Vec<String> = listed
        .iter()
        .filter(|record| record["action"] == "server_identity_changed")
        .map(|record| record["message"].as_str().unwrap().to_owned())
        .collect();
    told.reverse();
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_under_the_same_name_inherits_no_approval() {
    let (issuer, [first, second], mut gateway) = twins("community").await;
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["read", "write"]);
    let approved = vec![("approved".to_owned(), Value::Null); 3];
    let waiting = vec![("quarantined".to_owned(), json!("identity_changed")); 3];
    assert_eq!(standings(&gateway.home), approved);
    assert_eq!(show(&gateway.home)["approved_as"], Value::Null);
    // The same definitions at another address.
    gateway
        .home
        .rewrite(|setup| setup.set("servers.files.url", second.url()));
    eventually("nothing is offered any more", 30, async || {
        agent.names().await.is_empty()
    })
    .await;
    assert_eq!(standings(&gateway.home), waiting);
    eventually("the log tells of it", 30, async || changes(&gateway.home).len() == 1).await;
    let told = changes(&gateway.home).remove(0);
    for part in [
        first.url(),
        second.url(),
        "3 approval(s) of the other do not count".to_owned(),
    ] {
        assert!(told.contains(&part), "{told}");
    }
    let shown = show(&gateway.home);
    assert_eq!(shown["identity"]["url"], json!(second.url()));
    assert!(shown["approved_as"].as_str().unwrap().contains(&first.url()), "{shown}");
    let diff = gateway.home.cli(&["tool", "diff", "files/read"]).success();
    assert!(diff.contains("nothing has changed since it was approved"), "{diff}");
    assert!(
        diff.contains(&format!("server changed: approved of {}", first.url())),
        "{diff}"
    );
    let diff = gateway.home.cli(&["tool", "diff", "files/read", "--json"]).success();
    let diff: Value = serde_json::from_str(&diff).unwrap();
    assert!(
        diff["server_identity"]["now"].as_str().unwrap().contains(&second.url()),
        "{diff}"
    );
    // It is told once, and a restart forgets nothing. The first one comes back as what it was.
    let mut gateway = gateway.restart().await;
    assert_eq!(standings(&gateway.home), waiting);
    gateway
        .home
        .rewrite(|setup| setup.set("servers.files.url", first.url()));
    eventually("what was approved is back", 30, async || {
        standings(&gateway.home) == approved
    })
    .await;
    eventually("the log tells of both", 30, async || changes(&gateway.home).len() == 2).await;
    // One at a time, then all.
    gateway
        .home
        .rewrite(|setup| setup.set("servers.files.url", second.url()));
    eventually("everything waits again", 30, async || {
        standings(&gateway.home) == waiting
    })
    .await;
    gateway.home.cli(&["tool", "approve", "files/read"]).success();
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["read"]);
    gateway.home.cli(&["tool", "approve", "--server", "files"]).success();
    assert_eq!(agent.names().await, ["read", "write"]);
    let gateway = gateway.restart().await;
    assert_eq!(standings(&gateway.home), approved);
    assert_eq!(show(&gateway.home)["approved_as"], Value::Null);
    assert_eq!(changes(&gateway.home).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_gateway_the_stranger_is_seen_and_can_be_approved() {
    let (issuer, [_first, second], gateway) = twins("unknown").await;
    gateway.home.cli(&["server", "refresh", "files"]).success();
    gateway.home.cli(&["tool", "approve", "--server", "files"]).success();
    let mut home = gateway.stop().await;
    home.rewrite(|setup| setup.set("servers.files.url", second.url()));
    assert_eq!(
        standings(&home),
        vec![("quarantined".to_owned(), json!("identity_changed")); 3]
    );
    let checked = home.cli(&["check"]);
    assert!(
        checked.stdout.contains("they were approved of another server"),
        "{}",
        checked.stdout
    );
    home.cli(&["tool", "approve", "files/write"]).success();
    let gateway = home.serve().await;
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    eventually("what was approved of it is offered", 30, async || {
        agent.names().await == ["write"]
    })
    .await;
    assert_eq!(changes(&gateway.home).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_the_operator_vouches_for_goes_on_and_the_log_says_so() {
    let (issuer, [first, second], mut gateway) = twins("verified").await;
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["read", "write"]);
    gateway
        .home
        .rewrite(|setup| setup.set("servers.files.url", second.url()));
    eventually("the log tells of it", 30, async || changes(&gateway.home).len() == 1).await;
    let told = changes(&gateway.home).remove(0);
    for part in [first.url(), second.url(), "what was approved counts for it".to_owned()] {
        assert!(told.contains(&part), "{told}");
    }
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["read", "write"]);
    assert_eq!(standings(&gateway.home), vec![("approved".to_owned(), Value::Null); 3]);
}
