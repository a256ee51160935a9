//! What is read of a line is what a JSON library reads of it, for every kind of record; and no bytes do harm.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value as Json};

use super::*;

/// The lines the ledger's own tests hold its writers to.
const GOLDEN: [&str; 2] = [
    include_str!("../../../../../ledger/src/record/golden.jsonl"),
    include_str!("../../../../../ledger/src/record/harness/golden.jsonl"),
];

fn golden() -> Vec<&'static str> {
    GOLDEN.into_iter().flat_map(str::lines).collect()
}

/// The same facts, by `serde_json`.
mod library {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Record {
        seq: u64,
        ts: String,
        #[serde(rename = "type")]
        kind: String,
        phase: Option<String>,
        receipt_id: Option<String>,
        mcp: Option<Mcp>,
        principal: Option<Principal>,
        decision: Option<Decision>,
        outcome: Option<RecordedOutcome>,
        subject: Option<String>,
        actor: Option<String>,
        result: Option<String>,
        server_id: Option<String>,
        tool_name: Option<String>,
        session: Option<String>,
        status: Option<String>,
        agent: Option<String>,
        run: Option<String>,
        class: Option<String>,
    }

    #[derive(Deserialize)]
    struct Mcp {
        server_id: Option<String>,
        tool_name: Option<String>,
        session: Option<String>,
    }

    #[derive(Deserialize)]
    struct Principal {
        sub: Option<String>,
        run: Option<String>,
    }

    #[derive(Deserialize)]
    struct Decision {
        result: Option<String>,
    }

    #[derive(Deserialize)]
    struct RecordedOutcome {
        status: Option<String>,
    }

    pub(super) fn read(line: &[u8]) -> Option<Facts<'static>> {
        let record: Record = serde_json::from_slice(line).ok()?;
        let status = status(&record);
        let (server, tool, session) = match (record.kind.as_str(), record.mcp) {
            ("request", Some(mcp)) => (mcp.server_id, mcp.tool_name, mcp.session),
            ("inventory", _) => match record.subject.as_ref().and_then(|subject| subject.split_once('/')) {
                Some((server, tool)) => (Some(server.to_owned()), Some(tool.to_owned()), None),
                None => (record.subject, None, None),
            },
            ("approval" | "egress" | "policy_decision", _) => (record.server_id, record.tool_name, record.session),
            _ => (None, None, None),
        };
        let (sub, run) = record
            .principal
            .map_or((None, None), |principal| (principal.sub, principal.run));
        let text = |text: Option<String>| text.map(|text| Text(Cow::Owned(text.into_bytes())));
        Some(Facts {
            seq: record.seq,
            ts: Timestamp::parse(&record.ts)?,
            kind: RecordType::parse(&record.kind),
            status,
            rank: match record.phase.as_deref() {
                Some("final") => 2,
                Some(_) => 1,
                None => 0,
            },
            receipt_id: text(record.receipt_id),
            server: text(server),
            tool: text(tool),
            principal: text(sub.or(record.actor).or(record.agent)),
            session: text(session),
            run: text(run.or(record.run)),
        })
    }

    fn status(record: &Record) -> Option<Status> {
        if record.kind.starts_with("harness_") {
            return match record.status.as_deref().or(record.class.as_deref())? {
                "ok" => Some(Status::Allowed),
                "schema_violation" | "not_json" | "no_output" | "guard_violation" => Some(Status::Blocked),
                "failed" | "runtime_exit" | "timeout" | "integrity" => Some(Status::Error),
                _ => None,
            };
        }
        if let Some(done) = &record.status {
            return Status::parse(done);
        }
        let decided = record.decision.as_ref().and_then(|decision| decision.result.as_deref());
        let status = record.outcome.as_ref().and_then(|outcome| outcome.status.as_deref());
        match (decided.or(record.result.as_deref())?, status) {
            ("allowed", _) => Some(Status::Allowed),
            ("blocked", _) => Some(Status::Blocked),
            ("deny", _) => Some(Status::Denied),
            ("require_approval", _) => Some(Status::Pending),
            ("allow", Some("error" | "timeout")) => Some(Status::Error),
            ("allow", _) => Some(Status::Allowed),
            _ => None,
        }
    }
}

