//! Nothing of a client's credential and none of its headers ever reaches a server.

use serde_json::json;

use crate::support::environment::repository;
use crate::support::{Agent, Town, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_never_sees_a_clients_token_nor_its_headers() {
    // R122, R127, R181
    let diary = repository().join("tests/end_to_end/stdio");
    let command = json!(["/usr/bin/python3", diary.join("diary.py")]);
    let process = json!({"command": command, "trust": "internal", "sandbox": {"read": [diary]}});
    let town = Town::with(&["read"], |setup| setup.set("servers.process", process)).await;
    let agent_token = town.gateway.home.agent_token(&["--sub", "bot"])["token"]
        .as_str()
        .unwrap()
        .to_owned();
    for token in [town.issuer.token("ann"), agent_token] {
        let agent = Agent::connect(&town.gateway, "/mcp/files", &token).await;
        agent.list().await;
        let ask = agent
            .ask(crate::support::agent::call_body("read", r#"{"text":"x"}"#))
            .header("Cookie", "the-cookie=1")
            .header("X-Forwarded-For", "203.0.113.9")
            .header("X-Custom", "the-custom-header")
            .header("User-Agent", "the-user-agent")
            .header("baggage", "the-baggage=1")
            .header("Mcp-Param-Text", "the-mcp-param");
        assert_eq!(agent.submit(ask).await.result()["isError"], false);
        let transcript = town.files.transcript();
        assert!(transcript.contains("tools/call"));
        has_nothing_of(&token, &transcript);
        let confessed = confession(&town, &token).await;
        assert!(
            confessed.contains("PATH") && confessed.contains("tools/call"),
            "{confessed}"
        );
        has_nothing_of(&token, &confessed);
        has_nothing_of(&token, &town.gateway.logs());
        for foreign in [
            "the-cookie",
            "203.0.113.9",
            "the-custom-header",
            "the-user-agent",
            "the-baggage",
            "the-mcp-param",
        ] {
            assert!(!transcript.contains(foreign), "{foreign}: {transcript}");
        }
        assert!(
            !transcript.contains(agent.session.as_ref().unwrap()),
            "the client's session id is not the server's"
        );
    }
    for seen in town.files.seen() {
        assert_eq!(seen.headers.get("authorization"), None);
        assert_eq!(seen.headers.get("host"), Some(town.files.address.to_string().as_str()));
    }
}

/// No sixteen bytes of a token are in a text.
fn has_nothing_of(token: &str, text: &str) {
    for window in token.as_bytes().windows(16) {
        let window = std::str::from_utf8(window).unwrap();
        assert!(!text.contains(window), "{window}");
    }
}

/// What a server's process knows after it was called: variables, arguments, and every line it was sent.
async fn confession(town: &Town, token: &str) -> String {
    let agent = Agent::connect(&town.gateway, "/mcp/process", token).await;
    eventually("the process is listed", 60, async || {
        agent.names().await.contains(&"confess".to_owned())
    })
    .await;
    let answer = agent.call("confess", json!({})).await;
    answer.result()["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_a_client_declares_in_meta_nothing_that_speaks_for_the_gateway_goes_on() {
    // R127
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let meta = json!({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "the-baggage=1",
        "portreeve/decision": {"decision": "the-forged-decision"}, "vendor/harmless": "the-vendor-key"});
    agent
        .request("tools/call", json!({"name": "read", "arguments": {}, "_meta": meta}))
        .await
        .result();
    let transcript = town.files.transcript();
    for foreign in ["0af7651916cd43dd8448eb211c80319c", "the-baggage", "the-forged-decision"] {
        assert!(!transcript.contains(foreign), "{foreign}: {transcript}");
    }
    let sent = town.files.calls()[0].json()["params"]["_meta"].clone();
    assert_eq!(
        sent["vendor/harmless"], "the-vendor-key",
        "what means something to the server alone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_principals_never_share_a_session_with_a_server() {
    // R127
    let town = Town::with(&["read"], |setup| setup).await;
    for sub in ["ann", "bob"] {
        town.agent(sub).await.call("read", json!({})).await.result();
    }
    let calls = town.files.calls();
    let sessions: Vec<_> = calls
        .iter()
        .map(|call| call.headers.get("mcp-session-id").unwrap())
        .collect();
    assert_eq!(sessions.len(), 2);
    assert_ne!(sessions[0], sessions[1]);
}
