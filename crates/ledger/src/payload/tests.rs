use super::*;
use crate::sample::Folder;

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

const NOON: &str = "2026-03-01T12:00:00Z";

#[test]
fn what_is_kept_is_read_by_its_own_record_alone() {
    let folder = Folder::new();
    let payloads = Payloads::open(folder.path()).unwrap();
    let (ann, bob) = (ReceiptId::mint(), ReceiptId::mint());
    let keep = |receipt, kind, text: &str| payloads.keep(time(NOON), receipt, kind, text.into()).unwrap();
    let first = keep(ann, PayloadKind::Arguments, "{\"a\":1}");
    let second = keep(ann, PayloadKind::Result, "{\"b\":2}");
    let third = keep(bob, PayloadKind::Arguments, "");
    assert_eq!(first.to_string(), "pld_20260301_0");
    assert_eq!(PayloadRef::parse("pld_20260301_2"), Some(third));
    for wrong in [
        "",
        "pld_1_1",
        "pld_20260301_01",
        "pld_20260301_-1",
        "pld_20260301_1 ",
        "PLD_20260301_1",
    ] {
        assert_eq!(PayloadRef::parse(wrong), None, "{wrong}");
    }
    // By another process, too.
    for payloads in [&payloads, &Payloads::open(folder.path()).unwrap()] {
        let read = |reference, receipt, kind| payloads.read(reference, receipt, kind);
        assert_eq!(
            read(first, ann, PayloadKind::Arguments).unwrap(),
            Payload::Kept(b"{\"a\":1}".into())
        );
        assert_eq!(
            read(second, ann, PayloadKind::Result).unwrap(),
            Payload::Kept(b"{\"b\":2}".into())
        );
        assert_eq!(
            read(third, bob, PayloadKind::Arguments).unwrap(),
            Payload::Kept(Vec::new())
        );
        assert!(matches!(
            read(first, bob, PayloadKind::Arguments),
            Err(PayloadFault::Changed)
        ));
        assert!(matches!(
            read(first, ann, PayloadKind::Result),
            Err(PayloadFault::Changed)
        ));
        assert!(matches!(
            read(second, ann, PayloadKind::Arguments),
            Err(PayloadFault::Changed)
        ));
    }
}

#[test]
fn nothing_of_it_lies_there_in_the_clear_and_every_changed_byte_is_found() {
    let folder = Folder::new();
    let payloads = Payloads::open(folder.path()).unwrap();
    let (receipt, kind) = (ReceiptId::mint(), PayloadKind::Arguments);
    let text = "the patient's name is Mallory";
    let kept = payloads.keep(time(NOON), receipt, kind, text.into()).unwrap();
    let read = || payloads.read(kept, receipt, kind);
    for file in ["20260301.data", "20260301.keys"] {
        let path = folder.path().join("payloads").join(file);
        let sound = fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&sound).contains("Mallory"));
        for at in 0..sound.len() {
            let mut changed = sound.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            assert!(read().is_err(), "byte {at} of {file}");
        }
        fs::write(&path, sound).unwrap();
    }
    assert_eq!(read().unwrap(), Payload::Kept(text.into()));
}

#[test]
fn what_is_erased_is_gone_for_whoever_has_the_key_and_the_rest_stays() {
    let folder = Folder::new();
    let payloads = Payloads::open(folder.path()).unwrap();
    let receipts = [ReceiptId::mint(), ReceiptId::mint(), ReceiptId::mint()];
    let kept = receipts.map(|receipt| {
        payloads
            .keep(time(NOON), receipt, PayloadKind::Arguments, b"something".into())
            .unwrap()
    });
    let salts = || fs::read(folder.path().join("payloads/20260301.keys")).unwrap();
    let before = salts();
    payloads.erase(kept[1]).unwrap();
    payloads.erase(kept[1]).unwrap();
    let after = salts();
    // The salt, without which nobody derives the key again.
    assert_eq!(after[48..80], [0; 32]);
    assert_eq!((&after[..48], &after[96..]), (&before[..48], &before[96..]));
    let read = |at: usize| payloads.read(kept[at], receipts[at], PayloadKind::Arguments).unwrap();
    assert_eq!(
        [read(0), read(1), read(2)],
        [
            Payload::Kept(b"something".into()),
            Payload::Erased,
            Payload::Kept(b"something".into())
        ]
    );
}

#[test]
fn days_go_with_the_last_of_their_records() {
    let folder = Folder::new();
    let payloads = Payloads::open(folder.path()).unwrap();
    let (receipt, kind) = (ReceiptId::mint(), PayloadKind::Result);
    let keep = |day: &str| payloads.keep(time(day), receipt, kind, b"x".into()).unwrap();
    let [early, late] = ["2026-02-28T23:59:59Z", "2026-03-01T00:00:00Z"].map(keep);
    forget_before(&folder_of(folder.path()), day_of(time(NOON))).unwrap();
    assert_eq!(payloads.read(early, receipt, kind).unwrap(), Payload::Gone);
    assert_eq!(payloads.read(late, receipt, kind).unwrap(), Payload::Kept(b"x".into()));
    forget_before(&folder.path().join("nowhere"), 20_260_301).unwrap();
}

#[test]
fn a_key_that_is_gone_is_not_made_again_over_what_it_kept() {
    let folder = Folder::new();
    Payloads::open(folder.path())
        .unwrap()
        .keep(time(NOON), ReceiptId::mint(), PayloadKind::Result, b"x".into())
        .unwrap();
    let key = folder.path().join("payload.key");
    for spoiled in [None, Some("no key"), Some("")] {
        match spoiled {
            Some(text) => fs::write(&key, text).unwrap(),
            None => fs::remove_file(&key).unwrap(),
        }
        assert!(matches!(Payloads::open(folder.path()), Err(PayloadFault::Key(path)) if path == key));
    }
}
