//! The lists of modules in `ARCHITECTURE.md`: each between `<!-- modules of PATH -->` and `<!-- end -->`, made from the order
//! of `lib.rs` and the first sentence of each file.

use std::collections::BTreeSet;
use std::path::Path;

use super::pages::{keep, wrapped};
use crate::support::environment::repository;

const PAGE: &str = "ARCHITECTURE.md";
const OPENING: &str = "<!-- modules of ";
const CLOSING: &str = "<!-- end -->";
/// Whose modules are listed.
const LISTED: [&str; 5] = [
    "crates/gateway",
    "crates/upstream",
    "crates/ledger",
    "crates/harness",
    "apps/portreeve",
];

#[test]
fn the_lists_of_modules_are_what_the_tree_says() {
    let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
    let lacking: Vec<_> = LISTED
        .iter()
        .filter(|path| !page.contains(&format!("{OPENING}{path} -->")))
        .collect();
    assert_eq!(lacking, Vec::<&&str>::new(), "{PAGE} has no list for these");
    keep(PAGE, &filled(&page, |path| list(&repository().join(path).join("src"))));
}

#[test]
fn a_list_is_replaced_and_what_stands_around_it_is_not() {
    let page = "a\n<!-- modules of x -->\nold\n<!-- end -->\nb\n";
    let made = filled(page, |path| format!("- {path}\n"));
    assert_eq!(made, "a\n<!-- modules of x -->\n- x\n<!-- end -->\nb\n");
}

#[test]
fn a_module_is_told_by_its_first_sentence() {
    let text = "//! Reads [`Bytes`] of\n//! a server. And more.\n\nuse x;\n";
    assert_eq!(first_sentence(text), "Reads `Bytes` of a server.");
}

/// The page with every list made anew.
fn filled(page: &str, list: impl Fn(&str) -> String) -> String {
    let mut made = String::new();
    let mut old = false;
    for line in page.lines() {
        old = old && line != CLOSING;
        if old {
            continue;
        }
        made += line;
        made.push('\n');
        if let Some(path) = line.strip_prefix(OPENING).and_then(|rest| rest.strip_suffix(" -->")) {
            made += &list(path);
            old = true;
        }
    }
    assert!(!old, "{PAGE}: a list of modules has no `{CLOSING}`");
    made
}

/// The modules of a crate, in the order in which `lib.rs` names them.
fn list(source: &Path) -> String {
    let door = std::fs::read_to_string(source.join("lib.rs")).unwrap();
    let declared = door
        .lines()
        .filter_map(|line| line.rsplit_once("mod ")?.1.strip_suffix(';'));
    let mut left = on_disk(source);
    let mut text = String::new();
    for name in declared.filter(|name| left.remove(*name)) {
        let file = std::fs::read_to_string(source.join(name).with_extension("rs")).unwrap();
        text += &wrapped("- ", &format!("`{name}`: {}", first_sentence(&file)));
    }
    let undeclared: Vec<_> = left.into_iter().collect();
    assert!(
        undeclared.is_empty(),
        "{}: lib.rs does not name {}",
        source.display(),
        undeclared.join(", ")
    );
    text
}

/// The files and folders of the first level, by the module they are.
fn on_disk(source: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path());
    let modules = entries.filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "rs"));
    let names = modules.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    names
        .filter(|name| !["lib", "main", "tests"].contains(&name.as_str()))
        .collect()
}

fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ").replace("[`", "`").replace("`]", "`");
    let sentence = paragraph
        .split_once(". ")
        .map_or(paragraph.as_str(), |(first, _)| first);
    format!("{}.", sentence.trim_end_matches('.'))
}
