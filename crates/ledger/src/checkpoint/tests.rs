//! How checkpoints are spelled, and what is none.

use vocabulary::note::KeyName;

use super::*;

fn signer() -> Signer {
    Signer::generate(KeyName::parse("gw.test/log").unwrap()).unwrap()
}

fn checkpoint(size: u64) -> Checkpoint {
    Checkpoint {
        origin: "gw.test/log".to_owned(),
        size,
        root: Digest::of(&size.to_be_bytes()),
    }
}

#[test]
fn a_checkpoint_reads_back_and_only_from_its_one_spelling() {
    let key = signer();
    let note = checkpoint(17).sign([&key]).unwrap();
    let keys = [key.verifier().clone()];
    let (read, signed) = Checkpoint::open(&note, &keys).unwrap();
    assert_eq!((read, signed), (checkpoint(17), vec![&keys[0]]));
    assert!(
        Checkpoint::open(&note, &[signer().verifier().clone()]).is_err(),
        "another key"
    );
    for forged in [
        note.replace("\n17\n", "\n18\n"),
        note.replace("\n17\n", "\n017\n"),
        note.replace("\n17\n", "\n+17\n"),
        note.replace("\n17\n", "\n17\nmore\n"),
        note.replace("gw.test", "gw.tesT"),
        note.replacen('\n', "", 1),
        note.trim_end().to_owned(),
        String::new(),
    ] {
        assert!(Checkpoint::open(&forged, &keys).is_err(), "{forged}");
    }
}

#[test]
fn many_stand_one_after_another_with_an_empty_line_between() {
    let key = signer();
    let notes: Vec<String> = (1..=3).map(|size| checkpoint(size).sign([&key]).unwrap()).collect();
    let text = notes.join("\n");
    let (stated, unreadable) = read_all(text.as_bytes());
    let read: Vec<(u64, &str)> = stated
        .iter()
        .map(|stated| (stated.offset, stated.note.as_str()))
        .collect();
    let length = notes[0].len() as u64 + 1;
    assert_eq!(
        read,
        vec![(0, &*notes[0]), (length, &*notes[1]), (2 * length, &*notes[2])]
    );
    assert_eq!(unreadable, None);
    for end in 1..notes[0].len() {
        let cut = &text.as_bytes()[..2 * notes[0].len() + 2 + end];
        let (stated, unreadable) = read_all(cut);
        assert_eq!(
            (stated.len(), unreadable),
            (2, Some(2 * length)),
            "cut after {end} bytes"
        );
    }
    let (stated, unreadable) = read_all(notes.join("\n\n").as_bytes());
    assert_eq!((stated.len(), unreadable), (1, Some(length)), "two empty lines");
    assert_eq!(
        read_all(format!("{text}\n").as_bytes()).1,
        Some(3 * length - 1),
        "one after the last"
    );
}
