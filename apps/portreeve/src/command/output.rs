//! What people and programs see: tables and sentences, or one JSON object per line. A reader that has
//! gone away (`| head`) ends the output quietly.

use std::io::{self, Write};
use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use jiff::tz::TimeZone;
use serde_json::Value;

/// In which form a command answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::Args)]
pub(super) struct Form {
    /// One JSON object per line, with stable names
    #[arg(long)]
    pub(super) json: bool,
}

/// Writes a line to standard output.
pub(super) fn line(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n"))?)
}

/// Writes lines to standard output, in one go.
pub(super) fn lines<'a>(texts: impl IntoIterator<Item = &'a str>) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for text in texts {
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// A word beside the answer, for people: on standard error, so that pipes stay clean. Whatever it quotes is made harmless
/// for a terminal; line breaks stay.
pub(super) fn note(text: &str) {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    // There is nowhere else to say it.
    let _ = writeln!(io::stderr().lock(), "{}", lines.join("\n"));
}

/// One object beside the answer, for programs: on standard error.
pub(super) fn object(value: &Value) {
    let _ = writeln!(io::stderr().lock(), "{}", plain_json(value));
}

/// JSON that says the same without a character that a terminal would act on.
fn plain_json(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        // Outside of strings JSON has none of them.
        match hides(c) {
            true => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| text.push_str(&format!("\\u{unit:04x}"))),
            false => text.push(c),
        }
    }
    text
}

/// Says why a command failed; a reader that has gone away is no failure.
pub(super) fn failed(error: &anyhow::Error) -> ExitCode {
    let gone = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(gone) {
        return ExitCode::SUCCESS;
    }
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    note(&format!("error: {}", causes.join(": ")));
    ExitCode::FAILURE
}

/// A table with a heading.
pub(super) fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> anyhow::Result<()> {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(heading.iter().map(|word| word.to_uppercase()));
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    lines(text.lines().map(str::trim_end))
}

/// `name  value` lines for one thing in full.
pub(super) fn sheet(members: &[(String, String)]) -> anyhow::Result<()> {
    let width = members
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or_default();
    let rows: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{:width$}  {}", printable(name), printable(value)))
        .collect();
    lines(rows.iter().map(String::as_str))
}

/// Every member of a JSON value with its dotted name, in order.
pub(super) fn flatten(value: &Value) -> Vec<(String, String)> {
    let mut members = Vec::new();
    flatten_into("", value, &mut members);
    members
}

fn flatten_into(name: &str, value: &Value, members: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                let name = if name.is_empty() {
                    key.clone()
                } else {
                    format!("{name}.{key}")
                };
                flatten_into(&name, value, members);
            }
        }
        Value::Null => members.push((name.to_owned(), "-".to_owned())),
        Value::String(text) => members.push((name.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            members.push((name.to_owned(), value.to_string()));
        }
    }
}

/// A member of a JSON object as a table's cell; `-` where there is none.
pub(super) fn cell(object: &Value, pointer: &str) -> String {
    match object.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            let words: Vec<String> = items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
                .collect();
            if words.is_empty() {
                "-".to_owned()
            } else {
                words.join(" ")
            }
        }
        Some(other) => other.to_string(),
    }
}

/// A time of a record in the reader's own time zone.
pub(super) fn local_time(text: &str) -> String {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => time
            .to_zoned(TimeZone::system())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        Err(_) => text.to_owned(),
    }
}

/// Text of strangers made harmless for a terminal: what moves the cursor, hides or turns is spelled out.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if hides(c) {
                c.escape_unicode().to_string()
            } else {
                c.to_string()
            }
        })
        .collect()
}

/// What moves the cursor, hides or turns.
fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strangers_cannot_move_the_cursor_or_turn_the_line() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c\nd"), "a\\u{1b}[2Jb\\u{202e}c\\u{a}d");
        assert_eq!(printable("größe 日本"), "größe 日本");
    }

    #[test]
    fn json_for_programs_says_the_same_and_moves_nothing() {
        let value = json!({"a\u{9b}": "b\u{202e}c\n\u{e0041}", "n": [1, null]});
        let text = plain_json(&value);
        assert!(text.chars().all(|c| !hides(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn a_record_is_shown_with_every_field_by_its_dotted_name() {
        let shown = flatten(&json!({"a": {"b": 1, "c": null}, "d": ["x"], "e": "t", "f": {}}));
        let expected = [("a.b", "1"), ("a.c", "-"), ("d", "[\"x\"]"), ("e", "t"), ("f", "{}")];
        assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
