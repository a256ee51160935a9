//! Decision records: the index lists each, and what follows a decision cites it (`ADR 0050`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::sources::collect;
use crate::support::environment::repository;

const INDEX: &str = "docs/adr/README.md";
/// Documents that may cite a decision in place of the code.
const GUIDES: [&str; 2] = ["ARCHITECTURE.md", "docs/life-of-a-call.md"];

#[test]
fn the_index_lists_every_decision_in_order_with_its_title_and_status() {
    let records = records();
    assert!(records.len() > 30, "{} records", records.len());
    let faults = faults_of(&read(INDEX), &records);
    assert!(faults.is_empty(), "{INDEX}:\n{}", faults.join("\n"));
}

#[test]
fn every_decision_is_cited_where_it_is_followed() {
    let mut sources = Vec::new();
    for room in ["crates", "apps", "tests"] {
        collect(&repository().join(room), &mut sources);
    }
    sources.extend(GUIDES.map(|path| (PathBuf::from(path), read(path))));
    let uncited: Vec<String> = records()
        .into_keys()
        .filter(|number| !sources.iter().any(|(_, text)| text.contains(&format!("ADR {number}"))))
        .collect();
    assert!(
        uncited.is_empty(),
        "cite each as `ADR NNNN` in a comment of the code that follows it (crates, apps, tests) or in {}: {}",
        GUIDES.join(" or "),
        uncited.join(", ")
    );
}

#[test]
fn every_citation_is_of_a_decision_there_is() {
    let (records, mut sources) = (records(), Vec::new());
    for room in ["crates", "apps", "tests"] {
        collect(&repository().join(room), &mut sources);
    }
    sources.retain(|(path, _)| !path.ends_with("architecture/decisions.rs"));
    sources.extend(GUIDES.map(|path| (PathBuf::from(path), read(path))));
    let mut faults = Vec::new();
    for (path, text) in &sources {
        let cited = text.split("ADR ").skip(1).map(|rest| rest.get(..4).unwrap_or(rest));
        let numbers = cited.filter(|number| number.starts_with(|c: char| c.is_ascii_digit()));
        let wrong = numbers.filter(|number| !records.contains_key(*number));
        faults.extend(wrong.map(|number| format!("{}: ADR {number}", path.display())));
    }
    assert!(faults.is_empty(), "citations are `ADR NNNN`:\n{}", faults.join("\n"));
}

#[test]
fn a_missing_a_foreign_and_a_wrong_entry_are_told_apart() {
    let record = |number: &str, title: &str| {
        let file = format!("{number}-x.md");
        (
            number.to_owned(),
            Record {
                file,
                title: title.to_owned(),
                successor: None,
            },
        )
    };
    let records: BTreeMap<_, _> = [record("0001", "One"), record("0002", "Two")].into();
    let one = "- [0001](0001-x.md) One. *Accepted.* It is so.\n";
    let good = format!("{one}- [0002](0002-x.md) Two. *Superseded by 0001.* It\n  is so.\n");
    assert_eq!(faults_of(&good, &records), Vec::<String>::new());
    for (index, fault) in [
        (one.to_owned(), "0002 is missing"),
        (
            format!("{good}- [0003](0003-x.md) Three. *Accepted.* No.\n"),
            "0003 has no file",
        ),
        (good.replace("One.", "Won."), "0001 must begin with"),
        (good.replace("Accepted", "Maybe"), "0001 has a status that is none"),
        (good.replace("by 0001", "by 0009"), "0002 has a status that is none"),
        (good.replace(" It is so.", ""), "0001 does not say what it means"),
    ] {
        let faults = faults_of(&index, &records);
        assert!(faults.len() == 1 && faults[0].contains(fault), "{fault}: {faults:?}");
    }
    let turned: String = good.lines().rev().map(|line| format!("{line}\n")).collect();
    assert!(faults_of(&turned, &records).contains(&"the entries are not in order".to_owned()));
    let gap: BTreeMap<_, _> = [record("0001", "One"), record("0004", "Four")].into();
    let index = format!("{one}- [0004](0004-x.md) Four. *Accepted.* Yes.\n");
    assert_eq!(
        faults_of(&index, &gap),
        ["say why the numbers `0002 to 0003` are not used, in these words"]
    );
}

