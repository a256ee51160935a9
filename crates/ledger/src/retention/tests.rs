//! Logs of many days, kept for some of them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value as Json;
use vocabulary::{Clock, Risk, Timestamp};

use super::*;
use crate::event::{Event, Note};
use crate::prove::{Wanted, check_proof, find_records, latest_checkpoint, prove};
use crate::sample::{self, Folder};
use crate::segment::{LedgerReader, Position, cold_path};
use crate::verify::tests::{Dice, evidence, settings};
use crate::{BreakKind, Ledger, Question, Report, Settings, Status, stored_key, verify_state};

const DAY: Duration = Duration::from_hours(24);
const DAYS: u32 = 40;
const KEEP: Retention = Retention {
    keep: Duration::from_hours(24 * 30),
    floor: Duration::from_hours(24 * 10),
    max_bytes: u64::MAX,
};

fn start() -> Timestamp {
    Timestamp::parse("2026-01-01T00:00:00Z").unwrap()
}

/// The morning after so many days.
fn after(days: u32) -> Timestamp {
    start().plus(DAY * days)
}

fn small(clock: &Clock) -> Settings {
    Settings {
        clock: clock.clone(),
        ..settings(1200)
    }
}

fn note(ledger: &Ledger, text: &str) {
    let event = Event::Admin(Note::done("token.create", "ann", Some("tok_1"), text));
    ledger.append_event_blocking(event).unwrap();
}

/// A log of forty days with some segments, two handovers among the first ones, and nobody who writes it.
fn log() -> (Folder, Clock) {
    let folder = Folder::new();
    let clock = Clock::standing_at(start());
    for day in 0..DAYS {
        clock.turn_to(after(day));
        let (ledger, _) = Ledger::open(folder.path(), small(&clock)).unwrap();
        (0..4).for_each(|number| note(&ledger, &format!("note {number} of day {day}")));
        if day == 2 || day == 5 {
            ledger.rotate_key("ann").unwrap();
        }
        ledger.shutdown();
    }
    (folder, clock)
}

fn keeper(folder: &Folder, clock: &Clock, retention: Retention) -> Keeper {
    Keeper {
        reader: LedgerReader::of_state(folder.path()),
        payloads: crate::payload::folder_of(folder.path()),
        retention,
        clock: clock.clone(),
        handovers: None,
    }
}

/// One look at the log, as the gateway takes it at its start and every hour.
fn keep(folder: &Folder, clock: &Clock, retention: Retention) -> bool {
    let (ledger, _) = Ledger::open(folder.path(), small(clock)).unwrap();
    keeper(folder, clock, retention).round(&ledger, &mut || false).unwrap();
    let is_pressed = ledger.is_pressed();
    ledger.shutdown();
    is_pressed
}

fn report(folder: &Folder, question: &Question) -> Report {
    verify_state(folder.path(), question, &mut |_| ()).unwrap()
}

fn segments(folder: &Folder) -> Vec<u32> {
    LedgerReader::of_state(folder.path()).segments().unwrap()
}

fn records(folder: &Folder) -> Vec<Json> {
    let lines = LedgerReader::of_state(folder.path())
        .lines_from(Position::START)
        .unwrap();
    lines
        .map(|line| serde_json::from_slice(&line.unwrap().1).unwrap())
        .collect()
}

fn ages(folder: &Folder, now: Timestamp) -> Vec<i64> {
    let age = |record: &Json| {
        let then = Timestamp::parse(record["ts"].as_str().unwrap()).unwrap();
        (now.as_micros() - then.as_micros()) / 86_400_000_000
    };
    records(folder).iter().map(age).collect()
}

/// What the second verifier says.
#[expect(clippy::disallowed_methods, reason = "the second verifier is a process of its own")]
fn second(folder: &Folder) -> (Option<i32>, Json) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/verify_receipts.py");
    let told = Command::new("python3").arg(script).arg(folder.path()).output().unwrap();
    let report = serde_json::from_slice(&told.stdout).unwrap_or_default();
    (told.status.code(), report)
}

fn is_sound(folder: &Folder) {
    let found = report(folder, &Question::default());
    assert_eq!(found.fault, None);
    let (code, told) = second(folder);
    assert_eq!((code, &told["ok"]), (Some(0), &Json::Bool(true)), "{told}");
    assert_eq!(
        (&told["records"], &told["root"]),
        (&found.records.into(), &found.root.into())
    );
}

