//! Requirements and attacks: what they say, which are claimed, and the tests that show them. The pages for people
//! (`docs/requirements.md`, `docs/attacks.md`) are made of all three.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;

use super::named::{Named, everywhere};
use super::pages::{keep, wrapped};
use crate::support::environment::repository;

#[derive(Deserialize)]
struct Requirements {
    section: Vec<Section>,
}

#[derive(Deserialize)]
struct Section {
    title: String,
    about: String,
    rows: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Attacks {
    table: Vec<Moves>,
}

#[derive(Deserialize)]
struct Moves {
    title: String,
    about: String,
    /// Name, what the attacker does, what comes of it.
    rows: Vec<[String; 3]>,
}

/// What `tests/claimed-rows.txt` says.
struct Claims {
    rows: BTreeSet<String>,
    /// What is still missing of a claimed row: `# R107: …`.
    missing: BTreeMap<String, String>,
}

#[test]
fn every_claimed_row_is_named_by_a_test() {
    let (claims, named) = (claims(), everywhere(&known()));
    let named: BTreeSet<String> = named.into_iter().map(|named| named.row).collect();
    let unnamed: Vec<_> = claims.rows.difference(&named).collect();
    assert!(claims.rows.len() > 50);
    assert_eq!(unnamed, Vec::<&String>::new());
}

#[test]
fn every_claimed_row_is_a_requirement() {
    let claims = claims();
    let requirements: BTreeSet<String> = requirements()
        .section
        .into_iter()
        .flat_map(|section| section.rows.into_keys())
        .collect();
    let unknown: Vec<_> = claims.rows.difference(&requirements).collect();
    assert_eq!(unknown, Vec::<&String>::new());
    let unclaimed: Vec<_> = claims
        .missing
        .keys()
        .filter(|row| !claims.rows.contains(*row))
        .collect();
    assert_eq!(unclaimed, Vec::<&String>::new(), "remarks on rows that are not claimed");
}

#[test]
fn every_attack_is_named_by_a_test() {
    let named: BTreeSet<String> = everywhere(&known()).into_iter().map(|named| named.row).collect();
    let moves = attacks().table.into_iter().flat_map(|table| table.rows);
    let unnamed: Vec<String> = moves
        .map(|[name, ..]| attack(&name))
        .filter(|name| !named.contains(name))
        .collect();
    assert_eq!(unnamed, Vec::<String>::new());
}

#[test]
fn the_page_of_requirements_is_what_words_claims_and_tests_make() {
    let (claims, named) = (claims(), everywhere(&known()));
    let sections = requirements().section;
    let rows: usize = sections.iter().map(|section| section.rows.len()).sum();
    let whole = claims.rows.len() - claims.missing.len();
    let mut page = format!(
        "# Requirements\n\n\
         <!-- Made by `make pages` from docs/requirements.toml, tests/claimed-rows.txt and the tests. Do not edit. -->\n\n\
         What Portreeve has to do, and the tests that show it: {whole} of {rows} rows are shown, {} in part, {} are open.\n\n{HOW}",
        claims.missing.len(),
        rows - claims.rows.len(),
    );
    for section in sections {
        write!(page, "\n## {}\n\n{}\n\n", section.title, section.about).unwrap();
        for (row, words) in section.rows {
            page += &wrapped("- ", &format!("**{row}** ({}) {words}.", status(&row, &claims, &named)));
            page += &tests_of(&row, &named);
        }
    }
    keep("docs/requirements.md", &page);
}

#[test]
fn the_page_of_attacks_is_what_words_and_tests_make() {
    let named = everywhere(&known());
    let mut page = "# Attacks\n\n\
        <!-- Made by `make pages` from docs/attacks.toml and the tests. Do not edit. -->\n\n\
        Hostile moves that tests make, and what comes of them. Which comment names which move is told in\n\
         [requirements.md](requirements.md).\n"
        .to_owned();
    for table in attacks().table {
        write!(page, "\n## {}\n\n{}\n\n", table.title, table.about.trim()).unwrap();
        for [name, does, outcome] in table.rows {
            page += &wrapped("- ", &format!("**{name}** {does}: *{outcome}.*"));
            page += &tests_of(&attack(&name), &named);
        }
    }
    keep("docs/attacks.md", &page);
}

const HOW: &str = "\
- A test names its rows in a comment, `// R108, R110`, that stands directly above it or opens its body. Nothing else counts.
- **shown**: the row is claimed in `tests/claimed-rows.txt`, and a claimed row without a test fails the suite.
- **shown in part**: claimed, and that file says what is missing.
- **open**: not claimed. Tests that stand below an open row show a part of it.
";

fn status(row: &str, claims: &Claims, named: &BTreeSet<Named>) -> String {
    if let Some(missing) = claims.missing.get(row) {
        return format!("shown in part: {missing}");
    }
    if claims.rows.contains(row) {
        return "shown".to_owned();
    }
    let begun = named.iter().any(|named| named.row == row);
    if begun { "open, begun" } else { "open" }.to_owned()
}

/// The tests that name a row, by file.
fn tests_of(row: &str, named: &BTreeSet<Named>) -> String {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for named in named.iter().filter(|named| named.row == row) {
        files.entry(&named.file).or_default().push(format!("`{}`", named.test));
    }
    let files = files.into_iter();
    files
        .map(|(file, tests)| wrapped("  - ", &format!("`{file}`: {}", tests.join(", "))))
        .collect()
}

/// The words a comment uses for an attack: those of servers' messages are numbered, those of processes have a letter.
fn attack(name: &str) -> String {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("Attack {name}")
    } else {
        name.to_owned()
    }
}

fn known() -> BTreeSet<String> {
    let requirements = requirements()
        .section
        .into_iter()
        .flat_map(|section| section.rows.into_keys());
    let attacks = attacks().table.into_iter().flat_map(|table| table.rows);
    requirements.chain(attacks.map(|[name, ..]| attack(&name))).collect()
}

fn requirements() -> Requirements {
    toml::from_str(&read("docs/requirements.toml")).unwrap()
}

fn attacks() -> Attacks {
    toml::from_str(&read("docs/attacks.toml")).unwrap()
}

fn claims() -> Claims {
    let text = read("tests/claimed-rows.txt");
    let (remarks, rows): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
    let remarks = remarks
        .iter()
        .filter_map(|line| line.strip_prefix("# R")?.split_once(": "));
    Claims {
        rows: rows
            .iter()
            .flat_map(|line| line.split_whitespace())
            .map(str::to_owned)
            .collect(),
        missing: remarks
            .map(|(row, what)| (format!("R{row}"), what.trim_end_matches('.').to_owned()))
            .collect(),
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}