struct Record {
    file: String,
    title: String,
    /// The number of the decision that took its place.
    successor: Option<String>,
}

fn faults_of(index: &str, records: &BTreeMap<String, Record>) -> Vec<String> {
    let entries = entries(index);
    let mut faults = Vec::new();
    for (number, record) in records {
        let Some((_, entry)) = entries.iter().find(|(listed, _)| listed == number) else {
            let Record { file, title, .. } = record;
            faults.push(format!(
                "{number} is missing; add `- [{number}]({file}) {title}. *Accepted.* …`"
            ));
            continue;
        };
        let start = format!("({}) {}. *", record.file, record.title);
        let Some((status, meaning)) = entry.strip_prefix(&start).and_then(|rest| rest.split_once(".*")) else {
            faults.push(format!("{number} must begin with `- [{number}]{start}`"));
            continue;
        };
        if !is_status(status, record, records) {
            faults.push(format!(
                "{number} has a status that is none, or not what its file says: `{status}`"
            ));
        }
        if meaning.trim().is_empty() {
            faults.push(format!("{number} does not say what it means"));
        }
    }
    let foreign = entries.iter().filter(|(number, _)| !records.contains_key(number));
    faults.extend(foreign.map(|(number, _)| format!("{number} has no file")));
    if !entries.is_sorted_by(|(one, _), (next, _)| one < next) {
        faults.push("the entries are not in order".to_owned());
    }
    faults.extend(
        gaps(records)
            .into_iter()
            .filter(|gap| !index.contains(gap))
            .map(|gap| format!("say why the numbers `{gap}` are not used, in these words")),
    );
    faults
}

/// `Accepted`, `Accepted, in part superseded by NNNN` or `Superseded by NNNN`.
fn is_status(status: &str, record: &Record, records: &BTreeMap<String, Record>) -> bool {
    if let Some(successor) = &record.successor {
        return status == format!("Superseded by {successor}");
    }
    let later = status
        .strip_prefix("Superseded by ")
        .or_else(|| status.strip_prefix("Accepted, in part superseded by "));
    status == "Accepted" || later.is_some_and(|number| records.contains_key(number))
}

/// Number and text of each entry, its lines joined.
fn entries(index: &str) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    for line in index.lines() {
        if let Some((number, rest)) = line.strip_prefix("- [").and_then(|line| line.split_once(']')) {
            entries.push((number.to_owned(), rest.to_owned()));
        } else if let (Some(more), Some((_, entry))) = (line.strip_prefix("  "), entries.last_mut()) {
            *entry = format!("{entry} {}", more.trim());
        }
    }
    entries
}

/// Numbers between the first and the last that no decision has.
fn gaps(records: &BTreeMap<String, Record>) -> Vec<String> {
    let numbers: Vec<u32> = records.keys().map(|number| number.parse().unwrap()).collect();
    let pairs = numbers.windows(2).filter(|pair| pair[1] > pair[0] + 1);
    pairs
        .map(|pair| format!("{:04} to {:04}", pair[0] + 1, pair[1] - 1))
        .collect()
}

/// Every decision by its number.
fn records() -> BTreeMap<String, Record> {
    let entries = std::fs::read_dir(repository().join("docs/adr")).unwrap();
    let files = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    files.filter(|file| file != "README.md").map(record).collect()
}

fn record(file: String) -> (String, Record) {
    let number = file.split('-').next().unwrap_or_default().to_owned();
    let text = read(&format!("docs/adr/{file}"));
    let heading = format!("# {}. ", number.trim_start_matches('0'));
    let title = text.lines().next().and_then(|line| line.strip_prefix(&heading));
    let title = title
        .unwrap_or_else(|| panic!("docs/adr/{file} does not begin with `{heading}`"))
        .to_owned();
    let successor = text
        .lines()
        .find_map(|line| line.strip_prefix("Superseded by ")?.strip_suffix('.'));
    let successor = successor.map(|successor| format!("{:04}", successor.parse::<u32>().unwrap()));
    (number, Record { file, title, successor })
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}
