//! What a task asks on the way: it is put to a client that knows of no task, by the means of that client's era.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{RELATED, THEIRS, after, is_cancelled, state, with, working};
use crate::support::harbour::everything;
use crate::support::peer::ran;
use crate::support::{Beat, Speaks, Turn};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sessions_task_asks_is_put_to_the_modern_client() {
    // R118
    let harbour = working(Speaks::Legacy, "10s").await;
    after(&harbour, 1, state("input_required").to_string());
    let related = json!({RELATED: {"taskId": THEIRS}});
    let beats = vec![
        Beat::ask("q", "roots/list", json!({"_meta": related})),
        Beat::result(&ran("work")),
    ];
    harbour.peer.always("tasks/result", Turn::Stream(beats));
    let ann = harbour.modern("ann").able(everything());
    let asked = ann.call("work", json!({"text": "x"})).await;
    assert_eq!(asked.result()["resultType"], "input_required", "{}", asked.text());
    assert!(!asked.text().contains(THEIRS), "{}", asked.text());
    let keys = asked.result()["inputRequests"].as_object().unwrap().clone();
    let answers: Value = keys
        .keys()
        .map(|key| (key.clone(), json!({"roots": []})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let params = json!({"name": "work", "arguments": {"text": "x"}, "inputResponses": answers,
        "requestState": asked.result()["requestState"]});
    let done = ann.request("tools/call", params).await;
    assert_eq!(done.result()["content"][0]["text"], "work ran", "{}", done.text());
    let heard = harbour.peer.answer_to("q").unwrap();
    assert_eq!(heard["result"], json!({"roots": [], "_meta": related}));
    assert_eq!(harbour.peer.asked("tools/call").len(), 1);
    // Nobody can be asked: the server hears so, and goes on as it likes.
    after(&harbour, 0, state("input_required").to_string());
    let beats = vec![Beat::ask("r", "roots/list", json!({})), Beat::result(&ran("work"))];
    harbour.peer.always("tasks/result", Turn::Stream(beats));
    let done = harbour.modern("bob").call("work", json!({})).await;
    assert_eq!(done.result()["content"][0]["text"], "work ran", "{}", done.text());
    assert!(harbour.peer.answer_to("r").unwrap()["error"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_modern_task_asks_is_put_to_the_client_of_a_session() {
    // R118
    let harbour = working(Speaks::Modern, "10s").await;
    let inputs = json!({"inputRequests": {"q": {"method": "roots/list", "params": {}}}});
    let waiting = AtomicUsize::new(0);
    let done = with(
        "completed",
        &json!({"result": {"content": [{"type": "text", "text": "work ran"}]}}),
    );
    // The question is still shown twice when it has been answered.
    harbour
        .peer
        .on("tasks/get", move |_| match waiting.fetch_add(1, Ordering::SeqCst) {
            0 => Turn::Result(state("working").to_string()),
            1..4 => Turn::Result(with("input_required", &inputs)),
            _ => Turn::Result(done.clone()),
        });
    let ann = harbour.able("ann").await;
    let mut stream = ann.follow("tools/call", json!({"name": "work", "arguments": {}})).await;
    let question = stream.until("roots/list").await;
    assert_eq!(
        ann.answer(&question["id"], json!({"roots": [{"uri": "file:///a"}]}))
            .await
            .status,
        202
    );
    let answer = stream.answer().await;
    assert_eq!(answer["result"]["content"][0]["text"], "work ran", "{answer}");
    let told = harbour.peer.asked("tasks/update");
    assert_eq!(told.len(), 1, "what was answered is not asked again");
    let params = &told[0].json()["params"];
    assert_eq!(params["taskId"], THEIRS);
    assert_eq!(
        params["inputResponses"],
        json!({"q": {"roots": [{"uri": "file:///a"}]}})
    );
    assert_eq!(harbour.peer.asked("tasks/cancel").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_asks_in_vain_or_without_end_is_not_left_behind() {
    // R118
    let harbour = working(Speaks::Modern, "10s").await;
    let inputs = json!({"inputRequests": {"q": {"method": "roots/list", "params": {}}}});
    after(&harbour, 0, with("input_required", &inputs));
    let refused = harbour.agent("bob").await.call("work", json!({})).await;
    assert_eq!(refused.result()["isError"], true, "{}", refused.text());
    is_cancelled(&harbour, "a question nobody may be asked").await;
    // One that asks without end.
    let harbour = working(Speaks::Modern, "10s").await;
    let asked = AtomicUsize::new(0);
    harbour.peer.on("tasks/get", move |_| {
        let key = format!("q{}", asked.fetch_add(1, Ordering::SeqCst));
        let inputs = json!({"inputRequests": {key: {"method": "roots/list", "params": {}}}});
        Turn::Result(with("input_required", &inputs))
    });
    let ann = harbour.able("ann").await;
    let mut stream = ann.follow("tools/call", json!({"name": "work", "arguments": {}})).await;
    let mut questions = 0;
    let answer = loop {
        let message = stream.next().await.expect("an answer");
        if message["method"] != "roots/list" {
            break message;
        }
        questions += 1;
        ann.answer(&message["id"], json!({"roots": []})).await;
    };
    assert_eq!((questions, &answer["result"]["isError"]), (8, &json!(true)), "{answer}");
    is_cancelled(&harbour, "a task that asks without end").await;
}
