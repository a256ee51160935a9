//! Records that have grown old: they go, they are packed, and what is left is evidence as before.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use ledger::{Event, Ledger, Note};
use serde_json::{Value, json};
use vocabulary::{Clock, Timestamp};

use super::evidence::{receipt, second, verified};
use crate::support::setup::Home;
use crate::support::{Ask, Gateway, Setup, eventually};

const DAY: Duration = Duration::from_hours(24);

/// Writes what a gateway would have written in the last so many days, four records a day, a few in a segment.
fn live(state: &Path, days: u32) {
    DirBuilder::new().mode(0o700).create(state).unwrap();
    let now = Clock::system().now();
    let back = i64::try_from((DAY * days).as_micros()).unwrap();
    let clock = Clock::standing_at(Timestamp::from_micros(now.as_micros() - back));
    let settings = ledger::Settings {
        clock: clock.clone(),
        segment_bytes: 2048,
        ..ledger::Settings::new("gw.test/portreeve")
    };
    let (ledger, _) = Ledger::open(state, settings).unwrap();
    for day in 1..=days {
        for number in 0..4 {
            let note = Note::done(
                "token.create",
                "ann",
                Some("tok_1"),
                &format!("note {number} of day {day}"),
            );
            ledger.append_event_blocking(Event::Admin(note)).unwrap();
        }
        clock.turn_to(clock.now().plus(DAY));
    }
    ledger.shutdown();
}

async fn lived(state: &Path, days: u32) {
    let state = state.to_owned();
    tokio::task::spawn_blocking(move || live(&state, days)).await.unwrap();
}

fn first_segment(state: &Path) -> String {
    let names = fs::read_dir(state.join("ledger")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".jsonl")).min().unwrap()
}

fn retention(max_bytes: &str) -> Value {
    json!({"days": 30, "min_days": 10, "max_bytes": max_bytes})
}

async fn readiness(gateway: &Gateway) -> (u16, String) {
    let reply = gateway.ask(Ask::new("GET", "/readyz")).await;
    (reply.status, reply.text())
}

fn doctors_word(home: &Home) -> (Value, String) {
    let found: Value = serde_json::from_str(&home.cli(&["doctor", "--json"]).stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["check"] == "retention").unwrap();
    (check["ok"].clone(), check["detail"].as_str().unwrap().to_owned())
}

fn listed(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let told = home
        .cli(&[&["activity", "list", "--json"], arguments].concat())
        .success();
    told.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_removes_and_packs_what_is_old_and_everything_else_works_on() {
    let home = Setup::new().set("audit.retention", retention("1GiB")).home();
    let state = home.state();
    lived(&state, 60).await;
    // The index knows all of it before anything goes.
    let all = listed(&home, &["--limit", "1000"]);
    assert_eq!(all.len(), 240);
    let gateway = home.serve().await;
    eventually("old segments are gone, and the others packed", 60, async || {
        let first = first_segment(&state);
        !first.starts_with("00000001") && first.ends_with(".jsonl.zst")
    })
    .await;
    eventually("the log is quiet", 60, async || {
        let packed = |name: &str| name.ends_with(".jsonl.zst");
        let names = fs::read_dir(state.join("ledger")).unwrap();
        let names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.iter().filter(|name| packed(name)).count() > 5
            && names.iter().filter(|name| name.ends_with(".jsonl")).count() <= 2
    })
    .await;
    assert_eq!(readiness(&gateway).await, (200, "ready".to_owned()));
    let (code, told) = verified(&state, &[]);
    assert_eq!((code, &told["break"]), (Some(0), &Value::Null), "{told}");
    assert_eq!(second(std::slice::from_ref(&state))[0]["ok"], true);

    let left = listed(&gateway.home, &["--limit", "1000"]);
    let oldest = left.last().unwrap();
    assert!(oldest["seq"].as_u64().unwrap() > 100, "{oldest}");
    let then: Timestamp = Timestamp::parse(oldest["ts"].as_str().unwrap()).unwrap();
    assert!(then.plus(DAY * 32) > Clock::system().now(), "{oldest}");
    let removals = listed(&gateway.home, &["--type", "admin", "--limit", "1000"]);
    let removals = removals
        .iter()
        .filter(|record| record["action"] == "ledger.prune")
        .count();
    assert!(removals > 5, "{removals}");
    // A packed record is shown, proved and exported; one that is gone is not there.
    let seq = oldest["seq"].to_string();
    let shown = gateway.home.cli(&["activity", "show", &seq, "--json"]).success();
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), *oldest);
    receipt(
        &state,
        &["prove", &seq, "--out", gateway.home.path("proof").to_str().unwrap()],
    )
    .success();
    assert_ne!(gateway.home.cli(&["activity", "show", "1"]).code, Some(0));
    let home = gateway.stop().await;
    assert_eq!(doctors_word(&home).0, true);
    assert_eq!(verified(&state, &[]).0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_go_is_told_as_pressure_and_calls_are_served_on() {
    let home = Setup::new().set("audit.retention", retention("1KiB")).home();
    let state = home.state();
    lived(&state, 20).await;
    let gateway = home.serve().await;
    eventually("pressure is told", 60, async || {
        readiness(&gateway).await.1.contains("pressure")
    })
    .await;
    assert_eq!(readiness(&gateway).await.0, 200);
    let (ok, detail) = doctors_word(&gateway.home);
    assert_eq!(ok, false);
    assert!(detail.starts_with("pressure: "), "{detail}");
    // The floor: every record that is younger than ten days is there.
    let left = listed(&gateway.home, &["--limit", "1000"]);
    for day in 12..=20 {
        for number in 0..4 {
            let text = format!("note {number} of day {day}");
            assert!(left.iter().any(|record| record["message"] == text.as_str()), "{text}");
        }
    }
    assert!(left.iter().all(|record| record["message"] != "note 0 of day 1"));
    assert_eq!(verified(&state, &[]).0, Some(0));
}
