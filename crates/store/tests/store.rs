//! The store from outside: what is saved comes back, byte for byte, and the index can be lost without loss.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::{
    Arrival, CredentialFacts, DecisionFacts, Ending, Event, Intent, Ledger, LedgerReader, MessageFacts, Note, Outcome,
    Position, Settings, TokenMode, TokenSource, Verdict,
};
use policy::{
    Bound, InventoryStore, ItemKind, Presence, Said, ServerIdentity, StoredInstructions, StoredItem, StoredServer,
    StoredTool, Word, Words,
};
use portreeve_store::{
    Activity, Arrangement, Filter, LockError, Order, RecordKey, RecordType, Revocation, StateLock, Status, Store,
    StoreFault, TokenKind, TokenRow,
};
use vocabulary::{
    ActorType, Audience, Authn, Capability, Clock, Digest, Era, Principal, ReasonCode, ReceiptId, Risk, Role, ServerId,
    ServerScope, Timestamp, ToolName, TraceId, random_hex,
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
        Self(root.join(format!("portreeve-store-{}", random_hex(8).unwrap())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn token(id: &str) -> TokenRow {
    TokenRow {
        id: id.to_owned(),
        kind: TokenKind::Agent,
        hash: Digest::of(id.as_bytes()),
        sub: "al'ice\"; DROP TABLE tokens".to_owned(),
        actor_type: ActorType::Agent,
        client_id: Some("client".to_owned()),
        org_id: None,
        groups: ["a".to_owned(), "b \"c\"".to_owned()].into(),
        servers: ServerScope::Only([ServerId::parse("files").unwrap()].into()),
        run: Some("run_1".to_owned()),
        created: Timestamp::from_micros(1),
        expires: Timestamp::from_micros(2),
        revoked: None,
    }
}

#[test]
fn tokens_come_back_whole_and_a_revoked_one_stays_revoked() {
    let folder = Folder::new();
    let store = Store::open(&folder.0).unwrap();
    let one = token("tok_1");
    let two = TokenRow {
        kind: TokenKind::Admin(Role::Approver),
        servers: ServerScope::Every,
        ..token("tok_2")
    };
    store.insert_token(&one).unwrap();
    store.insert_token(&two).unwrap();
    assert!(store.insert_token(&one).is_err(), "an id is used once");
    let now = Timestamp::from_micros(9);
    assert_eq!(store.revoke_token("tok_1", now).unwrap(), Revocation::Revoked);
    assert_eq!(
        store.revoke_token("tok_1", Timestamp::from_micros(10)).unwrap(),
        Revocation::AlreadyRevoked
    );
    assert_eq!(store.revoke_token("tok_3", now).unwrap(), Revocation::Unknown);
    drop(store);
    let revoked = TokenRow {
        revoked: Some(now),
        ..one
    };
    assert_eq!(Store::open(&folder.0).unwrap().tokens().unwrap(), [revoked, two]);
}

#[test]
fn a_token_for_no_server_is_not_a_token_for_every_server() {
    let folder = Folder::new();
    let store = Store::open(&folder.0).unwrap();
    store
        .insert_token(&TokenRow {
            servers: ServerScope::Only(BTreeSet::new()),
            ..token("tok_1")
        })
        .unwrap();
    assert_eq!(store.tokens().unwrap()[0].servers, ServerScope::Only(BTreeSet::new()));
}

#[test]
fn inventory_comes_back_byte_for_byte_and_is_replaced_whole() {
    let folder = Folder::new();
    let store = Store::open(&folder.0).unwrap();
    assert_eq!(store.load().unwrap(), []);
    let tool = |name: &str, presence| StoredTool {
        name: ToolName::parse(name).unwrap(),
        definition: Arc::from(b"{ \"name\":\t\"\xc3\xa9\",\r\n \"x\": 1.0e2 }".as_slice()),
        seen: Digest::of(b"seen"),
        approved: Some(Digest::of(b"approved")),
        approved_definition: Some(Arc::from(b"{ }".as_slice())),
        presence,
        audience: Audience::EVERYBODY,
    };
    let said = |by: &str| Said {
        by: by.to_owned(),
        at: Timestamp::from_micros(7),
    };
    let identity = |name: &str| ServerIdentity::new(name, Digest::of(name.as_bytes()));
    let word = |disabled: Option<&str>, risk: Option<Risk>| Word {
        disabled: disabled.map(said),
        risk: risk.map(|risk| (risk, said("carl"))),
        settled: risk
            .map(|risk| Digest::of(risk.as_str().as_bytes()))
            .into_iter()
            .collect(),
    };
    let item = |kind, name: &str| StoredItem {
        kind,
        name: name.into(),
        definition: format!("[{name:?}]").into_bytes().into(),
        seen: Digest::of(name.as_bytes()),
        approved: (kind != ItemKind::Template).then(|| Digest::of(b"before")),
        approved_definition: (kind == ItemKind::Prompt).then(|| b"before".as_slice().into()),
        presence: if kind == ItemKind::Resource {
            Presence::Vanished
        } else {
            Presence::Offered
        },
    };
    let mut server = StoredServer {
        id: ServerId::parse("files").unwrap(),
        identity: Some(identity("one")),
        bound: Bound::from([
            ((ItemKind::Tool, "a".into(), Digest::of(b"1")), identity("one")),
            ((ItemKind::Tool, "a".into(), Digest::of(b"2")), identity("two")),
            ((ItemKind::Instructions, "".into(), Digest::of(b"1")), identity("one")),
        ]),
        discovered: Some(Timestamp::from_micros(5)),
        eras: BTreeSet::from([Era::Legacy, Era::Modern]),
        forgot_pins: true,
        instructions: StoredInstructions {
            seen: Some("be kind".to_owned()),
            approved: None,
            approved_text: Some("be good".to_owned()),
        },
        tools: vec![
            tool("a", Presence::Offered),
            StoredTool {
                audience: Audience {
                    era: Some(Era::Modern),
                    needs: [Capability::Roots, Capability::Sampling].into_iter().collect(),
                },
                ..tool("a", Presence::Offered)
            },
            StoredTool {
                approved: None,
                approved_definition: None,
                ..tool("b", Presence::Vanished)
            },
        ],
        items: vec![
            item(ItemKind::Prompt, "a"),
            item(ItemKind::Resource, "a:x"),
            item(ItemKind::Template, "a:{x}"),
        ],
        listed: BTreeSet::from([ItemKind::Prompt, ItemKind::Resource]),
        words: Words::from([
            ((ItemKind::Tool, "a".into()), word(Some("ann"), Some(Risk::Low))),
            ((ItemKind::Tool, "b".into()), word(None, Some(Risk::Critical))),
            ((ItemKind::Prompt, "a".into()), word(Some("bob"), None)),
        ]),
    };
    let other = StoredServer {
        id: ServerId::parse("web").unwrap(),
        identity: None,
        bound: Bound::new(),
        discovered: None,
        eras: BTreeSet::new(),
        forgot_pins: false,
        instructions: StoredInstructions::default(),
        tools: Vec::new(),
        items: Vec::new(),
        listed: BTreeSet::new(),
        words: Words::new(),
    };
    store.save(&server).unwrap();
    store.save(&other).unwrap();
    assert_eq!(store.load().unwrap(), [server.clone(), other.clone()]);
    server.tools.pop();
    store.save(&server).unwrap();
    drop(store);
    assert_eq!(Store::open(&folder.0).unwrap().load().unwrap(), [server, other]);
}

#[test]
fn only_the_owner_can_read_the_files() {
    let folder = Folder::new();
    let _lock = StateLock::take(&folder.0).unwrap();
    let store = Store::open(&folder.0).unwrap();
    let activity = Activity::open(&folder.0).unwrap();
    store.insert_token(&token("tok_1")).unwrap();
    activity.catch_up().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.0), 0o700);
    let files: Vec<PathBuf> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() >= 5, "{files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
}

#[test]
fn a_state_directory_has_one_user_at_a_time() {
    let folder = Folder::new();
    let lock = StateLock::take(&folder.0).unwrap();
    let error = StateLock::take(&folder.0).unwrap_err();
    assert!(matches!(error, LockError::InUse(_)));
    assert_eq!(
        error.to_string(),
        format!(
            "the state directory `{}` is in use by another process",
            folder.0.display()
        )
    );
    drop(lock);
    StateLock::take(&folder.0).unwrap();
}

#[test]
fn a_store_of_a_newer_release_is_left_alone_and_a_foreign_file_too() {
    let folder = Folder::new();
    drop(Store::open(&folder.0).unwrap());
    let connection = rusqlite::Connection::open(folder.0.join("state.db")).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    assert!(matches!(
        Store::open(&folder.0),
        Err(StoreFault::Newer { found: 99, .. })
    ));
    fs::write(
        folder.0.join("state.db"),
        "not a database, but long enough to look at ".repeat(50),
    )
    .unwrap();
    assert!(matches!(Store::open(&folder.0), Err(StoreFault::Database(_))));
}

// --- activity ---

fn arrival() -> Arrival {
    Arrival {
        receipt_id: ReceiptId::mint(),
        trace_id: TraceId::mint(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        size_bytes_in: 100,
        began: Instant::now(),
    }
}

fn who(sub: &str) -> Arc<Principal> {
    Arc::new(Principal {
        sub: sub.to_owned(),
        actor_type: ActorType::Agent,
        client_id: None,
        org_id: None,
        issuer: "portreeve".to_owned(),
        authn: Authn::Token,
        act: Vec::new(),
        run: (sub == "runner").then(|| "run-1".to_owned()),
        groups: BTreeSet::new(),
        claims: [].into(),
        servers: ServerScope::Every,
    })
}

fn message(server: &str, tool: &str) -> MessageFacts {
    MessageFacts {
        method: "tools/call".to_owned(),
        server_id: Some(server.to_owned()),
        tool_name: Some(tool.to_owned()),
        risk: Some(Risk::Medium),
        session: Some(Digest::of(b"session-1")),
        ..MessageFacts::default()
    }
}

fn decision(result: Verdict, code: ReasonCode) -> DecisionFacts {
    DecisionFacts {
        result,
        policy_id: "p".into(),
        reason_codes: vec![code],
        policy_set: None,
        epoch: 1,
        approval: None,
    }
}

fn called(sub: &str, status: ledger::Status) -> Ending {
    Ending::Called {
        who: who(sub),
        message: message("files", "write_file"),
        decision: decision(Verdict::Allow, ReasonCode::AllowPolicyMatch),
        credential: CredentialFacts {
            mode: TokenMode::None,
            source: TokenSource::None,
            audience: None,
            audience_verified: None,
        },
        outcome: Outcome {
            status,
            executed: Some(true),
            screening: Vec::new(),
        },
    }
}

fn refused(sub: &str, result: Verdict, code: ReasonCode) -> Ending {
    Ending::Refused {
        who: who(sub),
        message: message("web", "fetch"),
        decision: decision(result, code),
    }
}

struct Log {
    folder: Folder,
    ledger: Ledger,
    activity: Activity,
    call: ReceiptId,
    clock: Clock,
}

/// Eight records, one second apart: intent and final of a call, an error, a timeout, a denial, a pending one, two events.
async fn log() -> Log {
    let folder = Folder::new();
    let clock = Clock::standing_at(Timestamp::from_micros(0));
    let settings = Settings {
        clock: clock.clone(),
        segment_bytes: 4096,
        ..Settings::new("gw/test")
    };
    let (ledger, _) = Ledger::open(&folder.0, settings).unwrap();
    let mut second = 0;
    let mut tick = || {
        second += 1;
        clock.turn_to(Timestamp::from_micros(second * 1_000_000));
    };
    let call = arrival();
    let intent = Intent {
        who: who("alice"),
        message: message("files", "write_file"),
        decision: decision(Verdict::Allow, ReasonCode::AllowPolicyMatch),
    };
    tick();
    let _ = ledger.append_intent(&call, intent).await.unwrap();
    tick();
    let _ = ledger
        .append(&call, called("alice", ledger::Status::Success), 1)
        .await
        .unwrap();
    for ending in [
        called("bob", ledger::Status::Error),
        called("runner", ledger::Status::Timeout),
        refused("alice", Verdict::Deny, ReasonCode::DenyNoPermission),
        refused("alice", Verdict::RequireApproval, ReasonCode::RequireApproval),
    ] {
        tick();
        let _ = ledger.append(&arrival(), ending, 1).await.unwrap();
    }
    tick();
    ledger
        .append_event(Event::Admin(Note::refused("token.create", "root", None, "no")))
        .await
        .unwrap();
    tick();
    let note = Note::done("tool.add", "portreeve", Some("files/write_file"), "new");
    ledger.append_event(Event::Inventory(note)).await.unwrap();
    let activity = Activity::open(&folder.0).unwrap();
    Log {
        folder,
        ledger,
        activity,
        call: call.receipt_id,
        clock,
    }
}

impl Log {
    fn seqs(&self, filter: Filter) -> Vec<u64> {
        self.activity
            .list(&filter)
            .unwrap()
            .into_iter()
            .map(|line| line.seq)
            .collect()
    }
}

fn named(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Each filter gives the records with these numbers.
async fn expect<const N: usize>(cases: [(Filter, Vec<u64>); N]) {
    let log = log().await;
    for (filter, expected) in cases {
        assert_eq!(log.seqs(filter.clone()), expected, "{filter:?}");
    }
    log.ledger.shutdown();
}

#[tokio::test]
async fn records_come_newest_first_page_by_page() {
    expect([
        (Filter::default(), vec![8, 7, 6, 5, 4, 3, 2, 1]),
        (
            Filter {
                limit: 3,
                ..Filter::default()
            },
            vec![8, 7, 6],
        ),
        (
            Filter {
                limit: 2,
                order: Order::OldestFirst,
                after_seq: Some(3),
                ..Filter::default()
            },
            vec![4, 5],
        ),
        (
            Filter {
                before_seq: Some(3),
                ..Filter::default()
            },
            vec![2, 1],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_filter_by_kind_or_time_gives_those_records() {
    let time = |second: i64| Some(Timestamp::from_micros(second * 1_000_000));
    expect([
        (
            Filter {
                kind: Some(RecordType::Request),
                ..Filter::default()
            },
            vec![6, 5, 4, 3, 2, 1],
        ),
        (
            Filter {
                kind: Some(RecordType::Admin),
                ..Filter::default()
            },
            vec![7],
        ),
        (
            Filter {
                kind: Some(RecordType::Egress),
                ..Filter::default()
            },
            vec![],
        ),
        (
            Filter {
                since: time(3),
                until: time(5),
                ..Filter::default()
            },
            vec![5, 4, 3],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_filter_by_status_gives_those_records() {
    expect([
        (
            Filter {
                status: Some(Status::Allowed),
                ..Filter::default()
            },
            vec![8, 2, 1],
        ),
        (
            Filter {
                status: Some(Status::Denied),
                ..Filter::default()
            },
            vec![7, 5],
        ),
        (
            Filter {
                status: Some(Status::Denied),
                kind: Some(RecordType::Request),
                ..Filter::default()
            },
            vec![5],
        ),
        (
            Filter {
                status: Some(Status::Pending),
                ..Filter::default()
            },
            vec![6],
        ),
        (
            Filter {
                status: Some(Status::Error),
                ..Filter::default()
            },
            vec![4, 3],
        ),
        (
            Filter {
                status: Some(Status::Redacted),
                ..Filter::default()
            },
            vec![],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_filter_by_server_or_tool_gives_what_was_called() {
    expect([
        (
            Filter {
                server: named("files"),
                ..Filter::default()
            },
            vec![8, 4, 3, 2, 1],
        ),
        (
            Filter {
                tool: named("fetch"),
                ..Filter::default()
            },
            vec![6, 5],
        ),
        (
            Filter {
                tool: named("write_file"),
                kind: Some(RecordType::Inventory),
                ..Filter::default()
            },
            vec![8],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_filter_by_principal_session_or_run_gives_what_they_did() {
    expect([
        (
            Filter {
                principal: named("bob"),
                ..Filter::default()
            },
            vec![3],
        ),
        (
            Filter {
                principal: named("root"),
                ..Filter::default()
            },
            vec![7],
        ),
        (
            Filter {
                session: named("session-1"),
                limit: 1,
                ..Filter::default()
            },
            vec![6],
        ),
        (
            Filter {
                session: named(&Digest::of(b"session-1").to_string()),
                limit: 1,
                ..Filter::default()
            },
            vec![6],
        ),
        (
            Filter {
                session: named("session-2"),
                ..Filter::default()
            },
            vec![],
        ),
        (
            Filter {
                run: named("run-1"),
                ..Filter::default()
            },
            vec![4],
        ),
        (
            Filter {
                principal: named("x' OR 1=1 --"),
                ..Filter::default()
            },
            vec![],
        ),
    ])
    .await;
}

#[tokio::test]
async fn lines_are_the_ledgers_own_bytes() {
    let log = log().await;
    assert!(LedgerReader::of_state(&log.folder.0).segments().unwrap().len() > 1);
    let stored = LedgerReader::of_state(&log.folder.0)
        .lines_from(Position::START)
        .unwrap();
    let stored: Vec<Vec<u8>> = stored.map(|line| line.unwrap().1).collect();
    let listed = log
        .activity
        .list(&Filter {
            order: Order::OldestFirst,
            ..Filter::default()
        })
        .unwrap();
    assert_eq!(listed.into_iter().map(|line| line.bytes).collect::<Vec<_>>(), stored);
    log.ledger.shutdown();
}

#[tokio::test]
async fn one_record_is_shown_by_its_place_or_by_its_receipt_and_the_final_one_counts() {
    let log = log().await;
    let shown = |key: &str| {
        log.activity
            .show(RecordKey::parse(key).unwrap())
            .unwrap()
            .map(|line| line.seq)
    };
    assert_eq!(shown("1"), Some(1));
    assert_eq!(shown(&log.call.to_string()), Some(2));
    assert_eq!(shown("99"), None);
    assert_eq!(shown(&u64::MAX.to_string()), None);
    assert_eq!(shown(&ReceiptId::mint().to_string()), None);
    assert_eq!(RecordKey::parse("rcp_nonsense"), None);
    let open = arrival();
    let intent = Intent {
        who: who("alice"),
        message: message("files", "write_file"),
        decision: decision(Verdict::Allow, ReasonCode::AllowPolicyMatch),
    };
    let _ = log.ledger.append_intent(&open, intent).await.unwrap();
    assert_eq!(
        shown(&open.receipt_id.to_string()),
        Some(9),
        "an intent is shown while there is nothing else"
    );
    log.ledger.shutdown();
}

#[tokio::test]
async fn a_record_can_be_listed_as_soon_as_its_receipt_is_there() {
    let log = log().await;
    log.clock.turn_to(Timestamp::from_micros(60_000_000));
    for _ in 0..20 {
        let ending = called("carol", ledger::Status::Success);
        let seq = log.ledger.append(&arrival(), ending, 1).await.unwrap().seq();
        assert_eq!(
            log.seqs(Filter {
                limit: 1,
                ..Filter::default()
            }),
            [seq]
        );
    }
    assert_eq!(log.activity.catch_up().unwrap(), 0);
    log.ledger.shutdown();
}

#[tokio::test]
async fn the_index_is_built_anew_when_it_is_gone_spoiled_or_of_another_log() {
    let log = log().await;
    log.ledger.shutdown();
    let database = log.folder.0.join("activity.db");
    let all = log.seqs(Filter::default());
    drop(log.activity);
    let reopened = || {
        let activity = Activity::open(&log.folder.0).unwrap();
        activity
            .list(&Filter::default())
            .unwrap()
            .into_iter()
            .map(|line| line.seq)
            .collect::<Vec<_>>()
    };
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(log.folder.0.join(format!("activity.db{suffix}")));
    }
    assert_eq!(reopened(), all);
    fs::write(&database, "no database at all, however long it may be. ".repeat(100)).unwrap();
    assert_eq!(reopened(), all);

    // Another log in its place, shorter than what the index has seen.
    fs::remove_dir_all(log.folder.0.join("ledger")).unwrap();
    fs::remove_file(log.folder.0.join("ledger.key")).unwrap();
    assert!(reopened().is_empty());
    let (ledger, _) = Ledger::open(&log.folder.0, Settings::new("gw/other")).unwrap();
    let _ = ledger
        .append(&arrival(), called("dora", ledger::Status::Success), 1)
        .await
        .unwrap();
    ledger.shutdown();
    assert_eq!(reopened(), [1]);
}

/// A log of lines that no ledger wrote.
fn hand_written(lines: impl IntoIterator<Item = String>) -> (Folder, Activity) {
    let folder = Folder::new();
    fs::create_dir_all(folder.0.join("ledger")).unwrap();
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    fs::write(folder.0.join("ledger/00000001.jsonl"), text).unwrap();
    let activity = Activity::open(&folder.0).unwrap();
    (folder, activity)
}

fn done_by(actor: &str, seq: u64) -> String {
    format!(r#"{{"actor":"{actor}","seq":{seq},"ts":"2026-11-15T12:00:00.000000Z","type":"admin"}}"#)
}

#[test]
fn a_line_that_cannot_be_read_keeps_no_other_back() {
    // Sixteen are added together: here are three times as many and two more, with faults in the first and the last group.
    let faults = [1, 5, 16, 49];
    let line = |seq| {
        if faults.contains(&seq) {
            format!(r#"{{"seq":{seq},"#)
        } else {
            done_by("root", seq)
        }
    };
    let (_folder, activity) = hand_written((1..=50).map(line));
    assert_eq!(activity.catch_up().unwrap(), 50);
    let listed = activity.list(&Filter::default()).unwrap();
    let seqs = listed.iter().map(|line| line.seq);
    assert!(seqs.eq((1..=50).rev().filter(|seq| !faults.contains(seq))));
    assert!(
        listed
            .iter()
            .all(|line| line.bytes == done_by("root", line.seq).into_bytes())
    );
}

#[test]
fn of_a_place_that_comes_again_the_later_line_holds() {
    let twice = [
        (3, "early"),
        (9, "early"),
        (30, "early"),
        (9, "late"),
        (3, "late"),
        (30, "late"),
    ];
    let others = (100..140).map(|seq| done_by("root", seq));
    let lines = twice.map(|(seq, actor)| done_by(actor, seq));
    let (_folder, activity) = hand_written(lines.into_iter().chain(others));
    for seq in [3, 9, 30] {
        let line = activity.show(RecordKey::Seq(seq)).unwrap().unwrap();
        assert_eq!(line.bytes, done_by("late", seq).into_bytes());
    }
    let early = Filter {
        principal: Some("early".to_owned()),
        ..Filter::default()
    };
    assert!(activity.list(&early).unwrap().is_empty());
}

#[test]
fn receipts_that_begin_alike_are_told_apart() {
    let id = |last: u8| format!("rcp_019a8f2d6c3b7d4e8f901a2b3c4d5e{last:02x}");
    let line = |seq: u64, last: u8, phase: &str| {
        format!(
            r#"{{"phase":"{phase}","receipt_id":"{}","seq":{seq},"ts":"2026-11-15T12:00:00.000000Z","type":"request"}}"#,
            id(last)
        )
    };
    let (_folder, activity) = hand_written([
        line(1, 0, "intent"),
        line(2, 1, "final"),
        line(3, 1, "intent"),
        line(4, 2, "final"),
    ]);
    let shown = |last| {
        let key = RecordKey::parse(&id(last)).unwrap();
        activity.show(key).unwrap().map(|line| line.seq)
    };
    assert_eq!([0, 1, 2, 3].map(shown), [Some(1), Some(2), Some(4), None]);
}

#[tokio::test]
async fn an_index_of_an_older_shape_is_made_anew() {
    let log = log().await;
    log.ledger.shutdown();
    let all = log.seqs(Filter::default());
    drop(log.activity);
    let connection = rusqlite::Connection::open(log.folder.0.join("activity.db")).unwrap();
    connection
        .execute_batch(
            "DROP TABLE records;
             CREATE TABLE records (
                 seq INTEGER PRIMARY KEY, segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
                 ts INTEGER NOT NULL, type TEXT NOT NULL, status TEXT, rank INTEGER NOT NULL, receipt_id TEXT,
                 server TEXT, tool TEXT, principal TEXT, session TEXT, run TEXT
             ) STRICT;
             CREATE INDEX records_by_receipt ON records (receipt_id) WHERE receipt_id IS NOT NULL;
             PRAGMA user_version = 1;",
        )
        .unwrap();
    drop(connection);
    let activity = Activity::open(&log.folder.0).unwrap();
    assert_eq!(
        activity.catch_up().unwrap(),
        all.len() as u64,
        "all of it, though it had been there before"
    );
    let requests = Filter {
        kind: Some(RecordType::Request),
        ..Filter::default()
    };
    assert_eq!(activity.list(&requests).unwrap().len(), 6);
}

#[tokio::test]
async fn a_flood_of_records_is_indexed_in_batches_and_listed_up_to_the_limit() {
    let folder = Folder::new();
    let settings = Settings {
        commit_interval: Duration::from_millis(50),
        ..Settings::new("gw/test")
    };
    let (ledger, _) = Ledger::open(&folder.0, settings).unwrap();
    let settled = Settings::new("gw/test").durability;
    assert_eq!(settled, ledger::Durability::Writes);
    for _ in 0..100 {
        let many = (0..50).map(|_| {
            let ledger = ledger.clone();
            tokio::spawn(async move { ledger.append(&arrival(), answered(), 1).await.unwrap().seq() })
        });
        for task in many.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }
    let activity = Activity::open(&folder.0).unwrap();
    assert_eq!(activity.catch_up().unwrap(), 5000);
    assert_eq!(activity.list(&Filter::default()).unwrap().len(), 50);
    let listed = activity
        .list(&Filter {
            limit: usize::MAX,
            ..Filter::default()
        })
        .unwrap();
    assert!(listed.iter().map(|line| line.seq).eq((1..=5000).rev()));
    ledger.shutdown();
}

#[tokio::test]
async fn what_the_log_removed_takes_no_place_in_listings_and_counts() {
    let folder = Folder::new();
    let clock = Clock::standing_at(Timestamp::from_micros(0));
    let settings = Settings {
        clock: clock.clone(),
        segment_bytes: 4096,
        ..Settings::new("gw/test")
    };
    let (ledger, _) = Ledger::open(&folder.0, settings).unwrap();
    for hour in 0..40 {
        clock.turn_to(Timestamp::from_micros(hour * 3_600_000_000));
        let _ = ledger
            .append(&arrival(), called("alice", ledger::Status::Success), 1)
            .await
            .unwrap();
    }
    ledger.shutdown();
    let activity = Activity::open(&folder.0).unwrap();
    assert_eq!(activity.catch_up().unwrap(), 40);
    let reader = LedgerReader::of_state(&folder.0);
    let segments = reader.segments().unwrap();
    assert!(segments.len() > 6, "{segments:?}");
    for number in &segments[..3] {
        fs::remove_file(folder.0.join(format!("ledger/{number:08}.jsonl"))).unwrap();
    }
    let left = reader.lines_from(Position::START).unwrap().count();
    assert!(left < 40);
    let oldest_first = Filter {
        order: Order::OldestFirst,
        limit: 3,
        server: Some("files".to_owned()),
        ..Filter::default()
    };
    // Rows of what is gone would fill the page with nothing.
    let listed: Vec<u64> = activity
        .list(&oldest_first)
        .unwrap()
        .iter()
        .map(|line| line.seq)
        .collect();
    let first = 41 - u64::try_from(left).unwrap();
    assert_eq!(listed, [first, first + 1, first + 2]);
    let counted = activity.summary(&Filter::default(), Arrangement::default()).unwrap();
    assert_eq!(counted[0].calls, u64::try_from(left).unwrap());
    assert_eq!(activity.reindex().unwrap(), u64::try_from(left).unwrap());
}

fn answered() -> Ending {
    Ending::Answered {
        who: who("erin"),
        message: MessageFacts {
            method: "ping".to_owned(),
            ..MessageFacts::default()
        },
        decision: decision(Verdict::Allow, ReasonCode::AllowBuiltin),
        catalog: None,
    }
}
