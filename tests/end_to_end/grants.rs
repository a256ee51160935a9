//! Tokens that are granted for one server: exchanged for what the caller showed, or for the gateway's own word. Without one that is
//! exactly what was asked for, nothing is sent.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::issuer::{but, claims};
use crate::support::token_endpoint::{ACCESS_TOKEN, CLIENT, Grant, TokenEndpoint, response};
use crate::support::{Agent, Answer, Modern, Setup, Town};

async fn town(credential: impl FnOnce(&TokenEndpoint) -> Value) -> (Town, TokenEndpoint) {
    let endpoint = TokenEndpoint::start().await;
    let credential = credential(&endpoint);
    let town = Town::with(&["read"], |setup: Setup| {
        setup
            .variable("ENDPOINT_SECRET", CLIENT.1)
            .set("servers.files.credential", credential)
    })
    .await;
    (town, endpoint)
}

/// The header with which a server was called last.
fn shown(town: &Town) -> String {
    let calls = town.files.calls();
    calls.last().unwrap().headers.get("authorization").unwrap().to_owned()
}

/// Refused for want of a credential, said so, and on record.
fn unavailable(town: &Town, answer: &Answer, case: &str) {
    assert_eq!(answer.error_code(), -32603, "{case}: {}", answer.text());
    assert_eq!(answer.reason_codes(), ["DENY_CREDENTIAL_UNAVAILABLE"], "{case}");
    assert_eq!(answer.decision()["decision"], "deny", "{case}");
    let receipt = town.gateway.receipt_named_by(answer);
    assert_eq!(receipt["token_handling"]["mode"], "blocked", "{case}");
    assert_eq!(receipt["token_handling"]["passthrough_detected"], false, "{case}");
    assert_eq!(receipt["outcome"]["executed"], false, "{case}");
    assert_eq!(receipt["decision"]["result"], "deny", "{case}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_token_is_exchanged_for_one_that_is_for_the_server_alone() {
    // R123, R124, R129, R180
    let (town, endpoint) = town(|endpoint| endpoint.exchange(json!({"scopes": ["read", "list"]}))).await;
    let (ann, bob) = (town.issuer.token("ann"), town.issuer.token("bob"));
    let agent = Agent::connect(&town.gateway, "/mcp/files", &ann).await;
    let answer = agent.call("read", json!({})).await;
    assert_eq!(answer.result()["isError"], false, "{}", answer.text());
    let asked = endpoint.asked();
    let first = asked.first().unwrap();
    assert_eq!(first["subject_token"], ann);
    assert_eq!(
        (
            first["subject_token_type"].as_str(),
            first["requested_token_type"].as_str()
        ),
        (ACCESS_TOKEN, ACCESS_TOKEN)
    );
    assert_eq!(
        (first["resource"].as_str(), first["scope"].as_str()),
        (town.files.url().as_str(), "read list")
    );
    let receipt = town.gateway.receipt_of(&answer);
    assert_eq!(
        receipt["token_handling"],
        json!({"mode": "exchanged", "source": "exchange", "audience": town.files.url(), "audience_verified": true,
            "passthrough_detected": false})
    );
    let anns = shown(&town);
    // Kept for ann, and for nobody else.
    agent.call("read", json!({})).await.result();
    Modern::new(&town.gateway, "/mcp/files", &ann)
        .call("read", json!({}))
        .await
        .result();
    assert_eq!((endpoint.asked().len(), shown(&town)), (1, anns.clone()));
    Modern::new(&town.gateway, "/mcp/files", &bob)
        .call("read", json!({}))
        .await
        .result();
    assert_eq!(endpoint.asked().len(), 2);
    assert_ne!(shown(&town), anns);
    // A token of ann's that is good for less gets one of its own.
    let narrow = town.issuer.sign(&but(claims("ann"), json!({"scope": "read"})));
    Modern::new(&town.gateway, "/mcp/files", &narrow)
        .call("read", json!({}))
        .await
        .result();
    assert_eq!(endpoint.asked().len(), 3);
    assert_ne!(shown(&town), anns);
    // Another token that says the same is another token only.
    let renewed = town.issuer.sign(&but(claims("ann"), json!({"jti": "another"})));
    Modern::new(&town.gateway, "/mcp/files", &renewed)
        .call("read", json!({}))
        .await
        .result();
    assert_eq!((endpoint.asked().len(), shown(&town)), (3, anns));
    for token in [&ann, &bob, &narrow, &renewed] {
        let signature = token.rsplit('.').next().unwrap();
        assert!(!town.files.transcript().contains(signature));
        assert!(!town.gateway.logs().contains(signature));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_has_a_token_of_its_own_for_a_server_that_knows_no_callers() {
    // R123
    let (town, endpoint) =
        town(|endpoint| endpoint.client_credentials(json!({"audience": "https://files.test", "scopes": ["read"]})))
            .await;
    for sub in ["ann", "bob"] {
        let answer = town.agent(sub).await.call("read", json!({})).await;
        assert_eq!(answer.result()["isError"], false, "{}", answer.text());
        assert_eq!(
            town.gateway.receipt_of(&answer)["token_handling"],
            json!({"mode": "exchanged", "source": "client_credentials", "audience": "https://files.test", "audience_verified": true,
                "passthrough_detected": false})
        );
    }
    let asked = endpoint.asked();
    assert_eq!(asked.len(), 1, "one for all, and for the inventory");
    assert_eq!(asked[0]["grant_type"], "client_credentials");
    assert_eq!(
        (asked[0]["audience"].as_str(), asked[0]["scope"].as_str()),
        ("https://files.test", "read")
    );
    assert!(shown(&town).starts_with("Bearer eyJ"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_exactly_the_token_that_was_asked_for_nothing_is_sent() {
    // R124, R126
    let (town, endpoint) = town(|endpoint| endpoint.exchange(json!({"scopes": ["read"]}))).await;
    // Somebody must have been there for the server to be known.
    town.agent("first").await.call("read", json!({})).await.result();
    let before = town.files.calls().len();
    let large = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        10 << 20,
        " ".repeat(10 << 20)
    );
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}".to_owned();
    let away = format!(
        "HTTP/1.1 307 Away\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
        town.files.url()
    );
    let strangers = json!({"access_token": null});
    for (number, (grant, case)) in [
        (Grant::Subject, "the subject token handed back"),
        (Grant::Good(json!({"token_type": "DPoP"})), "another type of token"),
        (
            Grant::Good(json!({"issued_token_type": null})),
            "nobody knows what was issued",
        ),
        (Grant::Good(json!({"scope": "read write"})), "a wider scope"),
        (Grant::Good(json!({"expires_in": 0})), "ended at birth"),
        (Grant::Good(strangers), "no token"),
        (Grant::Refusal("invalid_target"), "a refusal"),
        (Grant::Refusal("invalid_grant"), "another refusal"),
        (Grant::Raw(response("500 Oops", &json!({}))), "a fault"),
        (Grant::Raw(large), "ten megabytes"),
        (Grant::Raw(page), "a page"),
        (Grant::Raw(away), "a redirect"),
        (Grant::Raw("HTTP/1.1 200 OK\r\n\r\n".to_owned()), "nothing"),
    ]
    .into_iter()
    .enumerate()
    {
        endpoint.answer(grant);
        let token = town.issuer.token(&format!("caller-{number}"));
        let caller = Modern::new(&town.gateway, "/mcp/files", &token);
        let answer = caller.call("read", json!({})).await;
        unavailable(&town, &answer, case);
        assert!(!answer.text().contains("the-endpoints-words"), "{case}");
    }
    assert_eq!(town.files.calls().len(), before, "nothing was sent");
    assert_eq!(
        town.files
            .seen()
            .iter()
            .filter(|seen| seen.start.contains("/token"))
            .count(),
        0
    );
    assert!(!town.gateway.logs().contains("the-endpoints-words"));
    // The same caller is served once the endpoint is what it was; nothing had to be started anew.
    endpoint.answer(Grant::Good(json!({})));
    crate::support::eventually("the endpoint is asked again", 60, async || {
        let caller = Modern::new(&town.gateway, "/mcp/files", &town.issuer.token("caller-0"));
        caller.call("read", json!({})).await.last().get("result").is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_or_absent_endpoint_denies_and_the_call_is_never_sent_without() {
    // R126
    let (town, endpoint) = town(|endpoint| endpoint.exchange(json!({}))).await;
    town.agent("first").await.call("read", json!({})).await.result();
    let before = town.files.calls().len();
    for (grant, sub) in [(Grant::Silence, "silent"), (Grant::Drip, "dripping")] {
        endpoint.answer(grant);
        let caller = Modern::new(&town.gateway, "/mcp/files", &town.issuer.token(sub));
        unavailable(&town, &caller.call("read", json!({})).await, sub);
    }
    endpoint.go_down().await;
    let caller = Modern::new(&town.gateway, "/mcp/files", &town.issuer.token("late"));
    unavailable(&town, &caller.call("read", json!({})).await, "down");
    assert_eq!(town.files.calls().len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_issued_by_an_issuer_cannot_be_exchanged() {
    // R126
    let (town, endpoint) = town(|endpoint| endpoint.exchange(json!({}))).await;
    town.agent("first").await.call("read", json!({})).await.result();
    let asked = endpoint.asked().len();
    let robot = town.gateway.home.agent_token(&["--sub", "robot"])["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let caller = Modern::new(&town.gateway, "/mcp/files", &robot);
    unavailable(&town, &caller.call("read", json!({})).await, "a token of ours");
    assert_eq!(endpoint.asked().len(), asked, "it is not even asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_at_once_cause_one_exchange_each() {
    // R124
    let (town, endpoint) = town(|endpoint| endpoint.exchange(json!({}))).await;
    town.agent("first").await.call("read", json!({})).await.result();
    let before = endpoint.asked().len();
    endpoint.answer(Grant::Late(Duration::from_millis(300)));
    let tokens: Vec<String> = (0..40)
        .map(|number| town.issuer.token(&format!("caller-{number}")))
        .collect();
    let mut calls = tokio::task::JoinSet::new();
    for token in &tokens {
        for _ in 0..5 {
            let caller = Modern::new(&town.gateway, "/mcp/files", token);
            calls.spawn(async move { caller.call("read", json!({})).await.result()["isError"].clone() });
        }
    }
    assert!(calls.join_all().await.iter().all(|failed| *failed == json!(false)));
    assert_eq!(endpoint.asked().len() - before, tokens.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn until_somebody_comes_whose_token_is_taken_a_list_is_empty_and_says_so() {
    let (town, endpoint) = town(|endpoint| endpoint.exchange(json!({}))).await;
    let robot = town.gateway.home.agent_token(&["--sub", "robot"])["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let robot = Agent::connect(&town.gateway, "/mcp", &robot).await;
    let listed = robot.request("tools/list", json!({})).await.result();
    assert_eq!(listed["tools"], json!([]));
    assert_eq!(listed["_meta"]["portreeve/unavailable"], json!(["files"]));
    assert_eq!(endpoint.asked().len(), 0);
    let ann = town.agent("ann").await;
    assert_eq!(ann.names().await, ["read"]);
    // What is known is known to all.
    assert_eq!(robot.names().await, ["files__read"]);
}
