//! The edge: authentication before everything, Host and Origin, and what is refused by HTTP status.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::control::{operations, refusals};
use crate::support::agent::{initialize_body, strings};
use crate::support::wire::Door;
use crate::support::{Agent, Ask, Reply, Town};

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_probes_and_metadata_answers_without_a_credential_on_either_listener() {
    // R105, R152
    let town = Town::with(&["read"], |setup| setup).await;
    let document = town
        .gateway
        .ask_admin(Ask::new("GET", "/api/v1/openapi.json"))
        .await
        .json();
    let seq = town.gateway.last_seq();
    let metadata = ["", "/mcp", "/mcp/files"].map(|route| format!("/.well-known/oauth-protected-resource{route}"));
    let open: Vec<&str> = metadata
        .iter()
        .map(String::as_str)
        .chain(["/healthz", "/readyz"])
        .collect();
    let mut refused = 0;
    for route in CLOSED.iter().copied().chain(open.iter().copied()) {
        for method in METHODS {
            let reply = unread(&town.gateway.mcp, method, route).await;
            if method == "GET" && open.contains(&route) {
                assert_eq!(reply.status, 200, "{route}");
                assert!(!reply.text().contains("portreeve"), "{route}: no detail");
                continue;
            }
            refused += 1;
            assert_eq!(reply.status, 401, "{method} {route}");
            assert!(reply.headers.get("www-authenticate").is_some(), "{method} {route}");
        }
    }
    let receipts = town.gateway.receipts_after(seq);
    let counted: u64 = receipts.iter().map(|receipt| receipt["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, refused, "one for each refusal, and none for what is open");
    for receipt in receipts {
        assert_eq!(receipt["principal"]["sub"], "unauthenticated");
        assert_eq!(receipt["principal"]["actor_type"], "agent");
        assert_eq!(receipt["principal"]["authn"], "none");
        assert_eq!(receipt["mcp"]["method"], Value::Null);
        assert_eq!(receipt["decision"]["policy_id"], "builtin:authentication");
        assert_eq!(receipt["decision"]["reason_codes"], json!(["DENY_NO_AUTHN"]));
    }
    let mut routes: BTreeSet<String> = operations(&document).into_iter().map(|(_, route)| route).collect();
    assert!(routes.len() > 10, "{routes:?}");
    routes.extend(CLOSED.iter().chain(&open).map(|route| (*route).to_owned()));
    let (before, mut refused) = (refusals(&town), 0);
    for route in &routes {
        for method in METHODS {
            let reply = unread(&town.gateway.admin, method, route).await;
            assert_eq!(reply.status, 401, "{method} {route}");
            refused += 1;
        }
    }
    assert_eq!(refusals(&town) - before, refused);
}

/// Asks without a credential, and announces a body that never comes: whoever waits for it hangs.
async fn unread(door: &Door, method: &str, route: &str) -> Reply {
    let ask = Ask::post(route, "")
        .with_method(method)
        .header("Content-Length", "1000000");
    let mut wire = door.open().await.unwrap();
    wire.send(&ask.bytes(door.address)).await.unwrap();
    wire.reply_to(method).await.unwrap()
}

/// Some of what is there, and some of what is not.
const CLOSED: [&str; 9] = [
    "/mcp",
    "/mcp/files",
    "/mcp/nowhere",
    "/mcp/",
    "/",
    "/api/v1/tokens",
    "/metrics",
    "/.well-known/other",
    "/no/such/page",
];

#[tokio::test(flavor = "multi_thread")]
async fn without_a_credential_a_body_is_not_looked_at() {
    // R109
    let town = Town::with(&["read"], |setup| setup).await;
    let malformed = town.gateway.ask(Ask::post("/mcp", "{not json")).await;
    assert_eq!(malformed.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_or_origin_is_forbidden_before_anything_else() {
    let town = Town::with(&["read"], |setup| {
        setup.set("listen.allowed_origins", json!(["https://app.example"]))
    })
    .await;
    let port = town.gateway.mcp.address.port();
    let seq = town.gateway.last_seq();
    let same = format!("http://127.0.0.1:{port}");
    let token = town.issuer.token("ann");
    let initialize = || Ask::post("/mcp", initialize_body()).bearer(&token);
    let cases = [
        (initialize().header("Host", "evil.example"), 403),
        (initialize().header("Host", "localhost.evil.example"), 403),
        (initialize().header("Host", "127.0.0.1.evil.example:80"), 403),
        (Ask::post("/mcp", initialize_body()).header("Host", "evil.example"), 403),
        (initialize().header("Origin", "https://evil.example"), 403),
        (initialize().header("Origin", "null"), 403),
        (initialize().header("Origin", "https://app.example.evil"), 403),
        (initialize().header("Host", "localhost"), 200),
        (initialize().header("Host", "LOCALHOST:1"), 200),
        (initialize().header("Origin", "https://app.example"), 200),
        (initialize().header("Origin", &same), 200),
    ];
    for (number, (ask, status)) in cases.iter().enumerate() {
        assert_eq!(town.gateway.ask(ask.clone()).await.status, *status, "case {number}");
    }
    let receipts = town.gateway.receipts_after(seq);
    assert_eq!(receipts.len(), cases.len());
    for (receipt, (_, status)) in receipts.iter().zip(&cases) {
        let refused = receipt["decision"]["reason_codes"] == json!(["DENY_ORIGIN"]);
        assert_eq!(refused, *status == 403, "{receipt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_mcp_message_is_refused_by_status_with_a_receipt() {
    // R152
    let town = Town::with(&["read"], |setup| setup.set("limits.request.max_bytes", 10_000)).await;
    let agent = town.agent("ann").await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let large = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#,
        "x".repeat(10_000)
    );
    let chunked = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let cases = [
        (
            "plain text",
            agent.ask(ping).instead("Content-Type", Some("text/plain")),
            415,
        ),
        ("no type", agent.ask(ping).instead("Content-Type", None), 415),
        ("compressed", agent.ask(ping).header("Content-Encoding", "gzip"), 415),
        ("wants html", agent.ask(ping).instead("Accept", Some("text/html")), 406),
        ("put", agent.ask(ping).with_method("PUT"), 405),
        ("too large", agent.ask(large.clone()), 413),
        (
            "too large, chunked",
            agent.ask(chunked).header("Transfer-Encoding", "chunked"),
            413,
        ),
        (
            "charset",
            agent
                .ask(ping)
                .instead("Content-Type", Some("application/json; charset=utf-8")),
            200,
        ),
        (
            "wants json",
            agent.ask(ping).instead("Accept", Some("application/json")),
            200,
        ),
        ("wants anything", agent.ask(ping).instead("Accept", Some("*/*")), 200),
    ];
    for (case, ask, status) in cases {
        let seq = town.gateway.last_seq();
        let answer = agent.submit(ask).await;
        assert_eq!(answer.status, status, "{case}: {}", answer.text());
        let receipts = town.gateway.receipts_after(seq);
        assert_eq!(receipts.len(), 1, "{case}");
        if status != 200 {
            assert_refusal(&answer, -32600);
            assert_eq!(receipts[0]["principal"]["sub"], "ann", "{case}");
            assert_eq!(receipts[0]["outcome"]["executed"], false, "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_and_delete_need_a_session() {
    let town = Town::with(&["read"], |setup| setup).await;
    for method in ["GET", "DELETE"] {
        let ask = Ask::new(method, "/mcp")
            .bearer(&town.issuer.token("ann"))
            .header("Accept", "text/event-stream");
        let reply = town.gateway.ask(ask).await;
        assert_eq!(reply.status, 405, "{method}");
        assert_refusal(&reply, -32600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_be_exactly_as_large_as_allowed() {
    // R201
    let town = Town::with(&["read"], |setup| setup.set("limits.request.max_bytes", 1000)).await;
    let agent = town.agent("ann").await;
    for (size, status) in [(999, 200), (1000, 200), (1001, 413)] {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let padded = format!("{body}{}", " ".repeat(size - body.len()));
        assert_eq!(agent.send(padded).await.status, status, "{size} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_nobody_configured_and_one_that_is_hidden_look_alike() {
    let town = Town::with(&["read"], |setup| setup.policy("")).await;
    let knock = async |route: &str| {
        let reply = town
            .gateway
            .ask(Ask::post(route, initialize_body()).bearer(&town.issuer.token("ann")))
            .await;
        (reply.status, reply.text())
    };
    assert_eq!(knock("/mcp/nowhere").await, knock("/mcp/files").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stalls_is_cut_off() {
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = Agent::connect(&town.gateway, "/mcp", &town.issuer.token("ann")).await;
    let half_head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n".to_vec();
    let half_body = agent
        .ask("{")
        .header("Content-Length", "100")
        .bytes(town.gateway.mcp.address);
    let stall = async |bytes: Vec<u8>| {
        let mut wire = town.gateway.mcp.open().await.unwrap();
        wire.send(&bytes).await.unwrap();
        tokio::time::timeout(std::time::Duration::from_secs(80), wire.rest())
            .await
            .is_ok()
    };
    let (head, body) = tokio::join!(stall(half_head), stall(half_body));
    assert!(head && body, "head cut: {head}, body cut: {body}");
}

fn assert_refusal(reply: &Reply, code: i64) {
    let json = reply.json();
    assert_eq!(
        (&json["jsonrpc"], &json["error"]["code"]),
        (&json!("2.0"), &json!(code)),
        "{json}"
    );
    assert!(json.as_object().unwrap().contains_key("id"), "{json}");
    assert_eq!(json["error"]["data"]["decision"], "deny", "{json}");
    assert!(!strings(&json["error"]["data"]["reason_codes"]).is_empty(), "{json}");
    assert!(json["error"]["data"]["receipt_id"].is_string(), "{json}");
}
