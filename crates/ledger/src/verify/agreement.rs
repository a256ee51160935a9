//! The second verifier, which shares no code, says the same about hundreds of tampered logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::evidence::{Question, verify_state};
use super::tests::{Dice, evidence, log_of};
use crate::sample::Folder;

const CASES: usize = 400;

#[tokio::test]
async fn both_verifiers_say_the_same_about_hundreds_of_tampered_logs() {
    let folder = log_of(1, 0).await;
    let files = evidence(&folder);
    let copies = Folder::new();
    let mut dice = Dice(7);
    let mut told = vec!["nothing"];
    let mut states = vec![copy(&folder, &copies, 0)];
    for number in 1..CASES {
        let state = copy(&folder, &copies, number);
        told.push(tamper(&state, folder.path(), &files, &mut dice));
        states.push(state);
    }
    let theirs = second(&states);
    assert_eq!(theirs.len(), CASES);
    let (mut broken, mut apart) = (0, Vec::new());
    for ((state, told), theirs) in states.iter().zip(told).zip(theirs) {
        let ours = first(state);
        broken += usize::from(ours["ok"] == false);
        for member in ["ok", "records", "checkpoints", "size", "root", "break"] {
            if ours[member] != theirs[member] {
                apart.push(format!("{member} after {told}:\n  {ours}\n  {theirs}"));
            }
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
    // A part of a tile that is gone, and bytes put where they were, are no break.
    assert!(broken > CASES * 3 / 4, "{broken}");
}

fn first(state: &Path) -> Value {
    let report = verify_state(state, &Question::default(), &mut |_| ()).unwrap();
    let fault = report.fault.map(
        |fault| json!({"seq": fault.seq, "file": fault.file, "offset": fault.offset, "kind": fault.kind.as_str()}),
    );
    json!({
        "ok": fault.is_none(), "records": report.records, "checkpoints": report.checkpoints,
        "size": report.size, "root": report.root, "break": fault,
    })
}

#[expect(clippy::disallowed_methods, reason = "the second verifier is a process of its own")]
fn second(states: &[PathBuf]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/verify_receipts.py");
    let mut python = Command::new("python3");
    let finished = python.arg(script).arg("--batch").args(states).output().unwrap();
    let text = String::from_utf8(finished.stdout).unwrap();
    let read = |line| serde_json::from_str(line).unwrap();
    assert_eq!(
        finished.status.code(),
        Some(4),
        "{}",
        String::from_utf8_lossy(&finished.stderr)
    );
    text.lines().map(read).collect()
}

fn copy(folder: &Folder, copies: &Folder, number: usize) -> PathBuf {
    let state = copies.path().join(number.to_string());
    for path in evidence(folder).iter().chain([&folder.path().join("ledger.key")]) {
        let to = state.join(path.strip_prefix(folder.path()).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
    state
}

/// Changes one file, and says how.
fn tamper(state: &Path, original: &Path, files: &[PathBuf], dice: &mut Dice) -> &'static str {
    let pick = |dice: &mut Dice| state.join(files[dice.below(files.len())].strip_prefix(original).unwrap());
    let path = pick(dice);
    let mut bytes = fs::read(&path).unwrap();
    let place = dice.below(bytes.len());
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let line = dice.below(lines.len());
    let other = dice.below(lines.len());
    let told = match dice.below(12) {
        0..=2 => {
            bytes[place] ^= 1 << dice.below(8);
            "a flipped bit"
        }
        3 => {
            bytes[place] = u8::try_from(dice.below(256)).unwrap();
            "a changed byte"
        }
        4 => {
            bytes.remove(place);
            "a removed byte"
        }
        5 => {
            bytes.insert(place, u8::try_from(dice.below(256)).unwrap());
            "an added byte"
        }
        6 => {
            bytes.truncate(place);
            "a cut file"
        }
        7 => {
            bytes[place..].fill(0);
            "a zeroed end"
        }
        8 => {
            lines.remove(line);
            bytes = lines.concat();
            "a removed line"
        }
        9 => {
            lines.insert(other, lines[line].clone());
            bytes = lines.concat();
            "a repeated line"
        }
        10 => {
            lines.swap(line, other);
            bytes = lines.concat();
            "swapped lines"
        }
        _ => {
            bytes = fs::read(pick(dice)).unwrap();
            "another file's bytes"
        }
    };
    fs::write(&path, bytes).unwrap();
    told
}
