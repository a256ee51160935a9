//! Resources, prompts, completions, and methods an operator lets through by name: contained like results of tools.

use serde_json::{Value, json};

use super::scene::{contained, fenced, forged, harbour, hostile, is_tamed};
use crate::support::{Agent, Answer, Harbour, Modern, Setup, Speaks, Turn, tool};

async fn standing(server: Speaks) -> Harbour {
    let setup = |setup: Setup| contained(setup).set("servers.peer.extension_methods", json!(["vendor/thing"]));
    let harbour = harbour(server, &[tool("read")], setup).await;
    harbour.peer.list("prompts", &[json!({"name": "greet"})]);
    harbour.peer.list(
        "resources",
        &[
            json!({"uri": "a:b", "name": "b"}),
            json!({"uri": "a:code", "name": "c"}),
        ],
    );
    harbour
}

/// Asks for one thing as everybody can: both eras, both routes.
async fn asked_by_all(harbour: &Harbour, method: &str, params: &Value) -> Vec<(String, Answer)> {
    let token = harbour.issuer.token("ann");
    let mut answers = Vec::new();
    for route in ["/mcp/peer", "/mcp"] {
        let mut params = params.clone();
        if route == "/mcp" && method == "vendor/thing" {
            continue;
        }
        let prompt = if method == "completion/complete" {
            &mut params["ref"]["name"]
        } else {
            &mut params["name"]
        };
        if let Some(name) = prompt.as_str().filter(|_| route == "/mcp") {
            *prompt = json!(format!("peer__{name}"));
        }
        params.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let agent = Agent::connect(&harbour.gateway, route, &token).await;
        answers.push((
            format!("{method} {route} with a session"),
            agent.request(method, params.clone()).await,
        ));
        let modern = Modern::new(&harbour.gateway, route, &token);
        answers.push((
            format!("{method} {route} without"),
            modern.request(method, params).await,
        ));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contents_of_a_resource_are_contained() {
    // R069, R071
    // Attack 1
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = standing(server).await;
        let text = hostile();
        let contents = format!(
            r#"[{{"uri":"a:b","mimeType":"text/markdown","text":"{text}"}},{{"uri":"a:b","text":"{text}"}},{{"uri":"a:b","mimeType":"application/json","text":"{text}"}},{{"uri":"a:b","blob":"aGVsbG8="}}]"#
        );
        harbour.peer.always(
            "a:b",
            Turn::Result(format!(r#"{{"contents":{contents},{}}}"#, forged())),
        );
        for (case, answer) in asked_by_all(&harbour, "resources/read", &json!({"uri": "a:b"})).await {
            is_tamed(&case, &answer.messages());
            let contents = answer.result()["contents"].clone();
            let fence = fenced("peer/a%3Ab");
            assert_eq!(
                (&contents[0]["text"], &contents[1]["text"]),
                (&json!(fence), &json!(fence)),
                "{case}"
            );
            assert_eq!(contents[2]["text"], super::scene::tamed(), "{case}: code is not fenced");
            assert_eq!(contents[3], json!({"uri": "a:b", "blob": "aGVsbG8="}), "{case}");
            assert_eq!(answer.result()["_meta"]["x/y"], "kept", "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_messages_of_a_prompt_are_contained() {
    // R069, R071
    // Attack 1
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = standing(server).await;
        let text = hostile();
        let result = format!(
            r#"{{"description":"{text}","messages":[{{"role":"user","content":{{"type":"text","text":"{text}"}}}}],{}}}"#,
            forged()
        );
        harbour.peer.always("greet", Turn::Result(result));
        for (case, answer) in asked_by_all(&harbour, "prompts/get", &json!({"name": "greet"})).await {
            is_tamed(&case, &answer.messages());
            let said = &answer.result()["messages"][0]["content"];
            assert_eq!(said, &json!({"type": "text", "text": fenced("peer/greet")}), "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_and_methods_let_through_by_name_are_contained() {
    // R071
    // Attack 1
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = standing(server).await;
        let result = format!(
            r#"{{"completion":{{"values":["{}"],"total":1}},{}}}"#,
            hostile(),
            forged()
        );
        harbour.peer.always("completion/complete", Turn::Result(result.clone()));
        harbour.peer.always("vendor/thing", Turn::Result(result));
        let prompt = json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": "b"}});
        for (method, params) in [("completion/complete", prompt), ("vendor/thing", json!({"x": 1}))] {
            for (case, answer) in asked_by_all(&harbour, method, &params).await {
                is_tamed(&case, &answer.messages());
                assert_eq!(answer.result()["completion"]["total"], 1, "{case}");
            }
        }
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            harbour
                .peer
                .always(method, Turn::Result(format!(r#"{{"x":"{}",{}}}"#, hostile(), forged())));
            let agent = harbour.agent("ann").await;
            let answer = agent.request(method, json!({"uri": "a:b"})).await;
            super::scene::holds_nothing(method, &answer.messages());
        }
    }
}
