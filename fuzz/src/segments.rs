//! The files of the log, as a stranger could have left them.

use std::fs;
use std::path::{Path, PathBuf};

use ledger::{BreakKind, Finding, Ledger, LedgerReader, Position, Settings, stored_origin, verify};
use vocabulary::Digest;

/// Whole lines are given out byte for byte and found again where they were; what verifies is a chain of canonical records;
/// and a log that is opened keeps them and verifies. The input: switches (1 opens the log, 2 links its records anew, as whoever
/// may write to the files could), then segments, each ended by a zero.
pub fn segment(data: &[u8]) {
    let Some((switches, rest)) = data.split_first() else {
        return;
    };
    let mut segments: Vec<Vec<u8>> = rest.split(|byte| *byte == 0).take(3).map(<[u8]>::to_vec).collect();
    if switches & 2 == 2 {
        link(&mut segments);
    }
    let state = State::with(&segments);
    let reader = LedgerReader::of_state(&state.0);
    let lines: Vec<Vec<u8>> = lines_of(&reader);
    let whole = segments.iter().flat_map(|bytes| whole_lines(bytes));
    assert!(
        lines.iter().map(Vec::as_slice).eq(whole),
        "lines were lost, added or changed"
    );
    let found = verify(&reader).expect("the files can be read");
    match &found {
        Finding::Intact(intact) => {
            assert_eq!(intact.records, lines.len() as u64);
            assert!(segments.iter().all(|bytes| bytes.is_empty() || bytes.ends_with(b"\n")));
            let mut places = lines.iter().map(|line| canonical(line));
            let first = places.next();
            assert!(first.is_none_or(|first| first == 1 || segments[0].is_empty()));
            assert_eq!(intact.last_seq, first.map_or(0, |first| first + lines.len() as u64 - 1));
        }
        Finding::Broken(place) => {
            let told = place.to_string();
            assert!(
                told.len() < 200 && !told.chars().any(char::is_control),
                "a break is told by its place"
            );
        }
    }
    if switches & 1 == 1 {
        opened(&state.0, &lines, &found);
    }
}

/// What stood there stands there still. What verified, or lacked the end of its last line alone, verifies now. (Opening follows the
/// hashes and reads no record: who links a broken one anew is told by `verify`.)
fn opened(state: &Path, before: &[Vec<u8>], found: &Finding) {
    let origin = stored_origin(state).unwrap_or("fuzz.test".to_owned());
    let Ok((ledger, opened)) = Ledger::open(state, Settings::new(&origin)) else {
        return;
    };
    drop(ledger);
    let reader = LedgerReader::of_state(state);
    let after = lines_of(&reader);
    assert!(after.starts_with(before), "whole lines were changed");
    if matches!(found, Finding::Broken(place) if place.kind != BreakKind::Incomplete) {
        return;
    }
    assert_eq!(after.last().map_or(0, |line| canonical(line)), opened.last_seq);
    if let Finding::Broken(place) = verify(&reader).expect("the files can be read") {
        let elsewhere = matches!(found, Finding::Broken(before) if before.position.segment < place.position.segment);
        assert!(
            place.kind == BreakKind::Incomplete && !elsewhere,
            "opening broke it: {place}"
        );
    }
}

fn lines_of(reader: &LedgerReader) -> Vec<Vec<u8>> {
    let lines = reader.lines_from(Position::START).expect("the files can be read");
    let mut found = Vec::new();
    for line in lines {
        let (span, line) = line.expect("the files can be read");
        assert_eq!(
            reader.read_line(span).expect("the files can be read").as_ref(),
            Some(&line)
        );
        found.push(line);
    }
    found
}

fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_suffix(b"\n"))
}

/// The place that a record names, after another writer of canonical JSON has spelled it the same.
fn canonical(line: &[u8]) -> u64 {
    let value: serde_json::Value = serde_json::from_slice(line).expect("a record is JSON");
    assert_eq!(
        serde_json_canonicalizer::to_vec(&value).expect("it can be spelled"),
        line
    );
    value["seq"].as_u64().expect("a record has a place")
}

/// Gives every line that has the members the hash of the one before it, and its own.
fn link(segments: &mut [Vec<u8>]) {
    let mut before = Digest::of(b"fuzz.test");
    for segment in segments {
        let mut linked = Vec::new();
        for line in segment.split_inclusive(|byte| *byte == b'\n') {
            let mut line = line.to_vec();
            overwrite(&mut line, b",\"prev_hash\":\"", &before.to_string());
            if let Some(at) = find(&line, b",\"record_hash\":\"")
                && let Some(tail) = line.get(at + 88..)
            {
                let tail = tail.strip_suffix(b"\n").unwrap_or(tail);
                before = Digest::of_pieces([&line[..at], tail]);
                overwrite(&mut line, b",\"record_hash\":\"", &before.to_string());
            }
            linked.extend(line);
        }
        *segment = linked;
    }
}

fn overwrite(line: &mut [u8], name: &[u8], value: &str) {
    if let Some(place) = find(line, name).and_then(|at| line.get_mut(at + name.len()..at + name.len() + value.len())) {
        place.copy_from_slice(value.as_bytes());
    }
}

fn find(line: &[u8], name: &[u8]) -> Option<usize> {
    line.windows(name.len()).position(|window| window == name)
}

/// A state directory in memory, gone when it is dropped.
struct State(PathBuf);

impl State {
    fn with(segments: &[Vec<u8>]) -> Self {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let name = format!(
            "portreeve-segment-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let state = Self(root.join(name));
        let folder = state.0.join("ledger");
        fs::create_dir_all(&folder).expect("a directory");
        for (number, bytes) in (1..).zip(segments) {
            fs::write(folder.join(format!("{number:08}.jsonl")), bytes).expect("a segment");
        }
        state
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
