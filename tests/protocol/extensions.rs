//! Methods beyond MCP: refused unless the operator names them, then decided and recorded like any other.

use serde_json::json;

use crate::support::{Harbour, Setup, Speaks, Turn};

#[tokio::test(flavor = "multi_thread")]
async fn a_method_nobody_named_is_refused_and_a_named_one_is_carried() {
    for server in [Speaks::Legacy, Speaks::Modern] {
        let named = |setup: Setup| setup.set("servers.peer.extension_methods", json!(["vendor/thing"]));
        let harbour = Harbour::with(server, &["read"], named).await;
        harbour
            .peer
            .always("vendor/thing", Turn::Result(r#"{"odd" :1e2}"#.to_owned()));
        harbour.peer.always("vendor/other", Turn::Result("{}".to_owned()));
        let (agent, modern) = (harbour.agent("ann").await, harbour.modern("ann"));
        let params = json!({"deep": {"x": 1}});
        let answers = [
            agent.request("vendor/thing", params.clone()).await,
            modern.request("vendor/thing", params.clone()).await,
        ];
        for answer in answers {
            assert!(answer.text().contains(r#""odd" :1e2"#), "{}", answer.text());
            let receipt = harbour.gateway.receipt_of(&answer);
            assert_eq!(
                (&receipt["mcp"]["method"], &receipt["decision"]["policy_id"]),
                (&json!("vendor/thing"), &json!("permit-all"))
            );
        }
        let sent = harbour.peer.asked("vendor/thing");
        assert_eq!((sent.len(), &sent[0].json()["params"]["deep"]), (2, &json!({"x": 1})));
        for method in ["vendor/other", "vendor/thing ", "Vendor/thing"] {
            let answer = agent.request(method, json!({})).await;
            assert_eq!((answer.status, answer.error_code()), (200, -32601), "{method}");
            harbour.gateway.receipt_named_by(&answer);
        }
        let answer = modern.request("vendor/other", json!({})).await;
        assert_eq!((answer.status, answer.error_code()), (404, -32601));
        assert_eq!(harbour.peer.asked("vendor/other").len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_method_is_an_action_of_the_policies() {
    // R118
    let policy = r#"
        permit (principal, action == Action::"tools/call", resource);
        @id("ann-only") permit (principal == User::"ann", action == Action::"vendor/thing", resource == Server::"peer");"#;
    let named = |setup: Setup| {
        let setup = setup.set("servers.peer.extension_methods", json!(["vendor/thing"]));
        setup.policy(policy)
    };
    let harbour = Harbour::with(Speaks::Legacy, &["read"], named).await;
    harbour.peer.always("vendor/thing", Turn::Result("{}".to_owned()));
    let allowed = harbour.agent("ann").await.request("vendor/thing", json!({})).await;
    assert_eq!(
        harbour.gateway.receipt_of(&allowed)["decision"]["policy_id"],
        "ann-only"
    );
    assert_eq!(allowed.result(), json!({}));
    let refused = harbour.agent("bob").await.request("vendor/thing", json!({})).await;
    assert!(refused.error_code() < 0);
    assert_eq!(harbour.gateway.receipt_named_by(&refused)["decision"]["result"], "deny");
    assert_eq!(harbour.peer.asked("vendor/thing").len(), 1);
}
