//! Names that a caller writes: whatever becomes of the request, no secret in one of them is in any file of the gateway.

use serde_json::{Value, json};

use super::operator::hold_nothing;
use super::scene::TOKEN;
use crate::support::records::lines_on_disk;
use crate::support::wire::Ask;
use crate::support::{Agent, Harbour, Setup, Speaks, Town, eventually, tool};

/// A token that a path and a server's id can hold.
const IN_A_PATH: &str = concat!("gl", "pat-x7kq2mvt9rzb4nwc8lpy");

/// Members that a request's params may have, a secret in each; the methods that read them.
fn requests() -> Vec<(&'static str, Value)> {
    let late = format!("{}{TOKEN}", "x ".repeat(58));
    let uri = format!("https://x.example/?token={TOKEN}");
    let argument = json!({"name": "a", "value": "v"});
    let mut requests = vec![
        ("tools/call", json!({"name": "work", "arguments": {TOKEN: 1}})),
        ("tools/call", json!({"name": "work", "arguments": {"path": TOKEN}})),
        ("tools/call", json!({"name": "open", "arguments": {TOKEN: TOKEN}})),
        (
            "tools/call",
            json!({"name": "open", "arguments": {"a": {TOKEN: [{"b": TOKEN}]}}}),
        ),
        (
            "tools/call",
            json!({"name": "open", "arguments": {"a": 1}, TOKEN: TOKEN}),
        ),
        (
            "tools/call",
            json!({"name": "open", "arguments": {}, "_meta": {TOKEN: TOKEN, "progressToken": TOKEN}}),
        ),
        ("tools/list", json!({"cursor": TOKEN})),
        ("tasks/get", json!({"taskId": TOKEN})),
        ("logging/setLevel", json!({"level": TOKEN})),
    ];
    for name in [TOKEN, late.as_str(), uri.as_str()] {
        requests.extend([
            ("tools/call", json!({"name": name, "arguments": {}})),
            (
                "tools/call",
                json!({"name": format!("{IN_A_PATH}__{name}"), "arguments": {}}),
            ),
            ("prompts/get", json!({"name": name})),
            ("prompts/get", json!({"name": format!("{IN_A_PATH}__{name}")})),
            ("resources/read", json!({"uri": name})),
            ("resources/subscribe", json!({"uri": name})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": name}, "argument": argument}),
            ),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/resource", "uri": name}, "argument": argument}),
            ),
        ]);
    }
    requests
}

async fn peer(speaks: Speaks, mode: &str) -> Harbour {
    let mut open = tool("open");
    open["inputSchema"] = json!({"type": "object", "additionalProperties": true});
    let harbour = super::scene::harbour(speaks, &[tool("work"), open], |setup: Setup| {
        setup
            .set("detection.arguments", mode)
            .variable("PORTREEVE_LOG", "trace")
    })
    .await;
    harbour.peer.list("prompts", &[json!({"name": "p"})]);
    harbour.peer.list("resources", &[json!({"uri": "a:mine", "name": "r"})]);
    harbour
}

/// Everything a message can be named by, in a session and without one, on both routes.
async fn name_everything(harbour: &Harbour) {
    let token = harbour.issuer.token("ann");
    for route in ["/mcp/peer", "/mcp"] {
        let ann = Agent::connect(&harbour.gateway, route, &token).await;
        let bob = crate::support::Modern::new(&harbour.gateway, route, &harbour.issuer.token("bob"));
        for (method, params) in requests() {
            ann.request(method, params.clone()).await;
            let body = bob.body(method, params);
            bob.submit(bob.ask(&body)).await;
        }
        for method in [
            TOKEN.to_owned(),
            format!("{}{TOKEN}", "x".repeat(100)),
            format!("notifications/{TOKEN}"),
        ] {
            ann.request(&method, json!({})).await;
            bob.request(&method, json!({})).await;
            let notice = json!({"jsonrpc": "2.0", "method": method, "params": {TOKEN: TOKEN}}).to_string();
            ann.send(notice.clone()).await;
            harbour.gateway.ask(Ask::post(route, notice).bearer(&token)).await;
        }
        let wanted = json!({"notifications": {"resourceSubscriptions": [TOKEN, format!("a:{TOKEN}")]}});
        let mut stream = bob.follow("subscriptions/listen", wanted).await;
        stream.next().await.unwrap();
        let info = json!({"clientInfo": {"name": TOKEN, "version": TOKEN}, "protocolVersion": TOKEN});
        Agent::declaring(&harbour.gateway, route, &token, info).await;
        let id = json!({"jsonrpc": "2.0", "id": TOKEN, "method": "ping"}).to_string();
        ann.send(id).await;
    }
    for path in [
        format!("/mcp/{IN_A_PATH}"),
        format!("/mcp/{TOKEN}"),
        format!("/mcp?x={TOKEN}"),
        format!("/{TOKEN}"),
    ] {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
        harbour.gateway.ask(Ask::post(&path, list.clone()).bearer(&token)).await;
        harbour.gateway.ask(Ask::post(&path, "{").bearer(&token)).await;
        harbour.gateway.ask(Ask::post(&path, list.clone()).bearer(TOKEN)).await;
        let session = Ask::post(&path, list).bearer(&token).header("Mcp-Session-Id", TOKEN);
        harbour.gateway.ask(session).await;
        harbour.gateway.ask_admin(Ask::post(&path, "{}").bearer(TOKEN)).await;
    }
    let bob = crate::support::Modern::new(&harbour.gateway, &format!("/mcp/{IN_A_PATH}"), &token);
    bob.call("work", json!({})).await;
    bob.request("resources/read", json!({"uri": "a:mine"})).await;
    bob.request("prompts/get", json!({"name": "p"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_carries_a_secret_into_any_file() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        for mode in ["off", "warn", "block"] {
            let harbour = peer(speaks, mode).await;
            name_everything(&harbour).await;
            let home = harbour.gateway.stop().await;
            // Half of one counts: names are cut.
            let ((head, tail), (half_of_path, _)) = (TOKEN.split_at(12), IN_A_PATH.split_at(16));
            hold_nothing(&home.path(""), &[head, tail, half_of_path]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_called_like_a_secret_is_not_on_record_under_its_name() {
    let offered = [tool("read"), tool(IN_A_PATH)];
    let town = Town::offering(&offered, |setup: Setup| setup.set("servers.files.trust", "internal")).await;
    let added = async || {
        let lines = lines_on_disk(&town.gateway.home).into_iter();
        lines.filter(|line| line.contains("tool_added")).collect::<Vec<_>>()
    };
    eventually("both are on record", 20, async || added().await.len() == 2).await;
    for line in added().await {
        assert!(!line.contains(IN_A_PATH), "{line}");
    }
}
