//! Both eras on the wire: streams, sessions and headers, against something that stands where a gateway would.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::agent::VERSION;
use crate::support::stand::{Heard, Step, json_answer, result_of, stream_answer};
use crate::support::{Front, Stand, eventually};

pub(super) fn command_to(stand: &Stand) -> Command {
    let mut front = Front::command();
    front
        .current_dir("/")
        .env("PORTREEVE_URL", stand.url())
        .env("PORTREEVE_TOKEN", "secret");
    front
}

/// Opens sessions s0, s1, …, named after how much was heard before.
pub(super) fn open_session(heard: &Heard, number: usize) -> Vec<Step> {
    let result = format!("{{\n  \"protocolVersion\":\n\t\"{VERSION}\",\r\n  \"capabilities\": {{}}\n}}");
    json_answer(
        200,
        &format!("Mcp-Session-Id: s{number}\r\n"),
        &result_of(heard, &result),
    )
}

fn session_of(heard: &Heard) -> Option<&str> {
    heard.headers.get("mcp-session-id")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_says_by_itself_and_on_broken_streams_arrives() {
    let stand = Stand::start(|heard, number| match (heard.verb.as_str(), heard.method()) {
        ("POST", "initialize") => open_session(heard, number),
        ("POST", "tools/call") => vec![
            stream_answer("id: c1\nretry: 60\ndata:\n\nid: c2\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/message\"}\n\nid: c3\ndata: {\"cut"),
            Step::Close,
        ],
        ("GET", _) => match heard.headers.get("last-event-id") {
            None => vec![
                stream_answer("id: g1\nretry: 60\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n\n"),
                Step::Close,
            ],
            Some("c2") => vec![stream_answer(
                "id: c3\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[]}}\n\n",
            )],
            Some("g1") => vec![
                stream_answer("id: g2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"),
                Step::UntilClosed,
            ],
            Some(other) => panic!("{other}"),
        },
        ("DELETE", _) => json_answer(200, "", ""),
        _ => json_answer(202, "", ""),
    })
    .await;
    let mut front = Front::start(&mut command_to(&stand));
    front.ask("open", "initialize", crate::support::agent::initialize());
    let opened = front.line().await;
    assert!(
        opened.contains(&format!(
            "{{   \"protocolVersion\": \t\"{VERSION}\",    \"capabilities\""
        )),
        "{opened}"
    );
    front.tell("notifications/initialized", json!({}));
    assert_eq!(front.hear().await["method"], "roots/list");
    front.say(r#"{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}"#);
    assert_eq!(front.hear().await["method"], "notifications/tools/list_changed");
    front.ask(7, "tools/call", json!({"name": "x"}));
    assert_eq!(front.hear().await["method"], "notifications/message");
    assert_eq!(
        front.hear().await,
        json!({"jsonrpc": "2.0", "id": 7, "result": {"content": []}})
    );
    let left = front.leave().await;
    assert_eq!((left.code, left.lines.len()), (Some(0), 0), "{left:?}");
    let heard = stand.heard();
    let (first, later) = heard.split_first().unwrap();
    assert_eq!(
        (session_of(first), first.headers.get("mcp-protocol-version")),
        (None, None)
    );
    for one in later {
        assert_eq!(
            (session_of(one), one.headers.get("mcp-protocol-version")),
            (Some("s0"), Some(VERSION)),
            "{one:?}"
        );
        assert_eq!(one.headers.get("authorization"), Some("Bearer secret"));
    }
    assert_eq!(heard.iter().filter(|one| one.body["id"] == "q").count(), 1);
    assert_eq!(heard.last().unwrap().verb, "DELETE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_is_opened_anew_once_for_all_who_miss_it() {
    let stand = Stand::start(|heard, number| match (heard.verb.as_str(), heard.method()) {
        ("POST", "initialize") => open_session(heard, number),
        ("POST", "tools/call") if session_of(heard) == Some("s0") => json_answer(404, "", ""),
        ("POST", "tools/call") => json_answer(200, "", &result_of(heard, "{}")),
        ("GET", _) => json_answer(405, "", ""),
        _ => json_answer(202, "", ""),
    })
    .await;
    let mut front = Front::start(&mut command_to(&stand));
    front.open().await;
    for id in 0..10 {
        front.ask(id, "tools/call", json!({"name": "x"}));
    }
    for _ in 0..10 {
        assert_eq!(front.hear().await["result"], json!({}));
    }
    front.leave().await;
    let (openings, ready) = (
        stand.heard_of("initialize"),
        stand.heard_of("notifications/initialized"),
    );
    assert_eq!((openings.len(), ready.len()), (2, 2), "the first, and one more");
    assert_eq!(openings[0].body, openings[1].body, "in the client's own words");
    assert_ne!(session_of(&ready[0]), session_of(&ready[1]));
}

const MODERN: &str = "2026-07-28";

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {}});
    params
}

