//! Lines: what a process says on its output, and what a client says on our input.

use bytes::Bytes;
use mcp::server::{self, ServerMessage};
use serde_json::value::RawValue;
use upstream::fuzzing::{messages, one_line};

const MOST: usize = 256;
const DEPTH: usize = 16;
const LARGEST_BATCH: usize = 1024;

/// The messages are those of the lines, however the lines came; a line that is too long ends a server and is skipped of a
/// client; and a message that is written is one line and the same JSON.
pub fn stdio(data: &[u8]) {
    let Some((piece, said)) = data.split_first() else {
        return;
    };
    let piece = usize::from(*piece);
    let (read, ended) = messages(said, piece, MOST, DEPTH);
    let (expected, too_long) = by_lines(said);
    let told = |message: &ServerMessage| format!("{message:?}");
    assert_eq!(
        ended, too_long,
        "a line that is too long ends the reading, and nothing else does"
    );
    assert_eq!(read.iter().map(told).collect::<Vec<_>>(), expected);
    let lines = portreeve::stdin_lines(said, piece.max(1), MOST);
    assert_eq!(
        lines,
        portreeve::stdin_lines(said, 1 << 16, MOST),
        "it makes a difference how it came"
    );
    let whole = said
        .split(|byte| *byte == b'\n')
        .filter_map(|line| match line.len() > MOST {
            true => Some(None),
            false => (!line.trim_ascii().is_empty()).then(|| Some(Bytes::copy_from_slice(line))),
        });
    assert_eq!(lines, whole.collect::<Vec<_>>());
    let written = one_line(Bytes::copy_from_slice(said));
    assert_eq!(written.len(), said.len());
    assert!(!written.iter().any(|byte| b"\r\n".contains(byte)));
    let value = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    if let Some(before) = value(said) {
        assert_eq!(value(&written), Some(before), "another message was written");
    }
}

/// The messages of whole lines up to the first that is too long, and whether there is one.
fn by_lines(said: &[u8]) -> (Vec<String>, bool) {
    let mut found = Vec::new();
    let mut lines: Vec<&[u8]> = said.split_inclusive(|byte| *byte == b'\n').collect();
    let cut_off = lines.pop_if(|line| !line.ends_with(b"\n"));
    for line in lines {
        if line.len() > MOST {
            return (found, true);
        }
        let text = line.trim_ascii();
        let messages = match text.first() {
            Some(b'{') => vec![text.to_vec()],
            Some(b'[') => batch(text).unwrap_or_default(),
            _ => continue,
        };
        let parsed = messages
            .into_iter()
            .filter_map(|raw| server::parse(&raw.into(), DEPTH).ok());
        found.extend(parsed.map(|message| format!("{message:?}")));
    }
    (found, cut_off.is_some_and(|line| line.len() > MOST))
}

fn batch(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let elements: Vec<&RawValue> = serde_json::from_slice(text).ok()?;
    let deep = mcp::envelope::split_batch(&Bytes::copy_from_slice(text), DEPTH, LARGEST_BATCH).is_err();
    (!deep && !elements.is_empty()).then(|| elements.iter().map(|raw| raw.get().as_bytes().to_vec()).collect())
}
