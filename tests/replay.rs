//! What must hold whatever a stranger sends, over every input that was ever worth keeping: the very functions that the fuzzer
//! runs, over its committed corpora.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use portreeve_fuzz::TARGETS;

use crate::support::environment::repository;

#[test]
fn what_the_fuzzer_found_worth_keeping_holds() {
    for (target, check) in TARGETS {
        let inputs = inside(&fuzz().join("corpus").join(target));
        assert!(!inputs.is_empty(), "{target} has no corpus");
        let held = |input: &PathBuf| {
            let bytes = std::fs::read(input).unwrap();
            catch_unwind(|| check(&bytes)).is_ok()
        };
        let broken: Vec<_> = inputs.iter().filter(|input| !held(input)).collect();
        assert_eq!(broken, Vec::<&PathBuf>::new(), "{target}");
    }
}

#[test]
fn every_target_is_replayed() {
    let names = |parent: &str| -> BTreeSet<String> {
        let stem = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        inside(&fuzz().join(parent)).into_iter().map(stem).collect()
    };
    let replayed: BTreeSet<String> = TARGETS.iter().map(|(target, _)| (*target).to_owned()).collect();
    assert_eq!(names("src/bin"), replayed);
    assert_eq!(names("corpus"), replayed);
}

fn fuzz() -> PathBuf {
    repository().join("fuzz")
}

fn inside(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}
