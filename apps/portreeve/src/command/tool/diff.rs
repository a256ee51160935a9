//! `tool diff`: what changed in a definition, for people and for programs.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};

use serde_json::Value;

use super::super::access::Access;
use super::super::output::{self, Form, cell};
use super::Named;
use crate::config::variable;

/// What changed, as the API tells it.
pub(super) async fn of(access: &Access, named: &Named) -> anyhow::Result<Value> {
    access.get(&named.path("/diff")).await
}

/// Tells what changed.
pub(super) async fn tell(access: &Access, named: &Named, form: Form) -> anyhow::Result<()> {
    let told = of(access, named).await?;
    match form.json {
        true => output::line(&told.to_string()),
        false => output::lines(lines(&told).iter().map(String::as_str)),
    }
}

/// The digest of each definition that is told of.
pub(super) fn hashes(told: &Value) -> BTreeSet<String> {
    each(told).map(|one| cell(one, "/new_hash")).collect()
}

/// What changed, for people; in colour on a terminal.
pub(super) fn lines(told: &Value) -> Vec<String> {
    let colour = io::stdout().is_terminal() && variable("NO_COLOR").is_none();
    let paint = Paint { colour };
    each(told).flat_map(|one| one_definition(one, paint)).collect()
}

fn each(told: &Value) -> impl Iterator<Item = &Value> {
    let others = told.get("other_definitions").and_then(Value::as_array);
    std::iter::once(told).chain(others.into_iter().flatten())
}

fn one_definition(told: &Value, paint: Paint) -> Vec<String> {
    let changes = told.get("changes").and_then(Value::as_array);
    let changes = changes.map(Vec::as_slice).unwrap_or_default();
    let (old, new) = (cell(told, "/old_hash"), cell(told, "/new_hash"));
    let id = output::printable(&cell(told, "/id"));
    let mut lines = vec![match (old.as_str(), changes.is_empty()) {
        (_, true) => format!("{id}: nothing has changed since it was approved as {old}"),
        ("-", false) => format!("{id}: nobody has approved it yet; it is {new}"),
        (_, false) => format!("{id}: approved as {old}, now {new}"),
    }];
    if told.get("server_identity").is_some_and(Value::is_object) {
        let name = |of: &str| output::printable(&cell(told, &format!("/server_identity/{of}")));
        lines.push(format!(
            "  server changed: approved of {}, now {}",
            name("approved"),
            name("now")
        ));
    }
    if let Some(note) = told.get("note").and_then(Value::as_str) {
        lines.push(format!("  {note}"));
    }
    let (before, now) = (cell(told, "/old_risk"), cell(told, "/new_risk"));
    if before != now && before != "-" {
        lines.push(format!("  risk changed: {before} -> {now}"));
    }
    for change in changes {
        let path = match cell(change, "/path") {
            path if path.is_empty() => "(the whole)".to_owned(),
            path => output::printable(&path),
        };
        lines.push(format!("  {:9} {path}", cell(change, "/kind")));
        lines.extend(side(change.get("old"), '-', paint));
        lines.extend(side(change.get("new"), '+', paint));
    }
    lines
}

/// What was there, or is there now, line by line.
fn side(value: Option<&Value>, mark: char, paint: Paint) -> Vec<String> {
    let text = match value {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    let line = |line: &str| paint.line(mark, &format!("      {mark} {}", output::printable(line)));
    text.split('\n').map(line).collect()
}

/// Whether lines are coloured.
#[derive(Clone, Copy)]
struct Paint {
    colour: bool,
}

impl Paint {
    fn line(self, mark: char, text: &str) -> String {
        match (self.colour, mark) {
            (true, '-') => format!("\u{1b}[31m{text}\u{1b}[0m"),
            (true, _) => format!("\u{1b}[32m{text}\u{1b}[0m"),
            (false, _) => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_changed_is_told_line_by_line_and_moves_no_cursor() {
        let told = json!({"id": "files/read", "old_hash": "sha256:a", "new_hash": "sha256:b", "old_risk": "low", "new_risk": "high",
            "changes": [{"path": "/description", "kind": "reworded", "old": "one\ntwo", "new": "three\u{1b}[2J"},
                {"path": "/inputSchema/properties/p", "kind": "added", "old": null, "new": {"type": "string"}}]});
        let expected = [
            "files/read: approved as sha256:a, now sha256:b",
            "  risk changed: low -> high",
            "  reworded  /description",
            "      - one",
            "      - two",
            "      + three\\u{1b}[2J",
            "  added     /inputSchema/properties/p",
            "      + {",
            "      +   \"type\": \"string\"",
            "      + }",
        ];
        assert_eq!(one_definition(&told, Paint { colour: false }), expected);
        let coloured = one_definition(&told, Paint { colour: true });
        assert_eq!(coloured[3], "\u{1b}[31m      - one\u{1b}[0m");
        assert_eq!(coloured[5], "\u{1b}[32m      + three\\u{1b}[2J\u{1b}[0m");
    }
}
