//! What the writer does when the disk fails, and whom it lets wait.

use std::sync::mpsc::channel;

use serde_json::Value as Json;
use tokio::sync::oneshot;

use super::*;
use crate::append::Ledger;
use crate::append::inline::InlineWriter;
use crate::append::queue::Replies;
use crate::append::sync::Disk;
use crate::ending::Arrival;
use crate::entry::Announced;
use crate::open::{Prepared, prepare};
use crate::sample::{self, Folder};
use crate::segment::LedgerReader;
use crate::segment::tests::Faults;
use crate::{Finding, verify};

fn open(folder: &Folder) -> (Ledger, Faults) {
    let settings = Settings::new("gw/test");
    let prepared = prepare(folder.path(), &settings).unwrap();
    let faults = prepared.tail.faults.clone();
    (
        Ledger::start(prepared.tail, prepared.chain, prepared.signer, &settings, None).unwrap(),
        faults,
    )
}

fn records(folder: &Folder) -> Vec<Json> {
    let lines = LedgerReader::of_state(folder.path())
        .lines_from(Position::START)
        .unwrap();
    lines
        .map(|line| serde_json::from_slice(&line.unwrap().1).unwrap())
        .collect()
}

async fn refuse(ledger: &Ledger) -> Result<crate::Receipt, LedgerDown> {
    ledger
        .append(&sample::arrival(), sample::refused(ReasonCode::DenyNoPermission), 10)
        .await
}

#[tokio::test]
async fn a_full_disk_refuses_leaves_no_torn_line_and_the_log_goes_on_when_there_is_room() {
    let folder = Folder::new();
    let (ledger, faults) = open(&folder);
    assert!(refuse(&ledger).await.is_ok());
    for room in [0, 1, 700] {
        faults.leave_room_for(room);
        assert_eq!(refuse(&ledger).await.unwrap_err(), LedgerDown::Disk);
        assert!(!ledger.is_healthy());
        assert_eq!(records(&folder).len(), 1, "nothing of a refused record stays");
    }
    faults.leave_room_for(u64::MAX);
    let receipt = refuse(&ledger).await.unwrap();
    assert!(ledger.is_healthy());
    assert_eq!((receipt.seq(), ledger.last_seq()), (3, 3));
    let resumed = &records(&folder)[1];
    assert_eq!(resumed["action"], "ledger.resume");
    assert!(
        resumed["message"]
            .as_str()
            .unwrap()
            .ends_with("3 answers were withheld")
    );
    ledger.shutdown();
    let finding = verify(&LedgerReader::of_state(folder.path())).unwrap();
    assert!(matches!(finding, Finding::Intact(intact) if intact.records == 3));
}