#[tokio::test(flavor = "multi_thread")]
async fn modern_requests_carry_headers_made_from_their_body_and_no_session() {
    let stand = Stand::start(|heard, _| match heard.method() {
        "tools/list" => json_answer(
            200,
            "",
            &result_of(
                heard,
                &json!({"tools": [{"name": "query", "inputSchema":
            {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}}]})
                .to_string(),
            ),
        ),
        _ => json_answer(200, "", &result_of(heard, "{}")),
    })
    .await;
    let mut front = Front::start(command_to(&stand).args(["--server", "files"]));
    front.exchange(1, "tools/list", modern(json!({}))).await;
    let call = modern(json!({"name": "query", "arguments": {"region": "Île"}}));
    front.exchange(2, "tools/call", call).await;
    front
        .exchange(3, "resources/read", modern(json!({"uri": "file:///a"})))
        .await;
    front.leave().await;
    let said: Vec<_> = stand
        .heard()
        .iter()
        .map(|heard| {
            let names = [
                "mcp-protocol-version",
                "mcp-method",
                "mcp-name",
                "mcp-param-region",
                "mcp-session-id",
            ];
            (
                heard.target.clone(),
                names.map(|name| heard.headers.get(name).map(str::to_owned)),
            )
        })
        .collect();
    let expected = [
        [Some(MODERN), Some("tools/list"), None, None, None],
        [
            Some(MODERN),
            Some("tools/call"),
            Some("query"),
            Some("=?base64?w45sZQ==?="),
            None,
        ],
        [Some(MODERN), Some("resources/read"), Some("file:///a"), None, None],
    ];
    let expected = expected.map(|values| ("/mcp/files".to_owned(), values.map(|value| value.map(str::to_owned))));
    assert_eq!(said, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_request_is_cancelled_by_the_end_of_its_stream_and_a_subscription_by_the_end_of_all() {
    let stand = Stand::start(|heard, number| match heard.method() {
        "initialize" => open_session(heard, number),
        "subscriptions/listen" | "tools/call" => vec![
            stream_answer(": begun\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n"),
            Step::UntilClosed,
        ],
        _ if heard.verb == "GET" => json_answer(405, "", ""),
        _ => json_answer(202, "", ""),
    })
    .await;
    let mut front = Front::start(&mut command_to(&stand));
    // With a session at hand the cancellation could be posted, and must not be.
    front.open().await;
    front.ask("sub", "subscriptions/listen", modern(json!({})));
    front.hear().await;
    front.ask("call", "tools/call", modern(json!({"name": "x"})));
    front.hear().await;
    front.tell("notifications/cancelled", json!({"requestId": "call"}));
    eventually("the stream is closed", 10, async || {
        stand.heard_of("tools/call")[0].was_closed
    })
    .await;
    assert!(!stand.heard_of("subscriptions/listen")[0].was_closed);
    let began = std::time::Instant::now();
    let left = front.leave().await;
    assert_eq!((left.code, left.lines.len()), (Some(0), 0), "{left:?}");
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "nobody waits for a subscription"
    );
    eventually("the subscription is closed", 10, async || {
        stand.heard_of("subscriptions/listen")[0].was_closed
    })
    .await;
    assert_eq!(stand.heard_of("notifications/cancelled").len(), 0);
}
