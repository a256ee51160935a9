//! Tampering with a signed log, at random and on purpose: all of it is found, and a clean log is left alone.

use std::fs;
use std::path::{Path, PathBuf};

use vocabulary::note::{KeyName, Signer, Verifier};
use vocabulary::{ReasonCode, Risk};

use super::evidence::{Question, Report, verify_state};
use crate::chain::BreakKind;
use crate::checkpoint::Checkpoint;
use crate::event::{Event, Note};
use crate::open::OpenError;
use crate::prove::{Wanted, check_proof, find_records, latest_checkpoint, prove};
use crate::sample::{self, Folder};
use crate::{Ledger, Settings, Status, stored_key};

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

pub(crate) fn settings(segment_bytes: u64) -> Settings {
    Settings {
        segment_bytes,
        ..Settings::new("gw/test")
    }
}

fn note(ledger: &Ledger, number: usize) {
    let event = Event::Admin(Note::done(
        "token.create",
        "ann",
        Some("tok_1"),
        &format!("note {number}"),
    ));
    ledger.append_event_blocking(event).unwrap();
}

/// A log of several runs, segments, checkpoints, intents and keys.
async fn log() -> Folder {
    log_of(3, 1).await
}

/// A log of so many runs, of which one hands over to a new key; a single run is as short as can be.
pub(crate) async fn log_of(runs: usize, rotating: usize) -> Folder {
    let folder = Folder::new();
    for run in 0..runs {
        let (ledger, _) = Ledger::open(folder.path(), settings(1500)).unwrap();
        let noting = ledger.clone();
        let arrival = sample::arrival();
        let _ = ledger
            .append_intent(&arrival, sample::intent(Risk::High))
            .await
            .unwrap();
        let notes = if runs == 1 { 1 } else { 3 };
        tokio::task::spawn_blocking(move || (0..notes).for_each(|number| note(&noting, number)))
            .await
            .unwrap();
        let ending = sample::called(Risk::High, Status::Success, Some(true));
        let _ = ledger.append(&arrival, ending, 20).await.unwrap();
        tokio::task::spawn_blocking(move || {
            if run == rotating {
                ledger.rotate_key("ann").unwrap();
            }
            ledger.shutdown();
        })
        .await
        .unwrap();
    }
    folder
}

fn report(folder: &Folder) -> Report {
    verify_state(folder.path(), &Question::default(), &mut |_| ()).unwrap()
}

fn kind(folder: &Folder, question: &Question) -> Option<BreakKind> {
    let report = verify_state(folder.path(), question, &mut |_| ()).unwrap();
    report.fault.map(|fault| fault.kind)
}

pub(crate) fn evidence(folder: &Folder) -> Vec<PathBuf> {
    fn gather(path: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => gather(&path, files),
                false => files.push(path),
            }
        }
    }
    let mut files = Vec::new();
    gather(&folder.path().join("ledger"), &mut files);
    files.sort();
    let hints = ["lock", "origin"];
    files.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        !hints.contains(&name) && !name.ends_with(".open")
    });
    files
}

#[tokio::test]
async fn a_clean_log_verifies_with_the_old_key_and_the_new_one() {
    let folder = log().await;
    let found = report(&folder);
    assert_eq!(
        (found.records, found.size, found.unsigned, found.open_intents),
        (16, 16, 0, 0)
    );
    assert_eq!(found.fault, None);
    assert!(found.checkpoints >= 3, "{found:?}");
    let rotation = find_records(folder.path(), &Wanted::Seq(11))
        .unwrap()
        .unwrap()
        .record
        .line;
    let rotation: serde_json::Value = serde_json::from_slice(&rotation).unwrap();
    let new = Verifier::parse(rotation["subject"].as_str().unwrap()).unwrap();
    let old = Verifier::parse(rotation["message"].as_str().unwrap().rsplit(' ').next().unwrap()).unwrap();
    assert_eq!(stored_key(folder.path()).unwrap(), Some(new.clone()));
    let with = |key: &Verifier| Question {
        key: Some(key.clone()),
        ..Question::default()
    };
    assert_eq!((kind(&folder, &with(&old)), kind(&folder, &with(&new))), (None, None));
    let stranger = Signer::generate(KeyName::parse("gw/test").unwrap()).unwrap();
    assert_eq!(kind(&folder, &with(stranger.verifier())), Some(BreakKind::Signature));
}