#[tokio::test]
async fn the_log_finds_out_by_itself_that_there_is_room_again() {
    let folder = Folder::new();
    let (ledger, faults) = open(&folder);
    faults.leave_room_for(0);
    assert!(refuse(&ledger).await.is_err());
    faults.leave_room_for(u64::MAX);
    for _ in 0..300 {
        if ledger.is_healthy() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(ledger.is_healthy());
    assert_eq!(records(&folder).len(), 1);
    ledger.shutdown();
}

#[tokio::test]
async fn a_call_whose_final_could_not_be_written_gets_one_that_says_its_answer_was_withheld() {
    let folder = Folder::new();
    let (ledger, faults) = open(&folder);
    let arrival = sample::arrival();
    let _ = ledger
        .append_intent(&arrival, sample::intent(Risk::High))
        .await
        .unwrap();
    faults.leave_room_for(100);
    let called = sample::called(Risk::High, Status::Success, Some(true));
    assert_eq!(ledger.append(&arrival, called, 99).await.unwrap_err(), LedgerDown::Disk);
    faults.leave_room_for(u64::MAX);
    let _ = refuse(&ledger).await.unwrap();
    ledger.shutdown();
    let owed = &records(&folder)[2];
    assert_eq!(owed["receipt_id"], arrival.receipt_id.to_string());
    assert_eq!(owed["phase"], "final");
    assert_eq!(
        (&owed["outcome"]["status"], &owed["outcome"]["executed"]),
        (&"error".into(), &true.into())
    );
    assert_eq!(owed["outcome"]["size_bytes_out"], 0);
    assert_eq!(owed["decision"]["reason_codes"][1], "DENY_RECEIPT_UNAVAILABLE");
    let (_, opened) = Ledger::open(folder.path(), Settings::new("gw/test")).unwrap();
    assert_eq!(opened.interrupted, 0);
}

#[test]
fn who_waits_for_the_disk_is_as_the_table_says() {
    let folder = Folder::new();
    let settings = Settings::new("gw/test");
    let prepared = prepare(folder.path(), &settings).unwrap();
    let mut writer = writer(prepared, &settings);
    let last = |ending| {
        Entry::Final(Box::new(Final {
            arrival: sample::arrival(),
            ending,
            size_bytes_out: 0,
            count: 1,
            result_ref: None,
        }))
    };
    let intent = |risk| {
        Entry::Intent(Box::new(Announced {
            arrival: sample::arrival(),
            intent: sample::intent(risk),
        }))
    };
    let note = || Note::done("token.create", "admin", None, "");
    let entries = [
        (last(sample::called(Risk::Low, Status::Success, Some(true))), false),
        (last(sample::called(Risk::Medium, Status::Success, Some(true))), true),
        (last(sample::called(Risk::Critical, Status::Timeout, None)), true),
        (last(sample::refused(ReasonCode::DenyNoPermission)), false),
        (last(sample::answered()), false),
        (intent(Risk::Medium), true),
        (Entry::Event(Event::Admin(note())), true),
        (Entry::Event(Event::Inventory(note())), false),
    ];
    for (place, (entry, waits)) in entries.iter().enumerate() {
        writer.durability = Durability::Writes;
        assert_eq!(writer.waits_for_disk(entry), *waits, "{place}");
        writer.durability = Durability::Always;
        assert!(writer.waits_for_disk(entry));
        writer.durability = Durability::Interval;
        assert!(!writer.waits_for_disk(entry));
    }
}

async fn answer(ledger: &Ledger) -> Result<crate::Receipt, LedgerDown> {
    ledger.append(&sample::arrival(), sample::answered(), 10).await
}

#[tokio::test]
async fn a_caller_that_writes_for_itself_is_refused_on_a_full_disk_and_the_log_mends_itself() {
    let folder = Folder::new();
    let (ledger, faults) = open(&folder);
    assert!(answer(&ledger).await.is_ok());
    for room in [0, 1, 700] {
        faults.leave_room_for(room);
        assert_eq!(answer(&ledger).await.unwrap_err(), LedgerDown::Disk);
        assert!(!ledger.is_healthy());
        assert_eq!(records(&folder).len(), 1, "nothing of a refused record stays");
    }
    faults.leave_room_for(u64::MAX);
    for _ in 0..300 {
        if ledger.is_healthy() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        answer(&ledger).await.unwrap().seq(),
        3,
        "after the record of the outage"
    );
    ledger.shutdown();
    let finding = verify(&LedgerReader::of_state(folder.path())).unwrap();
    assert!(matches!(finding, Finding::Intact(intact) if intact.records == 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_and_the_thread_write_one_chain() {
    let folder = Folder::new();
    let (ledger, _) = open(&folder);
    let tasks = (0..400).map(|number| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            let ending = match number % 4 {
                0 => sample::called(Risk::High, Status::Success, Some(true)),
                1 => sample::called(Risk::Low, Status::Success, Some(true)),
                _ => sample::answered(),
            };
            ledger.append(&sample::arrival(), ending, 10).await.unwrap().seq()
        })
    });
    let mut seqs = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        seqs.push(task.await.unwrap());
    }
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=400).collect::<Vec<_>>());
    ledger.shutdown();
    let finding = verify(&LedgerReader::of_state(folder.path())).unwrap();
    assert!(matches!(finding, Finding::Intact(intact) if intact.records == 400));
}