#[test]
fn old_segments_go_the_record_says_so_and_both_verifiers_agree_with_the_first_key_and_the_last() {
    let (folder, clock) = log();
    let (first, _) = (records(&folder)[0].clone(), ());
    let last_key = stored_key(folder.path()).unwrap().unwrap();
    let first_key = {
        let handed = records(&folder)
            .into_iter()
            .find(|record| record["action"] == "ledger.key.rotate");
        let message = handed.unwrap()["message"].as_str().unwrap().to_owned();
        vocabulary::note::Verifier::parse(message.rsplit(' ').next().unwrap()).unwrap()
    };
    assert_ne!(first_key, last_key);
    let before = segments(&folder);
    clock.turn_to(after(DAYS));
    assert!(!keep(&folder, &clock, KEEP));
    let left = segments(&folder);
    assert!(left[0] > before[0] && left.len() > 3, "{left:?}");
    // Whole segments: a record that is older goes with the youngest of its segment.
    assert!(ages(&folder, after(DAYS)).iter().all(|age| *age <= 31));
    let removals: Vec<Json> = records(&folder)
        .into_iter()
        .filter(|record| record["action"] == PRUNED)
        .collect();
    let removed: u32 = left[0] - before[0];
    assert_eq!(removals.len(), usize::try_from(removed).unwrap());
    let told = removals.last().unwrap();
    assert_eq!(told["actor"], "portreeve");
    let oldest = &records(&folder)[0];
    let expected = format!(
        "{} {}",
        oldest["seq"].as_u64().unwrap() - 1,
        oldest["prev_hash"].as_str().unwrap()
    );
    assert_eq!(told["subject"], expected);
    assert!(
        told["message"].as_str().unwrap().contains("older than 30 days"),
        "{told}"
    );
    assert_ne!(*oldest, first);
    is_sound(&folder);
    for key in [first_key, last_key] {
        let question = Question {
            key: Some(key),
            ..Question::default()
        };
        assert_eq!(report(&folder, &question).fault, None);
    }
    // And again, with what the first time left, by a process that has to find the keys in the records.
    clock.turn_to(after(DAYS + 5));
    assert!(!keep(&folder, &clock, KEEP));
    assert!(segments(&folder)[0] > left[0]);
    is_sound(&folder);
}

#[test]
fn the_floor_beats_the_size_and_what_cannot_be_freed_is_told() {
    let (folder, clock) = log();
    clock.turn_to(after(DAYS));
    let retention = Retention { max_bytes: 1, ..KEEP };
    let room = room(folder.path(), &retention, after(DAYS)).unwrap();
    assert!(room.bytes > room.floor_bytes && room.is_pressed(&retention), "{room:?}");
    assert!(
        keep(&folder, &clock, retention),
        "more than one byte is younger than the floor"
    );
    let ages = ages(&folder, after(DAYS));
    // Every record of the last ten days is there.
    for day in 0..10 {
        assert!(
            ages.iter().filter(|age| **age == day + 1).count() >= 4,
            "{day}: {ages:?}"
        );
    }
    assert!(ages.iter().all(|age| *age <= 12), "{ages:?}");
    is_sound(&folder);
    // A log that fits loses nothing before its time.
    let fits = Retention {
        max_bytes: 1 << 30,
        ..KEEP
    };
    let before = segments(&folder);
    assert!(!keep(&folder, &clock, fits));
    assert_eq!(segments(&folder), before);
}

#[test]
fn a_size_between_takes_the_oldest_and_no_more_than_it_must() {
    let (folder, clock) = log();
    clock.turn_to(after(DAYS));
    let all = room(folder.path(), &KEEP, after(DAYS)).unwrap().bytes;
    let retention = Retention {
        keep: DAY * 1000,
        max_bytes: all * 3 / 4,
        ..KEEP
    };
    let before = segments(&folder);
    assert!(!keep(&folder, &clock, retention));
    let left = segments(&folder);
    assert!(left[0] > before[0] && *left.last().unwrap() >= *before.last().unwrap());
    assert!(
        left.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "only the oldest: {left:?}"
    );
    // With one segment more it was too much.
    let removed = left[0] - before[0];
    let bytes_of_one = all / u64::try_from(before.len()).unwrap();
    assert!(
        u64::from(removed) * bytes_of_one < all / 4 + 2 * bytes_of_one,
        "{removed} of {}",
        before.len()
    );
    is_sound(&folder);
}

