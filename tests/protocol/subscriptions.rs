//! Subscriptions of both eras: only what was asked for, only what one may read, each under its own id.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Beat, Harbour, Speaks, Turn, eventually};

const ID: &str = "io.modelcontextprotocol/subscriptionId";
const UPDATED: &str = "notifications/resources/updated";

fn updates(uris: &[&str]) -> Vec<Beat> {
    let mut beats = vec![Beat::Wait(Duration::from_millis(500))];
    beats.extend(
        uris.iter()
            .map(|uri| Beat::notify(UPDATED, &json!({"uri": uri, "x": 1}))),
    );
    beats.push(Beat::Hold);
    beats
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_hears_of_the_resources_it_asked_for_and_may_read() {
    // R111
    let policy = r#"permit (principal, action, resource) unless { resource == Resource::"peer/a:secret" };"#;
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["read"], |setup| setup.policy(policy)).await;
        assert_eq!(harbour.modern("ann").call("read", json!({})).await.status, 200);
        harbour.peer.on_own_stream(updates(&["a:other", "a:secret", "a:mine"]));
        let wanted =
            json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a:mine", "a:secret"]}});
        let mut stream = harbour.modern("ann").follow("subscriptions/listen", wanted).await;
        let first = stream.next().await.unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        let params = &first["params"];
        assert_eq!(params["_meta"][ID], 1, "the client's own id");
        assert_eq!(
            params["notifications"],
            json!({"toolsListChanged": true, "resourceSubscriptions": ["a:mine"]})
        );
        let update = stream.next().await.unwrap();
        assert_eq!(
            (&update["method"], &update["params"]["uri"]),
            (&json!(UPDATED), &json!("a:mine"))
        );
        assert_eq!(
            (&update["params"]["_meta"][ID], &update["params"]["x"]),
            (&json!(1), &json!(1))
        );
        assert!(stream.is_silent_for(Duration::from_millis(300)).await);
        if server == Speaks::Legacy {
            let subscribed = harbour.peer.asked("resources/subscribe");
            let uris: Vec<Value> = subscribed
                .iter()
                .map(|seen| seen.json()["params"]["uri"].clone())
                .collect();
            assert_eq!(uris, [json!("a:mine")], "a legacy server has to be told");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listen_that_says_nothing_or_cannot_be_heard_is_refused() {
    let harbour = Harbour::with(Speaks::Modern, &["read"], |setup| setup).await;
    let modern = harbour.modern("ann");
    for params in [json!({}), json!({"notifications": []}), json!({"notifications": "all"})] {
        let refused = modern.request("subscriptions/listen", params).await;
        assert_eq!(refused.error_code(), -32602, "{}", refused.text());
        harbour.gateway.receipt_named_by(&refused);
    }
    let body = modern.body("subscriptions/listen", json!({"notifications": {}}));
    let deaf = modern.ask(&body).instead("Accept", Some("application/json"));
    assert_eq!(modern.submit(deaf).await.status, 406);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sessions_subscription_is_heard_on_its_own_stream_and_on_no_other() {
    // R108
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["read"], |setup| setup).await;
        let (ann, bob) = (harbour.agent("ann").await, harbour.agent("bob").await);
        ann.call("read", json!({})).await;
        harbour.peer.on_own_stream(updates(&["a:other", "a:mine"]));
        let mut of_bob = bob.listen(None).await;
        let mut of_ann = ann.listen(None).await;
        let subscribed = ann.request("resources/subscribe", json!({"uri": "a:mine"})).await;
        assert_eq!(subscribed.result(), json!({}), "{}", subscribed.text());
        harbour.gateway.receipt_of(&subscribed);
        let update = of_ann.until(UPDATED).await;
        assert_eq!(update["params"]["uri"], "a:mine");
        assert!(
            of_bob.is_silent_for(Duration::from_millis(800)).await,
            "Bob subscribed to nothing"
        );
        if server == Speaks::Modern {
            let listens = || harbour.peer.asked("subscriptions/listen");
            let ours = |seen: &crate::support::server::Seen| {
                seen.json()["params"]["notifications"]["resourceSubscriptions"] == json!(["a:mine"])
            };
            assert!(listens().iter().any(ours));
            let ended = ann.request("resources/unsubscribe", json!({"uri": "a:mine"})).await;
            assert_eq!(ended.result(), json!({}));
            eventually("the server is no longer listened to", 5, async || {
                harbour.peer.hung_up().contains(&"subscriptions/listen".to_owned())
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_changes_is_asked_for_again_and_told_to_those_it_concerns() {
    // R111, R112
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["read"], |setup| setup).await;
        let (ann, modern) = (harbour.agent("ann").await, harbour.modern("ann"));
        assert_eq!(ann.names().await, ["read"]);
        let mut of_ann = ann.listen(None).await;
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        let mut listening = modern.follow("subscriptions/listen", wanted).await;
        listening.until("notifications/subscriptions/acknowledged").await;
        let tools = ["read", "write"].map(crate::support::tool);
        harbour.peer.list("tools", &tools);
        let changed = Beat::notify("notifications/tools/list_changed", &json!({}));
        harbour.peer.always(
            "read",
            Turn::Stream(vec![changed, Beat::result(&crate::support::peer::ran("read"))]),
        );
        assert_eq!(
            modern.call("read", json!({})).await.messages().len(),
            1,
            "told on its own stream alone"
        );
        of_ann.until("notifications/tools/list_changed").await;
        let told = listening.until("notifications/tools/list_changed").await;
        assert_eq!(told["params"]["_meta"][ID], 1);
        assert_eq!(ann.names().await, ["read", "write"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_a_server_announces_is_passed_on_though_nothing_differs() {
    // R111
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["read"], |setup| setup).await;
        let (ann, modern) = (harbour.agent("ann").await, harbour.modern("ann"));
        assert_eq!(ann.names().await, ["read"]);
        let mut of_ann = ann.listen(None).await;
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        let mut listening = modern.follow("subscriptions/listen", wanted).await;
        listening.until("notifications/subscriptions/acknowledged").await;
        let before = harbour.peer.asked("tools/list").len();
        let changed = Beat::notify("notifications/tools/list_changed", &json!({}));
        let beats = vec![changed, Beat::result(&crate::support::peer::ran("read"))];
        harbour.peer.always("read", Turn::Stream(beats));
        modern.call("read", json!({})).await;
        of_ann.until("notifications/tools/list_changed").await;
        listening.until("notifications/tools/list_changed").await;
        assert!(
            harbour.peer.asked("tools/list").len() > before,
            "it was asked again first"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_is_not_kept_is_neither_told_nor_recorded_as_one_that_is() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(speaks, &["read"], |setup| setup).await;
        let agent = harbour.agent("ann").await;
        let mut refused = None;
        for number in 0..300 {
            let answer = agent
                .request("resources/subscribe", json!({"uri": format!("a:{number}")}))
                .await;
            if answer.last().get("error").is_some() {
                refused = Some((number, answer));
                break;
            }
        }
        let (kept, answer) = refused.expect("a session has a bound");
        assert_eq!(kept, 256, "{speaks:?}");
        assert_eq!(answer.reason_codes(), ["DENY_CONCURRENCY"], "{}", answer.text());
        let receipt = harbour.gateway.receipt_named_by(&answer);
        assert_eq!(receipt["outcome"]["status"], "error", "{receipt}");
        let freed = agent.request("resources/unsubscribe", json!({"uri": "a:0"})).await;
        assert_eq!(freed.result(), json!({}), "{}", freed.text());
        let again = agent.request("resources/subscribe", json!({"uri": "a:256"})).await;
        assert_eq!(again.result(), json!({}), "{speaks:?}: {}", again.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_and_completions_count_as_lists_and_are_refused_beyond() {
    let rate = json!([{"per": "principal", "calls": 4, "window": "1h", "methods": "lists"}]);
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup.set("limits.rate", rate)).await;
    harbour.peer.list("prompts", &[json!({"name": "greet"})]);
    let completed = r#"{"completion":{"values":["ann"]}}"#.to_owned();
    harbour.peer.always("completion/complete", Turn::Result(completed));
    harbour.gateway.home.cli(&["server", "refresh", "peer"]).success();
    // Opening the session is one of the four.
    let agent = harbour.agent("ann").await;
    let complete = || {
        let reference = json!({"type": "ref/prompt", "name": "greet"});
        let params = json!({"ref": reference, "argument": {"name": "n", "value": ""}});
        agent.request("completion/complete", params)
    };
    let subscribe = |uri: &str| agent.request("resources/subscribe", json!({"uri": uri}));
    assert_eq!(subscribe("a:1").await.result(), json!({}));
    assert_eq!(complete().await.result()["completion"]["values"], json!(["ann"]));
    assert_eq!(subscribe("a:2").await.result(), json!({}));
    for refused in [complete().await, subscribe("a:3").await] {
        assert_eq!(
            (refused.error_code(), refused.reason_codes()),
            (-32003, vec!["DENY_RATE_LIMIT".to_owned()]),
            "{}",
            refused.text()
        );
        harbour.gateway.receipt_named_by(&refused);
    }
    assert_eq!(harbour.peer.asked("completion/complete").len(), 1);
    assert_eq!(harbour.peer.asked("resources/subscribe").len(), 2);
    // Calls have an allowance of their own.
    assert_eq!(agent.call("read", json!({})).await.status, 200);
}
