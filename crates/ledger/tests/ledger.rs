//! The log from outside: what was acknowledged is there, what is there verifies, and what a crash leaves is mended.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use portreeve_ledger::{
    Arrival, Break, BreakKind, CredentialFacts, DecisionFacts, Durability, Ending, Event, Finding, Intent,
    KeptPayloads, Ledger, LedgerDown, LedgerReader, MessageFacts, Note, OpenError, Outcome, Position, Settings, Status,
    TokenMode, TokenSource, Verdict, stored_origin, verify,
};
use serde_json::Value as Json;
use vocabulary::{
    ActorType, Authn, Clock, Digest, Principal, ReasonCode, ReceiptId, Risk, ServerScope, Timestamp, TraceId, Trust,
    random_hex,
};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = root.join(format!("portreeve-ledger-{}", random_hex(8).unwrap()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// What another process would find if this one were killed now, before it had signed anything.
    fn copy(&self) -> Self {
        let copy = Self::new();
        fs::create_dir_all(copy.0.join("ledger")).unwrap();
        for entry in fs::read_dir(self.0.join("ledger")).unwrap() {
            let entry = entry.unwrap();
            let is_signed = entry.file_name().to_str().unwrap().starts_with("checkpoint");
            if is_signed || entry.file_type().unwrap().is_dir() {
                continue;
            }
            fs::copy(entry.path(), copy.0.join("ledger").join(entry.file_name())).unwrap();
        }
        copy
    }

    fn segment(&self, number: u32) -> PathBuf {
        self.0.join(format!("ledger/{number:08}.jsonl"))
    }

    fn reader(&self) -> LedgerReader {
        LedgerReader::of_state(&self.0)
    }

    fn records(&self) -> Vec<Json> {
        let lines = self.reader().lines_from(Position::START).unwrap();
        lines
            .map(|line| serde_json::from_slice(&line.unwrap().1).unwrap())
            .collect()
    }

    fn open(&self) -> Ledger {
        Ledger::open(&self.0, settings()).unwrap().0
    }

    fn intact(&self) -> u64 {
        match verify(&self.reader()).unwrap() {
            Finding::Intact(intact) => intact.records,
            Finding::Broken(broken) => panic!("{broken}"),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn settings() -> Settings {
    Settings::new("gw-1.example/portreeve")
}

fn arrival() -> Arrival {
    Arrival {
        receipt_id: ReceiptId::mint(),
        trace_id: TraceId::mint(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        size_bytes_in: 100,
        began: Instant::now(),
    }
}

fn who() -> Arc<Principal> {
    Arc::new(Principal {
        sub: "alice".to_owned(),
        actor_type: ActorType::User,
        client_id: None,
        org_id: Some("org".to_owned()),
        issuer: "portreeve".to_owned(),
        authn: Authn::Token,
        act: Vec::new(),
        run: None,
        groups: BTreeSet::new(),
        claims: [].into(),
        servers: ServerScope::Every,
    })
}

fn message(risk: Risk) -> MessageFacts {
    MessageFacts {
        method: "tools/call".to_owned(),
        server_id: Some("files".to_owned()),
        tool_name: Some("read_file".to_owned()),
        trust: Some(Trust::Internal),
        risk: Some(risk),
        risk_rule: None,
        definition_hash: Some(Digest::of(b"definition")),
        ..MessageFacts::default()
    }
}

fn decision(result: Verdict, code: ReasonCode) -> DecisionFacts {
    DecisionFacts {
        result,
        policy_id: "readers".into(),
        reason_codes: vec![code],
        policy_set: Some(Digest::of(b"policies")),
        epoch: 1,
        approval: None,
    }
}

fn called(risk: Risk) -> Ending {
    Ending::Called {
        who: who(),
        message: message(risk),
        decision: decision(Verdict::Allow, ReasonCode::AllowPolicyMatch),
        credential: CredentialFacts {
            mode: TokenMode::None,
            source: TokenSource::None,
            audience: None,
            audience_verified: None,
        },
        outcome: Outcome {
            status: Status::Success,
            executed: Some(true),
            screening: Vec::new(),
        },
    }
}

fn refused() -> Ending {
    Ending::Refused {
        who: who(),
        message: message(Risk::Low),
        decision: decision(Verdict::Deny, ReasonCode::DenyNoPermission),
    }
}

fn answered() -> Ending {
    Ending::Answered {
        who: who(),
        message: MessageFacts {
            method: "ping".to_owned(),
            ..MessageFacts::default()
        },
        decision: decision(Verdict::Allow, ReasonCode::AllowBuiltin),
        catalog: None,
    }
}

fn intent(risk: Risk) -> Intent {
    Intent {
        who: who(),
        message: message(risk),
        decision: decision(Verdict::Allow, ReasonCode::AllowPolicyMatch),
    }
}

async fn fill(ledger: &Ledger, records: usize) {
    for _ in 0..records {
        let _ = ledger.append(&arrival(), called(Risk::Low), 200).await.unwrap();
    }
}

// R163
#[tokio::test]
async fn a_log_verifies_and_goes_on_after_a_restart() {
    let folder = Folder::new();
    let ledger = folder.open();
    fill(&ledger, 3).await;
    let event = Event::Admin(Note::done("token.create", "admin", Some("tok_1"), "a token was made"));
    assert_eq!(ledger.append_event(event).await.unwrap().seq(), 4);
    ledger.shutdown();
    assert_eq!(
        ledger.append(&arrival(), answered(), 1).await.unwrap_err(),
        LedgerDown::Stopped
    );
    assert!(!ledger.is_healthy());

    let (ledger, opened) = Ledger::open(&folder.0, settings()).unwrap();
    assert_eq!((opened.last_seq, opened.cut_bytes, opened.interrupted), (4, 0, 0));
    assert_eq!(ledger.append(&arrival(), refused(), 50).await.unwrap().seq(), 5);
    assert_eq!(ledger.last_seq(), 5);
    ledger.shutdown();
    assert_eq!(folder.intact(), 5);

    let records = folder.records();
    assert_eq!(
        records[0]["prev_hash"],
        Digest::of(b"gw-1.example/portreeve").to_string()
    );
    let times: Vec<Timestamp> = records
        .iter()
        .map(|record| Timestamp::parse(record["ts"].as_str().unwrap()).unwrap())
        .collect();
    assert!(times.is_sorted());
    assert!((Clock::system().now().as_micros() - times[4].as_micros()) < 60_000_000);
}

// R163
#[tokio::test]
async fn time_does_not_run_backwards_in_a_log_when_a_clock_does() {
    let folder = Folder::new();
    let clock = Clock::standing_at(Timestamp::from_micros(2_000_000));
    let with = |clock: &Clock| Settings {
        clock: clock.clone(),
        ..settings()
    };
    let (ledger, _) = Ledger::open(&folder.0, with(&clock)).unwrap();
    fill(&ledger, 1).await;
    clock.turn_to(Timestamp::from_micros(1_000_000));
    fill(&ledger, 1).await;
    ledger.shutdown();
    let (ledger, _) = Ledger::open(&folder.0, with(&clock)).unwrap();
    fill(&ledger, 1).await;
    ledger.shutdown();
    assert!(
        folder
            .records()
            .iter()
            .all(|record| record["ts"] == "1970-01-01T00:00:02.000000Z")
    );
    assert_eq!(folder.intact(), 3);
}

// R152 R164
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_thousand_appends_from_many_tasks_are_all_there_once_and_without_gaps() {
    const TASKS: usize = 100;
    let folder = Folder::new();
    let small = Settings {
        segment_bytes: 1 << 20,
        ..settings()
    };
    let (ledger, _) = Ledger::open(&folder.0, small).unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let mut receipts = Vec::new();
                for number in 0..100 {
                    let arrival = arrival();
                    let receipt = if number % 50 == 0 {
                        let intent = ledger.append_intent(&arrival, intent(Risk::Medium)).await.unwrap();
                        assert_eq!(intent.id(), arrival.receipt_id);
                        ledger.append(&arrival, called(Risk::Medium), 7).await.unwrap()
                    } else {
                        ledger.append(&arrival, called(Risk::Low), 7).await.unwrap()
                    };
                    assert_eq!(receipt.id(), arrival.receipt_id);
                    receipts.push((receipt.id().to_string(), receipt.seq()));
                }
                receipts
            })
        })
        .collect();
    let mut receipts = HashMap::new();
    for task in tasks {
        receipts.extend(task.await.unwrap());
    }
    assert_eq!(receipts.len(), TASKS * 100);
    ledger.shutdown();
    assert!(folder.reader().segments().unwrap().len() > 10);
    assert_eq!(folder.intact(), (TASKS * 102) as u64);
    let finals = folder.records().into_iter().filter(|record| record["phase"] == "final");
    let written: HashMap<String, u64> = finals
        .map(|record| {
            (
                record["receipt_id"].as_str().unwrap().to_owned(),
                record["seq"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(written, receipts);
}

// R164
#[test]
fn a_million_receipt_ids_are_a_million() {
    let mut ids: Vec<ReceiptId> = (0..1_000_000).map(|_| ReceiptId::mint()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1_000_000);
}

#[tokio::test]
async fn any_flipped_bit_is_found() {
    let folder = Folder::new();
    let ledger = folder.open();
    fill(&ledger, 2).await;
    let _ = ledger
        .append_event(Event::Inventory(Note::done("tool.add", "portreeve", None, "new")))
        .await
        .unwrap();
    ledger.shutdown();
    let path = folder.segment(1);
    let whole = fs::read(&path).unwrap();
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&path, bytes).unwrap();
        let finding = verify(&folder.reader()).unwrap();
        assert!(matches!(finding, Finding::Broken(_)), "byte {place}");
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(folder.intact(), 3);
}

#[tokio::test]
async fn removed_inserted_swapped_and_foreign_records_are_found() {
    let folder = Folder::new();
    let ledger = folder.open();
    fill(&ledger, 4).await;
    ledger.shutdown();
    let path = folder.segment(1);
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let arranged = |order: &[usize]| {
        let text: String = order.iter().map(|place| format!("{}\n", lines[*place])).collect();
        fs::write(&path, text).unwrap();
        match verify(&folder.reader()).unwrap() {
            Finding::Intact(intact) => Err(intact.records),
            Finding::Broken(Break { kind, seq, .. }) => Ok((kind, seq)),
        }
    };
    assert_eq!(arranged(&[0, 2, 3]), Ok((BreakKind::Sequence, Some(3))));
    assert_eq!(arranged(&[0, 1, 1, 2]), Ok((BreakKind::Sequence, Some(2))));
    assert_eq!(arranged(&[0, 2, 1, 3]), Ok((BreakKind::Sequence, Some(3))));
    assert_eq!(arranged(&[1, 2, 3]), Ok((BreakKind::Sequence, Some(2))));
    assert_eq!(arranged(&[0, 1, 2, 3]), Err(4));

    for (origin, kind) in [
        ("gw-1.example/portreeve", BreakKind::PreviousHash),
        ("gw-2.example/portreeve", BreakKind::Log),
    ] {
        let other = Folder::new();
        let (ledger, _) = Ledger::open(&other.0, Settings::new(origin)).unwrap();
        fill(&ledger, 2).await;
        ledger.shutdown();
        let foreign = fs::read_to_string(other.segment(1)).unwrap();
        let second = foreign.lines().nth(1).unwrap();
        fs::write(&path, format!("{}\n{second}\n", lines[0])).unwrap();
        let Finding::Broken(broken) = verify(&folder.reader()).unwrap() else {
            panic!("a foreign record passed")
        };
        assert_eq!((broken.kind, broken.seq), (kind, Some(2)));
    }
}

#[tokio::test]
async fn a_log_cut_at_any_byte_of_its_last_two_records_opens_again_and_says_what_was_cut() {
    let folder = Folder::new();
    let ledger = folder.open();
    fill(&ledger, 3).await;
    ledger.shutdown();
    let whole = fs::read(folder.segment(1)).unwrap();
    let ends: Vec<usize> = (0..whole.len())
        .filter(|place| whole[*place] == b'\n')
        .map(|place| place + 1)
        .collect();
    let [first, second, third] = ends.as_slice() else {
        panic!("three lines")
    };
    let copy = folder.copy();
    for length in *first..=*third {
        fs::write(copy.segment(1), &whole[..length]).unwrap();
        let (ledger, opened) = Ledger::open(&copy.0, settings()).unwrap();
        ledger.shutdown();
        // What is signed cannot be cut: the next round begins before anything was.
        fs::remove_file(copy.0.join("ledger/checkpoint")).unwrap();
        fs::remove_file(copy.0.join("ledger/checkpoints")).unwrap();
        fs::remove_dir_all(copy.0.join("ledger/tile")).unwrap();
        let (kept, end) = match length {
            length if length == *third => (3, third),
            length if length >= *second => (2, second),
            _ => (1, first),
        };
        let cut = (length - end) as u64;
        assert_eq!(opened.cut_bytes, cut);
        assert_eq!(copy.intact(), kept + u64::from(cut > 0));
        if cut > 0 {
            let note = copy.records().pop().unwrap();
            assert_eq!(
                (&note["type"], &note["action"]),
                (&"admin".into(), &"ledger.cut".into())
            );
            assert_eq!(
                note["message"],
                format!("an incomplete last line of {cut} bytes was cut off")
            );
        }
    }
}

#[tokio::test]
async fn a_complete_line_that_fails_its_hash_stops_the_start() {
    let folder = Folder::new();
    let ledger = folder.open();
    fill(&ledger, 3).await;
    ledger.shutdown();
    let path = folder.segment(1);
    let edited = fs::read_to_string(&path)
        .unwrap()
        .replacen("\"sub\":\"alice\"", "\"sub\":\"mallo\"", 1);
    fs::write(&path, edited).unwrap();
    let Err(OpenError::Broken(broken)) = Ledger::open(&folder.0, settings()) else {
        panic!("it opened")
    };
    assert_eq!((broken.kind, broken.seq), (BreakKind::RecordHash, Some(1)));
}

#[tokio::test]
async fn a_second_writer_is_refused_until_the_first_has_gone() {
    let folder = Folder::new();
    let ledger = folder.open();
    assert!(matches!(Ledger::open(&folder.0, settings()), Err(OpenError::InUse)));
    fill(&ledger, 1).await;
    ledger.shutdown();
    folder.open().shutdown();
}

#[test]
fn the_name_is_fixed_at_first_start() {
    let folder = Folder::new();
    assert_eq!(stored_origin(&folder.0), None);
    folder.open().shutdown();
    assert_eq!(stored_origin(&folder.0).as_deref(), Some("gw-1.example/portreeve"));
    let ledger = folder.open();
    let _ = ledger
        .append_event_blocking(Event::Admin(Note::done("a.b", "c", None, "d")))
        .unwrap();
    ledger.shutdown();
    fs::remove_file(folder.0.join("ledger/origin")).unwrap();
    let error = Ledger::open(&folder.0, Settings::new("gw-2.example/portreeve"))
        .err()
        .unwrap();
    assert!(matches!(&error, OpenError::OriginDiffers { .. }));
    assert!(error.to_string().contains("`gw-1.example/portreeve`"), "{error}");
    for bad in ["", "a b", "a+b", "a\nb", "é"] {
        assert!(
            matches!(
                Ledger::open(&folder.0, Settings::new(bad)),
                Err(OpenError::OriginSpelling(_))
            ),
            "{bad:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_found_by_whoever_comes_after_a_kill() {
    for durability in [Durability::Always, Durability::Writes, Durability::Interval] {
        let folder = Folder::new();
        let (ledger, _) = Ledger::open(
            &folder.0,
            Settings {
                durability,
                ..settings()
            },
        )
        .unwrap();
        let mut acknowledged = BTreeSet::new();
        for risk in [Risk::Low, Risk::High, Risk::Low] {
            let receipt = ledger.append(&arrival(), called(risk), 9).await.unwrap();
            acknowledged.insert(receipt.id().to_string());
        }
        // The copy is taken from the kernel while the log is open: nothing was flushed on purpose.
        let found = folder.copy();
        drop(ledger);
        found.open().shutdown();
        let ids: BTreeSet<String> = found
            .records()
            .iter()
            .map(|record| record["receipt_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(ids, acknowledged, "{durability:?}");
        found.intact();
    }
}

// R152
#[tokio::test]
async fn a_restart_closes_the_intents_of_calls_that_were_under_way() {
    let folder = Folder::new();
    let ledger = folder.open();
    let (left, done) = (arrival(), arrival());
    let _ = ledger.append_intent(&left, intent(Risk::High)).await.unwrap();
    let _ = ledger.append_intent(&done, intent(Risk::High)).await.unwrap();
    let _ = ledger.append(&done, called(Risk::High), 5).await.unwrap();
    let killed = folder.copy();
    let (ledger, opened) = Ledger::open(&killed.0, settings()).unwrap();
    assert_eq!((opened.interrupted, opened.last_seq), (1, 4));
    ledger.shutdown();
    assert_eq!(killed.intact(), 4);

    let records = killed.records();
    let (open, closed) = (&records[0], &records[3]);
    assert_eq!(closed["receipt_id"], left.receipt_id.to_string());
    assert_eq!(closed["phase"], "final");
    let codes = serde_json::json!(["ALLOW_POLICY_MATCH", "ERROR_INTERRUPTED"]);
    assert_eq!(closed["decision"]["reason_codes"], codes);
    let outcome = serde_json::json!({"duration_us": null, "executed": null, "screening": [],
        "size_bytes_out": null, "status": "error"});
    assert_eq!(closed["outcome"], outcome);
    for member in ["principal", "mcp", "request", "trace_id", "log", "type"] {
        assert_eq!(closed[member], open[member], "{member}");
    }
    let (ledger, opened) = Ledger::open(&killed.0, settings()).unwrap();
    assert_eq!(opened.interrupted, 0, "once is enough");
    ledger.shutdown();
}

#[tokio::test]
async fn an_intent_is_found_however_many_segments_ago_it_was_written() {
    let folder = Folder::new();
    let (ledger, _) = Ledger::open(
        &folder.0,
        Settings {
            segment_bytes: 4096,
            ..settings()
        },
    )
    .unwrap();
    let (left, done) = (arrival(), arrival());
    let _ = ledger.append_intent(&left, intent(Risk::Medium)).await.unwrap();
    let _ = ledger.append_intent(&done, intent(Risk::Medium)).await.unwrap();
    fill(&ledger, 10).await;
    let _ = ledger.append(&done, called(Risk::Medium), 5).await.unwrap();
    fill(&ledger, 10).await;
    let newest = *folder.reader().segments().unwrap().last().unwrap();
    assert!(newest > 4);

    let listed = folder.copy();
    let lost_list = folder.copy();
    fs::remove_file(lost_list.0.join(format!("ledger/{newest:08}.open"))).unwrap();
    let spoiled_list = folder.copy();
    fs::write(spoiled_list.0.join(format!("ledger/{newest:08}.open")), "1\n1 17\n").unwrap();
    // Killed between making the next segment and writing to it.
    let empty_segment = folder.copy();
    fs::write(empty_segment.segment(newest + 1), "").unwrap();
    for killed in [listed, lost_list, spoiled_list, empty_segment] {
        let (ledger, opened) = Ledger::open(&killed.0, settings()).unwrap();
        ledger.shutdown();
        assert_eq!(opened.interrupted, 1);
        assert_eq!(killed.intact(), 24);
        assert_eq!(killed.records()[23]["receipt_id"], left.receipt_id.to_string());
    }
}

// R152
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_folded_its_counts_add_up_and_every_answer_names_a_record() {
    let folder = Folder::new();
    let ledger = folder.open();
    let flood: Vec<_> = (0..1000)
        .map(|number| {
            let ledger = ledger.clone();
            let ending = if number % 10 == 0 { called(Risk::Low) } else { refused() };
            tokio::spawn(async move { ledger.append(&arrival(), ending, 1).await.unwrap().id().to_string() })
        })
        .collect();
    let mut answered = BTreeSet::new();
    for task in flood {
        answered.insert(task.await.unwrap());
    }
    ledger.shutdown();
    let records = folder.records();
    let names: BTreeSet<String> = records
        .iter()
        .map(|record| record["receipt_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, answered);
    assert_eq!(
        records
            .iter()
            .map(|record| record["count"].as_u64().unwrap())
            .sum::<u64>(),
        1000
    );
    let allowed: Vec<&Json> = records
        .iter()
        .filter(|record| record["decision"]["result"] == "allow")
        .collect();
    assert_eq!(allowed.len(), 100);
    assert!(allowed.iter().all(|record| record["count"] == 1));
    assert!(records.len() <= 100 + 2 * 101, "{} records", records.len());
    folder.intact();
}

#[tokio::test]
async fn closing_releases_what_a_flood_holds() {
    let folder = Folder::new();
    let ledger = folder.open();
    let flood: Vec<_> = (0..150)
        .map(|_| {
            let ledger = ledger.clone();
            tokio::spawn(async move { ledger.append(&arrival(), refused(), 1).await })
        })
        .collect();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    ledger.shutdown();
    for task in flood {
        let _ = task.await.unwrap().unwrap();
    }
    assert_eq!(
        folder
            .records()
            .iter()
            .map(|record| record["count"].as_u64().unwrap())
            .sum::<u64>(),
        150
    );
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_log() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    folder.open().shutdown();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.segment(1)), 0o600);
    assert_eq!(mode(folder.0.join("ledger/origin")), 0o600);
    assert_eq!(mode(folder.0.join("ledger")), 0o700);
}

#[tokio::test]
async fn what_is_left_over_in_an_earlier_segment_is_found_too() {
    let folder = Folder::new();
    let small = Settings {
        segment_bytes: 4096,
        ..settings()
    };
    let (ledger, _) = Ledger::open(&folder.0, small).unwrap();
    fill(&ledger, 20).await;
    ledger.shutdown();
    assert!(folder.reader().segments().unwrap().len() > 2);
    let mut bytes = fs::read(folder.segment(1)).unwrap();
    let offset = u64::try_from(bytes.len()).unwrap();
    bytes.extend_from_slice(b"{\"half\":");
    fs::write(folder.segment(1), bytes).unwrap();
    let Finding::Broken(broken) = verify(&folder.reader()).unwrap() else {
        panic!("half a record passed")
    };
    assert_eq!(
        (broken.position, broken.kind),
        (Position { segment: 1, offset }, BreakKind::Incomplete)
    );
}

#[test]
fn a_break_says_where_and_what() {
    let position = Position { segment: 3, offset: 17 };
    for (kind, says) in [
        (BreakKind::Spelling, "is not a record in canonical spelling"),
        (BreakKind::RecordHash, "does not have the hash it states"),
        (BreakKind::PreviousHash, "does not follow the record before it"),
        (BreakKind::Sequence, "is out of sequence"),
        (BreakKind::Time, "is older than the record before it"),
        (BreakKind::Log, "belongs to another log"),
        (BreakKind::Incomplete, "is incomplete"),
    ] {
        let named = Break {
            position,
            seq: Some(9),
            kind,
        };
        assert_eq!(
            named.to_string(),
            format!("record 9 (segment 00000003, byte 17) {says}")
        );
        let nameless = Break { seq: None, ..named };
        assert_eq!(
            nameless.to_string(),
            format!("the record at segment 00000003, byte 17 {says}")
        );
    }
}

#[tokio::test]
async fn several_events_are_written_in_their_order_or_refused() {
    let folder = Folder::new();
    let ledger = folder.open();
    let named = |number: usize| Event::Inventory(Note::done("tool.add", "portreeve", None, &format!("event {number}")));
    // More than are written together.
    ledger.append_events((0..300).map(named).collect()).await.unwrap();
    ledger.shutdown();
    assert_eq!(ledger.append_events(vec![named(300)]).await, Err(LedgerDown::Stopped));
    assert_eq!(folder.intact(), 300);
    let spelled: Vec<String> = folder.records().iter().map(Json::to_string).collect();
    for (number, record) in spelled.iter().enumerate() {
        assert!(record.contains(&format!("\"event {number}\"")), "{number}: {record}");
    }
}

#[tokio::test]
async fn what_was_carried_out_keeps_its_answer_where_answers_are_kept_and_nothing_else_does() {
    for results in [true, false] {
        let folder = Folder::new();
        let payloads = KeptPayloads {
            arguments: !results,
            results,
        };
        let (ledger, _) = Ledger::open(&folder.0, Settings { payloads, ..settings() }).unwrap();
        let taken = std::cell::Cell::new(0);
        let bytes = || {
            taken.set(taken.get() + 1);
            b"{}".to_vec()
        };
        let failed = || {
            let mut ending = called(Risk::Low);
            if let Ending::Called { outcome, .. } = &mut ending {
                outcome.status = Status::Error;
            }
            ending
        };
        for ending in [called(Risk::Low), failed(), refused(), answered()] {
            let _ = ledger.append_answer(&arrival(), ending, 2, bytes).await.unwrap();
        }
        let refs = folder
            .records()
            .into_iter()
            .map(|record| !record["outcome"]["result_ref"].is_null());
        assert_eq!(refs.collect::<Vec<_>>(), [results, false, false, false]);
        assert_eq!(
            taken.take(),
            usize::from(results),
            "no answer is copied that is not kept"
        );
        let kept = ledger.keep_arguments(ReceiptId::mint(), bytes).unwrap();
        assert_eq!((kept.is_some(), taken.get()), (!results, usize::from(!results)));
    }
}

#[tokio::test]
async fn a_witness_has_the_last_checkpoint_of_a_log_that_ended() {
    let (folder, witness) = (Folder::new(), Folder::new());
    let copied = Some(witness.0.clone());
    let (ledger, _) = Ledger::open(
        &folder.0,
        Settings {
            witness: copied,
            ..settings()
        },
    )
    .unwrap();
    fill(&ledger, 10).await;
    ledger.shutdown();
    let own = fs::read(folder.0.join("ledger/checkpoint")).unwrap();
    assert_eq!(String::from_utf8_lossy(&own).lines().nth(1), Some("10"));
    assert_eq!(fs::read(witness.0.join("checkpoint")).unwrap(), own);
}
