//! Tasks of modern servers: under an id of ours, for the principal that began them, screened like any result.

use serde_json::{Value, json};

use crate::support::{Answer, Harbour, Modern, Speaks, Turn};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const THEIRS: &str = "their-task-1";

async fn working() -> Harbour {
    let harbour = Harbour::with(Speaks::Modern, &["work", "read"], |setup| setup).await;
    let task = json!({"resultType": "task", "taskId": THEIRS, "status": "working", "ttlMs": 60_000, "x": 1});
    harbour.peer.always("work", Turn::Result(task.to_string()));
    let state = format!(
        r#"{{"resultType":"complete","taskId":"{THEIRS}","status":"completed","result":{{ "content":[],"n":1e2}}}}"#
    );
    harbour.peer.always("tasks/get", Turn::Result(state));
    let done = r#"{"resultType":"complete"}"#.to_owned();
    harbour.peer.always("tasks/cancel", Turn::Result(done.clone()));
    harbour.peer.always("tasks/update", Turn::Result(done));
    harbour
}

fn able(harbour: &Harbour, sub: &str) -> Modern {
    harbour.modern(sub).able(json!({"extensions": {TASKS: {}}}))
}

async fn about(client: &Modern, method: &str, task: &Value) -> Answer {
    client
        .request(method, json!({"taskId": task, "inputResponses": {}}))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_known_under_an_id_of_ours_to_the_one_who_began_it() {
    // R108
    let harbour = working().await;
    let (ann, bob) = (able(&harbour, "ann"), able(&harbour, "bob"));
    let begun = ann.call("work", json!({})).await;
    let task = begun.result()["taskId"].clone();
    assert_eq!(
        (&begun.result()["resultType"], &begun.result()["x"]),
        (&json!("task"), &json!(1))
    );
    assert!(
        !begun.text().contains(THEIRS) && task.as_str().unwrap().len() >= 43,
        "{}",
        begun.text()
    );
    let state = about(&ann, "tasks/get", &task).await;
    assert_eq!(state.result()["taskId"], task);
    assert!(
        state.text().contains(r#""result":{ "content":[],"n":1e2}"#),
        "{}",
        state.text()
    );
    assert!(!state.text().contains(THEIRS), "{}", state.text());
    let receipt = harbour.gateway.receipt_of(&state);
    assert_eq!(
        (&receipt["mcp"]["method"], &receipt["mcp"]["tool_name"]),
        (&json!("tasks/get"), &json!("work"))
    );
    for method in ["tasks/update", "tasks/cancel"] {
        assert_eq!(about(&ann, method, &task).await.status, 200, "{method}");
        assert_eq!(harbour.peer.asked(method)[0].json()["params"]["taskId"], THEIRS);
    }
    let asked = harbour.peer.asked("tasks/get").len();
    for (case, client, id) in [
        ("another principal", &bob, task.clone()),
        ("the server's own id", &ann, json!(THEIRS)),
        ("made up", &ann, json!("0".repeat(64))),
        ("no text", &ann, json!(7)),
    ] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let mut ask = client.ask(&client.body(method, json!({"taskId": id})));
            if !id.is_string() {
                ask = ask.instead("Mcp-Name", Some(""));
            }
            let refused = client.submit(ask).await;
            assert_eq!(refused.error_code(), -32602, "{case} {method}: {}", refused.text());
            harbour.gateway.receipt_named_by(&refused);
        }
    }
    assert_eq!(harbour.peer.asked("tasks/get").len(), asked);
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_not_say_that_it_takes_tasks_gets_none() {
    let harbour = working().await;
    let task = able(&harbour, "ann").call("work", json!({})).await.result()["taskId"].clone();
    let unable = harbour.modern("ann");
    let withheld = unable.call("work", json!({})).await;
    assert_eq!(withheld.result()["isError"], true, "{}", withheld.text());
    assert!(!withheld.text().contains("taskId"), "{}", withheld.text());
    harbour.gateway.receipt_named_by(&withheld);
    let refused = about(&unable, "tasks/get", &task).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (400, -32021),
        "{}",
        refused.text()
    );
    let required = &refused.json()["error"]["data"]["requiredCapabilities"];
    assert_eq!(*required, json!({"extensions": {TASKS: {}}}));
    let told = harbour.peer.asked("tools/call");
    let said = |call: &crate::support::server::Seen| {
        call.json()["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"].is_object()
    };
    assert_eq!(
        told.iter().map(said).collect::<Vec<_>>(),
        [true, false],
        "the server is told what the client said"
    );
}