#[tokio::test]
async fn nothing_is_written_once_the_log_is_closed() {
    let folder = Folder::new();
    let (ledger, _) = open(&folder);
    assert!(answer(&ledger).await.is_ok());
    ledger.shutdown();
    assert_eq!(answer(&ledger).await.unwrap_err(), LedgerDown::Stopped);
    assert!(!ledger.is_healthy());
    assert_eq!(records(&folder).len(), 1);
}

#[tokio::test]
async fn a_caller_waits_for_no_disk_and_no_slow_write_itself() {
    let folder = Folder::new();
    let settings = Settings::new("gw/test");
    let prepared = prepare(folder.path(), &settings).unwrap();
    let mut writer = writer(prepared, &settings);
    let last = |ending| Final {
        arrival: sample::arrival(),
        ending,
        size_bytes_out: 0,
        count: 1,
        result_ref: None,
    };
    let low = last(sample::called(Risk::Low, Status::Success, Some(true)));
    let high = last(sample::called(Risk::High, Status::Success, Some(true)));
    let refused = last(sample::refused(ReasonCode::DenyNoPermission));
    assert_eq!(writer.write_now(&low).map(|written| written.seq), Some(1));
    assert!(writer.write_now(&high).is_none(), "the disk is to be waited for");
    assert!(writer.write_now(&refused).is_none(), "it may be one of a flood");
    let held_up = Duration::from_millis(5);
    for _ in 0..3 {
        writer.slow_disk.learn(Disk::Syncing, Instant::now(), held_up);
    }
    writer.syncer.syncing.store(true, Ordering::Release);
    assert!(writer.write_now(&low).is_none(), "writes wait for the sync under way");
    writer.slow_disk = SlowDisk::default();
    assert_eq!(writer.write_now(&low).map(|written| written.seq), Some(2));
    writer.syncer.syncing.store(false, Ordering::Release);
    writer
        .slow_disk
        .learn(Disk::Idle, Instant::now(), Duration::from_secs(1));
    assert!(writer.write_now(&low).is_none(), "the disk was slow just now");
    writer.slow_disk = SlowDisk::default();
    writer.segment_bytes = 1;
    assert!(writer.write_now(&low).is_none(), "a new segment is due");
    writer.segment_bytes = writer.tail.length();
    assert!(writer.write_now(&low).is_none(), "the segment is exactly full");
    writer.segment_bytes += 1;
    assert_eq!(writer.write_now(&low).map(|written| written.seq), Some(3));
    assert_eq!(records(&folder).len(), 3);
}

fn writer(Prepared { tail, chain, .. }: Prepared, settings: &Settings) -> Writer {
    let health = Arc::new(Health {
        written: true.into(),
        synced: true.into(),
        last_seq: 0.into(),
        synced_seq: 0.into(),
        pressed: false.into(),
    });
    let (syncer, _thread) = Syncer::start(settings.commit_interval, Arc::clone(&health)).unwrap();
    Writer::new(tail, chain, syncer, health, settings)
}

/// A writer without a thread: what it does is what the test makes it do.
fn by_hand(folder: &Folder) -> Writer {
    let settings = Settings::new("gw/test");
    let prepared = prepare(folder.path(), &settings).unwrap();
    writer(prepared, &settings)
}

fn job(entry: Entry) -> Job {
    let (reply, _) = oneshot::channel();
    Job::Record(Submission {
        entry,
        replies: Replies::One(reply),
    })
}

fn event() -> Entry {
    Entry::Event(Event::Inventory(Note::done("a.b", "c", None, "d")))
}

fn intent_of(arrival: Arrival) -> Entry {
    Entry::Intent(Box::new(Announced {
        arrival,
        intent: sample::intent(Risk::High),
    }))
}

/// Everything of `jobs` in as few turns as the writer wants.
fn write_all(writer: &mut Writer, jobs: impl IntoIterator<Item = Job>) {
    let (queue, inbox) = channel();
    for job in jobs {
        queue.send(job).unwrap();
    }
    while let Ok(first) = inbox.try_recv() {
        assert!(writer.turn(Some(first), &inbox, &mut Vec::new()) == Turn::Continue);
    }
}

