//! The control plane: its own listener, its own credentials, a record for everything refused or changed.

use serde_json::{Value, json};

use crate::support::agent::initialize_body;
use crate::support::records::list;
use crate::support::{Ask, Town};

#[tokio::test(flavor = "multi_thread")]
async fn the_credentials_of_one_plane_are_worth_nothing_on_the_other() {
    // R107
    let town = Town::with(&["read"], |setup| setup).await;
    let admin = town.gateway.admin_token();
    assert!(admin.starts_with("ptr_adm_"));
    let reply = town
        .gateway
        .ask(Ask::post("/mcp", initialize_body()).bearer(&admin))
        .await;
    assert_eq!(reply.status, 401);
    let agent = town.gateway.home.agent_token(&["--sub", "ci-bot"])["token"]
        .as_str()
        .unwrap()
        .to_owned();
    for token in [agent, town.issuer.token("ann"), "ptr_adm_wrong".to_owned()] {
        for (method, path) in operations(
            &town
                .gateway
                .ask_admin(Ask::new("GET", "/api/v1/openapi.json"))
                .await
                .json(),
        ) {
            let ask = Ask::new(&method.to_uppercase(), &path).bearer(&token);
            let status = town.gateway.admin.ask(&ask).await.status;
            assert_eq!(status, 401, "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_something_is_recorded() {
    // R107
    let town = Town::with(&["read"], |setup| setup.unset("servers.files.trust")).await;
    town.agent("ann").await.list().await;
    let home = &town.gateway.home;
    let admin = || {
        list(home, &["--type", "admin", "--limit", "1000"]).len()
            + list(home, &["--type", "inventory", "--limit", "1000"]).len()
    };
    let steps: [&[&str]; 3] = [
        &["token", "create", "--sub", "bot"],
        &["tool", "approve", "files/read"],
        &["token", "create", "--sub", "bot2"],
    ];
    for step in steps {
        let before = admin();
        home.cli(step).success();
        assert!(admin() > before, "{step:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_cannot_reach_the_control_plane() {
    // R107
    let town = Town::with(&["read"], |setup| setup).await;
    let reply = town
        .gateway
        .ask_admin(Ask::new("GET", "/api/v1/openapi.json").header("Host", "evil.example"))
        .await;
    assert_eq!(reply.status, 403);
    let reply = town
        .gateway
        .ask_admin(Ask::new("GET", "/api/v1/openapi.json").header("Origin", "https://evil.example"))
        .await;
    assert_eq!(reply.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_works_on_the_state_where_no_gateway_runs() {
    // R099
    let town = Town::with(&["read"], |setup| setup).await;
    town.agent("ann").await.call("read", json!({})).await;
    let home = town.gateway.stop().await;
    assert!(home.cli(&["tool", "list", "--json"]).success().contains("read"));
    assert!(!list(&home, &["--tool", "read"]).is_empty());
    let token = home.agent_token(&["--sub", "late"]);
    assert!(home.cli(&["token", "list", "--json"]).success().contains("late"));
    home.cli(&["token", "revoke", token["id"].as_str().unwrap()]).success();
    let gateway = home.serve().await;
    let knock = gateway
        .ask(Ask::post("/mcp", initialize_body()).bearer(token["token"].as_str().unwrap()))
        .await;
    assert_eq!(knock.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_are_tables_for_people_and_lines_for_programs() {
    let town = Town::with(&["read"], |setup| setup).await;
    town.agent("ann").await.call("read", json!({})).await;
    town.gateway.home.agent_token(&["--sub", "ci-bot"]);
    for listing in [&["tool", "list"][..], &["token", "list"], &["activity", "list"]] {
        let table = town.gateway.home.cli(listing).success();
        assert!(
            table.lines().count() >= 2 && !table.contains('\u{1b}'),
            "{listing:?}: {table}"
        );
        let lines = town.gateway.home.cli(&[listing, &["--json"]].concat()).success();
        assert_eq!(lines.lines().count(), table.lines().count() - 1, "{listing:?}: {lines}");
        for line in lines.lines() {
            assert!(serde_json::from_str::<Value>(line).unwrap().is_object(), "{line}");
        }
    }
}

/// Methods and paths of an OpenAPI document, parameters filled with something.
pub(super) fn operations(document: &Value) -> Vec<(String, String)> {
    let methods = ["get", "post", "put", "patch", "delete"];
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let concrete: Vec<_> = path
            .split('/')
            .map(|part| if part.starts_with('{') { "x" } else { part })
            .collect();
        let concrete = concrete.join("/");
        let concrete = if concrete.starts_with("/api/") {
            concrete
        } else {
            format!("/api/v1{concrete}")
        };
        found.extend(
            methods
                .iter()
                .filter(|method| item.get(**method).is_some())
                .map(|method| ((*method).to_owned(), concrete.clone())),
        );
    }
    found
}

/// How many refusals of strangers are on record here.
pub(super) fn refusals(town: &Town) -> usize {
    list(&town.gateway.home, &["--type", "admin", "--limit", "10000"])
        .iter()
        .filter(|record| record.to_string().contains("DENY_NO_AUTHN"))
        .count()
}
