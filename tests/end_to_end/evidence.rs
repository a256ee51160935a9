//! Evidence: what the shipped commands say about a log, and what a second verifier that shares no code says about the same one.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::environment::{Finished, command, portreeve, repository};
use crate::support::setup::Home;
use crate::support::{Setup, Town, eventually};

async fn town() -> Town {
    let low_and_medium = |setup: Setup| setup.risk("files/read", "low").risk("files/write", "medium");
    let town = Town::with(&["read", "write"], low_and_medium).await;
    let agent = town.agent("ann").await;
    for _ in 0..4 {
        agent.call("read", json!({})).await;
        agent.call("write", json!({"text": "é"})).await;
    }
    town
}

pub(super) fn receipt(state: &Path, arguments: &[&str]) -> Finished {
    let mut ours = command(portreeve());
    ours.arg("receipt").args(arguments).arg("--state").arg(state);
    Finished::of(&mut ours)
}

pub(super) fn verified(state: &Path, arguments: &[&str]) -> (Option<i32>, Value) {
    let finished = receipt(state, &[&["verify", "--json"], arguments].concat());
    let told = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"));
    (finished.code, told)
}

/// What the second verifier says of several directories.
pub(super) fn second(states: &[PathBuf]) -> Vec<Value> {
    let script = repository().join("tools/verify_receipts.py");
    let finished = Finished::of(command("python3").arg(script).arg("--batch").args(states));
    let lines: Vec<Value> = finished
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), states.len(), "{finished:?}");
    lines
}

