//! What a gateway or a harness leaves behind is looked through when its directory goes, in every test: each line of the
//! log fits the published schema of its type, and no file holds a credential or a secret of the test run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::Value;

use super::environment::repository;

/// What must be found in no file, of this process.
static UNSPEAKABLE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Has everything searched for this text from now on.
pub(crate) fn never_keep(text: &str) {
    // A shorter one would be found where nobody wrote it.
    if text.len() >= 16 {
        UNSPEAKABLE.lock().unwrap().insert(text.to_owned());
    }
}

/// Fails the test where a state directory, or one of these other files, holds what it must not. A test that has failed
/// already is left to say why.
pub(crate) fn look_through(state: &Path, others: &[PathBuf]) {
    if std::thread::panicking() {
        return;
    }
    let faults = [unlike_their_schema(state), holding_secrets(state, others)].concat();
    assert!(faults.is_empty(), "left behind:\n{}", faults.join("\n"));
}

/// The records of a log that do not fit the schema of their type.
pub(crate) fn unlike_their_schema(state: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for segment in files_below(&state.join("ledger")) {
        if segment.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = std::fs::read(&segment).unwrap();
        // A killed gateway may leave the last line unfinished.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = text[..whole]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        for line in lines {
            let fault = match serde_json::from_slice::<Value>(line) {
                Ok(record) => misfit(&record),
                Err(error) => Some(error.to_string()),
            };
            faults.extend(fault.map(|fault| format!("{fault}: {}", String::from_utf8_lossy(line))));
        }
    }
    faults
}

type Compile = Box<dyn FnOnce() -> Validator + Send>;
/// A schema that is compiled when the first record of its type comes.
type Compiled = LazyLock<Validator, Compile>;

/// What of a record does not fit the published schema of its type.
pub(crate) fn misfit(record: &Value) -> Option<String> {
    static SCHEMAS: LazyLock<BTreeMap<String, Compiled>> = LazyLock::new(|| {
        let schemas = published().into_iter().map(|(kind, schema)| {
            let compile: Compile = Box::new(move || jsonschema::validator_for(&schema).unwrap());
            (kind, LazyLock::new(compile))
        });
        schemas.collect()
    });
    let kind = record["type"].as_str().unwrap_or_default();
    match SCHEMAS.get(kind) {
        None => Some(format!("no schema is published for records of the type `{kind}`")),
        Some(schema) => schema
            .validate(record)
            .err()
            .map(|fault| format!("{} {fault}", fault.instance_path())),
    }
}

/// The published schemas of records, by the type they are for.
pub(crate) fn published() -> BTreeMap<String, Value> {
    let mut schemas = BTreeMap::new();
    for file in files_below(&repository().join("docs/schemas")) {
        let schema: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        if let Some(kind) = schema.pointer("/properties/type/const").and_then(Value::as_str) {
            let twice = schemas.insert(kind.to_owned(), schema.clone());
            assert!(twice.is_none(), "two schemas for `{kind}`");
        }
    }
    schemas
}

/// The files that hold what must not be kept.
pub(crate) fn holding_secrets(state: &Path, others: &[PathBuf]) -> Vec<String> {
    let unspeakable: Vec<String> = UNSPEAKABLE.lock().unwrap().iter().cloned().collect();
    if unspeakable.is_empty() {
        return Vec::new();
    }
    let files = files_below(state).into_iter().filter(|file| {
        let inside = file.strip_prefix(state).unwrap_or(file);
        // The one is there to hold the operator's token, the other belongs to the servers.
        inside != Path::new("admin.token") && !inside.starts_with("workspaces")
    });
    let mut faults = Vec::new();
    for file in files.chain(others.iter().cloned()) {
        let Ok(bytes) = std::fs::read(&file) else {
            continue;
        };
        for text in &unspeakable {
            if memchr::memmem::find(&bytes, text.as_bytes()).is_some() {
                faults.push(format!("{} holds {text}", file.display()));
            }
        }
    }
    faults
}

/// Every file below a directory; none where it is not there.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else {
        return found;
    };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            Ok(_) | Err(_) => {}
        }
    }
    found.sort();
    found
}
