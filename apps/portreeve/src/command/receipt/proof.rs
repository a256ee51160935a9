//! `receipt prove`, `export` and `verify-export`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use ledger::{FoundRecord, FoundRecords, Wanted, check_proof, find_records, stored_key};
use serde_json::{Value, json};
use vocabulary::note::Verifier;

use super::super::output::{self, Form};
use super::{BROKEN, signed};

pub(super) fn prove(state: &Path, id: &str, out: Option<&Path>) -> anyhow::Result<ExitCode> {
    let (found, note) = find(state, id)?;
    let proof = ledger::prove(state, &found.record, &note)?;
    let intent = found
        .intent
        .map(|intent| ledger::prove(state, &intent, &note))
        .transpose()?;
    match out {
        Some(out) => {
            write(out, &proof)?;
            if let Some(intent) = intent {
                let mut beside = out.as_os_str().to_owned();
                beside.push(".intent");
                write(&PathBuf::from(beside), &intent)?;
            }
        }
        None => {
            output::lines(proof.lines())?;
            if intent.is_some() {
                output::note("note: the intent of this request has a proof of its own: --out FILE writes both");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn export(state: &Path, id: &str, out: &Path) -> anyhow::Result<ExitCode> {
    let (found, note) = find(state, id)?;
    let key = stored_key(state)?.context("the state directory has no key")?;
    let mut exported = bundle(state, &found.record, &note)?;
    let intent = found.intent.map(|intent| bundle(state, &intent, &note)).transpose()?;
    if let Some(members) = exported.as_object_mut() {
        members.insert("vkey".to_owned(), json!(key.to_string()));
        members.extend(intent.map(|intent| ("intent".to_owned(), intent)));
    }
    write(out, &format!("{exported}\n"))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn verify_export(file: &Path, key: &Verifier, form: Form) -> anyhow::Result<ExitCode> {
    let bytes = fs::read(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
    let checked = check_export(&bytes, key);
    if form.json {
        let told = match &checked {
            Ok(seqs) => json!({"ok": true, "seq": seqs.0, "intent_seq": seqs.1, "reason": null}),
            Err(reason) => json!({"ok": false, "seq": null, "intent_seq": null, "reason": reason}),
        };
        output::line(&told.to_string())?;
    } else {
        output::line(&match &checked {
            Ok((seq, None)) => format!("sound: record {seq} is in the log of this key"),
            Ok((seq, Some(intent))) => {
                format!("sound: record {seq} and its intent {intent} are in the log of this key")
            }
            Err(reason) => format!("BROKEN: {reason}"),
        })?;
    }
    Ok(match checked {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(BROKEN),
    })
}

/// The places of the record and of its intent, or what is wrong.
fn check_export(bytes: &[u8], key: &Verifier) -> Result<(u64, Option<u64>), String> {
    let exported: Value = serde_json::from_slice(bytes).map_err(|_| "the file is no export".to_owned())?;
    let (seq, record) = check_bundle(&exported, key)?;
    let Some(intent) = exported.get("intent") else {
        return Ok((seq, None));
    };
    let (intent_seq, intent) = check_bundle(intent, key).map_err(|reason| format!("intent: {reason}"))?;
    let is_in = |record: &Value, phase: &str| record.get("phase").is_some_and(|named| named == phase);
    let is_its =
        intent.get("receipt_id") == record.get("receipt_id") && is_in(&intent, "intent") && is_in(&record, "final");
    match is_its && intent_seq < seq {
        true => Ok((seq, Some(intent_seq))),
        false => Err("the intent is not the record's".to_owned()),
    }
}

fn check_bundle(bundle: &Value, key: &Verifier) -> Result<(u64, Value), String> {
    let member = |name: &str| bundle.get(name).and_then(Value::as_str);
    let (Some(line), Some(proof)) = (member("record"), member("proof")) else {
        return Err("the file is no export".to_owned());
    };
    let seq = check_proof(line.as_bytes(), proof, key).map_err(|fault| fault.to_string())?;
    let record = serde_json::from_str(line).map_err(|_| "the record is none".to_owned())?;
    Ok((seq, record))
}

fn bundle(state: &Path, record: &FoundRecord, note: &str) -> anyhow::Result<Value> {
    let proof = ledger::prove(state, record, note)?;
    let line = std::str::from_utf8(&record.line).context("the record is no text")?;
    Ok(json!({"record": line, "proof": proof}))
}

/// A record, and a checkpoint that was signed over it.
fn find(state: &Path, id: &str) -> anyhow::Result<(FoundRecords, String)> {
    let wanted = match id.parse() {
        Ok(seq) => Wanted::Seq(seq),
        Err(_) => Wanted::Receipt(id.to_owned()),
    };
    let note = signed(state)?;
    let found = find_records(state, &wanted)?;
    let found = found.context("no such record in the log; `portreeve activity list` shows what there is")?;
    Ok((found, note))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("`{}` cannot be written", path.display()))
}