#[test]
fn old_proofs_hold_and_packed_records_are_found_proved_and_read() {
    let (folder, clock) = log();
    let key = stored_key(folder.path()).unwrap().unwrap();
    let mut lines = HashMap::new();
    for read in LedgerReader::of_state(folder.path())
        .lines_from(Position::START)
        .unwrap()
    {
        let (span, line) = read.unwrap();
        lines.insert(span, line);
    }
    let early = find_records(folder.path(), &Wanted::Seq(3)).unwrap().unwrap().record;
    let note = latest_checkpoint(folder.path()).unwrap().unwrap();
    let proof = prove(folder.path(), &early, &note).unwrap();
    clock.turn_to(after(DAYS));
    let forever = Retention {
        keep: DAY * 1000,
        ..KEEP
    };
    assert!(!keep(&folder, &clock, forever));
    let reader = LedgerReader::of_state(folder.path());
    let packed = |number: &u32| cold_path(&reader.path(*number)).exists() && !reader.path(*number).exists();
    let (newest, older) = {
        let mut all = segments(&folder);
        (all.pop().unwrap(), all)
    };
    assert!(!packed(&newest) && older.iter().filter(|number| packed(number)).count() > older.len() - 3);
    is_sound(&folder);
    for (span, line) in &lines {
        assert_eq!(reader.read_line(*span).unwrap().as_ref(), Some(line));
    }
    let found = find_records(folder.path(), &Wanted::Seq(3)).unwrap().unwrap().record;
    assert_eq!(found, early);
    let note = latest_checkpoint(folder.path()).unwrap().unwrap();
    assert_eq!(
        check_proof(&early.line, &prove(folder.path(), &early, &note).unwrap(), &key),
        Ok(3)
    );
    // A range of packed records, and bare packed files.
    let question = Question {
        from: Some(3),
        to: Some(7),
        ..Question::default()
    };
    assert_eq!(
        (report(&folder, &question).fault, report(&folder, &question).records),
        (None, 5)
    );
    let files = [cold_path(&reader.path(1)), cold_path(&reader.path(2))];
    assert_eq!(crate::verify_files(&files, &Question::default()).unwrap().fault, None);
    // Tiles and checkpoints stay when the records go.
    clock.turn_to(after(DAYS + 60));
    assert!(!keep(&folder, &clock, KEEP));
    assert_eq!(find_records(folder.path(), &Wanted::Seq(3)).unwrap(), None);
    assert_eq!(check_proof(&early.line, &proof, &key), Ok(3));
    let note = latest_checkpoint(folder.path()).unwrap().unwrap();
    assert_eq!(
        check_proof(&early.line, &prove(folder.path(), &early, &note).unwrap(), &key),
        Ok(3)
    );
    is_sound(&folder);
}

#[test]
fn what_contradicts_the_tiles_and_a_beginning_nobody_vouches_for_stay() {
    let (folder, clock) = log();
    clock.turn_to(after(DAYS));
    let (ledger, _) = Ledger::open(folder.path(), small(&clock)).unwrap();
    let reader = LedgerReader::of_state(folder.path());
    let (before, sound) = (segments(&folder), fs::read_to_string(reader.path(1)).unwrap());
    fs::write(reader.path(1), sound.replacen("note 1", "note 7", 1)).unwrap();
    let mut stubborn = keeper(&folder, &clock, KEEP);
    let refused = stubborn.round(&ledger, &mut || false).unwrap_err();
    assert!(
        refused.to_string().contains("is not the one that was signed"),
        "{refused}"
    );
    assert_eq!(segments(&folder), before);
    fs::remove_file(reader.path(1)).unwrap();
    let refused = keeper(&folder, &clock, KEEP).round(&ledger, &mut || false).unwrap_err();
    assert!(refused.to_string().contains("no record says why"), "{refused}");
    assert_eq!(segments(&folder), before[1..]);
    ledger.shutdown();
    assert_eq!(
        report(&folder, &Question::default()).fault.unwrap().kind,
        BreakKind::Pruned
    );
    assert_eq!(second(&folder).1["break"]["kind"], "pruned");
}

#[test]
fn a_process_that_dies_between_the_record_and_the_removal_leaves_a_sound_log() {
    let (folder, clock) = log();
    clock.turn_to(after(DAYS));
    let reader = LedgerReader::of_state(folder.path());
    let kept: HashMap<u32, Vec<u8>> = segments(&folder)
        .into_iter()
        .map(|number| (number, fs::read(reader.path(number)).unwrap()))
        .collect();
    keep(&folder, &clock, KEEP);
    let last_removed = segments(&folder)[0] - 1;
    fs::write(reader.path(last_removed), &kept[&last_removed]).unwrap();
    is_sound(&folder);
    keep(&folder, &clock, KEEP);
    assert_eq!(segments(&folder)[0], last_removed + 1);
    is_sound(&folder);
    // Between the packed file and the end of the plain one.
    let cold = segments(&folder)[1];
    assert!(cold_path(&reader.path(cold)).exists());
    fs::write(reader.path(cold), &kept[&cold]).unwrap();
    is_sound(&folder);
    keep(&folder, &clock, KEEP);
    assert!(!reader.path(cold).exists());
    is_sound(&folder);
}

