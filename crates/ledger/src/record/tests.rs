//! Records of every ending, compared with the golden file, with the canonical writer and with the published schema.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use vocabulary::json::{Limits, Value};
use vocabulary::{Clock, Confinement, ReasonCode, ReceiptId, Risk, Timestamp, TraceId, canonical};

use super::line::Line;
use super::request::Outcome;
use super::*;
use crate::approval::{ApprovalAction, ApprovalStep};
use crate::chain::{Chain, Head};
use crate::ending::{ApprovalFacts, Arrival, Ending, MessageFacts, Outcome as OutcomeFacts, Status, StepUp, Verdict};
use crate::entry::{Announced, Entry, Final};
use crate::event::{EgressAttempt, EgressCall, EgressResult, Note};
use crate::incident::{IncidentAction, IncidentMark, IncidentStep};
use crate::sample;
use crate::screening::{
    FindingNote, Judgement, ScreeningAct, ScreeningDecision, ScreeningGuard, ScreeningMode, ScreeningStage,
    ScreeningSubject,
};

const SCHEMA: &str = include_str!("../../../../docs/schemas/request.schema.json");

fn arrival_at(began: Instant) -> Arrival {
    Arrival {
        receipt_id: ReceiptId::parse("rcp_019a8f2d6c3b7d4e8f901a2b3c4d5e6f").unwrap(),
        trace_id: TraceId::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap(),
        began,
        ..sample::arrival()
    }
}

/// Every way a request can end.
fn endings() -> [Ending; 8] {
    let who = sample::principal();
    let unknown = MessageFacts {
        method: "tools/call".to_owned(),
        tool_name: Some(format!("\u{1b}[31m{}", "é".repeat(100))),
        ..MessageFacts::default()
    };
    let decision = crate::DecisionFacts {
        policy_set: None,
        ..sample::decision(Verdict::RequireApproval, ReasonCode::RequireApproval)
    };
    [
        Ending::Unidentified {
            reason: ReasonCode::DenyNoAuthn,
        },
        Ending::Unreadable {
            who: who.clone(),
            reason: ReasonCode::DenyMalformed,
            server_id: Some("files".to_owned()),
        },
        sample::refused(ReasonCode::DenyNoPermission),
        Ending::Refused {
            who,
            message: unknown,
            decision,
        },
        sample::answered(),
        sample::called(Risk::Low, Status::Success, Some(true)),
        sample::called(Risk::High, Status::Error, Some(true)),
        sample::called(Risk::Critical, Status::Timeout, None),
    ]
}

/// One entry for every way a request can end, then the intent and the events.
fn entries(began: Instant) -> Vec<Entry> {
    let arrival = arrival_at(began);
    let finals = endings().into_iter().map(|ending| Final {
        arrival,
        ending,
        size_bytes_out: 2048,
        count: 1,
        result_ref: None,
    });
    let mut entries: Vec<Entry> = finals.map(|entry| Entry::Final(Box::new(entry))).collect();
    entries.push(Entry::Intent(Box::new(Announced {
        arrival,
        intent: sample::intent(Risk::Medium),
    })));
    let mut note = Note::done("token.create", "admin \"root\"", Some("tok_1"), "a token was made\n");
    entries.push(Entry::Event(Event::Admin(note.clone())));
    note = Note::refused("tool.approve", "admin", None, "no such tool");
    note.receipt_id = Some(arrival.receipt_id);
    entries.push(Entry::Event(Event::Inventory(note)));
    for decision in [screened(arrival.receipt_id), unusable()] {
        entries.push(Entry::Event(Event::Screening(Box::new(decision))));
    }
    entries.push(Entry::Final(Box::new(Final {
        arrival,
        ending: walled(),
        size_bytes_out: 64,
        count: 1,
        result_ref: None,
    })));
    let call = |receipt_id| EgressCall {
        receipt_id,
        tool_name: Some("fetch".to_owned()),
        session: Some(Digest::of(b"session")),
    };
    let other = ReceiptId::parse("rcp_019a8f2d6c3b7d4e8f901a2b3c4d5e70").unwrap();
    for open in [
        Vec::new(),
        vec![call(arrival.receipt_id)],
        vec![call(arrival.receipt_id), call(other)],
    ] {
        entries.push(Entry::Event(Event::Egress(Box::new(attempt(open)))));
    }
    entries.extend(approval(arrival));
    entries.extend(incident(arrival));
    entries
}

