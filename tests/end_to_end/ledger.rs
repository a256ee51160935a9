//! The log: one receipt for every request of any ending, chained, and never lost once an answer has left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::agent::{call_body, initialize_body};
use crate::support::environment::{Finished, command, repository};
use crate::support::records::{all, canonical_hash, fit_the_schema, lines_on_disk, receipts, sha256};
use crate::support::wire::Door;
use crate::support::{Act, Agent, Ask, Setup, Town, eventually};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_requests_of_all_endings_leave_ten_thousand_receipts() {
    // R152, R162, R164, R207
    let policy = r#"permit (principal, action, resource) when { !(context.args has amount) || context.args.amount < 5 };
                    forbid (principal, action, resource == Tool::"files/hidden");"#;
    let town = Town::with(&["read", "write", "fails", "slow", "hidden"], |setup: Setup| {
        setup
            .policy(policy)
            .risk("files/read", "low")
            .risk("files/write", "medium")
            .set("limits.request.max_bytes", 20_000)
    })
    .await;
    town.files.on("fails", Act::Status(500));
    town.files.on("slow", Act::Wait(Duration::from_millis(30)));
    let mut casts = Vec::new();
    for worker in 0..16_u64 {
        // What the gateway answers by itself is limited for each principal.
        let sub = format!("ann-{worker}");
        let cast = Cast {
            agent: town.agent(&sub).await,
            token: town.issuer.token(&sub),
            door: town.gateway.mcp.clone(),
        };
        casts.push((worker, cast));
    }
    let before: u64 = counted(&town);
    let sent = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = casts
        .into_iter()
        .map(|(worker, cast)| {
            let sent = Arc::clone(&sent);
            tokio::spawn(async move {
                let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ (worker + 1));
                while sent.load(Ordering::SeqCst) < 10_000 {
                    let requests = cast.act(dice.roll()).await;
                    sent.fetch_add(requests, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let sent = sent.load(Ordering::SeqCst);
    eventually("calls of clients that hung up end too", 20, async || {
        counted(&town) - before >= sent
    })
    .await;
    assert_eq!(counted(&town) - before, sent);
    let records = receipts(&all(&town.gateway.home));
    let ids: BTreeSet<_> = records
        .iter()
        .map(|record| record["receipt_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), records.len(), "no id twice");
    fit_the_schema(&records);
    verify_chain(&lines_on_disk(&town.gateway.home));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_folds_into_counts_that_still_add_up() {
    // R152
    let town = Town::with(&["read"], |setup| setup).await;
    let seq = town.gateway.last_seq();
    let mut flood = tokio::task::JoinSet::new();
    for _ in 0..600 {
        let door = town.gateway.mcp.clone();
        flood.spawn(async move { door.ask(&Ask::post("/mcp", "{}")).await.status });
    }
    assert!(flood.join_all().await.iter().all(|status| *status == 401));
    let receipts = town.gateway.receipts_after(seq);
    let sum: u64 = receipts.iter().map(|receipt| receipt["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, 600);
    assert!(receipts.len() < 600, "{} records", receipts.len());
    assert!(receipts.len() > 100, "the first hundred of a second stand alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_makes_up_servers_does_not_fill_the_log() {
    // R152
    let town = Town::with(&["read"], |setup| setup).await;
    let token = town.issuer.token("ann");
    let asks = |number: usize| {
        let route = format!("/mcp/s{number}");
        [
            Ask::post(&route, "{").bearer(&token),
            Ask::new("GET", &route).bearer(&token),
            Ask::post(&route, PING).bearer(&token),
        ]
    };
    let seq = town.gateway.last_seq();
    let mut flood = tokio::task::JoinSet::new();
    for ask in (0..600).flat_map(asks) {
        let door = town.gateway.mcp.clone();
        flood.spawn(async move { door.ask(&ask).await.status });
    }
    assert!(flood.join_all().await.iter().all(|status| *status >= 400));
    let receipts = town.gateway.receipts_after(seq);
    let sum: u64 = receipts.iter().map(|receipt| receipt["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, 1_800);
    let shared: Vec<_> = receipts.iter().filter(|receipt| receipt["count"] != 1).collect();
    assert!(!shared.is_empty(), "{} records: {:#?}", receipts.len(), receipts.last());
    for receipt in shared {
        assert_eq!(receipt["mcp"]["server_id"], Value::Null, "{receipt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_counts_though_its_sender_is_gone_at_once() {
    // R152
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let (before, door) = (counted(&town), agent.door());
    for _ in 0..100 {
        hang_up(&door, &agent.ask(call_body("read", "{}")).bytes(door.address)).await;
    }
    eventually("a hundred receipts", 10, async || counted(&town) - before >= 100).await;
    assert_eq!(counted(&town) - before, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_can_be_recomputed_by_anybody() {
    // R163
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    for _ in 0..20 {
        agent.call("read", json!({"text": "é"})).await;
        town.gateway.ask(Ask::new("GET", "/mcp")).await;
    }
    let town = town.restarted().await;
    town.agent("ann").await.call("read", json!({})).await;
    let mut lines = lines_on_disk(&town.gateway.stop().await);
    verify_chain(&lines);
    lines[7] = lines[7].replacen("\"epoch\":", "\"epoch\":1", 1);
    assert!(
        std::panic::catch_unwind(|| verify_chain(&lines)).is_err(),
        "an edit shows"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_is_recomputed_in_another_language() {
    // R225
    // Beyond what a byte holds, beyond what two do, and between both in the order of UTF-16.
    let odd = "\u{20ac}\u{1f600}\u{fb33}\\\"";
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent(odd).await;
    agent.call("read", json!({})).await;
    agent.call(odd, json!({})).await;
    town.gateway.ask(Ask::new("GET", "/mcp")).await;
    let home = town.gateway.stop().await;
    let lines = lines_on_disk(&home);
    assert!(lines.iter().any(|line| line.contains('\u{1f600}')), "{lines:?}");
    let recomputed = |lines: &[String]| {
        let file = home.path("records.jsonl");
        std::fs::write(&file, lines.join("\n")).unwrap();
        let script = repository().join("tests/end_to_end/chain.py");
        Finished::of(command("python3").arg(script).args(["gw.test/portreeve"]).arg(file))
    };
    assert_eq!(recomputed(&lines).success(), format!("{} records\n", lines.len()));
    for (number, from, to) in [
        (1, "\"seq\":", "\"seq\":1"),
        (2, "\"prev_hash\":\"sha256:", "\"prev_hash\":\"sha256:0"),
    ] {
        let mut edited = lines.clone();
        edited[number] = edited[number].replacen(from, to, 1);
        assert_ne!(edited[number], lines[number]);
        let ended = recomputed(&edited);
        assert_eq!(ended.code, Some(1), "{ended:?}");
    }
    let mut shorter = lines.clone();
    shorter.remove(1);
    assert_eq!(recomputed(&shorter).code, Some(1), "a record that is gone shows");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_loses_no_receipt_of_an_answer_that_left() {
    // R152
    let town = Town::with(&["read", "write"], |setup| {
        setup.risk("files/read", "low").risk("files/write", "medium")
    })
    .await;
    let agent = town.agent("ann").await;
    let over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            let (agent, over, tool) = (
                agent.clone(),
                Arc::clone(&over),
                if worker % 2 == 0 { "read" } else { "write" },
            );
            tokio::spawn(async move {
                let mut answered = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    let trace = crate::support::agent::fresh_trace();
                    let ask = agent
                        .ask(call_body(tool, "{}"))
                        .header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
                    match agent.door().try_ask(&ask).await {
                        Ok(reply) if reply.status == 200 => answered.push(trace),
                        _ => break,
                    }
                }
                answered
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let home = town.gateway.kill().await;
    over.store(true, Ordering::SeqCst);
    let mut answered = Vec::new();
    for worker in workers {
        answered.extend(worker.await.unwrap());
    }
    assert!(answered.len() > 50, "{} answers", answered.len());
    let gateway = home.serve().await;
    let recorded: BTreeSet<String> = receipts(&all(&gateway.home))
        .iter()
        .map(|r| r["trace_id"].as_str().unwrap().to_owned())
        .collect();
    let lost: Vec<_> = answered.iter().filter(|trace| !recorded.contains(*trace)).collect();
    assert!(lost.is_empty(), "{} of {} lost", lost.len(), answered.len());
    verify_chain(&lines_on_disk(&gateway.stop().await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_cut_off_by_a_kill_is_shown_as_interrupted() {
    // R152, R164
    let town = Town::with(&["write"], |setup| setup.risk("files/write", "medium")).await;
    town.files.on("write", Act::Hang);
    let agent = town.agent("ann").await;
    let hanging = tokio::spawn(async move { agent.door().try_ask(&agent.ask(call_body("write", "{}"))).await });
    eventually("the call is under way", 10, async || !town.files.calls().is_empty()).await;
    let gateway = town.gateway.kill().await.serve().await;
    assert!(hanging.await.unwrap().is_err());
    let records = all(&gateway.home);
    let intent = records.iter().find(|record| record["phase"] == "intent").unwrap();
    let last = receipts(&records)
        .into_iter()
        .find(|record| record["receipt_id"] == intent["receipt_id"])
        .unwrap();
    assert!(
        last["decision"]["reason_codes"]
            .to_string()
            .contains("ERROR_INTERRUPTED"),
        "{last}"
    );
    assert_eq!(last["outcome"]["executed"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_can_be_listed_as_soon_as_its_answer_has_left() {
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    for _ in 0..10 {
        let answer = agent.call("read", json!({})).await;
        assert_eq!(town.gateway.receipt_of(&answer)["mcp"]["tool_name"], "read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_log_stops_the_start_and_a_torn_tail_is_cut() {
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    agent.call("read", json!({})).await;
    let home = town.gateway.kill().await;
    let segment = home
        .state_files()
        .into_iter()
        .find(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("record_hash")));
    let segment = segment.unwrap();
    let whole = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, format!("{whole}{{\"torn\":")).unwrap();
    let gateway = home.serve().await;
    let home = gateway.stop().await;
    verify_chain(&lines_on_disk(&home));
    let edited = whole.replacen("\"ann\"", "\"eve\"", 1);
    std::fs::write(&segment, edited).unwrap();
    let refused = home.cli(&["serve"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
}

/// A second, independent check: canonical spelling, own hash, predecessor's hash, numbers without a gap, time forwards.
pub(super) fn verify_chain(lines: &[String]) {
    let mut previous = sha256(b"gw.test/portreeve");
    let mut time = String::new();
    for (number, line) in lines.iter().enumerate() {
        let mut record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            serde_json_canonicalizer::to_string(&record).unwrap(),
            *line,
            "canonical"
        );
        let hash = record.as_object_mut().unwrap().remove("record_hash").unwrap();
        assert_eq!(hash, canonical_hash(&record), "record {number}");
        assert_eq!(record["prev_hash"], previous, "record {number}");
        let first: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(
            record["seq"].as_u64().unwrap(),
            first["seq"].as_u64().unwrap() + number as u64
        );
        assert!(
            record["ts"].as_str().unwrap() >= time.as_str(),
            "record {number} goes back in time"
        );
        time = record["ts"].as_str().unwrap().to_owned();
        previous = hash.as_str().unwrap().to_owned();
    }
}

fn counted(town: &Town) -> u64 {
    receipts(&all(&town.gateway.home))
        .iter()
        .map(|record| record["count"].as_u64().unwrap())
        .sum()
}

/// Who acts in the great run.
struct Cast {
    agent: Agent,
    token: String,
    door: Door,
}

impl Cast {
    /// Does one of many things and says how many requests that was.
    async fn act(&self, roll: u64) -> u64 {
        let agent = self
            .agent
            .calling_from([127, 0, 2, u8::try_from(roll % 200).unwrap() + 1]);
        let door = agent.door();
        let stranger = Ask::post("/mcp", initialize_body());
        match (roll >> 8) % 22 {
            0 | 1 => drop(agent.call("read", json!({"text": "x"})).await),
            2 => drop(agent.call("write", json!({})).await),
            3 => drop(agent.list().await),
            4 => drop(agent.call("read", json!({"amount": 9})).await),
            5 => drop(agent.call("nothing", json!({})).await),
            6 => drop(agent.call("hidden", json!({})).await),
            7 => drop(agent.call("read", json!({"unknown": 1})).await),
            8 => drop(agent.call("fails", json!({})).await),
            9 => drop(door.ask(&stranger).await),
            10 => drop(door.ask(&stranger.bearer("a.b.c")).await),
            11 => drop(agent.send("{\"jsonrpc\":").await),
            12 => drop(
                door.ask(&stranger.bearer(&self.token).header("Host", "evil.example"))
                    .await,
            ),
            13 => drop(
                agent
                    .submit(agent.ask(PING).instead("Mcp-Session-Id", Some("unknown")))
                    .await,
            ),
            14 => drop(
                agent
                    .submit(agent.ask(PING).instead("Content-Type", Some("text/plain")))
                    .await,
            ),
            15 => drop(agent.request("no/such", json!({})).await),
            16 => drop(door.ask(&stranger.bearer(&self.token)).await),
            17 => drop(agent.send(" ".repeat(30_000)).await),
            18 => drop(door.ask(&Ask::new("GET", "/mcp").bearer(&self.token)).await),
            19 => drop(self.door.ask(&Ask::new("PUT", "/nowhere")).await),
            20 => hang_up(&door, &agent.ask(call_body("slow", "{}")).bytes(door.address)).await,
            _ => return Self::open_and_close(&door, &self.token).await,
        }
        1
    }

    async fn open_and_close(door: &Door, token: &str) -> u64 {
        let agent = Agent::through(door, "/mcp/files", Some(token)).await;
        agent.request("ping", json!({})).await;
        agent
            .submit(agent.ask("").instead("Content-Type", None).with_method("DELETE"))
            .await;
        3
    }
}

/// Sends a request and does not wait for the answer.
async fn hang_up(door: &Door, bytes: &[u8]) {
    let mut wire = door.open().await.unwrap();
    wire.send(bytes).await.unwrap();
}

/// Xorshift: the same run every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
