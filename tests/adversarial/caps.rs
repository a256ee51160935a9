//! Clients that take what they are given too slowly, too often, or in pieces that are no requests.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;

use crate::support::agent::call_body;
use crate::support::environment::{command, portreeve};
use crate::support::records::{all, receipts};
use crate::support::{Act, Ask, Gateway, Harbour, Setup, Speaks, Town, eventually};

/// More than the kernel takes off our hands for a client that does not read.
fn large() -> String {
    json!({"content": [{"type": "text", "text": "x".repeat(24 << 20)}]}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_reads_holds_its_seat_until_its_connection_is_ended() {
    let town = Town::with(&["read", "large"], |setup| {
        setup
            .set("limits.concurrency", json!({"per_principal": 2, "per_server": 64}))
            .set("servers.files.trust", "internal")
    })
    .await;
    town.files.on("large", Act::Answer(large()));
    let agent = town.agent("ann").await;
    let mut deaf = Vec::new();
    for _ in 0..2 {
        let ask = agent.ask(call_body("large", "{}"));
        let mut wire = agent.door().open().await.unwrap();
        wire.send(&ask.bytes(town.gateway.mcp.address)).await.unwrap();
        deaf.push(wire);
    }
    eventually("both are answered, and neither is read", 60, async || {
        let answered = receipts(&all(&town.gateway.home)).into_iter();
        answered
            .filter(|receipt| receipt["mcp"]["tool_name"] == "large")
            .count()
            == 2
    })
    .await;
    let refused = agent.call("read", json!({})).await;
    assert_eq!(refused.reason_codes(), ["DENY_CONCURRENCY"], "{}", refused.text());
    let bob = town.agent("bob").await;
    assert_eq!(
        bob.call("read", json!({})).await.result()["isError"],
        false,
        "others are served"
    );
    let began = Instant::now();
    eventually("their connections are ended", 60, async || {
        agent.call("read", json!({})).await.last()["result"].is_object()
    })
    .await;
    assert!(began.elapsed() > Duration::from_secs(5), "they had time to read");
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_read_slowly_arrives() {
    let town = Town::with(&["large"], |setup| setup).await;
    town.files.on("large", Act::Answer(large()));
    let agent = town.agent("ann").await;
    let answer = agent.call("large", json!({})).await;
    let text = answer.result()["content"][0]["text"].as_str().unwrap().len();
    assert_eq!(text, 24 << 20);
    assert_eq!(
        agent.call("large", json!({})).await.status,
        200,
        "and its seat is free again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_answers_by_itself_is_limited_too() {
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let began = Instant::now();
    let mut refused = None;
    while refused.is_none() && began.elapsed() < Duration::from_secs(90) {
        let asked = (0..32).map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.request("ping", json!({})).await })
        });
        for answer in asked.collect::<Vec<_>>() {
            let answer = answer.await.unwrap();
            if answer.last().get("error").is_some() {
                refused = Some(answer);
            }
        }
    }
    let refused = refused.expect("pings without end are refused in the end");
    assert_eq!(
        (refused.error_code(), refused.reason_codes()),
        (-32003, vec!["DENY_RATE_LIMIT".to_owned()])
    );
    assert!(refused.decision()["retry_after_ms"].is_u64(), "{}", refused.text());
    town.gateway.receipt_named_by(&refused);
    assert_eq!(
        agent.call("read", json!({})).await.result()["isError"],
        false,
        "calls are counted apart"
    );
    assert_eq!(
        town.agent("bob").await.names().await,
        ["read"],
        "others are not concerned"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_for_many_resources_leaves_few_records() {
    let policy = r#"permit (principal, action, resource) unless { resource == Resource::"peer/a:7" };"#;
    let harbour = Harbour::with(Speaks::Modern, &["read"], |setup| setup.policy(policy)).await;
    harbour.modern("ann").call("read", json!({})).await;
    let uris: Vec<String> = (0..200).map(|number| format!("a:{number}")).collect();
    let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
    let mut stream = harbour.modern("ann").follow("subscriptions/listen", wanted).await;
    let told = stream.until("notifications/subscriptions/acknowledged").await;
    let honoured = told["params"]["notifications"]["resourceSubscriptions"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(honoured, 199, "all but the one that is forbidden");
    let mut records = receipts(&all(&harbour.gateway.home));
    records.retain(|receipt| receipt["mcp"]["method"] == "resources/subscribe");
    assert!(records.len() <= 4, "{} records", records.len());
    let counted: u64 = records
        .iter()
        .map(|receipt| receipt["count"].as_u64().unwrap_or(1))
        .sum();
    assert_eq!(counted, 200, "and none is missing: {records:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_http_itself_refuses_has_a_receipt() {
    let town = Town::with(&["read"], |setup| setup).await;
    let before = receipts(&all(&town.gateway.home)).len();
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n",
        "x".repeat(200_000)
    );
    let cases = [
        (400, "no request at all\r\n\r\n".to_owned()),
        (
            400,
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nBad Header\r\n\r\n".to_owned(),
        ),
        (431, head),
    ];
    for (number, (status, bytes)) in cases.into_iter().enumerate() {
        let mut wire = town.gateway.mcp.open().await.unwrap();
        // The gateway may answer and close before all of it was sent.
        let _ = wire.send(bytes.as_bytes()).await;
        if let Ok(reply) = wire.reply().await {
            assert_eq!(reply.status, status, "{number}");
        }
        eventually("it is on record", 20, async || {
            receipts(&all(&town.gateway.home)).len() == before + number + 1
        })
        .await;
    }
    let records = receipts(&all(&town.gateway.home));
    for receipt in records.iter().skip(before) {
        assert_eq!(
            receipt["decision"]["reason_codes"],
            json!(["DENY_MALFORMED"]),
            "{receipt}"
        );
        assert_eq!(receipt["principal"]["sub"], "unauthenticated");
    }
    assert_eq!(town.gateway.ask(Ask::new("GET", "/healthz")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_of_http_2_that_is_too_large_has_a_receipt() {
    let town = Town::with(&["read"], |setup| setup).await;
    let wire = TokioIo::new(town.gateway.mcp.connect().await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), wire)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut ask = async |length: usize| {
        let request = http::Request::get(format!("http://{}/mcp", town.gateway.mcp.address))
            .header("x-long", "x".repeat(length))
            .body(Empty::<Bytes>::new())
            .unwrap();
        sender.send_request(request).await.unwrap().status().as_u16()
    };
    assert_eq!(
        ask(60_000).await,
        401,
        "the twin: it is read, and asks without a credential"
    );
    assert_eq!(ask(100_000).await, 431);
    let records = receipts(&all(&town.gateway.home));
    let mut told: Vec<_> = records
        .iter()
        .map(|r| r["decision"]["reason_codes"][0].clone())
        .collect();
    told.retain(|code| matches!(code.as_str(), Some("DENY_NO_AUTHN" | "DENY_MALFORMED")));
    told.sort_by_key(ToString::to_string);
    assert_eq!(told, ["DENY_MALFORMED", "DENY_NO_AUTHN"]);

    // The library answers these by itself, and the connection goes on.
    for _ in 0..3 {
        assert_eq!(ask(400_000).await, 431);
    }
    assert_eq!(ask(10).await, 401);
    let counted = |code: &str| {
        let records = receipts(&all(&town.gateway.home));
        records
            .iter()
            .filter(|r| r["decision"]["reason_codes"][0] == code)
            .count()
    };
    eventually("each has a receipt", 60, async || counted("DENY_MALFORMED") >= 4).await;
    assert_eq!((counted("DENY_MALFORMED"), counted("DENY_NO_AUTHN")), (4, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_on_descriptors_is_raised_as_far_as_it_may_be() {
    let mut modest = command("sh");
    modest
        .args(["-c", r#"ulimit -Sn 128; exec "$0" "$@""#])
        .arg(portreeve());
    let gateway = Gateway::start_as(Setup::new().home(), modest).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line
        .split_whitespace()
        .filter(|word| word.parse::<u64>().is_ok())
        .collect();
    assert!(matches!(numbers.as_slice(), [soft, hard] if soft == hard), "{line}");
    gateway.stop().await;
}