/// An incident, a request that was refused meanwhile, and its end.
fn incident(arrival: Arrival) -> [Entry; 3] {
    let step = IncidentStep {
        action: IncidentAction::Started,
        actor: "zoe".to_owned(),
        id: "inc_1".to_owned(),
        stage: "contain",
        scope: "server:files".to_owned(),
        reason: "odd deletions".to_owned(),
        started: Timestamp::from_micros(1_700_000_000_000_000),
        expires: Some(Timestamp::from_micros(1_700_000_900_000_000)),
        then: Some(IncidentMark {
            id: "inc_1".into(),
            stage: "contain",
        }),
    };
    let end = IncidentStep {
        action: IncidentAction::Ended,
        expires: None,
        then: None,
        ..step.clone()
    };
    let refused = Entry::Final(Box::new(Final {
        arrival,
        ending: sample::refused(ReasonCode::DenyKillSwitch),
        size_bytes_out: 64,
        result_ref: None,
        count: 1,
    }));
    let [start, end] = [step, end].map(|step| Entry::Event(Event::Incident(Box::new(step))));
    [start, refused, end]
}

/// A call that waits, a person's word on it, and the call that was made then.
fn approval(arrival: Arrival) -> [Entry; 3] {
    let step = ApprovalStep {
        action: ApprovalAction::Requested,
        actor: "alice".to_owned(),
        id: "apr_1".to_owned(),
        plan_hash: Digest::of(b"plan"),
        step_up: StepUp::None,
        reason: None,
        sub: "alice".to_owned(),
        issuer: "https://idp.example".to_owned(),
        client_id: Some("ide".to_owned()),
        org_id: None,
        server_id: "files".to_owned(),
        tool_name: "wipe".to_owned(),
        definition_hash: Digest::of(b"definition"),
        args_hash: Digest::of(b"arguments"),
        risk: Risk::Critical,
        policy_id: "a-human".to_owned(),
        policy_set: Digest::of(b"policies"),
        expires: Timestamp::from_micros(1_700_000_900_000_000),
        receipt_id: Some(arrival.receipt_id),
    };
    let word = ApprovalStep {
        action: ApprovalAction::Denied,
        actor: "zoe".to_owned(),
        reason: Some("not on a Friday".to_owned()),
        receipt_id: None,
        ..step.clone()
    };
    let mut ending = sample::called(Risk::Critical, Status::Success, Some(true));
    if let Ending::Called { decision, .. } = &mut ending {
        decision.approval = Some(Box::new(ApprovalFacts {
            id: step.id.clone(),
            plan_hash: step.plan_hash,
            approved: Some(("zoe".to_owned(), Timestamp::from_micros(1_700_000_000_000_000))),
            step_up: StepUp::Mfa,
        }));
    }
    let steps = [step, word].map(|step| Entry::Event(Event::Approval(Box::new(step))));
    let [step, word] = steps;
    let call = Entry::Final(Box::new(Final {
        arrival,
        ending,
        size_bytes_out: 64,
        result_ref: None,
        count: 1,
    }));
    [step, word, call]
}

/// A call that went to a process in a sandbox.
fn walled() -> Ending {
    let mut ending = sample::called(Risk::Low, Status::Success, Some(true));
    if let Ending::Called { message, .. } = &mut ending {
        message.walls = Some(Arc::new(Confinement {
            tier: "A",
            fs_policy: "workspace_only",
            net_policy: "allowlist",
            instance: "0123456789abcdef".to_owned(),
            policy_hash: Digest::of(b"plan").to_string(),
            layers: vec!["userns", "landlock", "seccomp"],
        }));
    }
    ending
}

/// A decision with every member set.
fn screened(receipt_id: ReceiptId) -> ScreeningDecision {
    let finding = |category: &str, place: &str| FindingNote {
        category: category.to_owned(),
        rule: "a-rule".to_owned(),
        place: place.to_owned(),
        length: 40,
    };
    let subject = ScreeningSubject {
        receipt_id: Some(receipt_id),
        principal: Some("alice".to_owned()),
        session: Some(Digest::of(b"session")),
        server_id: "files".to_owned(),
        tool_name: Some("read_file".to_owned()),
    };
    let judgement = Judgement {
        act: ScreeningAct::Redacted,
        stage: ScreeningStage::Detection,
        mode: ScreeningMode::Redact,
        guard: Some(ScreeningGuard::MaxBytes),
        path: Some("/items/1".to_owned()),
        keyword: Some("enum".to_owned()),
        schema_hash: Some(Digest::of(b"{}")),
        findings: vec![
            finding("api_token", "/content/0/text"),
            finding("private_key", "/structuredContent/key"),
        ],
        stripped: vec![("ansi", 2), ("zero_width", 1)],
        message: "secrets were masked: 1 api_token, 1 private_key".to_owned(),
    };
    ScreeningDecision::about(subject, judgement)
}

