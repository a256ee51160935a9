//! Lists that loop, that hide, and that are asked for with cursors of somebody else.

use serde_json::{Value, json};

use crate::support::{Answer, Harbour, Speaks, Turn};

fn prompt(name: &str) -> Value {
    json!({"name": name, "description": format!("The prompt {name}."), "x-unknown": [1.5]})
}

fn resource(uri: &str) -> Value {
    json!({"uri": uri, "name": uri, "x-unknown": null})
}

/// An answer without the name it was asked for, and without what differs in every answer.
fn anonymous(answer: &Answer) -> String {
    let receipt = answer.decision()["receipt_id"].as_str().unwrap().to_owned();
    let text = answer.text().replace(&receipt, "R");
    ["secret", "none"]
        .iter()
        .fold(text, |text, name| text.replace(name, "N"))
}

async fn both(harbour: &Harbour, method: &str, params: Value) -> [Answer; 2] {
    let agent = harbour.agent("ann").await;
    [
        agent.request(method, params.clone()).await,
        harbour.modern("ann").request(method, params).await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_loops_is_an_error_and_the_other_lists_go_on() {
    // R112
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["read"], |setup| setup).await;
        harbour.peer.list("prompts", &[prompt("greet")]);
        harbour.peer.list("resources", &[resource("a:b")]);
        let template = json!({"uriTemplate": "t:{x}", "name": "t"});
        harbour.peer.list("resourceTemplates", &[template]);
        let lists = [
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ];
        for (method, member) in lists {
            for twin in both(&harbour, method, json!({})).await {
                assert_eq!(twin.result()[member].as_array().unwrap().len(), 1, "{method}");
            }
            harbour.peer.loop_list(member);
            for answer in both(&harbour, method, json!({})).await {
                assert_eq!(answer.error_code(), -32603, "{method}: {}", answer.text());
                harbour.gateway.receipt_named_by(&answer);
            }
            let asked = harbour.peer.asked(method).len();
            assert!(asked <= 8, "{method} was asked {asked} times");
        }
        harbour.serves_others("read").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_policy_hides_is_in_no_list_and_cannot_be_told_from_what_is_not_there() {
    // R111, R115, R190
    let policy = r#"
        permit (principal, action == Action::"tools/call", resource);
        permit (principal, action in [Action::"prompts/get", Action::"resources/read", Action::"resources/subscribe"], resource)
        unless { resource == Prompt::"peer/secret" || resource == Resource::"peer/a:secret" ||
                 resource == Prompt::"peer/none" || resource == Resource::"peer/a:none" };"#;
    // The server has what is secret, and nothing of the name `none`.
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["read"], |setup| setup.policy(policy)).await;
        harbour.peer.list("prompts", &[prompt("greet"), prompt("secret")]);
        harbour
            .peer
            .list("resources", &[resource("a:open"), resource("a:secret")]);
        let shown = Turn::Result(r#"{"contents":[],"messages":[]}"#.to_owned());
        for label in ["greet", "secret", "a:open", "a:secret"] {
            harbour.peer.always(label, shown.clone());
        }
        for (method, member, key, left) in [
            ("prompts/list", "prompts", "name", "greet"),
            ("resources/list", "resources", "uri", "a:open"),
        ] {
            for answer in both(&harbour, method, json!({})).await {
                let listed = answer.result()[member].clone();
                assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
                assert_eq!(listed[0][key], left);
                assert!(listed[0].get("x-unknown").is_some(), "{listed}");
            }
        }
        for (method, params, hidden, missing, codes) in [
            (
                "prompts/get",
                json!({"name": "greet"}),
                json!({"name": "secret"}),
                json!({"name": "none"}),
                [-32602, -32602],
            ),
            (
                "resources/read",
                json!({"uri": "a:open"}),
                json!({"uri": "a:secret"}),
                json!({"uri": "a:none"}),
                [-32002, -32602],
            ),
        ] {
            for answer in both(&harbour, method, params).await {
                assert!(answer.last().get("result").is_some(), "{}", answer.text());
            }
            let hidden = both(&harbour, method, hidden).await;
            let missing = both(&harbour, method, missing).await;
            for ((hidden, missing), code) in hidden.into_iter().zip(missing).zip(codes) {
                assert_eq!(
                    (hidden.status, hidden.error_code()),
                    (200, code),
                    "{method}: {}",
                    hidden.text()
                );
                assert_eq!(harbour.gateway.receipt_named_by(&hidden)["decision"]["result"], "deny");
                assert_eq!(anonymous(&hidden), anonymous(&missing), "{method}");
            }
        }
        assert!(
            harbour
                .peer
                .asked("prompts/get")
                .iter()
                .all(|seen| seen.json()["params"]["name"] == "greet")
        );
        assert!(
            harbour
                .peer
                .asked("resources/read")
                .iter()
                .all(|seen| seen.json()["params"]["uri"] == "a:open")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_one_of_ours_for_this_list_and_this_principal() {
    // R112
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup).await;
    let many: Vec<Value> = (0..1500).map(|n| prompt(&format!("p{n:04}"))).collect();
    harbour.peer.list("prompts", &many);
    let resources: Vec<Value> = (0..1500).map(|n| resource(&format!("a:{n:04}"))).collect();
    harbour.peer.list("resources", &resources);
    let (ann, bob) = (harbour.modern("ann"), harbour.modern("bob"));
    let page = ann.request("prompts/list", json!({})).await.result();
    assert_eq!(page["prompts"].as_array().unwrap().len(), 1000);
    let cursor = page["nextCursor"].clone();
    let second = ann.request("prompts/list", json!({"cursor": cursor})).await.result();
    assert_eq!(second["prompts"].as_array().unwrap().len(), 500);
    assert_eq!(
        (second["prompts"][0]["name"].clone(), second.get("nextCursor")),
        (json!("p1000"), None)
    );
    for (client, method, cursor) in [
        (&bob, "prompts/list", cursor.clone()),
        (&ann, "resources/list", cursor.clone()),
        (&ann, "prompts/list", json!("again")),
        (&ann, "prompts/list", json!("0.")),
        (&ann, "prompts/list", json!(7)),
    ] {
        let refused = client.request(method, json!({"cursor": cursor})).await;
        assert_eq!(refused.error_code(), -32602, "{method} {cursor}");
        harbour.gateway.receipt_named_by(&refused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_of_one_prompt_or_of_one_resource_is_enough() {
    // R111, R115
    let one_prompt = r#"permit (principal, action == Action::"prompts/get", resource == Prompt::"peer/greet");"#;
    let one_resource =
        r#"permit (principal, action == Action::"resources/read", resource == Resource::"peer/a:open");"#;
    for (policy, method, get, allowed, other) in [
        (
            one_prompt,
            "prompts/list",
            "prompts/get",
            json!({"name": "greet"}),
            json!({"name": "secret"}),
        ),
        (
            one_resource,
            "resources/list",
            "resources/read",
            json!({"uri": "a:open"}),
            json!({"uri": "a:secret"}),
        ),
    ] {
        for server in [Speaks::Legacy, Speaks::Modern] {
            let harbour = Harbour::with(server, &["read"], |setup| setup.policy(policy)).await;
            harbour.peer.list("prompts", &[prompt("greet"), prompt("secret")]);
            harbour
                .peer
                .list("resources", &[resource("a:open"), resource("a:secret")]);
            let shown = Turn::Result(r#"{"contents":[],"messages":[]}"#.to_owned());
            for label in ["greet", "secret", "a:open", "a:secret"] {
                harbour.peer.always(label, shown.clone());
            }
            let member = method.trim_end_matches("/list");
            for answer in both(&harbour, method, json!({})).await {
                assert_eq!(
                    answer.result()[member].as_array().unwrap().len(),
                    1,
                    "{}",
                    answer.text()
                );
            }
            for answer in both(&harbour, get, allowed.clone()).await {
                assert!(answer.last().get("result").is_some(), "{}", answer.text());
            }
            for answer in both(&harbour, get, other.clone()).await {
                assert!(answer.last().get("error").is_some(), "{}", answer.text());
            }
            for answer in both(&harbour, "tools/list", json!({})).await {
                assert_eq!(answer.result()["tools"], json!([]), "{}", answer.text());
            }
        }
    }
}
