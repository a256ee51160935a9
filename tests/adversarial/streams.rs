//! Streams that are open while the rules, or the credential they were opened with, come to an end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::support::harbour::everything;
use crate::support::issuer::{but, claims};
use crate::support::peer::ran;
use crate::support::setup::PERMIT_ALL;
use crate::support::stream::Stream;
use crate::support::{Agent, Beat, Harbour, Modern, Speaks, Turn, eventually};

const UPDATED: &str = "notifications/resources/updated";
const LOGGED: &str = "notifications/message";
/// Longer than a message that was let through would take.
const A_WHILE: Duration = Duration::from_millis(1_500);

fn update(number: u64) -> Beat {
    Beat::notify(UPDATED, &json!({"uri": "a:mine", "number": number}))
}

fn log(number: u64) -> Beat {
    Beat::notify(LOGGED, &json!({"level": "error", "data": number}))
}

/// The era of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    Legacy,
    Modern,
}

/// Every client with every server.
const PAIRS: [(Client, Speaks); 4] = [
    (Client::Legacy, Speaks::Legacy),
    (Client::Legacy, Speaks::Modern),
    (Client::Modern, Speaks::Legacy),
    (Client::Modern, Speaks::Modern),
];

/// A server that tells of its resource when somebody has subscribed, and again when it is told to.
async fn telling(server: Speaks) -> (Telling, Arc<Notify>) {
    let harbour = Harbour::with(server, &["work"], |setup| setup).await;
    harbour.agent("first").await.call("work", json!({})).await;
    let go_on = Arc::new(Notify::new());
    let (subscribed, said) = watch::channel(false);
    let beats = [
        Beat::Since(said),
        update(1),
        Beat::Until(go_on.clone()),
        update(2),
        Beat::Hold,
    ];
    harbour.peer.on_own_stream(beats.to_vec());
    let beats = [
        log(1),
        Beat::Until(go_on.clone()),
        log(2),
        Beat::Tell(
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$token,"progress":2}}"#
                .into(),
        ),
        Beat::Wait(Duration::from_millis(500)),
        Beat::result(&ran("work")),
    ];
    harbour.peer.always("work", Turn::Stream(beats.to_vec()));
    (Telling { harbour, subscribed }, go_on)
}

/// A gateway before such a server.
struct Telling {
    harbour: Harbour,
    /// Whether somebody has subscribed.
    subscribed: watch::Sender<bool>,
}

impl std::ops::Deref for Telling {
    type Target = Harbour;

    fn deref(&self) -> &Harbour {
        &self.harbour
    }
}

/// A stream that hears of the resource.
async fn listening(harbour: &Telling, client: Client, token: &str) -> Stream {
    let stream = match client {
        Client::Legacy => {
            let agent = Agent::connect(&harbour.gateway, "/mcp/peer", token).await;
            let stream = agent.listen(None).await;
            let subscribed = agent.request("resources/subscribe", json!({"uri": "a:mine"})).await;
            assert_eq!(subscribed.result(), json!({}), "{}", subscribed.text());
            stream
        }
        Client::Modern => {
            let modern = Modern::new(&harbour.gateway, "/mcp/peer", token);
            let wanted = json!({"notifications": {"resourceSubscriptions": ["a:mine"]}});
            modern.follow("subscriptions/listen", wanted).await
        }
    };
    harbour.subscribed.send_replace(true);
    stream
}

/// A call that is told of while it runs.
async fn calling(harbour: &Harbour, client: Client, token: &str) -> Stream {
    let params = json!({"name": "work", "arguments": {}, "_meta": {"progressToken": "p"}});
    match client {
        Client::Legacy => {
            let agent = Agent::connect(&harbour.gateway, "/mcp/peer", token).await;
            agent.follow("tools/call", params).await
        }
        Client::Modern => {
            let meta = json!({"io.modelcontextprotocol/logLevel": "debug", "progressToken": "p"});
            let modern = Modern::new(&harbour.gateway, "/mcp/peer", token).saying(meta);
            modern.follow("tools/call", params).await
        }
    }
}