/// One with as few as there can be.
fn unusable() -> ScreeningDecision {
    let subject = ScreeningSubject {
        receipt_id: None,
        principal: None,
        session: None,
        server_id: "files".to_owned(),
        tool_name: None,
    };
    let message = "the schema cannot be used".to_owned();
    let (act, stage, mode) = (ScreeningAct::Warning, ScreeningStage::Validation, ScreeningMode::Warn);
    ScreeningDecision::about(subject, Judgement::new(act, stage, mode, message))
}

fn attempt(open: Vec<EgressCall>) -> EgressAttempt {
    EgressAttempt {
        server_id: "files".to_owned(),
        instance: "0123456789abcdef".to_owned(),
        event: "connect".into(),
        result: EgressResult::Blocked,
        host: "evil.example\\u{7}".to_owned(),
        port: 443,
        reason: "domain_not_allowlisted".into(),
        count: 3,
        run: None,
        open,
    }
}

// R182 R183 R206
#[test]
fn a_process_is_named_with_its_walls_and_an_attempt_with_the_one_call_it_was_for() {
    let bytes = written();
    let records: Vec<Json> = lines(&bytes)
        .iter()
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    // Behind them stand the steps of an approval and of an incident.
    let (records, _) = records.split_at(records.len() - 6);
    let [walled, nobody, one, several] = records.last_chunk().unwrap();
    assert_eq!(walled["sandbox"]["fs_policy"], "workspace_only");
    assert_eq!(walled["sandbox"]["net_policy"], "allowlist");
    assert_eq!(walled["sandbox"]["tier"], "A");
    assert_eq!(
        (&nobody["receipt_id"], &nobody["candidates"]),
        (&Json::Null, &serde_json::json!([]))
    );
    assert_eq!(one["receipt_id"], walled["receipt_id"]);
    assert_eq!(
        (&one["tool_name"], &one["candidates"]),
        (&Json::from("fetch"), &serde_json::json!([]))
    );
    assert_eq!(
        (&several["receipt_id"], &several["tool_name"]),
        (&Json::Null, &Json::Null)
    );
    assert_eq!(several["candidates"].as_array().unwrap().len(), 2);
}

fn written() -> Vec<u8> {
    let began = Instant::now();
    let clock = Clock::standing_at(Timestamp::from_micros(1_794_744_000_123_456));
    let mut chain = Chain::new(
        "gw-1.example/portreeve",
        clock,
        Head::of_origin("gw-1.example/portreeve"),
    );
    let mut out = Vec::new();
    for entry in entries(began) {
        chain.write(&entry, began + Duration::from_micros(5120), &mut out);
    }
    out
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn records_are_the_golden_ones() {
    assert_eq!(String::from_utf8(written()).unwrap(), include_str!("golden.jsonl"));
}

#[test]
fn every_record_is_canonical_by_our_writer_and_by_a_library() {
    for line in lines(&written()) {
        let limits = Limits {
            max_bytes: 1 << 20,
            max_depth: 16,
            max_string: 1 << 16,
            max_items: 1000,
        };
        let tree = Value::parse(line, &limits).unwrap();
        let mut ours = Vec::new();
        canonical::write(&tree, &mut ours);
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(line));
        let theirs: Json = serde_json::from_slice(line).unwrap();
        assert_eq!(serde_json_canonicalizer::to_vec(&theirs).unwrap(), line);
    }
}

// R166 R167 R176 R178
#[test]
fn every_request_record_fits_the_published_schema() {
    let schema: Json = serde_json::from_str(SCHEMA).unwrap();
    let mut requests = 0;
    for line in lines(&written()) {
        let record: Json = serde_json::from_slice(line).unwrap();
        if record["type"] == "request" {
            fits(&schema, &record, &schema, "$");
            requests += 1;
        }
    }
    assert_eq!(requests, 12);
}

// R025 R047
#[test]
fn every_decision_of_the_chokepoint_fits_its_published_schema() {
    let schema: Json =
        serde_json::from_str(include_str!("../../../../docs/schemas/policy-decision.schema.json")).unwrap();
    let mut decisions = 0;
    for line in lines(&written()) {
        let record: Json = serde_json::from_slice(line).unwrap();
        if record["type"] == "policy_decision" {
            fits(&schema, &record, &schema, "$");
            decisions += 1;
        }
    }
    assert_eq!(decisions, 2);
}

