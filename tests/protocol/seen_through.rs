//! Tasks across eras: the client knows of none, so the gateway sees them through and answers the call with their end.

mod asking;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::peer::ran;
use crate::support::records::{all, receipts};
use crate::support::{Agent, Answer, Beat, Harbour, Modern, Peer, Setup, Speaks, Turn, eventually, tool};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const THEIRS: &str = "their-task-1";

/// A server whose tool `work` only runs as a task, by its era's means; the task is what the test makes of it.
async fn working(server: Speaks, timeout: &str) -> Harbour {
    let peer = Peer::start(server, &[]).await;
    let mut work = tool("work");
    match server {
        Speaks::Legacy => {
            peer.capable("extensions", None);
            peer.capable(
                "tasks",
                Some(json!({"cancel": {}, "requests": {"tools": {"call": {}}}})),
            );
            work["execution"] = json!({"taskSupport": "required"});
            peer.on("work", |seen| match seen.json()["params"]["task"].is_object() {
                false => Turn::Error(
                    200,
                    json!({"code": -32601, "message": "a task is required"}).to_string(),
                ),
                true => Turn::Result(json!({"task": state("working")}).to_string()),
            });
        }
        Speaks::Modern => peer.on("work", |seen| {
            let declared = &seen.json()["params"]["_meta"][CAPABILITIES]["extensions"][TASKS];
            if declared.is_object() {
                let mut begun = state("working");
                begun["resultType"] = json!("task");
                return Turn::Result(begun.to_string());
            }
            Turn::Error(400, missing())
        }),
    }
    peer.list("tools", &[work, tool("read")]);
    peer.always("tasks/cancel", Turn::Result(state("cancelled").to_string()));
    peer.always("tasks/update", Turn::Result(r#"{"resultType":"complete"}"#.into()));
    let harbour = Harbour::before(peer, |setup: Setup| setup.set("limits.timeout", timeout)).await;
    // A call waits for the first discovery no longer than its timeout, which a busy machine may need for that alone.
    eventually("the server is discovered", 60, async || {
        let listed = harbour.gateway.home.cli(&["tool", "list", "--json"]).success();
        listed.contains("/work\"")
    })
    .await;
    harbour
}

fn missing() -> String {
    let required = json!({"extensions": {TASKS: {}}});
    json!({"code": -32021, "message": "missing capability", "data": {"requiredCapabilities": required}}).to_string()
}

fn state(status: &str) -> Value {
    json!({"taskId": THEIRS, "status": status, "ttl": 60_000, "ttlMs": 60_000, "pollInterval": 1, "pollIntervalMs": 1,
        "createdAt": "2026-11-16T00:00:00Z", "lastUpdatedAt": "2026-11-16T00:00:00Z"})
}

/// A state with more members.
fn with(status: &str, more: &Value) -> String {
    let mut state = state(status);
    state.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    state.to_string()
}

/// The task works for so many questions, then it is in this state.
fn after(harbour: &Harbour, polls: usize, state_then: String) {
    let asked = AtomicUsize::new(0);
    harbour.peer.on("tasks/get", move |_| {
        let state = match asked.fetch_add(1, Ordering::SeqCst) {
            so_far if so_far < polls => state("working").to_string(),
            _ => state_then.clone(),
        };
        Turn::Result(state)
    });
}

/// Somebody of the other era than the server.
enum Stranger {
    Session(Agent),
    Stateless(Modern),
}

impl Stranger {
    async fn to(harbour: &Harbour, server: Speaks) -> Self {
        match server {
            Speaks::Legacy => Self::Stateless(harbour.modern("ann")),
            Speaks::Modern => Self::Session(harbour.agent("ann").await),
        }
    }

    async fn call(&self, tool: &str) -> Answer {
        match self {
            Self::Session(agent) => agent.call(tool, json!({"text": "x"})).await,
            Self::Stateless(modern) => modern.call(tool, json!({"text": "x"})).await,
        }
    }
}

async fn is_cancelled(harbour: &Harbour, case: &str) {
    let cancelled = || harbour.peer.asked("tasks/cancel");
    eventually(case, 5, async || !cancelled().is_empty()).await;
    assert_eq!(cancelled().len(), 1, "{case}");
    assert_eq!(cancelled()[0].json()["params"]["taskId"], THEIRS, "{case}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_session_is_the_answer_to_a_modern_call() {
    // R108
    let harbour = working(Speaks::Legacy, "10s").await;
    after(&harbour, 2, state("completed").to_string());
    let result = format!(
        r#"{{ "content":[ ],"structuredContent":{{"n":1e2}},"_meta":{{"{RELATED}":{{"taskId":"{THEIRS}"}},"x/y":1}}}}"#
    );
    harbour.peer.always("tasks/result", Turn::Result(result));
    let ann = harbour.modern("ann").able(json!({"extensions": {TASKS: {}}}));
    let discovered = ann.request("server/discover", json!({})).await;
    assert!(
        discovered.result()["capabilities"]["extensions"].is_null(),
        "{}",
        discovered.text()
    );
    let began = Instant::now();
    let done = ann.call("work", json!({"text": "x"})).await;
    assert!(
        done.text().contains(r#""content":[ ],"structuredContent":{"n":1e2}"#),
        "{}",
        done.text()
    );
    assert_eq!(
        (&done.result()["resultType"], &done.result()["_meta"]["x/y"]),
        (&json!("complete"), &json!(1))
    );
    assert!(!done.text().contains("task"), "{}", done.text());
    assert!(
        began.elapsed() >= Duration::from_millis(300),
        "a server is not asked as often as it likes"
    );
    let called = harbour.peer.asked("tools/call");
    assert_eq!(called.len(), 1);
    assert!(called[0].json()["params"]["task"]["ttl"].as_u64().unwrap() >= 10_000);
    assert_eq!(called[0].json()["params"]["arguments"], json!({"text": "x"}));
    assert_eq!(
        (
            harbour.peer.asked("tasks/get").len(),
            harbour.peer.asked("tasks/result").len()
        ),
        (3, 1)
    );
    for about in ["tasks/get", "tasks/result"] {
        let asked = harbour.peer.asked(about)[0].json();
        assert_eq!(asked["params"], json!({"taskId": THEIRS}), "{about}");
    }
    let receipt = harbour.gateway.receipt_of(&done);
    assert_eq!(receipt["mcp"]["method"], "tools/call");
    assert_eq!(
        (&receipt["outcome"]["status"], &receipt["outcome"]["executed"]),
        (&json!("success"), &json!(true))
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        harbour.peer.asked("tasks/cancel").len(),
        0,
        "what has ended is not cancelled"
    );
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_modern_server_is_the_answer_to_a_call_of_a_session() {
    // R108
    let harbour = working(Speaks::Modern, "10s").await;
    let ended = with("completed", &json!({"resultType": "complete", "result": "$"}));
    let result = r#"{ "content":[ ],"structuredContent":{"n":1e2},"resultType":"complete"}"#;
    after(&harbour, 2, ended.replace("\"$\"", result));
    let ann = harbour.agent("ann").await;
    let introduced = ann.request("initialize", crate::support::agent::initialize()).await;
    assert!(
        introduced.result()["capabilities"]["tasks"].is_null(),
        "{}",
        introduced.text()
    );
    let done = ann.call("work", json!({"text": "x"})).await;
    assert!(done.text().contains(result), "{}", done.text());
    assert!(!done.text().contains("task"), "{}", done.text());
    let called = harbour.peer.asked("tools/call");
    let declared: Vec<bool> = called
        .iter()
        .map(|call| call.json()["params"]["_meta"][CAPABILITIES]["extensions"][TASKS].is_object())
        .collect();
    assert_eq!(
        declared,
        [false, true],
        "the extension is declared where a server wants it"
    );
    assert_eq!(harbour.peer.asked("tasks/get").len(), 3);
    let receipt = harbour.gateway.receipt_of(&done);
    assert_eq!(receipt["mcp"]["method"], "tools/call");
    assert_eq!(
        (&receipt["outcome"]["status"], &receipt["outcome"]["executed"]),
        (&json!("success"), &json!(true))
    );
    let read = ann.call("read", json!({})).await;
    assert_eq!(read.result()["content"][0]["text"], "read ran");
    let told = harbour.peer.asked("tools/call").last().unwrap().json();
    assert!(
        told["params"]["_meta"][CAPABILITIES]["extensions"].is_null(),
        "nobody else hears of tasks: {told}"
    );
    assert_eq!(harbour.peer.asked("tasks/cancel").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_is_the_tools_own_error() {
    let error = json!({"code": -32050, "message": "it broke"});
    let tool_error = json!({"content": [{"type": "text", "text": "no luck"}], "isError": true});
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = working(server, "10s").await;
        let stranger = Stranger::to(&harbour, server).await;
        after(&harbour, 1, with("failed", &json!({"error": error})));
        harbour.peer.always("tasks/result", Turn::Error(200, error.to_string()));
        let failed = stranger.call("work").await;
        assert_eq!(failed.error_code(), -32050, "{server:?}: {}", failed.text());
        assert_eq!(harbour.gateway.receipt_of(&failed)["outcome"]["status"], "error");
        let status = if server == Speaks::Legacy {
            "failed"
        } else {
            "completed"
        };
        after(&harbour, 1, with(status, &json!({"result": tool_error})));
        harbour
            .peer
            .always("tasks/result", Turn::Result(tool_error.to_string()));
        let failed = stranger.call("work").await;
        assert_eq!(failed.result()["isError"], true, "{server:?}: {}", failed.text());
        assert_eq!(failed.result()["content"][0]["text"], "no luck");
        assert_eq!(harbour.gateway.receipt_of(&failed)["outcome"]["status"], "error");
        after(&harbour, 1, state("cancelled").to_string());
        harbour.peer.always("tasks/result", Turn::Error(200, error.to_string()));
        let cancelled = stranger.call("work").await;
        assert!(
            matches!(cancelled.error_code(), -32050 | -32603),
            "{}",
            cancelled.text()
        );
        harbour.serves_others("read").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_does_not_end_is_cancelled_and_the_call_times_out() {
    // R164
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = working(server, "2s").await;
        after(&harbour, usize::MAX, String::new());
        let late = Stranger::to(&harbour, server).await.call("work").await;
        assert_eq!(late.reason_codes(), ["ERROR_TIMEOUT"], "{server:?}: {}", late.text());
        let receipt = harbour.gateway.receipt_named_by(&late);
        assert_eq!(
            (&receipt["outcome"]["status"], &receipt["outcome"]["executed"]),
            (&json!("timeout"), &Value::Null)
        );
        is_cancelled(&harbour, "an endless task").await;
        let polls = harbour.peer.asked("tasks/get").len();
        assert!(
            (5..=20).contains(&polls),
            "{server:?}: asked {polls} times in two seconds"
        );
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(
            harbour.peer.asked("tasks/get").len() <= polls + 1,
            "nobody asks any more"
        );
        harbour.serves_others("read").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_talks_nonsense_about_a_task_ends_the_call() {
    // R164
    let other = json!({"taskId": "another", "status": "completed", "result": {"content": []}}).to_string();
    let twice = format!(r#"{{"taskId":"{THEIRS}","taskId":"{THEIRS}","status":"completed","result":{{}}}}"#);
    let cases = [
        ("another task", Turn::Result(other)),
        ("named twice", Turn::Result(twice)),
        ("an unknown state", Turn::Result(state("resting").to_string())),
        ("no state", Turn::Result("{}".into())),
        ("a number", Turn::Result("7".into())),
        (
            "an error",
            Turn::Error(
                200,
                json!({"code": -32602, "message": "no such task: SECRET"}).to_string(),
            ),
        ),
        ("a status", Turn::Status(503)),
        ("nothing", Turn::Stream(vec![Beat::Break])),
        ("a session that is gone", Turn::Status(404)),
    ];
    for server in [Speaks::Legacy, Speaks::Modern] {
        for (case, turn) in cases.clone() {
            let case = format!("{server:?}, {case}");
            let harbour = working(server, "10s").await;
            harbour.peer.always("tasks/get", turn);
            harbour.peer.always("tasks/result", Turn::Result(ran("SECRET")));
            let failed = Stranger::to(&harbour, server).await.call("work").await;
            assert_eq!(failed.error_code(), -32603, "{case}: {}", failed.text());
            assert!(!failed.text().contains("SECRET"), "{case}: {}", failed.text());
            let receipt = harbour.gateway.receipt_named_by(&failed);
            assert_eq!(receipt["outcome"]["executed"], Value::Null, "{case}");
            is_cancelled(&harbour, &case).await;
            assert_eq!(harbour.peer.asked("tasks/get").len(), 1, "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_task_or_a_server_that_is_never_content_is_not_waited_for() {
    let half = [
        json!({"task": {"taskId": THEIRS}}),
        json!({"task": 7}),
        json!({"task": state("resting")}),
    ];
    let harbour = working(Speaks::Legacy, "10s").await;
    for begun in half {
        harbour.peer.always("work", Turn::Result(begun.to_string()));
        let failed = harbour.modern("ann").call("work", json!({})).await;
        assert_eq!(failed.error_code(), -32603, "{begun}: {}", failed.text());
        assert_eq!(
            harbour.gateway.receipt_named_by(&failed)["outcome"]["executed"],
            Value::Null
        );
    }
    assert_eq!(harbour.peer.asked("tasks/get").len(), 0);
    harbour.peer.always("work", Turn::Result(ran("work")));
    let at_once = harbour.modern("ann").call("work", json!({})).await;
    assert_eq!(
        at_once.result()["content"][0]["text"],
        "work ran",
        "a server may answer at once"
    );

    let harbour = working(Speaks::Modern, "10s").await;
    let ann = harbour.agent("ann").await;
    harbour.peer.always("work", Turn::Error(400, missing()));
    assert_eq!(ann.call("work", json!({})).await.error_code(), -32021);
    assert_eq!(harbour.peer.asked("tools/call").len(), 2, "it is declared once");
    for ended in [
        json!({}),
        json!({"result": 7}),
        json!({"error": {"code": 1, "message": ""}}),
    ] {
        let harbour = working(Speaks::Modern, "10s").await;
        after(&harbour, 0, with("completed", &ended));
        let failed = harbour.agent("ann").await.call("work", json!({})).await;
        assert_eq!(failed.error_code(), -32603, "{ended}: {}", failed.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_no_longer_waits_cancels_the_task() {
    // R164
    let harbour = working(Speaks::Legacy, "20s").await;
    after(&harbour, usize::MAX, String::new());
    let ann = harbour.modern("ann");
    let ask = ann.ask(&ann.body("tools/call", json!({"name": "work"})));
    let mut wire = ann.door.open().await.unwrap();
    wire.send(&ask.bytes(ann.door.address)).await.unwrap();
    eventually("the task is under way", 5, async || {
        !harbour.peer.asked("tasks/get").is_empty()
    })
    .await;
    drop(wire);
    is_cancelled(&harbour, "a client hung up").await;
    let recorded = || {
        let mut found = receipts(&all(&harbour.gateway.home)).into_iter();
        found.find(|receipt| receipt["mcp"]["tool_name"] == "work")
    };
    eventually("the call is on record", 10, async || recorded().is_some()).await;
    assert_eq!(recorded().unwrap()["outcome"]["executed"], Value::Null);

    let harbour = working(Speaks::Modern, "20s").await;
    after(&harbour, usize::MAX, String::new());
    let ann = harbour.agent("ann").await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let (cancelled, ()) = tokio::join!(ann.call("work", json!({})), async {
        eventually("the task is under way", 5, async || {
            !harbour.peer.asked("tasks/get").is_empty()
        })
        .await;
        assert_eq!(ann.send(cancel.to_string()).await.status, 202);
    });
    assert_eq!(cancelled.reason_codes(), ["ERROR_CANCELLED"], "{}", cancelled.text());
    assert_eq!(
        harbour.gateway.receipt_named_by(&cancelled)["outcome"]["executed"],
        Value::Null
    );
    is_cancelled(&harbour, "a client cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_changes_within_an_era_or_where_no_task_is_required() {
    let harbour = working(Speaks::Legacy, "10s").await;
    let refused = harbour.agent("ann").await.call("work", json!({})).await;
    assert_eq!(
        refused.error_code(),
        -32601,
        "a session's client asks for tasks itself: {}",
        refused.text()
    );
    let began = harbour
        .agent("ann")
        .await
        .request(
            "tools/call",
            json!({"name": "work", "arguments": {}, "task": {"ttl": 5}}),
        )
        .await;
    let task = began.result()["task"].clone();
    assert!(task["taskId"].as_str().unwrap().len() >= 43, "{}", began.text());
    assert_eq!(
        harbour.peer.asked("tools/call")[1].json()["params"]["task"],
        json!({"ttl": 5})
    );
    let plain = harbour.modern("ann");
    let params = json!({"name": "read", "arguments": {}, "task": {"ttl": 5}});
    let read = plain.request("tools/call", params).await;
    assert_eq!(read.result()["content"][0]["text"], "read ran");
    let called = harbour.peer.asked("tools/call").last().unwrap().json();
    assert!(
        called["params"]["task"].is_null(),
        "no task across eras by the client's word: {called}"
    );
    // A server that does not take tasks is not asked for one, whatever its tools say.
    let peer = Peer::start(Speaks::Legacy, &[]).await;
    let mut work = tool("work");
    work["execution"] = json!({"taskSupport": "required"});
    peer.list("tools", &[work]);
    let harbour = Harbour::before(peer, |setup| setup).await;
    assert_eq!(
        harbour.modern("ann").call("work", json!({})).await.result()["content"][0]["text"],
        "work ran"
    );
    assert!(harbour.peer.asked("tools/call")[0].json()["params"]["task"].is_null());

    let harbour = working(Speaks::Modern, "10s").await;
    let refused = harbour.modern("ann").call("work", json!({})).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (400, -32021),
        "{}",
        refused.text()
    );
    assert_eq!(harbour.peer.asked("tools/call").len(), 1);
}
