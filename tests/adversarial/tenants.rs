//! Two people of one name, with one client, at one issuer, of two organisations: nothing of one is the other's.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::environment::repository;
use crate::support::harbour::everything;
use crate::support::issuer::{but, claims};
use crate::support::peer::ran;
use crate::support::{Agent, Harbour, Issuer, Modern, Setup, Speaks, Town, Turn, eventually};

/// Ann of an organisation.
fn of_org(issuer: &Issuer, org: &str) -> String {
    issuer.sign(&but(claims("ann"), json!({"org_id": org})))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_organisations_share_neither_a_process_nor_a_workspace() {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let workspace = place.path().canonicalize().unwrap().join("{principal}");
    let issuer = Issuer::start().await;
    let home = repository().join("tests/end_to_end/stdio");
    let diary = json!({"command": ["/usr/bin/python3", home.join("diary.py")], "trust": "internal",
        "sandbox": {"read": [home], "workspace": workspace}, "tools": {"tell": {"risk": "low"}}});
    let gateway = Setup::new().issuer(&issuer).set("servers.diary", diary).start().await;
    let mut told = Vec::new();
    for org in ["acme", "globex", "acme"] {
        let agent = Agent::connect(&gateway, "/mcp/diary", &of_org(&issuer, org)).await;
        eventually("the diary is listed", 60, async || {
            agent.names().await.contains(&"tell".to_owned())
        })
        .await;
        let answer = agent.call("tell", json!({"what": org})).await;
        let text = answer.result()["content"][0]["text"].as_str().unwrap().to_owned();
        told.push(serde_json::from_str::<Value>(&text).unwrap());
    }
    assert_ne!(told[0]["me"], told[1]["me"], "the process");
    assert_ne!(told[0]["where"], told[1]["where"], "the workspace");
    assert_eq!(
        told[1]["told"],
        json!(["globex"]),
        "nothing of the other organisation's is seen"
    );
    assert_eq!(
        told[2]["me"], told[0]["me"],
        "the twin: the same organisation is the same principal"
    );
    assert_eq!(told[2]["told"], json!(["acme", "acme"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_and_a_cursor_are_one_organisations() {
    let harbour = Harbour::with(Speaks::Modern, &["ask"], |setup| setup).await;
    harbour.peer.on("ask", move |seen| {
        if seen.json()["params"]["inputResponses"]["q"]["roots"].is_array() {
            return Turn::Result(ran("ask"));
        }
        let inputs = json!({"q": {"method": "roots/list", "params": {}}});
        let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": "s"});
        Turn::Result(result.to_string())
    });
    let client =
        |org: &str| Modern::new(&harbour.gateway, "/mcp/peer", &of_org(&harbour.issuer, org)).able(everything());
    let (acme, globex) = (client("acme"), client("globex"));
    let first = acme.call("ask", json!({})).await.result();
    let round = json!({"name": "ask", "arguments": {}, "requestState": first["requestState"],
        "inputResponses": {"q": {"roots": []}}});
    let refused = globex.request("tools/call", round.clone()).await;
    assert_eq!(refused.error_code(), -32602, "{}", refused.text());
    let taken = acme.request("tools/call", round).await;
    assert_eq!(taken.result()["content"][0]["text"], "ask ran", "{}", taken.text());
    // More tools than a page holds.
    let tools: Vec<Value> = (0..1_200)
        .map(|number| crate::support::tool(&format!("t{number:04}")))
        .collect();
    harbour.peer.list("tools", &tools);
    harbour.gateway.home.cli(&["server", "refresh", "peer"]).success();
    let page = acme.request("tools/list", json!({})).await.result();
    let cursor = page["nextCursor"].as_str().expect("more than one page").to_owned();
    let foreign = globex.request("tools/list", json!({"cursor": cursor})).await;
    assert_eq!(foreign.error_code(), -32602, "{}", foreign.text());
    let own = acme.request("tools/list", json!({"cursor": cursor})).await;
    assert!(own.result()["tools"].is_array(), "{}", own.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_organisation_uses_up_the_other_still_has() {
    let rate = json!([{"per": "principal", "calls": 3, "window": "1h"}]);
    let town = Town::with(&["read"], |setup| setup.set("limits.rate", rate)).await;
    let acme = Agent::connect(&town.gateway, "/mcp/files", &of_org(&town.issuer, "acme")).await;
    let globex = Agent::connect(&town.gateway, "/mcp/files", &of_org(&town.issuer, "globex")).await;
    for _ in 0..3 {
        acme.call("read", json!({})).await.result();
    }
    assert_eq!(acme.call("read", json!({})).await.reason_codes(), ["DENY_RATE_LIMIT"]);
    assert_eq!(globex.call("read", json!({})).await.result()["isError"], false);
}