fn final_write(home: &Home) -> String {
    let listed = home
        .cli(&["activity", "list", "--tool", "write", "--limit", "1", "--json"])
        .success();
    let record: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    record["receipt_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_gateways_log_verifies_and_a_colleague_checks_a_record_with_the_key_alone() {
    let town = town().await;
    let id = final_write(&town.gateway.home);
    let state = town.gateway.home.state();
    let checkpoint = receipt(&state, &["checkpoint"]).success();
    assert_eq!(checkpoint.lines().next(), Some("gw.test/portreeve"));
    let (code, told) = verified(&state, &[]);
    assert_eq!(
        (code, &told["ok"], &told["break"]),
        (Some(0), &json!(true), &Value::Null)
    );
    let key = receipt(&state, &["key"]).success().trim().to_owned();
    assert!(key.starts_with("gw.test/portreeve+"));
    let home = town.gateway.stop().await;

    let (proof, exported) = (home.path("proof"), home.path("export.json"));
    receipt(&state, &["prove", &id, "--out", proof.to_str().unwrap()]).success();
    let text = fs::read_to_string(&proof).unwrap();
    assert!(text.starts_with("c2sp.org/tlog-proof@v1\nindex "), "{text}");
    assert!(home.path("proof.intent").exists());
    receipt(&state, &["export", &id, "--out", exported.to_str().unwrap()]).success();
    let check = |file: &Path, key: &str| {
        let mut ours = command(portreeve());
        Finished::of(ours.args(["receipt", "verify-export"]).arg(file).args(["--key", key])).code
    };
    assert_eq!(check(&exported, &key), Some(0));
    let whole = fs::read_to_string(&exported).unwrap();
    let bundle: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(
        (&bundle["vkey"], bundle["intent"]["record"].is_string()),
        (&json!(key), true)
    );
    for (from, to) in [
        ("\\\"sub\\\":\\\"ann\\\"", "\\\"sub\\\":\\\"bob\\\""),
        ("index ", "index 1"),
        ("\"proof\"", "\"prof\""),
    ] {
        let forged = home.path("forged.json");
        assert!(whole.contains(from), "{whole}");
        fs::write(&forged, whole.replacen(from, to, 1)).unwrap();
        assert_eq!(check(&forged, &key), Some(4), "{from}");
    }
    assert_eq!(check(&home.path("nowhere"), &key), Some(1));
    assert_eq!(check(&exported, "no key"), Some(2));

    let new = receipt(&state, &["key", "--rotate"]).success().trim().to_owned();
    assert_ne!(new, key);
    for key in [&key, &new] {
        assert_eq!(verified(&state, &["--key", key]).0, Some(0));
    }
    let trusted = home.path("trusted");
    fs::write(&trusted, checkpoint).unwrap();
    assert_eq!(
        verified(&state, &["--trusted-checkpoint", trusted.to_str().unwrap()]).0,
        Some(0)
    );
    assert_eq!(second(&[state])[0]["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_verifiers_agree_on_clean_and_on_tampered_logs() {
    // R225
    let home = town().await.gateway.stop().await;
    let state = home.state();
    receipt(&state, &["key", "--rotate"]).success();
    // So that what leads from the old key to the new one is not the last record, which one case takes away.
    home.cli(&["token", "create", "--sub", "bob"]).success();
    let segment = "ledger/00000001.jsonl";
    let text = fs::read_to_string(state.join(segment)).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let list = fs::read_to_string(state.join("ledger/checkpoints")).unwrap();
    let swapped = [&[lines[1], lines[0]], &lines[2..]].concat().concat();
    let removed = [&lines[..4], &lines[5..]].concat().concat();
    let cases: Vec<(&str, &str, String)> = vec![
        ("clean", segment, text.clone()),
        (
            "hash",
            segment,
            text.replacen("\"type\":\"request\"", "\"type\":\"reqUest\"", 1),
        ),
        ("spelling", segment, text.replacen("{\"", "{ \"", 1)),
        ("sequence", segment, swapped),
        ("sequence", segment, removed),
        ("sequence", segment, text.clone() + lines[3]),
        ("cut", segment, text.trim_end_matches('\n').to_owned()),
        ("cut", segment, lines[..lines.len() - 1].concat()),
        ("signature", "ledger/checkpoints", list.replacen("\n\n", "\n\n\n", 1)),
        (
            "signature",
            "ledger/checkpoints",
            list.replacen("gw.test", "gw.tesT", 1),
        ),
        ("signature", "ledger/checkpoints", list.replacen("\u{2014}", "-", 1)),
        (
            "consistency",
            "ledger/checkpoints",
            format!(
                "{list}\n{}",
                list.rsplit("\n\ngw.").next().map(|last| format!("gw.{last}")).unwrap()
            ),
        ),
        (
            "consistency",
            "ledger/checkpoint",
            list.split("\n\ngw.").next().unwrap().to_owned() + "\n",
        ),
        ("signature", "ledger/checkpoint", "nothing\n".to_owned()),
    ];
    let mut states = Vec::new();
    for (number, (_, file, forged)) in cases.iter().enumerate() {
        let copy = home.path(&format!("copy-{number}"));
        let copied = Finished::of(command("cp").arg("-r").arg(&state).arg(&copy));
        copied.success();
        fs::write(copy.join(file), forged).unwrap();
        states.push(copy);
    }
    let theirs = second(&states);
    for (((expected, file, _), state), theirs) in cases.iter().zip(&states).zip(theirs) {
        let (code, ours) = verified(state, &[]);
        let kind = ours["break"]["kind"].as_str().unwrap_or("clean");
        assert_eq!(
            (kind, code),
            (*expected, Some(if kind == "clean" { 0 } else { 4 })),
            "{file}: {ours}"
        );
        for member in ["ok", "records", "checkpoints", "size", "root", "break"] {
            assert_eq!(ours[member], theirs[member], "{expected} in {file}: {member}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_checked_is_told_apart_from_what_is_broken() {
    let home = town().await.gateway.stop().await;
    let state = home.state();
    assert_eq!(receipt(&home.path("nowhere"), &["verify"]).code, Some(1));
    assert_eq!(receipt(&state, &["verify", "--key", "gw+00+AA"]).code, Some(2));
    assert_eq!(receipt(&state, &["prove", "999999"]).code, Some(1));
    let files = Finished::of(
        command(portreeve())
            .args(["receipt", "verify", "--json"])
            .arg(state.join("ledger/00000001.jsonl")),
    );
    assert_eq!(serde_json::from_str::<Value>(&files.success()).unwrap()["ok"], true);
    let key = fs::read(state.join("ledger.key")).unwrap();
    fs::remove_file(state.join("ledger.key")).unwrap();
    assert_eq!(
        receipt(&state, &["verify"]).code,
        Some(1),
        "nobody says whose signatures count"
    );
    let mut gateway = command(portreeve());
    let refused = Finished::of(
        gateway
            .current_dir(home.path(""))
            .args(["serve", "--config"])
            .arg(home.config())
            .envs(home.variables()),
    );
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("ledger.key"), "{}", refused.stderr);
    fs::write(state.join("ledger.key"), key).unwrap();
    assert_eq!(verified(&state, &[]).0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_rotated_beside_a_running_gateway_while_it_is_called() {
    let town = town().await;
    let state = town.gateway.home.state();
    let old = receipt(&state, &["key"]).success().trim().to_owned();
    let agent = town.agent("ann").await;
    let caller = tokio::spawn({
        let agent = agent.clone();
        async move {
            for _ in 0..30 {
                agent.call("write", json!({})).await.result();
            }
        }
    });
    let config = town.gateway.home.config();
    let rotate = |arguments: &[&str]| {
        let mut ours = command(portreeve());
        ours.arg("--config")
            .arg(&config)
            .args(["receipt", "key", "--rotate"])
            .args(arguments);
        Finished::of(&mut ours)
    };
    let middle = rotate(&[]).success().trim().to_owned();
    let new = rotate(&["--state", state.to_str().unwrap()])
        .success()
        .trim()
        .to_owned();
    assert!(
        old != middle && middle != new && new.starts_with("gw.test/portreeve+"),
        "{old} {middle} {new}"
    );
    caller.await.unwrap();
    agent.call("write", json!({})).await.result();
    assert_eq!(receipt(&state, &["key"]).success().trim(), new);
    receipt(&state, &["checkpoint"]).success();
    for key in [&old, &middle, &new] {
        assert_eq!(verified(&state, &["--key", key]).0, Some(0));
    }
    let records = crate::support::records::all(&town.gateway.home);
    let handovers: Vec<&Value> = records
        .iter()
        .filter(|record| record["action"] == "ledger.key.rotate")
        .collect();
    assert_eq!(handovers.len(), 2);
    assert_eq!(handovers[0]["subject"], new.as_str());
    let home = town.gateway.restart().await.stop().await;
    assert_eq!(verified(&state, &["--key", &old]).0, Some(0));
    assert_eq!(second(&[state])[0]["ok"], true);
    drop(home);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_gets_every_checkpoint_finds_an_older_log_and_holds_nobody_up() {
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("gw");
    let witnessed = |setup: Setup| setup.set("audit.witness.directory", copy.to_str().unwrap());
    let town = Town::with(&["read"], witnessed).await;
    let agent = town.agent("ann").await;
    agent.call("read", json!({})).await.result();
    let home = town.gateway.stop().await;
    let (state, older) = (home.state(), home.path("older"));
    let same = |name: &str| fs::read(state.join("ledger").join(name)).unwrap() == fs::read(copy.join(name)).unwrap();
    assert!(same("checkpoints") && same("checkpoint"));
    let copied = Finished::of(command("cp").arg("-a").arg(&state).arg(&older));
    copied.success();

    let gateway = home.serve().await;
    let agent = crate::support::Agent::connect(&gateway, "/mcp/files", &town.issuer.token("ann")).await;
    agent.call("read", json!({})).await.result();
    let home = gateway.stop().await;
    assert!(same("checkpoints") && same("checkpoint"));
    let trusted = copy.join("checkpoint");
    let trusted = ["--trusted-checkpoint", trusted.to_str().unwrap()];
    assert_eq!(verified(&state, &trusted).0, Some(0));
    let (code, told) = verified(&older, &trusted);
    assert_eq!((code, &told["break"]["kind"]), (Some(4), &json!("cut")));

    // The whole log is replaced by its older self: it is sound in itself, and the witness remembers more.
    fs::remove_dir_all(&state).unwrap();
    fs::rename(&older, &state).unwrap();
    let remembered = fs::read(copy.join("checkpoints")).unwrap();
    let gateway = home.serve().await;
    eventually("the contradiction is told", 60, async || {
        gateway.logs().contains("the witness remembers other checkpoints")
    })
    .await;
    let home = gateway.stop().await;
    assert_eq!(fs::read(copy.join("checkpoints")).unwrap(), remembered);

    // A directory that hangs: whoever opens a pipe to write what nobody reads waits for ever.
    fs::remove_file(copy.join("checkpoints")).unwrap();
    Finished::of(command("mkfifo").arg(copy.join("checkpoint.new"))).success();
    let gateway = home.serve().await;
    let agent = crate::support::Agent::connect(&gateway, "/mcp/files", &town.issuer.token("ann")).await;
    for _ in 0..3 {
        agent.call("read", json!({})).await.result();
    }
    let _home = gateway.stop().await;
    assert_eq!(verified(&state, &[]).0, Some(0));
}
