//! What a modern request must say, where, and what it is told when it does not.

use serde_json::{Value, json};

use crate::support::{Answer, Ask, Harbour, Modern, Speaks};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A call of `read` with other members in `_meta`; null takes one away.
fn call_with(modern: &Modern, meta: &Value) -> Ask {
    let mut body = modern.body("tools/call", json!({"name": "read"}));
    for (name, value) in meta.as_object().unwrap() {
        let all = body["params"]["_meta"].as_object_mut().unwrap();
        if value.is_null() {
            all.remove(name);
        } else {
            all.insert(name.clone(), value.clone());
        }
    }
    modern.ask(&body)
}

fn refused(harbour: &Harbour, case: &str, answer: &Answer, status: u16, code: i64) {
    assert_eq!(
        (answer.status, answer.error_code()),
        (status, code),
        "{case}: {}",
        answer.text()
    );
    assert_eq!(answer.json()["id"], 1, "{case}");
    assert_eq!(
        harbour.gateway.receipt_named_by(answer)["decision"]["result"],
        "deny",
        "{case}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_do_not_say_what_the_body_says_are_a_mismatch() {
    // R118
    let harbour = Harbour::with(Speaks::Legacy, &["read", "write"], |setup| setup).await;
    let modern = harbour.modern("ann");
    let twin = || call_with(&modern, &json!({}));
    assert_eq!(modern.submit(twin()).await.result()["content"][0]["text"], "read ran");
    let base64 = twin().instead("Mcp-Name", Some("=?base64?cmVhZA==?="));
    assert_eq!(modern.submit(base64).await.status, 200, "the encoded twin");
    let cases = [
        ("no version", twin().instead("MCP-Protocol-Version", None)),
        (
            "another version",
            twin().instead("MCP-Protocol-Version", Some("2025-11-25")),
        ),
        ("version twice", twin().header("MCP-Protocol-Version", "2026-07-28")),
        ("no method", twin().instead("Mcp-Method", None)),
        ("another method", twin().instead("Mcp-Method", Some("tools/list"))),
        (
            "method in another case",
            twin().instead("Mcp-Method", Some("Tools/Call")),
        ),
        ("method twice", twin().header("Mcp-Method", "tools/call")),
        ("no name", twin().instead("Mcp-Name", None)),
        ("another name", twin().instead("Mcp-Name", Some("write"))),
        ("name twice", twin().header("mcp-name", "write")),
        (
            "name in bad base64",
            twin().instead("Mcp-Name", Some("=?base64?cmVhZA?=")),
        ),
    ];
    let calls = harbour.peer.asked("tools/call").len();
    for (case, ask) in cases {
        refused(&harbour, case, &modern.submit(ask).await, 400, -32020);
    }
    assert_eq!(
        harbour.peer.asked("tools/call").len(),
        calls,
        "nothing was decided from a header"
    );
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_say_enough_is_bad_params() {
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup).await;
    let modern = harbour.modern("ann");
    let level = "io.modelcontextprotocol/logLevel";
    for (case, meta) in [
        ("no version", json!({VERSION: null})),
        ("no capabilities", json!({CAPABILITIES: null})),
        ("neither", json!({VERSION: null, CAPABILITIES: null})),
        ("a version that is no text", json!({VERSION: 20_260_728})),
        ("capabilities that are a list", json!({CAPABILITIES: []})),
        ("a level that there is not", json!({level: "loud"})),
    ] {
        refused(
            &harbour,
            case,
            &modern.submit(call_with(&modern, &meta)).await,
            400,
            -32602,
        );
    }
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read"}});
    refused(
        &harbour,
        "no _meta",
        &modern.submit(modern.ask(&bare)).await,
        400,
        -32602,
    );
    let unnamed = call_with(&modern, &json!({"io.modelcontextprotocol/clientInfo": null}));
    assert_eq!(
        modern.submit(unnamed).await.status,
        200,
        "a client need not say who it is"
    );
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_spoken_is_answered_with_those_that_are() {
    let harbour = Harbour::with(Speaks::Modern, &["read"], |setup| setup).await;
    let modern = harbour.modern("ann");
    for version in ["2099-01-01", "", "2025-11-25"] {
        let ask = call_with(&modern, &json!({ VERSION: version }));
        let ask = ask.instead("MCP-Protocol-Version", Some(version));
        let answer = modern.submit(ask).await;
        refused(&harbour, version, &answer, 400, -32022);
        let data = &answer.json()["error"]["data"];
        assert_eq!(
            (&data["supported"], &data["requested"]),
            (&json!(["2026-07-28"]), &json!(version))
        );
    }
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_is_not_spoken_is_not_found() {
    let harbour = Harbour::with(Speaks::Modern, &["read"], |setup| setup).await;
    let modern = harbour.modern("ann");
    let gone = [
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "initialize",
        "tasks/list",
        "tasks/result",
    ];
    for method in gone.into_iter().chain(["no/such", "Tools/call"]) {
        refused(&harbour, method, &modern.request(method, json!({})).await, 404, -32601);
    }
    let discovered = modern.request("server/discover", json!({})).await;
    let result = discovered.result();
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(
        (&result["resultType"], &result["cacheScope"]),
        (&json!("complete"), &json!("private"))
    );
    assert_eq!(discovered.headers.get("mcp-session-id"), None);
    // A stray session id is nothing to a modern client.
    let stray = modern
        .ask(&modern.body("tools/list", json!({})))
        .header("Mcp-Session-Id", "made-up");
    assert_eq!(modern.submit(stray).await.status, 200);
    let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let told = modern
        .submit(modern.ask_raw("notifications/cancelled", told.to_string()))
        .await;
    assert_eq!((told.status, told.body.len()), (202, 0));
    let get = Ask::new("GET", "/mcp/peer")
        .bearer(&harbour.issuer.token("ann"))
        .header("Accept", "text/event-stream");
    assert_eq!(harbour.gateway.ask(get).await.status, 405, "no session, no stream");
}