#[test]
fn the_words_of_screening_are_those_of_the_published_schema() {
    let schema: Json =
        serde_json::from_str(include_str!("../../../../docs/schemas/policy-decision.schema.json")).unwrap();
    let published = |member: &str| schema["properties"][member]["enum"].clone();
    let words = |words: Vec<&str>| serde_json::json!(words);
    let acts = ScreeningAct::ALL.iter().map(|act| act.as_str()).collect();
    let stages = ScreeningStage::ALL.iter().map(|stage| stage.as_str()).collect();
    let modes = ScreeningMode::ALL.iter().map(|mode| mode.as_str()).collect();
    assert_eq!(published("status"), words(acts));
    assert_eq!(published("stage"), words(stages));
    assert_eq!(published("mode"), words(modes));
}

#[test]
fn the_schema_turns_a_record_down_that_lacks_or_adds_a_member() {
    let schema: Json = serde_json::from_str(SCHEMA).unwrap();
    let bytes = written();
    let whole: Json = serde_json::from_slice(lines(&bytes)[0]).unwrap();
    let mut poorer = whole.clone();
    poorer["outcome"].as_object_mut().unwrap().remove("executed");
    let mut richer = whole.clone();
    richer["request"]["arguments"] = Json::from("raw");
    let mut wrong = whole.clone();
    wrong["decision"]["result"] = Json::from("maybe");
    for bad in [poorer, richer, wrong] {
        assert!(std::panic::catch_unwind(|| fits(&schema, &bad, &schema, "$")).is_err());
    }
}