#[test]
fn a_call_has_the_facts_it_is_found_by() {
    let lines = golden();
    let line = lines
        .iter()
        .find(|line| line.contains(r#""status":"timeout""#))
        .expect("a call that timed out");
    let text = |text: &'static str| Some(Text(Cow::Borrowed(text.as_bytes())));
    assert_eq!(
        Facts::read(line.as_bytes()),
        Some(Facts {
            seq: 8,
            ts: Timestamp::from_micros(1_794_744_000_123_456),
            kind: Some(RecordType::Request),
            status: Some(Status::Error),
            rank: 2,
            receipt_id: text("rcp_019a8f2d6c3b7d4e8f901a2b3c4d5e6f"),
            server: text("files"),
            tool: text("write_file"),
            principal: text("al\"ice\\\u{7}\u{e9}"),
            session: text("sha256:3f3af1ecebbd1410ab417ec0d27bbfcb5d340e177ae159b59fc8626c2dfd9175"),
            run: None,
        })
    );
}

#[test]
fn every_kind_of_record_has_the_facts_that_a_library_finds() {
    let written = golden();
    let kinds = written
        .iter()
        .filter_map(|line| Facts::read(line.as_bytes())?.kind.map(RecordType::as_str));
    let kinds: std::collections::BTreeSet<&str> = kinds.collect();
    let expected = [
        "admin",
        "approval",
        "egress",
        "harness_attempt",
        "harness_result",
        "incident",
        "inventory",
        "policy_decision",
        "request",
    ];
    assert!(
        kinds.into_iter().eq(expected),
        "the ledger's golden lines have them all"
    );
    // What those lines do not say by themselves.
    let words = [
        (r#""subject":null"#, r#""subject":"files""#),
        (r#""subject":null"#, r#""subject":"files/write_file/x""#),
        (r#""status":"ok""#, r#""status":"failed""#),
        (r#""status":"ok""#, r#""status":"skipped""#),
        (r#""status":"redacted""#, r#""status":"blocked""#),
        (r#""status":"redacted""#, r#""status":"unheard of""#),
        (r#""result":"blocked""#, r#""result":"allowed""#),
        (r#""result":"deny"}"#, r#""result":"deny","no_result":"allow"}"#),
        (r#""result":"deny"}"#, r#""result":"deny","\"result":"allow"}"#),
        (r#""result":"allow"}"#, r#""result":"allow","x":{"result":"deny"}}"#),
        (
            r#""status":"success"}"#,
            r#""x":["status"],"status":"success","y":"\"status\":\"error"}"#,
        ),
        (r#""type":"request""#, r#""type":"approval""#),
        (r#""type":"request""#, r#""type":"unheard of""#),
        (r#""type":"admin""#, r#""type":"harness_unheard_of""#),
        (r#""phase":"final""#, r#""phase":"later""#),
        (r#""run":null"#, r#""run":"run_1""#),
        (r#""mcp":{"#, r#""mcp":null,"other":{"#),
        (r#""principal":{"#, r#""principal":null,"other":{"#),
    ];
    for (from, _) in words {
        assert!(written.iter().any(|line| line.contains(from)), "{from}");
    }
    let changed = words.map(|(from, to)| written.iter().map(move |line| line.replace(from, to)));
    let plain = written.iter().map(|line| line.replace(r#"al\"ice\\\u0007é"#, "alice"));
    for line in written
        .iter()
        .map(|line| (*line).to_owned())
        .chain(plain)
        .chain(changed.into_iter().flatten())
    {
        let facts = Facts::read(line.as_bytes());
        assert!(facts.is_some(), "{line}");
        assert_eq!(facts, library::read(line.as_bytes()), "{line}");
    }
}

#[test]
fn what_is_no_record_has_no_facts() {
    let whole = r#"{"actor":"a","seq":7,"ts":"2026-11-15T12:00:00.123456Z","type":"admin","x":{"y":["z"]}}"#;
    assert!(Facts::read(whole.as_bytes()).is_some());
    let without = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replace(from, to)
    };
    let cut = (0..whole.len()).map(|length| whole.chars().take(length).collect::<String>());
    let broken = [
        without(r#""seq":7,"#, ""),
        without(r#""ts":"2026-11-15T12:00:00.123456Z","#, ""),
        without(r#","type":"admin""#, ""),
        without("2026", "twenty"),
        without(":7", ":-7"),
        without(":7", ":7.5"),
        without(":7", ":18446744073709551616"),
        without(":7", r#":"7""#),
        without(":7", ":"),
        without(r#""seq":7"#, r#""seq":7,"seq":7"#),
        without(r#""actor":"a""#, r#""actor":"a","actor":"b""#),
        without(
            r#""actor":"a""#,
            r#""decision":{"result":"deny"},"decision":{"result":"allow"}"#,
        ),
        without(r#""actor":"a""#, r#""actor":7"#),
        without(r#""actor":"a""#, r#""principal":"a""#),
        without(r#""actor":"a""#, r#""actor":"\ud800""#),
        without(r#""actor":"a""#, r#""actor":"\x""#),
        without(r#"]}}"#, r#"]}}}"#),
        without(r#"]}}"#, r#"]}} {}"#),
        "null".to_owned(),
        format!("[{whole}]"),
    ];
    for line in cut.chain(broken) {
        assert_eq!(Facts::read(line.as_bytes()), None, "{line}");
    }
    let mut foreign = whole.as_bytes().to_vec();
    let letter = foreign
        .iter()
        .position(|byte| *byte == b'z')
        .expect("a text that is passed over");
    foreign[letter] = 0xff;
    assert_eq!(Facts::read(&foreign), None, "not UTF-8");
}

/// Each would take minutes if every byte were looked at as often as there are others.
#[test]
fn a_hostile_line_is_done_with_soon() {
    let end = r#""seq":7,"ts":"2026-11-15T12:00:00.123456Z","type":"admin"}"#;
    let many = 100_000;
    for piece in [
        r#""a":[},"#,
        r#""a":{],"#,
        r#""a":[[],"#,
        r#""a":{"b":"},"#,
        r#""decision":{"a":x{},"#,
        r#""decision":{"a":"b"},"#,
        r#""a":"\\","#,
        r#""a\"":["\"","#,
        r#"[{"#,
        r#"\"#,
        r#"""#,
        "\"a\":\"\u{e9}\",",
    ] {
        for tail in [end.to_owned(), format!("]{end}"), "}".repeat(many), "]}".repeat(many)] {
            let line = format!("{{{}{tail}", piece.repeat(many));
            let _ = Facts::read(line.as_bytes());
        }
    }
}

/// Texts that a careless reader would take for the end of something.
fn texts() -> impl Strategy<Value = Vec<String>> {
    let text = prop_oneof![
        "[a-z\"\\\\{}\\[\\],:/ \u{1}\u{e9}]{0,9}",
        select(vec![
            "}",
            "]",
            "},",
            "],",
            ",\"a",
            "},\"a",
            "{",
            "[",
            "\\",
            "\"",
            "\",\"seq\":9",
            "result",
            "null",
            "allow",
            "",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(text, 1..6)
}

/// Writes a line with its members in another order, some texts replaced and some members added.
struct Rewriter<'a> {
    texts: &'a [String],
    chances: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl Rewriter<'_> {
    fn chance(&mut self) -> usize {
        self.chances.next().copied().map_or(0, usize::from)
    }

    fn text(&mut self) -> String {
        let chance = self.chance();
        self.texts[chance % self.texts.len()].clone()
    }

    fn object(&mut self, members: &Map<String, Json>) -> String {
        let mut left: Vec<(String, Json)> = members.clone().into_iter().collect();
        if self.chance().is_multiple_of(3) {
            // With a mark that no name of a record has, but else much like one that is looked for.
            let end = ["", "result", "status"][self.chance() % 3];
            let name = format!("~{}{end}", self.text());
            let list = Json::from(vec![self.text(), self.text()]);
            let text = Json::from(self.text());
            left.push((name, if self.chance() < 128 { text } else { list }));
        }
        let mut written = Vec::new();
        while !left.is_empty() {
            // Often the first, as in the log: what is read from the end wants to be tried as well.
            let chance = self.chance();
            let next = if chance < 128 { 0 } else { chance % left.len() };
            let (name, value) = left.remove(next);
            let value = self.value(&name, &value);
            written.push(format!("{}:{value}", Json::from(name)));
        }
        format!("{{{}}}", written.join(","))
    }

    fn value(&mut self, name: &str, value: &Json) -> String {
        match value {
            Json::Object(members) => self.object(members),
            Json::String(_) if name != "ts" && name != "type" && self.chance().is_multiple_of(4) => {
                Json::from(self.text()).to_string()
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => value.to_string(),
        }
    }
}

proptest! {
    #[test]
    fn no_text_and_no_order_changes_what_is_read(
        line in select(golden()),
        texts in texts(),
        chances in prop::collection::vec(any::<u8>(), 1..99),
    ) {
        let Ok(Json::Object(members)) = serde_json::from_str(line) else { panic!("a record") };
        let line = Rewriter { texts: &texts, chances: chances.iter().cycle() }.object(&members);
        let facts = Facts::read(line.as_bytes());
        prop_assert!(facts.is_some(), "{}", line);
        prop_assert_eq!(facts, library::read(line.as_bytes()), "{}", line);
    }

    #[test]
    fn damaged_lines_do_no_harm(
        line in select(golden()),
        damage in prop::collection::vec((any::<Index>(), 0..3_u8, prop_oneof![any::<u8>(), select(b"{}[]\",:\\n0".to_vec())]), 1..5),
    ) {
        let mut line = line.as_bytes().to_vec();
        for (place, way, byte) in damage {
            let at = place.index(line.len());
            match way {
                0 => line[at] = byte,
                1 => line.insert(at, byte),
                _ => drop(line.remove(at)),
            }
        }
        // What a library refuses may be read where the damage is passed over.
        if let (Some(facts), Some(expected)) = (Facts::read(&line), library::read(&line)) {
            prop_assert_eq!(facts, expected, "{}", String::from_utf8_lossy(&line));
        }
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(bytes in prop::collection::vec(prop_oneof![any::<u8>(), select(b"{}[]\",:\\n0".to_vec())], 0..99)) {
        let _ = Facts::read(&bytes);
        let _ = Facts::read(&[b"{", bytes.as_slice()].concat());
    }
}
