//! Every setting takes effect on the next answer of a session that is already open, and what was declared is enforced
//! after a restart without asking anybody again.

use serde_json::{Value, json};

use super::scene::{
    CONFORMING, SANITISED, SCHEMA, TOKEN, VIOLATION, counted, declaring, harbour, is_verbatim, is_withheld, marked,
    reconfigure, text_of, texts,
};
use crate::support::{Act, Agent, Harbour, Server, Setup, Speaks, Town, Turn, tool};

/// A call whose outcome depends on one setting: the tool, its result, and the settings that change the outcome.
type Step = (&'static str, String, Value, &'static str);

async fn live() -> (Harbour, Agent) {
    let tools = [
        declaring("work", &counted()),
        declaring("broken", &json!({"type": "whatever"})),
        tool("odd"),
        tool("even"),
    ];
    let harbour = harbour(Speaks::Legacy, &tools, |setup| {
        setup.set("servers.peer.trust", "community").policy(&marked(0))
    })
    .await;
    let agent = harbour.agent("ann").await;
    (harbour, agent)
}

fn structured(raw: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"t"}}],"structuredContent":{raw}}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_of_validation_is_reloaded_for_a_live_session() {
    // R019, R038
    // Attack 21
    let (mut harbour, agent) = live().await;
    let long = structured(&format!(r#"{{"n":1{}}}"#, " ".repeat(100)));
    let deep = structured(r#"{"n":1}"#);
    let steps: [Step; 7] = [
        ("work", VIOLATION.to_owned(), json!({"mode": "strict"}), SCHEMA),
        ("work", VIOLATION.to_owned(), json!({"mode": "off"}), ""),
        ("work", long, json!({"mode": "strict", "max_bytes": 50}), SCHEMA),
        ("work", deep, json!({"mode": "strict", "max_depth": 1}), SCHEMA),
        (
            "work",
            texts(&["t"]),
            json!({"mode": "strict", "missing_structured_content": "block"}),
            SCHEMA,
        ),
        (
            "broken",
            structured("1"),
            json!({"mode": "strict", "uncompilable_schema": "block"}),
            SCHEMA,
        ),
        ("broken", structured("1"), json!({"mode": "strict"}), ""),
    ];
    for (epoch, (tool, result, settings, told)) in steps.into_iter().enumerate() {
        harbour.peer.always(tool, Turn::Result(result.clone()));
        let before = agent.call(tool, json!({})).await;
        let stood = is_verbatim(&before, &result);
        reconfigure(&mut harbour.gateway, &agent, epoch + 1, |setup| {
            setup.set("output_validation", &settings)
        })
        .await;
        let after = agent.call(tool, json!({})).await;
        match told {
            "" => assert!(!stood && is_verbatim(&after, &result), "{settings}: {}", after.text()),
            told => {
                assert!(stood || epoch > 1, "{settings}: {}", before.text());
                is_withheld(&settings.to_string(), &after.last(), told);
            }
        }
    }
    harbour.peer.always("work", Turn::Result(CONFORMING.to_owned()));
    assert!(
        is_verbatim(&agent.call("work", json!({})).await, CONFORMING),
        "the twin"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_of_sanitising_is_reloaded_for_a_live_session() {
    // R081, R083, R086, R087
    // Attack 21
    let (mut harbour, agent) = live().await;
    let text = format!("{TOKEN} and \u{200b}more\u{1b}[0m");
    harbour.peer.always("odd", Turn::Result(texts(&[&text])));
    harbour.peer.always("even", Turn::Result(texts(&[&text])));
    let name = |epoch: usize| if epoch.is_multiple_of(2) { "even" } else { "odd" };
    assert_eq!(text_of(&agent.call("even", json!({})).await, 0), text);
    let fence = |epoch: usize, text: &str| format!("«untrusted:peer/{0}»\n{text}\n«/untrusted:peer/{0}»", name(epoch));
    let masked = "[REDACTED:api_token] and \u{200b}more\u{1b}[0m".to_owned();
    let steps = [
        (json!({"response_action": "redact"}), masked.clone()),
        (json!({"spotlight_untrusted": true}), fence(2, &text)),
        (json!({"strip_control_chars": true}), format!("{TOKEN} and more")),
        (
            json!({"strip_control_chars": true, "strip_classes": ["ansi"]}),
            format!("{TOKEN} and \u{200b}more"),
        ),
        (json!({"response_action": "redact", "max_redactions": 0}), String::new()),
        (json!({"response_action": "block"}), String::new()),
        (json!({}), text.clone()),
        (
            json!({"response_action": "redact", "spotlight_untrusted": true}),
            fence(8, &masked),
        ),
    ];
    for (place, (settings, wanted)) in steps.into_iter().enumerate() {
        let epoch = place + 1;
        reconfigure(&mut harbour.gateway, &agent, epoch, |setup| {
            setup.set("output_sanitisation", &settings)
        })
        .await;
        let answer = agent.call(name(epoch), json!({})).await;
        match wanted.is_empty() {
            true => is_withheld(&settings.to_string(), &answer.last(), SANITISED),
            false => assert_eq!(text_of(&answer, 0), wanted, "{settings}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_while_a_call_was_under_way_holds_for_its_answer() {
    // Attack 21
    let (mut harbour, agent) = live().await;
    let go_on = std::sync::Arc::new(tokio::sync::Notify::new());
    let beats = vec![
        crate::support::Beat::Until(std::sync::Arc::clone(&go_on)),
        crate::support::Beat::result(VIOLATION),
    ];
    harbour.peer.always("work", Turn::Stream(beats));
    let calling = tokio::spawn({
        let agent = agent.clone();
        async move { agent.call("work", json!({})).await }
    });
    crate::support::eventually("the call is under way", 10, async || {
        harbour.peer.asked("tools/call").len() == 1
    })
    .await;
    reconfigure(&mut harbour.gateway, &agent, 1, |setup| {
        setup.set("output_validation.mode", "strict")
    })
    .await;
    go_on.notify_one();
    is_withheld("under way", &calling.await.unwrap().last(), SCHEMA);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_is_enforced_after_a_restart_while_the_list_of_its_server_fails() {
    // R032, R045
    let town = Town::offering(&[declaring("work", &counted()), tool("plain")], |setup: Setup| {
        setup.set("output_validation.mode", "strict")
    })
    .await;
    for name in ["work", "plain"] {
        town.files.on(name, Act::Answer(VIOLATION.to_owned()));
    }
    let agent = town.agent("ann").await;
    agent.names().await;
    let lists = |files: &Server| files.seen().iter().filter(|seen| seen.method() == "tools/list").count();
    let asked = lists(&town.files);
    for _ in 0..20 {
        is_withheld("before", &agent.call("work", json!({})).await.last(), SCHEMA);
        assert!(is_verbatim(&agent.call("plain", json!({})).await, VIOLATION));
    }
    assert_eq!(lists(&town.files), asked, "no call asks for a list");
    town.files.offer_raw(vec!["this is no JSON".to_owned()]);
    let town = town.restarted().await;
    let agent = town.agent("ann").await;
    is_withheld("after", &agent.call("work", json!({})).await.last(), SCHEMA);
    assert!(
        is_verbatim(&agent.call("plain", json!({})).await, VIOLATION),
        "its twin declared nothing"
    );
    town.files.on("work", Act::Answer(CONFORMING.to_owned()));
    assert!(is_verbatim(&agent.call("work", json!({})).await, CONFORMING));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_changes_withdraws_its_tool_and_is_enforced_once_approved() {
    // R063
    // Attack 37
    let town = Town::offering(&[declaring("work", &counted()), tool("plain")], |setup: Setup| {
        setup.set("output_validation.mode", "strict")
    })
    .await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, ["plain", "work"]);
    town.files.on("work", Act::Answer(VIOLATION.to_owned()));
    // Swapped between list and call: nobody asked again, so what was pinned counts.
    town.files
        .offer(&[declaring("work", &json!({"type": "object"})), tool("plain")]);
    is_withheld("swapped", &agent.call("work", json!({})).await.last(), SCHEMA);
    let town = town.restarted().await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, ["plain"], "withdrawn");
    assert_eq!(agent.call("work", json!({})).await.error_code(), -32602);
    town.gateway.home.cli(&["tool", "approve", "files/work"]).success();
    assert!(
        is_verbatim(&agent.call("work", json!({})).await, VIOLATION),
        "the new schema lets it pass"
    );
    town.files.on(
        "work",
        Act::Answer(r#"{"content":[],"structuredContent":["VIOLATION"]}"#.to_owned()),
    );
    is_withheld("approved", &agent.call("work", json!({})).await.last(), SCHEMA);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_is_compiled_once_for_all_calls_and_once_more_when_it_changes() {
    // R058
    let tools = |work: &Value| {
        let rest = [declaring("other", &counted()), tool("odd"), tool("even")];
        [&[declaring("work", work)], &rest[..]].concat()
    };
    let mut harbour = harbour(Speaks::Legacy, &tools(&counted()), |setup| {
        setup
            .set("output_validation.mode", "strict")
            .variable("PORTREEVE_LOG", "debug")
            .policy(&marked(0))
    })
    .await;
    let agent = harbour.agent("ann").await;
    let compiled = |harbour: &Harbour, tool: &str| {
        let logs = harbour.gateway.logs();
        let lines = logs
            .lines()
            .filter(|line| line.contains("what judges calls of a tool was compiled"));
        lines.filter(|line| line.contains(tool)).count()
    };
    assert_eq!(agent.names().await, ["even", "other", "work"]);
    harbour.peer.always("work", Turn::Result(CONFORMING.to_owned()));
    for number in 0..1_000 {
        if number == 500 {
            harbour.peer.always("work", Turn::Result(VIOLATION.to_owned()));
        }
        let answer = agent.call("work", json!({})).await;
        assert_eq!(is_verbatim(&answer, CONFORMING), number < 500, "{}", answer.text());
    }
    assert_eq!((compiled(&harbour, "work"), compiled(&harbour, "other")), (1, 1));
    let deeper = |setup: Setup| setup.set("output_validation.max_depth", 32);
    reconfigure(&mut harbour.gateway, &agent, 1, deeper).await;
    is_withheld("reloaded", &agent.call("work", json!({})).await.last(), SCHEMA);
    assert_eq!(compiled(&harbour, "work"), 1, "a reload compiles nothing again");
    harbour
        .peer
        .list("tools", &tools(&json!({"type": "object", "required": ["m"]})));
    let other = r#"{"content":[],"structuredContent":{"m":1}}"#;
    harbour.peer.always("work", Turn::Result(other.to_owned()));
    let home = &harbour.gateway.home;
    home.cli(&["server", "refresh", "peer"]).success();
    home.cli(&["tool", "approve", "peer/work"]).success();
    for _ in 0..100 {
        assert!(is_verbatim(&agent.call("work", json!({})).await, other));
    }
    assert_eq!((compiled(&harbour, "work"), compiled(&harbour, "other")), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_older_rules_let_pass_is_not_said_again_by_a_stream_that_is_taken_up() {
    // Attack 21
    // Attack 26
    let (mut harbour, agent) = live().await;
    let log = crate::support::Beat::notify("notifications/message", &json!({"level": "error", "data": TOKEN}));
    harbour.peer.always(
        "work",
        Turn::Stream(vec![log, crate::support::Beat::result(CONFORMING)]),
    );
    let call = json!({"name": "work", "arguments": {}});
    let mut stream = agent.follow("tools/call", call.clone()).await;
    let first = stream.next().await.unwrap();
    assert!(first.to_string().contains(TOKEN), "nobody looks for it yet: {first}");
    stream.answer().await;
    let again = async |id: &str| {
        let mut heard = Vec::new();
        let mut taken_up = agent.listen(Some(id)).await;
        while let Some(message) = taken_up.next().await {
            heard.push(message);
        }
        heard
    };
    assert_eq!(again("1.0").await.len(), 2, "the twin: it can be heard again");
    reconfigure(&mut harbour.gateway, &agent, 1, |setup| {
        setup.set("output_sanitisation.response_action", "redact")
    })
    .await;
    let heard = again("1.0").await;
    assert!(!format!("{heard:?}").contains(TOKEN), "{heard:?}");
    // What is judged by the new rules can be heard again, a while after they came; a reload may come twice.
    let mut heard = Vec::new();
    for _ in 0..30 {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let mut stream = agent.follow("tools/call", call.clone()).await;
        stream.answer().await;
        let last = stream.last_id.clone().expect("events are numbered");
        let number = last.split('.').next().unwrap_or_default();
        heard = again(&format!("{number}.0")).await;
        if heard.len() == 2 {
            break;
        }
    }
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0]["params"]["data"], "[REDACTED:api_token]");
}