/// The rules from now on.
async fn rule(harbour: &Harbour, policy: &str, is_in_force: impl Fn(&[String]) -> bool) {
    let watcher = harbour.agent("watcher").await;
    std::fs::write(harbour.gateway.home.path("policies/main.cedar"), policy).unwrap();
    eventually("the policies are in force", 15, async || {
        is_in_force(&watcher.names().await)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn once_the_rules_deny_everything_nothing_more_arrives_on_a_stream_that_is_open() {
    for (client, server) in PAIRS {
        let (harbour, go_on) = telling(server).await;
        let token = harbour.issuer.token("ann");
        let mut stream = listening(&harbour, client, &token).await;
        assert_eq!(
            stream.until(UPDATED).await["params"]["number"],
            1,
            "{client:?} {server:?}"
        );
        let mut call = calling(&harbour, client, &token).await;
        assert_eq!(call.until(LOGGED).await["params"]["data"], 1, "{client:?} {server:?}");
        rule(&harbour, "", <[String]>::is_empty).await;
        go_on.notify_waiters();
        let after = call.next().await.expect("the answer");
        assert!(after.get("method").is_none(), "{client:?} {server:?}: {after}");
        while let Ok(Some(message)) = tokio::time::timeout(A_WHILE, stream.next()).await {
            assert_ne!(message["method"], UPDATED, "{client:?} {server:?}: {message}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_still_allow_it_let_what_follows_through() {
    for (client, server) in PAIRS {
        let (harbour, go_on) = telling(server).await;
        let token = harbour.issuer.token("ann");
        let mut stream = listening(&harbour, client, &token).await;
        assert_eq!(stream.until(UPDATED).await["params"]["number"], 1);
        let mut call = calling(&harbour, client, &token).await;
        assert_eq!(call.until(LOGGED).await["params"]["data"], 1);
        let others = r#"permit (principal, action, resource) unless { principal == User::"watcher" };"#;
        rule(&harbour, others, <[String]>::is_empty).await;
        go_on.notify_waiters();
        assert_eq!(call.until(LOGGED).await["params"]["data"], 2, "{client:?} {server:?}");
        call.until("notifications/progress").await;
        call.answer().await;
        assert_eq!(
            stream.until(UPDATED).await["params"]["number"],
            2,
            "{client:?} {server:?}"
        );
    }
}

/// How long the credentials are good that are to end.
const LIFETIME: i64 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_the_credential_does_that_it_was_opened_with() {
    let mut cases = tokio::task::JoinSet::new();
    for (client, server) in PAIRS {
        for kind in ["jwt", "token"] {
            cases.spawn(ends_with_its_credential(client, server, kind));
        }
    }
    cases.join_all().await;
}

async fn ends_with_its_credential(client: Client, server: Speaks, kind: &str) {
    let (harbour, _) = telling(server).await;
    let credential = if kind == "jwt" {
        let ends = jiff::Timestamp::now().as_second() + LIFETIME;
        harbour.issuer.sign(&but(claims("ann"), json!({"exp": ends})))
    } else {
        let options = ["--sub", "ann", "--ttl", &format!("{LIFETIME}s")];
        let made = harbour.gateway.home.agent_token(&options);
        made["token"].as_str().unwrap().to_owned()
    };
    let mut stream = listening(&harbour, client, &credential).await;
    let mut call = calling(&harbour, client, &credential).await;
    assert_eq!(call.until(LOGGED).await["params"]["data"], 1);
    for (name, stream) in [("call", &mut call), ("listening", &mut stream)] {
        // Neither goes on by itself: that they end at all is what is asked.
        while let Some(message) = stream.next().await {
            let number = &message["params"]["number"];
            assert!(*number != 2, "{name} {kind} {client:?} {server:?}: {message}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_decided_again_in_each_round() {
    let question = |answered: &Value| json!({"roots": answered});
    for (client, server) in PAIRS {
        let harbour = Harbour::with(server, &["ask"], |setup| setup).await;
        match server {
            Speaks::Modern => harbour.peer.on("ask", move |seen| {
                if seen.json()["params"]["inputResponses"]["q"]["roots"].is_array() {
                    return Turn::Result(ran("ask"));
                }
                let inputs = json!({"q": {"method": "roots/list", "params": {}}});
                let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": "s"});
                Turn::Result(result.to_string())
            }),
            Speaks::Legacy => {
                let beats = vec![Beat::ask("q", "roots/list", json!({})), Beat::result(&ran("ask"))];
                harbour.peer.always("ask", Turn::Stream(beats));
            }
        }
        let case = format!("{client:?} {server:?}");
        match client {
            Client::Legacy => {
                let agent = harbour.able("ann").await;
                let mut stream = agent
                    .follow("tools/call", json!({"name": "ask", "arguments": {}}))
                    .await;
                let put = stream.until("roots/list").await;
                rule(&harbour, "", <[String]>::is_empty).await;
                agent
                    .answer(&put["id"], question(&json!([{"uri": "file:///secret"}])))
                    .await;
                let answer = stream.answer().await;
                if server == Speaks::Modern {
                    assert_eq!(answer["error"]["code"], -32003, "{case}: {answer}");
                }
            }
            Client::Modern => {
                let modern = harbour.modern("ann").able(everything());
                let first = modern.call("ask", json!({})).await.result();
                assert_eq!(first["resultType"], "input_required", "{case}");
                rule(&harbour, "", <[String]>::is_empty).await;
                let keys = first["inputRequests"].as_object().unwrap().keys();
                let answers: serde_json::Map<_, _> = keys
                    .map(|key| (key.clone(), question(&json!([{"uri": "file:///secret"}]))))
                    .collect();
                let round = json!({"name": "ask", "arguments": {}, "requestState": first["requestState"],
                    "inputResponses": answers});
                let refused = modern.request("tools/call", round).await;
                assert_eq!(refused.error_code(), -32602, "{case}: {}", refused.text());
            }
        }
        let seen: Vec<String> = harbour.peer.seen().iter().map(|seen| seen.json().to_string()).collect();
        assert!(
            !seen.iter().any(|body| body.contains("file:///secret")),
            "{case}: {seen:?}"
        );
    }
}

/// What a server may ask, and an answer to it.
fn kinds() -> [(&'static str, Value, Value); 3] {
    let form =
        json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}});
    let wanted = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Who?"}}], "maxTokens": 9});
    let said = json!({"type": "text", "text": "file:///secret"});
    [
        (
            "elicitation/create",
            form,
            json!({"action": "accept", "content": {"name": "file:///secret"}}),
        ),
        (
            "sampling/createMessage",
            wanted,
            json!({"role": "assistant", "model": "m", "content": said}),
        ),
        ("roots/list", json!({}), json!({"roots": [{"uri": "file:///secret"}]})),
    ]
}

/// Whether an answer reached the server that came after questions of this kind were forbidden, though its call was not.
async fn arrives_after_a_forbid(asked: &'static str, params: Value, answer: &Value, forbidden: &str) -> bool {
    let harbour = Harbour::with(Speaks::Modern, &["ask", "other"], |setup| setup).await;
    harbour.peer.on("ask", move |seen| {
        if seen.json()["params"]["inputResponses"]["q"].is_object() {
            return Turn::Result(ran("ask"));
        }
        let inputs = json!({"q": {"method": asked, "params": params}});
        let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": "s"});
        Turn::Result(result.to_string())
    });
    let modern = harbour.modern("ann").able(everything());
    let first = modern.call("ask", json!({})).await.result();
    assert_eq!(first["resultType"], "input_required", "{asked}: {first}");
    let forbids = format!(
        r#"{PERMIT_ALL}
        @id("no-question") forbid (principal, action == Action::"{forbidden}", resource);
        @id("no-other") forbid (principal, action, resource == Tool::"peer/other");"#
    );
    rule(&harbour, &forbids, |names| names == ["ask"]).await;
    let round =
        json!({"name": "ask", "arguments": {}, "requestState": first["requestState"], "inputResponses": {"q": answer}});
    let ended = modern.request("tools/call", round).await;
    let bodies = harbour.peer.seen().into_iter().map(|seen| seen.json().to_string());
    let has_arrived = bodies.filter(|body| body.contains("file:///secret")).count() > 0;
    if has_arrived {
        assert_eq!(ended.result()["content"][0]["text"], "ask ran", "{}", ended.text());
    } else {
        assert_eq!(ended.error_code(), -32003, "{}", ended.text());
        harbour.gateway.receipt_named_by(&ended);
    }
    has_arrived
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_question_that_was_forbidden_meanwhile_stays_here() {
    for (asked, params, answer) in kinds() {
        for forbidden in ["elicitation/create", "sampling/createMessage", "roots/list"] {
            let has_arrived = arrives_after_a_forbid(asked, params.clone(), &answer, forbidden).await;
            assert_eq!(has_arrived, asked != forbidden, "{asked} asked, {forbidden} forbidden");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_show_what_it_answers_needs_every_kind_allowed() {
    let odd = json!({"content": "file:///secret"});
    for (asked, params, _) in kinds() {
        assert!(
            !arrives_after_a_forbid(asked, params.clone(), &odd, "roots/list").await,
            "{asked}"
        );
    }
    let (asked, params, _) = kinds()[0].clone();
    assert!(
        arrives_after_a_forbid(asked, params, &odd, "resources/read").await,
        "the twin"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_under_older_rules_is_not_said_again() {
    for server in [Speaks::Legacy, Speaks::Modern] {
        let (harbour, go_on) = telling(server).await;
        let agent = harbour.agent("ann").await;
        let mut call = agent
            .follow("tools/call", json!({"name": "work", "arguments": {}}))
            .await;
        assert_eq!(call.until(LOGGED).await["params"]["data"], 1);
        go_on.notify_waiters();
        call.answer().await;
        let heard = async || {
            let mut heard = Vec::new();
            let mut again = agent.listen(Some("1.0")).await;
            while let Some(message) = again.next().await {
                heard.push(message);
            }
            heard
        };
        assert_eq!(heard().await.len(), 3, "the twin: it can be heard again");
        rule(&harbour, "", <[String]>::is_empty).await;
        assert_eq!(heard().await, Vec::<Value>::new(), "{server:?}");
    }
}
