//! The gateway killed at any moment, under load, and started again on what is left: every released answer has its receipt, calls
//! that were under way are shown as such, and the log verifies after every start.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::evidence::{receipt, second, verified};
use super::full_disk::known;
use crate::support::agent::{call_body, fresh_trace};
use crate::support::records::{all, receipts};
use crate::support::{Agent, Gateway, Issuer, Server, Setup, eventually, tool};

const KILLS: usize = 24;
const CALLERS: usize = 6;

/// Calls until nobody answers any more; gives back the traces of the answers that came.
async fn call_until_nobody_answers(agent: Agent, answered: Arc<AtomicUsize>) -> Vec<String> {
    let mut traces = Vec::new();
    for number in 0.. {
        let trace = fresh_trace();
        let name = if number % 2 == 0 { "write" } else { "read" };
        let ask = agent.ask(call_body(name, "{}"));
        let ask = ask.header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
        match agent.door().try_ask(&ask).await {
            Ok(reply) if reply.status == 200 => {
                traces.push(trace);
                answered.fetch_add(1, Ordering::SeqCst);
            }
            Ok(_) | Err(_) => break,
        }
    }
    traces
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_killed_under_load_again_and_again_loses_no_receipt() {
    // R152, R226
    let issuer = Issuer::start().await;
    let files = Server::start(&[tool("read"), tool("write")]).await;
    let setup = Setup::with(&issuer, &files).risk("files/read", "low");
    let mut home = setup.risk("files/write", "medium").home();
    let mut released: Vec<String> = Vec::new();
    for kill in 0..KILLS {
        let gateway = Gateway::start(home).await;
        // Signed first: a log that nobody has signed yet is not sound.
        receipt(&gateway.home.state(), &["checkpoint"]).success();
        assert_eq!(verified(&gateway.home.state(), &[]).0, Some(0), "after {kill} kills");
        let answered = Arc::new(AtomicUsize::new(0));
        let mut callers = Vec::new();
        for caller in 0..CALLERS {
            let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token(&format!("caller-{caller}"))).await;
            known(&agent).await;
            callers.push(tokio::spawn(call_until_nobody_answers(agent, answered.clone())));
        }
        // Early and late, and never between two calls on purpose.
        let enough = kill * 7 % 40;
        eventually("they have called", 60, async || {
            answered.load(Ordering::SeqCst) >= enough
        })
        .await;
        home = gateway.kill().await;
        for caller in callers {
            released.extend(caller.await.unwrap());
        }
    }
    let home = Gateway::start(home).await.stop().await;
    let state = home.state();
    assert_eq!(verified(&state, &[]).0, Some(0));
    assert_eq!(second(&[state])[0]["ok"], true);
    let records = receipts(&all(&home));
    let mut finals: HashMap<&str, Vec<&Value>> = HashMap::new();
    for record in records.iter().filter(|record| record["phase"] == "final") {
        finals
            .entry(record["trace_id"].as_str().unwrap())
            .or_default()
            .push(record);
    }
    let is_interrupted = |record: &Value| {
        let codes = record["decision"]["reason_codes"].as_array().unwrap();
        codes.iter().any(|code| code == "ERROR_INTERRUPTED")
    };
    for trace in &released {
        let of_answer = &finals[trace.as_str()];
        assert!(of_answer.len() == 1 && !is_interrupted(of_answer[0]), "{of_answer:?}");
    }
    assert!(released.len() > KILLS, "{} answers", released.len());
    let orphans: Vec<&Value> = records.iter().filter(|record| is_interrupted(record)).collect();
    assert!(!orphans.is_empty(), "no call was ever under way");
    assert!(
        orphans.iter().all(|record| record["outcome"]["executed"].is_null()),
        "{orphans:?}"
    );
}
