//! Servers that were written by others make tasks; clients of the other era get answers.

use serde_json::{Value, json};

use super::fixture::Fixture;
use super::{Everything, are_installed, modules};
use crate::support::{Agent, Modern, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn the_fixtures_tasks_end_as_answers_to_a_client_with_a_session() {
    let fixture = Fixture::start("modern");
    let (gateway, token) = fixture.behind_gateway().await;
    let capabilities = json!({"capabilities": {"elicitation": {}}});
    let ann = Agent::declaring(&gateway, "/mcp/fixture", &token, capabilities).await;
    let failed = ann.call("failing_job", json!({})).await;
    assert_eq!(failed.result()["isError"], true, "{}", failed.text());
    assert!(failed.text().contains("as it always does"), "{}", failed.text());
    assert_eq!(gateway.receipt_of(&failed)["mcp"]["method"], "tools/call");
    let greeting = ann.call("greet", json!({"name": "Ann"})).await;
    assert!(greeting.text().contains("Ann"), "{}", greeting.text());
    // Asks first, by a round of its own, and becomes a task then.
    let mut stream = ann
        .follow("tools/call", json!({"name": "test_tool_with_task", "arguments": {}}))
        .await;
    let question = stream.until("elicitation/create").await;
    let said = json!({"action": "accept", "content": {"name": "Ann"}});
    assert_eq!(ann.answer(&question["id"], said).await.status, 202);
    let answer = stream.answer().await;
    assert_eq!(answer["result"]["content"][0]["text"], "Hello, Ann!", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_servers_tasks_end_as_answers_to_a_modern_client() {
    // R118
    let server = modules().join("@modelcontextprotocol/server-everything/dist/index.js");
    if !are_installed(&[&server]) {
        return;
    }
    let everything = Everything::start(&server);
    let settings = json!({"url": everything.url, "trust": "internal"});
    let gateway = Setup::new().set("servers.everything", settings).start().await;
    let token = gateway.home.agent_token(&["--sub", "ann"])["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let ann = Modern::new(&gateway, "/mcp/everything", &token);
    let tool = "simulate-research-query";
    let done = ann.call(tool, json!({"topic": "ports"})).await;
    let text = |answer: &Value| answer["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(
        text(&done.result()).starts_with("# Research Report: ports"),
        "{}",
        done.text()
    );
    assert_eq!(done.result()["resultType"], "complete");
    assert!(
        done.result()["_meta"]["io.modelcontextprotocol/related-task"].is_null(),
        "{}",
        done.text()
    );
    gateway.receipt_of(&done);
    // The same with a question on the way.
    let able = ann.able(json!({"elicitation": {"form": {}}}));
    let arguments = json!({"topic": "python", "ambiguous": true});
    let asked = able.call(tool, arguments.clone()).await;
    assert_eq!(asked.result()["resultType"], "input_required", "{}", asked.text());
    let keys = asked.result()["inputRequests"].as_object().unwrap().clone();
    let said = json!({"action": "accept", "content": {"interpretation": "snake"}});
    let answers: serde_json::Map<_, _> = keys.keys().map(|key| (key.clone(), said.clone())).collect();
    let params = json!({"name": tool, "arguments": arguments, "inputResponses": answers,
        "requestState": asked.result()["requestState"]});
    let done = able.request("tools/call", params).await;
    assert!(text(&done.result()).contains("python (snake)"), "{}", done.text());
}
