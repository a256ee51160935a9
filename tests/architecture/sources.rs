//! Walls around source files: length, names, first lines, and `unsafe` in the one file that has a reason for it.

use std::path::{Path, PathBuf};

use crate::support::environment::repository;

const LONGEST: usize = 500;
const BANNED: [&str; 9] = [
    "utils", "common", "helpers", "misc", "manager", "handler", "types", "core", "mod",
];

#[test]
fn no_file_is_longer_than_the_wall() {
    let lengths = shipped()
        .into_iter()
        .map(|(path, text)| (length_without_tests(&text), path));
    let long: Vec<_> = lengths.filter(|(length, _)| *length > LONGEST).collect();
    assert_eq!(long, Vec::new());
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<_> = shipped()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(silent, Vec::<PathBuf>::new());
}

#[test]
fn no_file_has_a_name_that_says_nothing() {
    let stem = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let empty: Vec<_> = shipped()
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| BANNED.contains(&stem(path).as_str()))
        .collect();
    assert_eq!(empty, Vec::<PathBuf>::new());
}

#[test]
fn nothing_is_unsafe_but_one_module() {
    let words = [
        "unsafe {",
        "unsafe fn",
        "unsafe impl",
        "unsafe extern",
        "unsafe trait",
        "(unsafe_code",
    ];
    let room = repository().join("crates/sandbox/src");
    for (path, text) in shipped() {
        if path == room.join("sys.rs") || path.starts_with(room.join("sys")) {
            continue;
        }
        // Its door is opened where the module is named, and nowhere else.
        let door = |line: &str| path == room.join("lib.rs") && line.starts_with("#[expect(unsafe_code, reason = ");
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines.filter(|line| !door(line)) {
            assert!(
                !words.iter().any(|word| line.contains(word)),
                "{}: {line}",
                path.display()
            );
        }
    }
}

#[test]
fn every_reason_code_has_a_line_of_advice() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let page = read("docs/reason-codes.md");
    for code in read("crates/vocabulary/src/reason-codes.txt").lines() {
        assert!(
            page.contains(&format!("`{code}`")),
            "{code} is not in docs/reason-codes.md"
        );
    }
}

#[test]
fn the_length_of_a_file_does_not_count_its_tests() {
    assert_eq!(
        length_without_tests("//! a\nfn b() {}\n\n#[cfg(test)]\nmod tests {\n}\n"),
        3
    );
    assert_eq!(length_without_tests("//! a\n"), 1);
}

/// The lines of a file before its tests.
fn length_without_tests(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

/// Every source file of the rooms and of the fixture, tests left out.
pub(crate) fn shipped() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for parent in ["crates", "apps"] {
        for entry in std::fs::read_dir(repository().join(parent)).unwrap() {
            collect(&entry.unwrap().path().join("src"), &mut found);
        }
    }
    collect(&repository().join("tests/fixture/src"), &mut found);
    assert!(found.len() > 30, "{} files", found.len());
    found
}

pub(crate) fn collect(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "target" {
            collect(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}
