//! Requirements the repository claims, each named by a test (`// R108`).

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::environment::repository;

#[test]
fn every_claimed_row_is_named_by_a_test() {
    let claimed = rows_in(&std::fs::read_to_string(repository().join("tests/claimed-rows.txt")).unwrap());
    let mut named = BTreeSet::new();
    for room in ["crates", "apps", "tests"] {
        walk(&repository().join(room), &mut |text| named.extend(named_in(text)));
    }
    let unnamed: Vec<_> = claimed.difference(&named).collect();
    assert!(claimed.len() > 50);
    assert_eq!(unnamed, Vec::<&String>::new());
}

#[test]
fn a_row_counts_only_in_a_comment_of_its_own() {
    assert_eq!(
        named_in("    // R001, R002\n//! R003\nlet x = \"R004\"; // R005\n// see R00\n"),
        ["R001", "R002"].map(str::to_owned).into()
    );
}

/// The rows named in `// R001, R002` lines.
fn named_in(text: &str) -> BTreeSet<String> {
    let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("// "));
    comments
        .filter(|comment| comment.starts_with('R'))
        .flat_map(rows_in)
        .collect()
}

fn rows_in(text: &str) -> BTreeSet<String> {
    let words = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()));
    words
        .filter(|word| {
            word.len() == 4
                && word
                    .strip_prefix('R')
                    .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        })
        .map(str::to_owned)
        .collect()
}

fn walk(directory: &Path, visit: &mut impl FnMut(&str)) {
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            visit(&text);
        }
    }
}
