//! Why a server does not start, for people: how its process ended, what it said last, and where the rest is.

use serde_json::Value;

use crate::command::output::{self, cell};

/// What there is to say of a server that is down, line by line; nothing of any other.
pub(in crate::command) fn lines(server: &Value) -> Vec<String> {
    if cell(server, "/reach") != "down" {
        return Vec::new();
    }
    let list = |name: &str| {
        let items = server.get(name).and_then(Value::as_array).into_iter().flatten();
        items
            .filter_map(Value::as_str)
            .map(output::printable)
            .collect::<Vec<_>>()
    };
    let reason = cell(server, "/reason");
    let mut told = vec![format!("{} is down: {reason}", cell(server, "/id"))];
    let ending = server.get("ending").and_then(Value::as_str);
    told.extend(
        ending
            .filter(|ending| !reason.contains(ending))
            .map(|ending| format!("  its last process {ending}")),
    );
    told.extend(list("stderr").into_iter().map(|line| format!("  | {line}")));
    told.extend(list("hints").into_iter().map(|hint| format!("  {hint}")));
    let log = server.get("log").and_then(Value::as_str);
    told.extend(log.map(|log| format!("  all it said: {}", output::printable(log))));
    told
}

/// Says it on standard error.
pub(super) fn tell<'a>(servers: impl IntoIterator<Item = &'a Value>) {
    for line in servers.into_iter().flat_map(lines) {
        output::note(&line);
    }
}
