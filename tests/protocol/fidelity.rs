//! The agent's bytes are the server's, in every cell of the era matrix, but for the siblings a translation must add.

use std::sync::Arc;

use serde_json::json;

use super::generate::Odd;
use crate::support::agent::call_body;
use crate::support::peer::Beat;
use crate::support::wire::{Door, Wire};
use crate::support::{Ask, Harbour, Speaks, Turn};

/// So many generated results in each cell, one for each call.
const ANSWERS: usize = 2_500;
const CONNECTIONS: usize = 16;
const SERVER_INFO: &str = concat!(
    r#""io.modelcontextprotocol/serverInfo":{"name":"portreeve","title":"Portreeve","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_results_of_legacy_servers_reach_legacy_clients_as_they_are() {
    // R011, R188
    matrix(Speaks::Legacy, Speaks::Legacy, &[], 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_results_of_modern_servers_reach_modern_clients_as_they_are() {
    // R011, R188
    matrix(Speaks::Modern, Speaks::Modern, &[r#""resultType" :"complete""#], 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_results_of_legacy_servers_gain_only_siblings_for_modern_clients() {
    // R011, R188
    matrix(Speaks::Modern, Speaks::Legacy, &[], 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_results_of_modern_servers_reach_legacy_clients_as_they_are() {
    // R011, R188
    matrix(Speaks::Legacy, Speaks::Modern, &[r#""resultType":"complete""#], 4).await;
}

async fn matrix(client: Speaks, server: Speaks, beside: &'static [&'static str], seed: u64) {
    let mut odd = Odd::new(seed);
    let results: Arc<Vec<String>> = Arc::new((0..ANSWERS).map(|_| odd.result(beside)).collect());
    let harbour = Harbour::with(server, &["odd"], |setup| setup).await;
    let sent = Arc::clone(&results);
    harbour.peer.on("odd", move |seen| {
        let number = usize::try_from(seen.json()["params"]["arguments"]["amount"].as_u64().unwrap()).unwrap();
        let result = &sent[number];
        // A stream knows no line breaks inside a message but its own.
        if number % 4 == 0 && !result.contains(['\n', '\r']) {
            Turn::Stream(vec![Beat::result(result)])
        } else {
            Turn::Result(result.clone())
        }
    });
    let agent = harbour.agent("ann").await;
    let modern = harbour.modern("ann");
    let ask = |number: usize| {
        let arguments = json!({ "amount": number });
        match client {
            Speaks::Legacy => agent.ask(call_body("odd", &arguments.to_string())),
            Speaks::Modern => modern.ask(&modern.body("tools/call", json!({"name": "odd", "arguments": arguments}))),
        }
    };
    assert_eq!(modern.call("odd", json!({"amount": 0})).await.status, 200, "discovered");
    let mut connections = tokio::task::JoinSet::new();
    for first in 0..CONNECTIONS {
        let asks: Vec<(usize, Ask)> = (first..ANSWERS).step_by(CONNECTIONS).map(|n| (n, ask(n))).collect();
        let (door, results) = (harbour.gateway.mcp.clone(), Arc::clone(&results));
        connections.spawn(async move {
            let mut wire = door.open().await.unwrap();
            for (number, ask) in asks {
                let body = exchange(&mut wire, &door, ask).await;
                if let Err(why) = compare(&body, &results[number], client, server) {
                    panic!(
                        "seed {seed}, result {number}: {why}\nserver: {}\nagent: {body}",
                        results[number]
                    );
                }
            }
        });
    }
    while let Some(ended) = connections.join_next().await {
        ended.unwrap();
    }
    // One more for the discovery.
    assert_eq!(harbour.peer.asked("tools/call").len(), ANSWERS + 1);
}

async fn exchange(wire: &mut Wire, door: &Door, ask: Ask) -> String {
    let ask = ask.header("Connection", "keep-alive");
    wire.send(&ask.bytes(door.address)).await.unwrap();
    wire.reply().await.unwrap().text()
}

fn compare(body: &str, server: &str, client: Speaks, spoken: Speaks) -> Result<(), String> {
    let inside = body.strip_prefix(r#"{"jsonrpc":"2.0","id":1,"result":"#);
    let inside = inside.and_then(|rest| rest.strip_suffix('}')).ok_or("no result")?;
    let mut inside = inside.to_owned();
    if (client, spoken) == (Speaks::Modern, Speaks::Legacy) {
        // Into `_meta` where there is one.
        let meta = format!(r#","_meta":{{{SERVER_INFO}}}"#);
        let meta = if inside.contains(&meta) {
            meta
        } else {
            format!(",{SERVER_INFO}")
        };
        for literal in [r#","resultType":"complete""#, meta.as_str()] {
            if inside.matches(literal).count() != 1 {
                return Err(format!("{literal} is not inserted once"));
            }
            inside = inside.replacen(literal, "", 1);
        }
    }
    if inside == server {
        Ok(())
    } else {
        Err("other bytes".to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_and_prompts_keep_their_bytes_too() {
    // R011
    for (client, server) in [
        (Speaks::Legacy, Speaks::Legacy),
        (Speaks::Modern, Speaks::Legacy),
        (Speaks::Legacy, Speaks::Modern),
        (Speaks::Modern, Speaks::Modern),
    ] {
        let harbour = Harbour::with(server, &["read"], |setup| setup).await;
        let mut odd = Odd::new(5);
        for round in 0..20 {
            let beside = [
                r#""resultType":"complete""#,
                r#""ttlMs":1e2"#,
                r#""cacheScope":"private""#,
            ];
            let result = odd.result(if server == Speaks::Modern { &beside } else { &[] });
            harbour.peer.always("a:b", Turn::Result(result.clone()));
            harbour.peer.always("greet", Turn::Result(result.clone()));
            for (method, params) in [
                ("resources/read", json!({"uri": "a:b"})),
                ("prompts/get", json!({"name": "greet"})),
            ] {
                let mut text = match client {
                    Speaks::Legacy => harbour.agent("ann").await.request(method, params).await.text(),
                    Speaks::Modern => harbour.modern("ann").request(method, params).await.text(),
                };
                if method == "resources/read" && (client, server) == (Speaks::Modern, Speaks::Legacy) {
                    let hints = r#","ttlMs":0,"cacheScope":"private""#;
                    assert_eq!(text.matches(hints).count(), 1, "{text}");
                    text = text.replacen(hints, "", 1);
                }
                if let Err(why) = compare(&text, &result, client, server) {
                    panic!("seed 5, {method} {round} {client:?}→{server:?}: {why}\n{result}\n{text}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_modern_server_forgets_is_added_and_its_scope_is_made_private() {
    let harbour = Harbour::with(Speaks::Modern, &["read"], |setup| setup).await;
    let modern = harbour.modern("ann");
    harbour
        .peer
        .always("read", Turn::Result(r#"{"content":[ ]}"#.to_owned()));
    let answer = modern.call("read", json!({})).await.text();
    assert_eq!(
        answer,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[ ],"resultType":"complete"}}"#
    );
    let shared = r#"{"contents":[ ],"cacheScope":"public","ttlMs":5,"resultType":"complete"}"#;
    harbour.peer.always("a:b", Turn::Result(shared.to_owned()));
    let answer = modern.request("resources/read", json!({"uri": "a:b"})).await.text();
    assert!(answer.contains(&shared.replace("public", "private")), "{answer}");
    // A type nobody knows, or one said twice, is withheld: readers could differ.
    for result in [
        r#"{"content":[],"resultType":"novel"}"#,
        r#"{"content":[],"resultType":"complete","result\u0054ype":"task"}"#,
    ] {
        harbour.peer.always("read", Turn::Result(result.to_owned()));
        let answer = modern.call("read", json!({})).await;
        assert_eq!(answer.result()["isError"], true, "{}", answer.text());
        assert_eq!(harbour.gateway.receipt_named_by(&answer)["outcome"]["status"], "error");
    }
}