// R165 R168 R169 R170 R171 R174 R175 R177 R188
#[test]
fn every_fact_handed_in_stands_under_its_name() {
    let bytes = written();
    let record: Json = serde_json::from_slice(lines(&bytes)[5]).unwrap();
    for (pointer, expected) in [
        ("/trace_id", Json::from("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("/principal/client_id", "client-1".into()),
        ("/principal/org_id", Json::Null),
        ("/principal/act", serde_json::json!(["bob", "carol"])),
        ("/mcp/method", "tools/call".into()),
        ("/mcp/server_id", "files".into()),
        ("/mcp/tool_name", "write_file".into()),
        ("/mcp/trust_level", "community".into()),
        ("/mcp/risk", "low".into()),
        ("/request/args_hash", Digest::of(b"{}").to_string().into()),
        ("/request/args_canon", "jcs".into()),
        ("/request/size_bytes_in", 512.into()),
        ("/decision/policy_id", "writers".into()),
        ("/decision/epoch", 17.into()),
        ("/token_handling/mode", "vault".into()),
        ("/token_handling/passthrough_detected", false.into()),
        ("/outcome/size_bytes_out", 2048.into()),
        ("/outcome/duration_us", 5120.into()),
    ] {
        assert_eq!(record.pointer(pointer), Some(&expected), "{pointer}");
    }
}

// R166 R152
#[test]
fn of_an_unidentified_caller_nothing_is_written_but_sizes() {
    let bytes = written();
    let record: Json = serde_json::from_slice(lines(&bytes)[0]).unwrap();
    let principal = serde_json::json!({"act": [], "actor_type": "agent", "authn": "none", "client_id": null,
        "issuer": null, "org_id": null, "run": null, "sub": "unauthenticated"});
    assert_eq!(record["principal"], principal);
    assert!(record["mcp"].as_object().unwrap().values().all(Json::is_null));
    assert_eq!(record["decision"]["policy_id"], "builtin:authentication");
}

// R172
#[test]
fn an_unknown_tool_name_is_cut_and_stripped_of_control_characters() {
    let bytes = written();
    let record: Json = serde_json::from_slice(lines(&bytes)[3]).unwrap();
    let name = record["mcp"]["tool_name"].as_str().unwrap();
    assert_eq!(name, format!("[31m{}", "é".repeat(62)));
    assert_eq!(name.len(), 128);
    assert_eq!(record["approval"]["required"], true);
}

#[test]
fn a_denial_is_an_error_not_carried_out_and_an_unknown_outcome_stays_open() {
    let bytes = written();
    let outcomes: Vec<(Json, Json)> = lines(&bytes)
        .iter()
        .map(|line| serde_json::from_slice::<Json>(line).unwrap()["outcome"].clone())
        .map(|outcome| (outcome["status"].clone(), outcome["executed"].clone()))
        .collect();
    let pair = |status: &str, executed: Option<bool>| (Json::from(status), Json::from(executed));
    assert_eq!(outcomes[0], pair("error", Some(false)));
    assert_eq!(outcomes[2], pair("error", Some(false)));
    assert_eq!(outcomes[4], pair("success", Some(true)));
    assert_eq!(outcomes[6], pair("error", Some(true)));
    assert_eq!(outcomes[7], pair("timeout", None));
    assert_eq!(outcomes[8], (Json::Null, Json::Null));
}

#[test]
fn numbers_stay_within_what_json_holds_exactly() {
    let mut out = Vec::new();
    for (number, spelled) in [(0, "0"), (7, "7"), (10, "10"), (u64::MAX, "9007199254740991")] {
        out.clear();
        Line(&mut out).number(Some(number));
        assert_eq!(out, spelled.as_bytes());
    }
}

#[test]
fn text_is_escaped_as_the_library_does_it() {
    for code in (0..0x300).chain([0x2028, 0xfeff, 0x1_f600]) {
        let text: String = ["a", &char::from_u32(code).unwrap().to_string(), "b"].concat();
        let mut out = Vec::new();
        write_text(&text, &mut out);
        assert_eq!(out, serde_json_canonicalizer::to_vec(&text).unwrap(), "U+{code:04X}");
    }
}

#[test]
fn screening_marks_and_sizes_are_those_handed_in() {
    let entry = Final {
        arrival: sample::arrival(),
        ending: sample::called(Risk::Low, Status::Success, Some(true)),
        size_bytes_out: 77,
        count: 3,
        result_ref: None,
    };
    let outcome = Outcome::of(&entry, Verdict::Allow, entry.arrival.began);
    let Ending::Called {
        outcome: OutcomeFacts { screening, .. },
        ..
    } = &entry.ending
    else {
        unreachable!()
    };
    assert_eq!(
        (outcome.size_bytes_out, outcome.duration_us, outcome.screening),
        (77, 0, screening.as_slice())
    );
}

/// The part of JSON Schema that the published schema uses.
fn fits(schema: &Json, value: &Json, root: &Json, path: &str) {
    for (keyword, rule) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                fits(root.pointer(pointer).unwrap(), value, root, path);
            }
            "const" => assert_eq!(value, rule, "{path}"),
            "enum" => assert!(rule.as_array().unwrap().contains(value), "{path}: {value}"),
            "type" => assert!(is_of(value, rule), "{path}: {value} is not {rule}"),
            "minimum" => assert!(value.is_null() || value.as_u64() >= rule.as_u64(), "{path}"),
            "pattern" => assert!(
                value
                    .as_str()
                    .is_none_or(|text| looks_like(text, rule.as_str().unwrap())),
                "{path}"
            ),
            "required" => {
                let names = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                names.for_each(|name| assert!(value.get(name).is_some(), "{path} lacks {name}"));
            }
            "properties" => {
                for (name, member) in value.as_object().unwrap() {
                    fits(rule.get(name).expect(name), member, root, &format!("{path}.{name}"));
                }
                let required = schema["required"].as_array().unwrap();
                let left_out = rule.as_object().unwrap().keys();
                let left_out = left_out.filter(|name| !required.iter().any(|one| one == name.as_str()));
                assert!(
                    left_out
                        .into_iter()
                        .all(|name| ["risk_rule", "args_ref", "result_ref"].contains(&name.as_str())),
                    "{path}"
                );
            }
            "additionalProperties" => assert_eq!(rule, false),
            "items" => {
                for item in value.as_array().unwrap() {
                    fits(rule, item, root, path);
                }
            }
            other => panic!("{path}: the check does not know `{other}`"),
        }
    }
}

fn is_of(value: &Json, rule: &Json) -> bool {
    let one = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    rule.as_str().map_or_else(
        || rule.as_array().unwrap().iter().any(|name| one(name.as_str().unwrap())),
        one,
    )
}

fn looks_like(text: &str, pattern: &str) -> bool {
    let hex = |rest: &str, length| rest.len() == length && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    match pattern {
        "^sha256:[0-9a-f]{64}$" => text.strip_prefix("sha256:").is_some_and(|rest| hex(rest, 64)),
        "^rcp_[0-9a-f]{32}$" => text.strip_prefix("rcp_").is_some_and(|rest| hex(rest, 32)),
        "^[0-9a-f]{32}$" => hex(text, 32),
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$" => {
            text.len() == 27 && Timestamp::parse(text).is_some_and(|time| time.to_string() == text)
        }
        other => panic!("the check does not know the pattern `{other}`"),
    }
}
