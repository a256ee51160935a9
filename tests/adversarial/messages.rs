//! Messages that are none, or that two readers would read differently.

use serde_json::{Value, json};

use crate::support::{Agent, Town};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_is_refused_as_such() {
    // R152, R202
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("half", ping[..20].to_vec()),
        ("words", b"hello".to_vec()),
        ("two messages", [&ping[..], &ping[..]].concat()),
        ("bytes behind", [&ping[..], b" x"].concat()),
        ("single quotes", b"{'jsonrpc':'2.0','id':1,'method':'ping'}".to_vec()),
        (
            "a comma too many",
            br#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#.to_vec(),
        ),
        (
            "not UTF-8",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\xffng\"}".to_vec(),
        ),
        (
            "overlong UTF-8",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\xc0\xafng\"}".to_vec(),
        ),
        ("UTF-16", ping.iter().flat_map(|byte| [*byte, 0]).collect()),
        ("byte order mark", [b"\xef\xbb\xbf", &ping[..]].concat()),
        (
            "a bare control character",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\x01ng\"}".to_vec(),
        ),
        (
            "not a number",
            br#"{"jsonrpc":"2.0","id":NaN,"method":"ping"}"#.to_vec(),
        ),
        (
            "a leading zero",
            br#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#.to_vec(),
        ),
    ];
    for (case, body) in cases {
        refused(&town, &agent, case, body, -32700).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_refused_as_such() {
    // R152, R202
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}1{}}}"#,
        "[".repeat(100),
        "]".repeat(100)
    );
    let cases = [
        ("an array", "[]"),
        (
            "a batch",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
        ),
        ("a string", "\"ping\""),
        ("null", "null"),
        ("no version", r#"{"id":1,"method":"ping"}"#),
        ("another version", r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#),
        ("method that is no string", r#"{"jsonrpc":"2.0","id":1,"method":7}"#),
        ("no method", r#"{"jsonrpc":"2.0","id":1}"#),
        ("id null", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
        ("id that is an object", r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#),
        ("id that is a list", r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#),
        ("id that is true", r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#),
        (
            "params that are text",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"read"}"#,
        ),
        ("too deep", deep.as_str()),
        ("id twice", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#),
        (
            "method twice",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#,
        ),
        (
            "method twice, once in disguise",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call"}"#,
        ),
        (
            "name twice",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","name":"write"}}"#,
        ),
        (
            "name twice, once in disguise",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","n\u0061me":"write"}}"#,
        ),
        (
            "arguments twice",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{},"arguments":{"text":"x"}}}"#,
        ),
        (
            "twice in _meta",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"a":2}}}"#,
        ),
    ];
    for (case, body) in cases {
        refused(&town, &agent, case, body.as_bytes().to_vec(), -32600).await;
    }
    assert_eq!(town.files.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disguised_name_is_the_name() {
    // R118
    let policy = r#"permit (principal, action, resource == Tool::"files/read");"#;
    let town = Town::with(&["read", "write"], |setup| setup.policy(policy)).await;
    let agent = town.agent("ann").await;
    let call = |member: &str, name: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"meth\u006fd":"tools\/call","params":{{"{member}":"{name}"}}}}"#)
    };
    assert_eq!(
        agent.send(call(r"n\u0061me", r"re\u0061d")).await.result()["isError"],
        false
    );
    assert_eq!(agent.send(call(r"n\u0061me", r"writ\u0065")).await.error_code(), -32602);
    assert_eq!(town.files.calls().len(), 1);
    assert_eq!(town.files.calls()[0].json()["params"]["name"], "read");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_kept_whole_up_to_a_kibibyte_and_refused_beyond() {
    // R152, R164
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    for (id, status) in [
        (format!("\"{}\"", "x".repeat(1022)), 200),
        (format!("\"{}\"", "x".repeat(1023)), 400),
        (format!("\"{}\"", "x".repeat(200_000)), 400),
        ("9".repeat(1024), 200),
        ("9".repeat(1025), 400),
        (format!("1e{}", "9".repeat(400)), 200),
    ] {
        let answer = agent
            .send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
            .await;
        let start = id.get(..20).unwrap_or(&id);
        assert_eq!(
            answer.status,
            status,
            "{start}: {}",
            answer.text().get(..300).unwrap_or_default()
        );
        match status {
            200 => assert_eq!(answer.text(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)),
            _ => assert_eq!(answer.error_code(), -32600, "{start}"),
        }
        town.gateway.receipt_of(&answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_name_is_bad_params() {
    // R172
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    for params in ["{}", r#"{"name":7}"#, r#"{"name":null}"#, r#"{"arguments":{}}"#] {
        let answer = agent
            .send(format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#
            ))
            .await;
        assert_eq!((answer.status, answer.error_code()), (200, -32602), "{params}");
        town.gateway.receipt_named_by(&answer);
    }
    assert_eq!(
        agent
            .request("tools/list", json!({"cursor": "made-up"}))
            .await
            .error_code(),
        -32602
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_lengths_or_two_framings_are_no_request() {
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let smuggled = "0\r\n\r\nPOST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let both = agent
        .ask(smuggled)
        .header("Content-Length", &smuggled.len().to_string())
        .header("Transfer-Encoding", "chunked");
    let twice = agent
        .ask("{}")
        .header("Content-Length", "2")
        .header("Content-Length", "30");
    for ask in [both, twice] {
        let mut wire = town.gateway.mcp.open().await.unwrap();
        wire.send(
            &ask.instead("Connection", Some("keep-alive"))
                .bytes(town.gateway.mcp.address),
        )
        .await
        .unwrap();
        wire.close().await;
        let all = String::from_utf8_lossy(&wire.rest().await).into_owned();
        assert!(all.starts_with("HTTP/1.1 400 "), "{all}");
        assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{all}");
    }
}

async fn refused(town: &Town, agent: &Agent, case: &str, body: Vec<u8>, code: i64) {
    let size = body.len();
    let answer = agent.send(body).await;
    assert_eq!(answer.status, 400, "{case}: {}", answer.text());
    assert_eq!(answer.error_code(), code, "{case}: {}", answer.text());
    let json = answer.json();
    assert!(json.as_object().unwrap().contains_key("id"), "{case}: {json}");
    let receipt = town.gateway.receipt_named_by(&answer);
    let reasons = receipt["decision"]["reason_codes"].clone();
    let expected = match case {
        twice if twice.contains("twice") => "DENY_DUPLICATE_KEY",
        _ => "DENY_MALFORMED",
    };
    assert_eq!(reasons, json!([expected]), "{case}");
    assert_eq!(answer.decision()["reason_codes"], reasons, "{case}");
    assert_eq!(receipt["request"]["size_bytes_in"], Value::from(size), "{case}");
    assert_eq!(receipt["principal"]["sub"], "ann", "{case}");
}
