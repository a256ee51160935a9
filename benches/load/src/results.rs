//! Keeps figures in one JSON file, a section per program, with the machine they were taken on.

use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value, json};
use vocabulary::Clock;

/// The figures kept under `section`, if they were taken on a machine like this one.
#[must_use]
pub fn kept_here(file: &Path, section: &str) -> Option<Value> {
    let mut section = read(file)?.remove(section)?;
    (section.get("machine") == Some(&machine()))
        .then(|| section.get_mut("figures").map(Value::take))
        .flatten()
}

/// Puts `figures` under `section`, leaving the sections of other programs as they are.
///
/// # Errors
/// When the file cannot be written.
pub fn keep(file: &Path, section: &str, figures: Value) -> Result<()> {
    let mut kept = read(file).unwrap_or_default();
    let taken = json!({"taken": Clock::system().now().to_string(), "machine": machine(), "figures": figures});
    kept.insert(section.to_owned(), taken);
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(file, format!("{:#}\n", Value::Object(kept)))?;
    Ok(())
}

fn read(file: &Path) -> Option<Map<String, Value>> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    json!({
        "processor": model.map_or("unknown", |(_, name)| name),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}
