//! Results reach the agent byte for byte as the server sent them.

use serde_json::json;

use crate::support::{Act, Agent, Setup, Town};

/// Spellings that every re-serialisation changes.
const ODD: &str = r#"{ "content" : [ {"type":"text","text":"\u00fc\/\ud83d\ude00 é"} ],
  "structuredContent":{"b":1.0,"a":1e2,"z":-0,"n":12345678901234567890123,"A":[ ],"dup":{"k":1}},
  "x-unknown": null, "isError":false, "_meta":{"vendor/key":[1,2,  3]}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_a_result_are_the_servers() {
    // R011, R188
    let town = Town::with(&["odd"], |setup| setup).await;
    town.files.on("odd", Act::Answer(ODD.to_owned()));
    let agent = town.agent("ann").await;
    let answer = agent.call("odd", json!({})).await;
    assert_eq!(answer.text(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{ODD}}}"#));
    assert_eq!(
        town.gateway.receipt_of(&answer)["outcome"]["size_bytes_out"],
        answer.body.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_out_of_an_event_stream_is_the_same() {
    // R011
    let town = Town::with(&["streamed"], |setup| setup).await;
    let one_line = ODD.replace("\n  ", " ");
    town.files.on("streamed", Act::Stream(one_line.clone()));
    let answer = town.agent("ann").await.call("streamed", json!({})).await;
    assert!(answer.text().contains(&one_line), "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_comes_through_whole() {
    // R188
    let town = Town::with(&["large"], |setup| setup).await;
    let result = format!(
        r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#,
        "0123456789".repeat(300_000)
    );
    town.files.on("large", Act::Answer(result.clone()));
    let answer = town.agent("ann").await.call("large", json!({})).await;
    assert!(
        answer.text() == format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#),
        "{} bytes",
        answer.body.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_over_the_limit_is_withheld_but_was_executed() {
    let limits = json!({"max_bytes": 10_000, "max_depth": 20});
    let town = Town::with(&["large", "deep"], |setup: Setup| setup.set("limits.result", limits)).await;
    let agent = town.agent("ann").await;
    town.files.on(
        "large",
        Act::Answer(format!(
            r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#,
            "SECRET".repeat(3000)
        )),
    );
    town.files.on(
        "deep",
        Act::Answer(format!(
            r#"{{"content":[],"structuredContent":{{"SECRET":{}1{}}}}}"#,
            "[".repeat(40),
            "]".repeat(40)
        )),
    );
    for name in ["large", "deep"] {
        let answer = agent.call(name, json!({})).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains("SECRET"), "{name}: {}", answer.text());
        let receipt = town.gateway.receipt_named_by(&answer);
        assert_eq!(receipt["decision"]["result"], "allow", "{name}");
        assert_eq!(receipt["outcome"]["status"], "error", "{name}");
    }
    assert_eq!(agent.names().await, ["deep", "large"], "the server goes on working");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tools_own_error_is_passed_on_as_it_is() {
    let town = Town::with(&["fails", "errs"], |setup| setup).await;
    town.files.on(
        "fails",
        Act::Answer(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#.to_owned()),
    );
    town.files.on(
        "errs",
        Act::Fail(r#"{"code":-32055,"message":"mine","data":{"n":1.0}}"#.to_owned()),
    );
    let agent = town.agent("ann").await;
    let failed = agent.call("fails", json!({})).await;
    assert_eq!(
        failed.result(),
        json!({"content": [{"type": "text", "text": "no"}], "isError": true})
    );
    let receipt = town.gateway.receipt_of(&failed);
    assert_eq!(
        (&receipt["decision"]["result"], &receipt["outcome"]["executed"]),
        (&json!("allow"), &json!(true))
    );
    let erred = agent.call("errs", json!({})).await;
    assert_eq!(
        (erred.status, erred.error_code(), &erred.json()["error"]["message"]),
        (200, -32055, &json!("mine"))
    );
    assert_eq!(town.gateway.receipt_of(&erred)["outcome"]["status"], "error");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_comes_back_in_the_spelling_it_had() {
    // R170
    let town = Town::with(&["read"], |setup| setup).await;
    let agent: Agent = town.agent("ann").await;
    for id in [
        "1",
        "\"1\"",
        "\"\"",
        "0",
        "-7",
        "9223372036854775808",
        "18446744073709551616",
        "1.5",
        "1e2",
        r#""\u0041\n""#,
    ] {
        for (method, params) in [
            ("ping", "{}"),
            ("tools/call", r#"{"name":"read"}"#),
            ("no/such", "{}"),
            ("tools/call", r#"{"name":"none"}"#),
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
            let answer = agent.send(body).await;
            assert_eq!(answer.status, 200, "{id} {method}");
            assert!(
                answer.text().contains(&format!("\"id\":{id}")),
                "{id} {method}: {}",
                answer.text()
            );
        }
    }
    let sent: Vec<_> = town
        .files
        .calls()
        .iter()
        .map(|call| call.json()["id"].clone())
        .collect();
    assert!(
        sent.iter().all(serde_json::Value::is_u64),
        "upstream ids are the gateway's own: {sent:?}"
    );
}
