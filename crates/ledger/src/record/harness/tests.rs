//! Records of harness runs, compared with the golden file and with two canonical writers.

use std::time::Instant;

use serde_json::Value as Json;
use vocabulary::{Clock, Digest, ReceiptId, Timestamp};

use crate::chain::{Chain, Head};
use crate::entry::Entry;
use crate::{
    AttemptClass, EgressAttempt, EgressResult, Event, HarnessAttempt, HarnessOutput, HarnessResult, HarnessSubject,
    HarnessUsage, HarnessWalls, RunReason, RunStatus,
};

fn subject(pipeline: Option<&str>) -> HarnessSubject {
    HarnessSubject {
        receipt_id: ReceiptId::parse("rcp_019a8f2d6c3b7d4e8f901a2b3c4d5e6f").unwrap(),
        run: "run_019a8f2d6c3b7d4e8f901a2b3c4d5e6f".to_owned(),
        pipeline: pipeline.map(str::to_owned),
        agent: "triage".to_owned(),
    }
}

fn walls() -> HarnessWalls {
    HarnessWalls {
        fs_policy: "workspace_only".to_owned(),
        instance: "0123456789abcdef".to_owned(),
        layers: vec!["userns".to_owned(), "seccomp".to_owned()],
        net_policy: "block_all".to_owned(),
        policy_hash: Digest::of(b"plan").to_string(),
        tier: "A".to_owned(),
    }
}

fn egress() -> EgressAttempt {
    EgressAttempt {
        server_id: "triage".to_owned(),
        instance: "0123456789abcdef".to_owned(),
        event: "connect".into(),
        result: EgressResult::Blocked,
        host: "evil.example".to_owned(),
        port: 443,
        reason: "domain_not_allowlisted".into(),
        count: 1,
        run: Some(subject(None).run),
        open: Vec::new(),
    }
}

fn events() -> Vec<Event> {
    let output = HarnessOutput {
        bytes: 17,
        hash: Digest::of(b"output"),
    };
    let usage = HarnessUsage {
        cost_usd_micros: Some(12_500),
        input_tokens: Some(900),
        output_tokens: None,
    };
    let failed = HarnessAttempt {
        subject: subject(None),
        attempt: 1,
        max_attempts: 2,
        class: AttemptClass::SchemaViolation,
        guard: None,
        exit: Some(0),
        duration_us: 1_250_000,
        output: Some(output),
        violations: 3,
        violation_fingerprint: Some(Digest::of(b"violations")),
        feedback_hash: None,
        findings: vec![("api_token".to_owned(), 2)],
        usage: Some(usage),
        walls: Some(walls()),
    };
    let never_started = HarnessAttempt {
        attempt: 2,
        class: AttemptClass::GuardViolation,
        guard: Some("not_a_regular_file".to_owned()),
        exit: None,
        output: None,
        feedback_hash: Some(Digest::of(b"feedback")),
        findings: Vec::new(),
        usage: None,
        walls: None,
        ..failed.clone()
    };
    let result = HarnessResult {
        subject: subject(Some("review")),
        status: RunStatus::Ok,
        reason: RunReason::Valid,
        class: Some(AttemptClass::Ok),
        attempts: 2,
        config_hash: Digest::of(b"config"),
        schema_hash: Digest::of(b"schema"),
        prompt_hash: Digest::of(b"prompt"),
        output: Some(output),
        inputs: vec![subject(None).receipt_id; 2],
        duration_us: 2_500_000,
        usage: Some(usage),
        walls: Some(walls()),
    };
    vec![
        Event::HarnessAttempt(Box::new(failed)),
        Event::HarnessAttempt(Box::new(never_started)),
        Event::HarnessResult(Box::new(result)),
        Event::Egress(Box::new(egress())),
    ]
}

fn written() -> String {
    let clock = Clock::standing_at(Timestamp::from_micros(1_794_744_000_123_456));
    let origin = "gw-1.example/portreeve";
    let mut chain = Chain::new(origin, clock, Head::of_origin(origin));
    let mut out = Vec::new();
    for event in events() {
        chain.write(&Entry::Event(event), Instant::now(), &mut out);
    }
    String::from_utf8(out).unwrap()
}

// R254, R256
#[test]
fn records_of_harness_runs_are_the_golden_ones() {
    assert_eq!(written(), include_str!("golden.jsonl"));
}

#[test]
fn records_of_harness_runs_are_canonical() {
    for line in written().lines() {
        let record: Json = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json_canonicalizer::to_vec(&record).unwrap(), line.as_bytes());
    }
}

#[test]
fn every_word_reads_back() {
    for class in AttemptClass::ALL {
        assert_eq!(AttemptClass::parse(class.as_str()), Some(class));
    }
    for reason in RunReason::ALL {
        assert_eq!(RunReason::parse(reason.as_str()), Some(reason));
    }
    assert_eq!(RunStatus::parse("fine"), None);
}