#[test]
fn a_caller_writes_for_itself_while_nobody_else_does_and_queues_while_somebody_does() {
    let folder = Folder::new();
    let inline = InlineWriter::new(by_hand(&folder));
    let low = Final {
        arrival: sample::arrival(),
        ending: sample::called(Risk::Low, Status::Success, Some(true)),
        size_bytes_out: 0,
        count: 1,
        result_ref: None,
    };
    assert_eq!(inline.write_now(&low).map(|written| written.seq), Some(1));
    let held = inline.hold();
    assert!(inline.write_now(&low).is_none());
    drop(held);
    assert_eq!(records(&folder).len(), 1);
}

#[test]
fn as_many_as_fit_in_a_group_are_written_at_once_and_the_others_stay_queued() {
    let folder = Folder::new();
    let mut writer = by_hand(&folder);
    let (queue, inbox) = channel();
    for _ in 0..GROUP + 2 {
        queue.send(job(event())).unwrap();
    }
    let mut group = Vec::new();
    let first = inbox.recv().unwrap();
    assert!(writer.collect(Some(first), &inbox, &mut group) == Turn::Continue);
    assert_eq!((group.len(), inbox.try_iter().count()), (GROUP, 2));
}

#[test]
fn a_refusal_that_ends_a_call_under_way_is_no_part_of_a_flood() {
    let folder = Folder::new();
    let mut writer = by_hand(&folder);
    let arrivals: Vec<Arrival> = (0..150).map(|_| sample::arrival()).collect();
    write_all(&mut writer, arrivals.iter().map(|arrival| job(intent_of(*arrival))));
    assert_eq!(writer.open.len(), 150);
    let finals = arrivals.iter().map(|arrival| {
        job(Entry::Final(Box::new(Final {
            arrival: *arrival,
            ending: sample::refused(ReasonCode::DenyReceiptUnavailable),
            size_bytes_out: 0,
            count: 1,
            result_ref: None,
        })))
    });
    write_all(&mut writer, finals);
    assert!(writer.open.is_empty(), "every intent has its own final record");
    assert_eq!(records(&folder).len(), 300);
    assert_eq!(writer.next_deadline(), None, "and nothing is held");
}

#[test]
fn an_intent_stands_where_its_line_begins_also_within_a_group() {
    let folder = Folder::new();
    let mut writer = by_hand(&folder);
    write_all(&mut writer, [job(event())]);
    let arrivals = [sample::arrival(), sample::arrival(), sample::arrival()];
    write_all(&mut writer, arrivals.map(|arrival| job(intent_of(arrival))));
    let lines = LedgerReader::of_state(folder.path())
        .lines_from(Position::START)
        .unwrap();
    let places: Vec<Position> = lines.skip(1).map(|line| line.unwrap().0.position).collect();
    assert_eq!(places, arrivals.map(|arrival| writer.open[&arrival.receipt_id]));
}

#[test]
fn a_failed_write_is_tried_again_after_a_pause() {
    let folder = Folder::new();
    let mut writer = by_hand(&folder);
    assert_eq!(writer.next_deadline(), None);
    writer.tail.faults.leave_room_for(0);
    write_all(&mut writer, [job(event())]);
    let now = Instant::now();
    assert!(
        writer.next_deadline().unwrap() >= now + RETRY,
        "not at once, over and over"
    );
}

#[test]
fn the_memory_of_a_large_group_is_given_back_and_that_of_an_ordinary_one_is_kept() {
    const KEPT: usize = 4 * 1024 * 1024;
    let folder = Folder::new();
    let mut writer = by_hand(&folder);
    writer.buffer = Vec::with_capacity(4 * KEPT);
    write_all(&mut writer, [job(event())]);
    assert!((KEPT..2 * KEPT).contains(&writer.buffer.capacity()));
}

#[test]
fn whoever_signs_is_told_of_every_256th_record_and_of_no_other() {
    let folder = Folder::new();
    let (tell, told) = channel();
    let mut writer = by_hand(&folder).telling(tell);
    let mut after = Vec::new();
    for seq in 1..=600_u64 {
        write_all(&mut writer, [job(event())]);
        after.extend(told.try_iter().map(|_| seq));
    }
    assert_eq!(after, [256, 512]);
}
