//! The published shapes of records, and the look at everything that tests leave behind.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::environment::repository;
use crate::support::left_behind::{holding_secrets, misfit, never_keep, published, unlike_their_schema};

/// One record of every shape the log has: the golden lines its writer is held to.
fn golden() -> Vec<Value> {
    let files = ["golden.jsonl", "harness/golden.jsonl"];
    let read = |file| std::fs::read_to_string(repository().join("crates/ledger/src/record").join(file)).unwrap();
    let text = files.map(read).concat();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_type_of_record_has_a_published_schema_and_no_other_has_one() {
    let written: BTreeSet<String> = golden()
        .iter()
        .map(|record| record["type"].as_str().unwrap().to_owned())
        .collect();
    let published: BTreeSet<String> = published().into_keys().collect();
    assert_eq!(published, written);
    for record in golden() {
        assert_eq!(misfit(&record), None, "{record}");
    }
}

#[test]
fn a_record_that_lacks_a_member_has_one_too_many_or_another_type_does_not_fit() {
    for record in golden() {
        // This one is there only where it applies.
        let may_lack = |name: &str| record["type"] == "egress" && name == "run";
        for name in record.as_object().unwrap().keys().filter(|name| !may_lack(name)) {
            let mut less = record.clone();
            less.as_object_mut().unwrap().remove(name);
            assert!(misfit(&less).is_some(), "without {name}: {less}");
            let mut other = record.clone();
            other[name] = json!([[]]);
            assert!(misfit(&other).is_some(), "another {name}: {other}");
        }
        let mut more = record.clone();
        more["further"] = json!(1);
        assert!(misfit(&more).is_some(), "{more}");
    }
    assert!(misfit(&json!({"type": "rumour"})).unwrap().contains("no schema"));
}

#[test]
fn what_a_gateway_leaves_behind_is_looked_through_line_by_line_and_file_by_file() {
    // R227: what stands here is looked for after every gateway of the suite.
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    std::fs::create_dir_all(state.join("ledger")).unwrap();
    std::fs::create_dir_all(state.join("workspaces/files")).unwrap();
    let mut record = golden().pop().unwrap();
    let good = record.to_string();
    record["further"] = json!("much");
    // The last line was being written when the gateway was killed.
    let log = format!("{good}\n{record}\n{good}\nno record\n{good}\n{{\"unfin");
    std::fs::write(state.join("ledger/00000001.jsonl"), log).unwrap();
    let faults = unlike_their_schema(&state);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(
        faults[0].contains("much") && faults[1].contains("no record"),
        "{faults:?}"
    );

    let token = format!("of-this-test-alone-{}", std::process::id());
    never_keep(&token);
    for harmless in ["admin.token", "workspaces/files/notes"] {
        std::fs::write(state.join(harmless), &token).unwrap();
    }
    let logs = [home.path().join("stderr.log"), home.path().join("none.log")];
    assert_eq!(holding_secrets(&state, &logs), Vec::<String>::new());
    for place in [
        state.join("state.db-wal"),
        state.join("ledger/00000001.jsonl"),
        logs[0].clone(),
    ] {
        std::fs::write(&place, format!("\u{0}…{token}…")).unwrap();
        let found = holding_secrets(&state, &logs);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&place.display().to_string()), "{found:?}");
        std::fs::write(&place, "").unwrap();
    }
}