#[tokio::test]
async fn a_segment_with_a_call_under_way_stays() {
    let (folder, clock) = tokio::task::spawn_blocking(log).await.unwrap();
    clock.turn_to(after(DAYS));
    let (ledger, _) = Ledger::open(folder.path(), small(&clock)).unwrap();
    let arrival = sample::arrival();
    let _ = ledger
        .append_intent(&arrival, sample::intent(Risk::High))
        .await
        .unwrap();
    let begun = *segments(&folder).last().unwrap();
    let (round, writing, turned) = (keeper(&folder, &clock, KEEP), ledger.clone(), clock.clone());
    let look = move |mut keeper: Keeper| {
        turned.turn_to(after(DAYS + 100));
        (0..12).for_each(|number| note(&writing, &format!("later {number}")));
        writing.checkpoint().unwrap();
        keeper.round(&writing, &mut || false).unwrap();
    };
    tokio::task::spawn_blocking(move || look(round)).await.unwrap();
    assert!(*segments(&folder).last().unwrap() > begun);
    assert_eq!(segments(&folder)[0], begun);
    let ending = sample::called(Risk::High, Status::Success, Some(true));
    let _ = ledger.append(&arrival, ending, 20).await.unwrap();
    ledger.shutdown();
    is_sound(&folder);
}

#[test]
fn the_gateways_own_thread_keeps_the_log_and_ends_with_it() {
    let (folder, clock) = log();
    clock.turn_to(after(DAYS));
    let settings = Settings {
        retention: Some(Retention { max_bytes: 1, ..KEEP }),
        ..small(&clock)
    };
    let first = segments(&folder)[0];
    let (ledger, _) = Ledger::open(folder.path(), settings).unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(120);
    while segments(&folder)[0] == first || !ledger.is_pressed() {
        assert!(std::time::Instant::now() < until, "nothing was removed");
        std::thread::sleep(Duration::from_millis(20));
    }
    ledger.shutdown();
    is_sound(&folder);
}

#[test]
fn tampering_with_packed_and_pruned_logs_is_found_and_both_verifiers_say_the_same() {
    let (folder, clock) = log();
    clock.turn_to(after(DAYS));
    keep(&folder, &clock, KEEP);
    is_sound(&folder);
    let files: Vec<PathBuf> = evidence(&folder);
    let packed: Vec<&PathBuf> = files
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "zst"))
        .collect();
    assert!(packed.len() > 2, "{files:?}");
    let mut dice = Dice(23);
    let (mut found, mut apart) = (0, Vec::new());
    for case in 0..120 {
        // Every other time a packed segment; else any file of the evidence.
        let path = match case % 2 {
            0 => packed[dice.below(packed.len())].clone(),
            _ => files[dice.below(files.len())].clone(),
        };
        let sound = fs::read(&path).unwrap();
        let lines = crate::segment::unpacked(&path).ok();
        let mut changed = sound.clone();
        let at = dice.below(changed.len());
        changed[at] ^= 1 << dice.below(8);
        fs::write(&path, &changed).unwrap();
        let ours = report(&folder, &Question::default());
        // The bytes of a packed segment are not what counts: what they unpack to is.
        let is_same = lines.is_some() && crate::segment::unpacked(&path).ok() == lines;
        if is_same != ours.fault.is_none() {
            apart.push(format!("{} at {at}: {:?}", path.display(), ours.fault));
        }
        found += usize::from(ours.fault.is_some());
        // The second verifier is a process for each: a third of the cases is enough to hold it to.
        if case % 6 < 2 {
            let theirs = second(&folder).1;
            let kind = ours.fault.as_ref().map(|fault| fault.kind.as_str());
            let is_packed = path.extension().is_some_and(|end| end == "zst");
            // Two programs may unpack damaged bytes differently; whether they are damaged they agree on.
            let is_same_verdict = theirs["ok"].as_bool() == Some(kind.is_none()) || is_packed && is_same;
            if !is_same_verdict || (!is_packed && theirs["break"]["kind"].as_str() != kind) {
                apart.push(format!("{} at {at}: {kind:?} and {theirs}", path.display()));
            }
        }
        fs::write(&path, &sound).unwrap();
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
    assert!(found > 100, "{found}");
    is_sound(&folder);
}
