//! Killed at any moment and started again: every released answer has its receipt, and the log verifies.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use vocabulary::Risk;

use crate::sample::{self, Folder};
use crate::segment::{LedgerReader, Position};
use crate::verify::tests::{Dice, settings};
use crate::{Ledger, Question, Status, verify_state};

const KILLS: usize = 200;
const STATE: &str = "PORTREEVE_STATE_OF_THE_KILLED";
const SEED: &str = "PORTREEVE_SEED_OF_THE_KILLED";

#[test]
fn two_hundred_kills_under_load_lose_no_receipt_of_a_released_answer() {
    let folder = Folder::new();
    let mut dice = Dice(19);
    let mut released = HashSet::new();
    for _ in 0..KILLS {
        released.extend(run_and_kill(&folder, &mut dice));
    }
    let (ledger, _) = Ledger::open(folder.path(), settings(1 << 16)).unwrap();
    ledger.shutdown();
    let report = verify_state(folder.path(), &Question::default(), &mut |_| ()).unwrap();
    assert_eq!((report.fault, report.open_intents, report.unsigned), (None, 0, 0));
    assert!(report.checkpoints > 1, "{} checkpoints", report.checkpoints);

    let mut finals: HashMap<String, bool> = HashMap::new();
    let lines = LedgerReader::of_state(folder.path())
        .lines_from(Position::START)
        .unwrap();
    for line in lines {
        let record: Value = serde_json::from_slice(&line.unwrap().1).unwrap();
        if record["phase"] == "final" {
            let codes = record["decision"]["reason_codes"].as_array().unwrap();
            let is_orphan = codes.iter().any(|code| code == "ERROR_INTERRUPTED");
            assert!(!is_orphan || record["outcome"]["executed"].is_null(), "{record}");
            let id = record["receipt_id"].as_str().unwrap().to_owned();
            assert!(finals.insert(id, is_orphan).is_none(), "one final for a request");
        }
    }
    for id in &released {
        assert_eq!(finals.get(id), Some(&false), "{id} was answered");
    }
    assert!(released.len() > KILLS, "{} answers", released.len());
    assert!(
        finals.values().any(|is_orphan| *is_orphan),
        "no call was ever under way"
    );
}

/// The answers that a process released before it was killed.
#[expect(clippy::disallowed_methods, reason = "only a process can be killed")]
fn run_and_kill(folder: &Folder, dice: &mut Dice) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "open::crash::the_process_that_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(STATE, folder.path())
        .env(SEED, dice.below(1 << 30).to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    match dice.below(4) {
        // While it starts, too.
        0 => std::thread::sleep(Duration::from_micros(dice.below(30_000) as u64)),
        _ => {
            for _ in 0..=dice.below(24) {
                told.read_line(&mut text).unwrap();
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    told.read_to_string(&mut text).unwrap();
    // It writes whole lines; anything else it says is why it ended by itself.
    let ids: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(ids.iter().all(|id| id.starts_with("rcp_")), "{text}");
    ids
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a process that runs one test takes no arguments of its own"
)]
#[ignore = "is the process that the test above starts and kills"]
fn the_process_that_is_killed() {
    let state = PathBuf::from(std::env::var_os(STATE).unwrap());
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let (ledger, _) = Ledger::open(&state, settings(1 << 16)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    for task in 0..8 {
        let risk = if task % 2 == 0 { Risk::Low } else { Risk::High };
        runtime.spawn(call_for_ever(ledger.clone(), risk));
    }
    let mut dice = Dice(seed);
    loop {
        ledger.checkpoint().unwrap();
        if dice.below(16) == 0 {
            ledger.rotate_key("ann").unwrap();
        }
        std::thread::sleep(Duration::from_micros(dice.below(4_000) as u64));
    }
}

async fn call_for_ever(ledger: Ledger, risk: Risk) {
    loop {
        let arrival = sample::arrival();
        if risk >= Risk::Medium {
            let _ = ledger.append_intent(&arrival, sample::intent(risk)).await.unwrap();
        }
        let ending = sample::called(risk, Status::Success, Some(true));
        let receipt = ledger.append(&arrival, ending, 1).await.unwrap();
        // One write: whole, or not at all.
        let line = format!("{}\n", receipt.id());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
}
