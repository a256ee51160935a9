//! Whose texts are trusted: by the operator's word and the tool's hint together, never by a server's word alone.

use serde_json::{Value, json};

use super::scene::text_of;
use crate::support::{Agent, Issuer, Peer, Setup, Speaks, Turn, tool};

const TEXT: &str = r#"{"content":[{"type":"text","text":"a\u200bb"}],"structuredContent":{"s":"c\u200bd"}}"#;

fn hinted(name: &str, hint: Option<bool>) -> Value {
    let mut definition = tool(name);
    definition["annotations"] = match hint {
        Some(hint) => json!({"openWorldHint": hint}),
        None => json!({"readOnlyHint": true}),
    };
    definition
}

fn tools() -> [Value; 4] {
    [
        hinted("open", Some(true)),
        hinted("closed", Some(false)),
        hinted("silent", None),
        tool("bare"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_operators_word_and_a_closed_world_together_make_a_text_trusted() {
    // R070, R074
    // Attack 6
    let issuer = Issuer::start().await;
    let trusts = ["internal", "verified", "community", "unknown"];
    let mut setup = Setup::new().issuer(&issuer);
    let mut peers = Vec::new();
    for trust in trusts {
        let peer = Peer::start(Speaks::Legacy, &[]).await;
        peer.list("tools", &tools());
        for name in ["open", "closed", "silent", "bare"] {
            peer.always(name, Turn::Result(TEXT.to_owned()));
        }
        setup = setup.peer(trust, &peer).set(&format!("servers.{trust}.trust"), trust);
        peers.push(peer);
    }
    let sanitisation = json!({"spotlight_untrusted": true, "strip_control_chars": true});
    let gateway = setup.set("output_sanitisation", sanitisation).start().await;
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    agent.names().await;
    for name in ["open", "closed", "silent", "bare"] {
        gateway
            .home
            .cli(&["tool", "approve", &format!("unknown/{name}")])
            .success();
    }
    for trust in trusts {
        for name in ["open", "closed", "silent", "bare"] {
            let answer = agent.call(&format!("{trust}__{name}"), json!({})).await;
            let trusted = matches!(trust, "internal" | "verified") && name == "closed";
            let fenced = format!("«untrusted:{trust}/{name}»\nab\n«/untrusted:{trust}/{name}»");
            let (text, inner) = if trusted {
                ("a\u{200b}b", "c\u{200b}d")
            } else {
                (fenced.as_str(), "cd")
            };
            assert_eq!(text_of(&answer, 0), text, "{trust} {name}");
            assert_eq!(answer.result()["structuredContent"]["s"], inner, "{trust} {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_that_changes_after_approval_withdraws_the_tool() {
    // R070
    // Attack 6
    let issuer = Issuer::start().await;
    let peer = Peer::start(Speaks::Legacy, &[]).await;
    peer.list("tools", &[hinted("work", Some(true)), hinted("same", Some(true))]);
    let gateway = Setup::new().issuer(&issuer).peer("peer", &peer).start().await;
    let agent = Agent::connect(&gateway, "/mcp/peer", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["same", "work"]);
    peer.list("tools", &[hinted("work", Some(false)), hinted("same", Some(true))]);
    let gateway = gateway.restart().await;
    let agent = Agent::connect(&gateway, "/mcp/peer", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["same"]);
    assert_eq!(agent.call("work", json!({})).await.error_code(), -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_text_is_searched_for_secrets_all_the_same() {
    // R071, R073
    let issuer = Issuer::start().await;
    let peer = Peer::start(Speaks::Legacy, &[]).await;
    peer.list("tools", &[hinted("closed", Some(false))]);
    peer.always("closed", Turn::Result(super::scene::texts(&[super::scene::TOKEN])));
    let setup = Setup::new().issuer(&issuer).peer("peer", &peer);
    let gateway = setup.set("output_sanitisation.response_action", "redact").start().await;
    let agent = Agent::connect(&gateway, "/mcp/peer", &issuer.token("ann")).await;
    assert_eq!(
        text_of(&agent.call("closed", json!({})).await, 0),
        "[REDACTED:api_token]"
    );
}