#[tokio::test]
async fn ten_thousand_tamperings_are_all_found_and_none_in_the_clean_log() {
    // As small as can be with everything in it: it is read ten thousand times.
    let folder = log_of(1, 0).await;
    let files = evidence(&folder);
    let originals: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    let mut dice = Dice(42);
    assert_eq!(report(&folder).fault, None);
    for number in 0..10_000 {
        let at = dice.below(files.len());
        let (path, original) = (&files[at], &originals[at]);
        let mut forged = original.clone();
        let place = dice.below(original.len());
        let told = match dice.below(8) {
            0..=3 => {
                forged[place] ^= 1 << dice.below(8);
                "a flipped bit"
            }
            4 => {
                forged[place] = forged[place].wrapping_add(1 + u8::try_from(dice.below(255)).unwrap());
                "a changed byte"
            }
            5 => {
                forged.remove(place);
                "a removed byte"
            }
            6 => {
                forged.insert(place, u8::try_from(dice.below(256)).unwrap());
                "an added byte"
            }
            _ => {
                forged.truncate(place);
                "a cut file"
            }
        };
        fs::write(path, &forged).unwrap();
        let found = report(&folder);
        assert!(
            found.fault.is_some() || forged == *original,
            "{number}: {told} at {place} of {} was not found",
            path.display()
        );
        fs::write(path, original).unwrap();
    }
    assert_eq!(report(&folder).fault, None);
}

#[tokio::test]
async fn lines_removed_repeated_swapped_and_rewritten_are_found_at_their_place() {
    let folder = log().await;
    let segments: Vec<PathBuf> = evidence(&folder)
        .into_iter()
        .filter(|path| path.extension().is_some())
        .collect();
    assert!(segments.len() >= 3, "{segments:?}");
    for path in &segments {
        let original = fs::read(path).unwrap();
        let lines: Vec<&[u8]> = original.split_inclusive(|byte| *byte == b'\n').collect();
        let try_with = |forged: &[&[u8]]| {
            fs::write(path, forged.concat()).unwrap();
            let fault = report(&folder).fault;
            fs::write(path, &original).unwrap();
            fault.expect("found")
        };
        for at in 0..lines.len() {
            let mut removed = lines.clone();
            removed.remove(at);
            let _ = try_with(&removed);
            let mut repeated = lines.clone();
            repeated.insert(at, lines[at]);
            assert_eq!(try_with(&repeated).kind, BreakKind::Sequence);
            if at > 0 {
                let mut swapped = lines.clone();
                swapped.swap(at, at - 1);
                let offset: usize = lines[..at - 1].iter().map(|line| line.len()).sum();
                let fault = try_with(&swapped);
                assert_eq!(
                    (fault.kind, fault.offset, &fault.file),
                    (BreakKind::Sequence, offset as u64, path)
                );
            }
        }
    }
    for pair in segments.windows(2) {
        let (first, second) = (fs::read(&pair[0]).unwrap(), fs::read(&pair[1]).unwrap());
        fs::write(&pair[0], &second).unwrap();
        fs::write(&pair[1], &first).unwrap();
        assert!(report(&folder).fault.is_some(), "swapped segments");
        fs::write(&pair[0], &first).unwrap();
        assert!(report(&folder).fault.is_some(), "a segment that stands twice");
        fs::write(&pair[1], &second).unwrap();
    }
    assert_eq!(report(&folder).fault, None);
}

#[tokio::test]
async fn the_last_segment_cut_at_every_byte_is_found_and_no_start_changes_it() {
    let folder = log_of(1, 0).await;
    let last = evidence(&folder)
        .into_iter()
        .rfind(|path| path.extension().is_some())
        .unwrap();
    let original = fs::read(&last).unwrap();
    let everything = || -> Vec<(PathBuf, Vec<u8>)> {
        let files = evidence(&folder).into_iter().chain([folder.path().join("ledger.key")]);
        files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    for length in 0..original.len() {
        fs::write(&last, &original[..length]).unwrap();
        let before = everything();
        assert_eq!(
            report(&folder).fault.map(|fault| fault.kind.as_str()),
            Some("cut"),
            "at {length}"
        );
        let refused = Ledger::open(folder.path(), settings(1500)).err().unwrap();
        assert!(matches!(refused, OpenError::Shorter { .. }), "{length}: {refused}");
        assert!(everything() == before, "{length}: a refused start changed something");
    }
}

#[tokio::test]
async fn a_whole_log_rewritten_without_the_key_is_found() {
    let (folder, other) = (log_of(2, usize::MAX).await, log_of(2, usize::MAX).await);
    // Another log of the same name, with every hash right: only the signatures tell.
    for path in evidence(&other).iter().filter(|path| path.extension().is_some()) {
        fs::copy(path, folder.path().join("ledger").join(path.file_name().unwrap())).unwrap();
    }
    let found = report(&folder).fault.unwrap();
    assert_eq!((found.kind, found.seq), (BreakKind::Root, Some(1)), "{found:?}");
    assert!(found.file.ends_with("00000001.jsonl"));
}

#[tokio::test]
async fn forks_replays_and_contradicting_tiles_are_found() {
    let folder = log().await;
    let state = folder.path();
    let list = state.join("ledger/checkpoints");
    let kept = fs::read_to_string(&list).unwrap();
    let key = Signer::from_pem(
        &fs::read_to_string(state.join("ledger.key")).unwrap(),
        &KeyName::parse("gw/test").unwrap(),
    )
    .unwrap();
    let latest = latest_checkpoint(state).unwrap().unwrap();
    let mut forked = Checkpoint::read(&latest).unwrap();
    forked.root = vocabulary::Digest::of(b"another history");
    let fork = forked.sign([&key]).unwrap();
    fs::write(&list, format!("{kept}\n{fork}")).unwrap();
    assert_eq!(
        report(&folder).fault.map(|fault| fault.kind),
        Some(BreakKind::Consistency),
        "a fork"
    );
    fs::write(&list, &kept).unwrap();

    let trusted = |note: &str| Question {
        trusted: Some((PathBuf::from("kept"), note.to_owned())),
        ..Question::default()
    };
    assert_eq!(kind(&folder, &trusted(&latest)), None);
    assert_eq!(kind(&folder, &trusted(&fork)), Some(BreakKind::Consistency));
    forked.size += 1;
    assert_eq!(
        kind(&folder, &trusted(&forked.sign([&key]).unwrap())),
        Some(BreakKind::Cut),
        "an old log"
    );
    assert_eq!(kind(&folder, &trusted("nothing")), Some(BreakKind::Signature));

    fs::remove_file(state.join("ledger/checkpoint")).unwrap();
    fs::remove_file(&list).unwrap();
    assert_eq!(
        report(&folder).fault.map(|fault| fault.kind),
        Some(BreakKind::Signature),
        "nothing is signed"
    );
}

#[test]
fn full_tiles_are_compared_and_a_missing_one_is_written_again() {
    let folder = Folder::new();
    let (ledger, _) = Ledger::open(folder.path(), settings(1 << 20)).unwrap();
    (0..600).for_each(|number| note(&ledger, number));
    ledger.shutdown();
    assert_eq!(report(&folder).fault, None);
    let path = folder.path().join("ledger/tile/0/001");
    let whole = fs::read(&path).unwrap();
    let mut forged = whole.clone();
    forged[40] ^= 1;
    fs::write(&path, &forged).unwrap();
    let fault = report(&folder).fault.unwrap();
    assert_eq!(
        (fault.kind, fault.seq, fault.offset, &fault.file),
        (BreakKind::Root, Some(258), 32, &path)
    );
    let refused = Ledger::open(folder.path(), settings(1 << 20)).err().unwrap();
    assert!(matches!(refused, OpenError::Tile(_)), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), forged, "nothing is rewritten");
    fs::remove_dir_all(folder.path().join("ledger/tile")).unwrap();
    assert_eq!(report(&folder).fault, None, "the records are sound without tiles");
    let (ledger, _) = Ledger::open(folder.path(), settings(1 << 20)).unwrap();
    ledger.shutdown();
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[tokio::test]
async fn a_start_without_the_key_or_with_another_is_refused_and_changes_nothing() {
    let folder = log().await;
    let key = folder.path().join("ledger.key");
    let pem = fs::read(&key).unwrap();
    let before: Vec<Vec<u8>> = evidence(&folder).iter().map(|path| fs::read(path).unwrap()).collect();
    let refused = || Ledger::open(folder.path(), settings(1500)).err().unwrap();
    fs::remove_file(&key).unwrap();
    assert!(matches!(refused(), OpenError::KeyMissing(_)));
    assert!(!key.exists(), "no new key beside an old log");
    fs::write(&key, "no key").unwrap();
    assert!(matches!(refused(), OpenError::Key(_)));
    let other = Signer::generate(KeyName::parse("gw/test").unwrap()).unwrap();
    fs::write(&key, other.to_pem().unwrap().expose()).unwrap();
    assert!(matches!(refused(), OpenError::Signature { .. }));
    let after: Vec<Vec<u8>> = evidence(&folder).iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(before, after);
    fs::write(&key, pem).unwrap();
    let (ledger, _) = Ledger::open(folder.path(), settings(1500)).unwrap();
    ledger.shutdown();
    assert_eq!(report(&folder).fault, None);
}

#[test]
fn a_log_of_an_earlier_version_gets_key_tree_and_checkpoint_at_the_next_start() {
    let folder = Folder::new();
    let (ledger, _) = Ledger::open(folder.path(), settings(4000)).unwrap();
    (0..300).for_each(|number| note(&ledger, number));
    ledger.shutdown();
    fs::remove_dir_all(folder.path().join("ledger/tile")).unwrap();
    for name in ["ledger/checkpoint", "ledger/checkpoints", "ledger.key"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let (ledger, opened) = Ledger::open(folder.path(), settings(4000)).unwrap();
    assert_eq!(opened.last_seq, 300);
    let checkpoint = ledger.checkpoint().unwrap().unwrap();
    assert_eq!(Checkpoint::read(&checkpoint).unwrap().size, 300);
    ledger.shutdown();
    let found = report(&folder);
    assert_eq!((found.fault, found.records, found.checkpoints), (None, 300, 1));
}

#[test]
fn a_handover_that_was_interrupted_is_finished_at_the_next_start() {
    let folder = Folder::new();
    let (ledger, _) = Ledger::open(folder.path(), settings(1 << 20)).unwrap();
    note(&ledger, 1);
    let signed = ledger.checkpoint().unwrap().unwrap();
    let before = fs::read_to_string(folder.path().join("ledger.key")).unwrap();
    let new = ledger.rotate_key("ann").unwrap();
    ledger.shutdown();
    let after = fs::read_to_string(folder.path().join("ledger.key")).unwrap();
    // As if the process had died before the new key was put in its place.
    fs::write(folder.path().join("ledger.key"), &before).unwrap();
    fs::write(folder.path().join("ledger.key.next"), &after).unwrap();
    let (ledger, _) = Ledger::open(folder.path(), settings(1 << 20)).unwrap();
    note(&ledger, 2);
    ledger.shutdown();
    let is_done = || {
        assert_eq!(stored_key(folder.path()).unwrap().as_ref(), Some(&new));
        assert!(!folder.path().join("ledger.key.next").exists());
        assert_eq!(report(&folder).fault, None);
    };
    is_done();
    // As if it had died between the record and the checkpoint: only what came before was signed.
    assert_eq!(Checkpoint::read(&signed).unwrap().size, 1);
    for (name, text) in [
        ("ledger/checkpoints", &signed),
        ("ledger/checkpoint", &signed),
        ("ledger.key", &before),
        ("ledger.key.next", &after),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let (ledger, _) = Ledger::open(folder.path(), settings(1 << 20)).unwrap();
    ledger.shutdown();
    is_done();
}

#[tokio::test]
async fn a_proof_convinces_a_stranger_and_a_forged_one_does_not() {
    let folder = log().await;
    let state = folder.path();
    let key = stored_key(state).unwrap().unwrap();
    let latest = latest_checkpoint(state).unwrap().unwrap();
    let mut ids = Vec::new();
    for seq in 1..=16 {
        let found = find_records(state, &Wanted::Seq(seq)).unwrap().unwrap().record;
        let proof = prove(state, &found, &latest).unwrap();
        assert_eq!(check_proof(&found.line, &proof, &key), Ok(seq));
        let text = String::from_utf8(found.line.clone()).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        ids.extend(record["receipt_id"].as_str().map(str::to_owned));
        let index = format!("index {}\n", seq - 1);
        let hash = proof.lines().nth(2).unwrap();
        for forged in [
            proof.replace(&index, &format!("index {seq}\n")),
            proof.replace(&index, &format!("index 0{}\n", seq - 1)),
            proof.replace(&index, "index 18446744073709551615\n"),
            proof.replace(&index, &format!("{index}{hash}\n")),
            proof.replace(&format!("{hash}\n"), ""),
            proof.replace(&index, &format!("{index}{}", format!("{hash}\n").repeat(100_000))),
            proof.replace("\n16\n", "\n0\n"),
            proof.replace("\n16\n", "\n18446744073709551615\n"),
            proof.replace("tlog-proof@v1", "tlog-proof@v2"),
            String::new(),
        ] {
            assert!(
                check_proof(&found.line, &forged, &key).is_err(),
                "{seq}: {}",
                forged.len()
            );
        }
        let extra = proof.replace(&index, &format!("extra bm90IHRydXN0ZWQ=\n{index}"));
        assert_eq!(check_proof(&found.line, &extra, &key), Ok(seq));
        let edited = text.replacen("\"v\":1", "\"v\":2", 1);
        assert!(check_proof(edited.as_bytes(), &proof, &key).is_err());
    }
    let both = find_records(state, &Wanted::Receipt(ids[0].clone())).unwrap().unwrap();
    assert_eq!((both.intent.map(|intent| intent.seq), both.record.seq), (Some(1), 5));
    assert_eq!(find_records(state, &Wanted::Receipt("rcp_0".to_owned())).unwrap(), None);
}

#[tokio::test]
async fn a_range_looks_closely_at_its_records_only_and_the_tree_at_all() {
    let folder = log().await;
    let range = Question {
        from: Some(4),
        to: Some(9),
        ..Question::default()
    };
    let found = verify_state(folder.path(), &range, &mut |_| ()).unwrap();
    assert_eq!((found.records, found.fault), (6, None));
    let first = folder.path().join("ledger/00000001.jsonl");
    let text = fs::read_to_string(&first).unwrap();
    fs::write(&first, text.replacen("\"count\":1", "\"count\":2", 1)).unwrap();
    assert_eq!(
        kind(&folder, &range),
        Some(BreakKind::Root),
        "outside the range the tree tells"
    );
    assert_eq!(kind(&folder, &Question::default()), Some(BreakKind::RecordHash));
}

#[tokio::test]
async fn a_final_that_does_not_fit_its_intent_is_found_and_an_open_intent_is_counted() {
    let folder = Folder::new();
    let (ledger, _) = Ledger::open(folder.path(), settings(1 << 20)).unwrap();
    let (arrival, open) = (sample::arrival(), sample::arrival());
    let _ = ledger.append_intent(&open, sample::intent(Risk::High)).await.unwrap();
    let _ = ledger
        .append_intent(&arrival, sample::intent(Risk::High))
        .await
        .unwrap();
    tokio::task::spawn_blocking(move || ledger.shutdown()).await.unwrap();
    let found = report(&folder);
    assert_eq!((found.open_intents, found.fault), (2, None));
    let (ledger, opened) = Ledger::open(folder.path(), settings(1 << 20)).unwrap();
    assert_eq!(opened.interrupted, 2);
    let again = sample::arrival();
    let _ = ledger.append_intent(&again, sample::intent(Risk::High)).await.unwrap();
    let mut ending = sample::called(Risk::High, Status::Success, Some(true));
    if let crate::Ending::Called { message, .. } = &mut ending {
        message.tool_name = Some("another".to_owned());
    }
    let _ = ledger.append(&again, ending, 1).await.unwrap();
    let _ = ledger
        .append(&sample::arrival(), sample::refused(ReasonCode::DenyNoPermission), 1)
        .await
        .unwrap();
    tokio::task::spawn_blocking(move || ledger.shutdown()).await.unwrap();
    let fault = report(&folder).fault.unwrap();
    assert_eq!((fault.kind, fault.seq), (BreakKind::Intent, Some(6)));
}
