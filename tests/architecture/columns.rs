//! How wide a line of a document may be, so that it can be read and compared side by side.

use std::path::{Path, PathBuf};

use crate::support::environment::{Finished, command, repository};

const WIDEST: usize = 140;

#[test]
fn no_line_of_a_document_is_too_wide() {
    let documents = documents();
    assert!(documents.len() > 50, "{} documents", documents.len());
    let faults: Vec<String> = documents
        .iter()
        .flat_map(|path| {
            let text = std::fs::read_to_string(repository().join(path)).unwrap();
            let wide: Vec<String> = too_wide(&text)
                .map(|line| format!("{}:{line}", path.display()))
                .collect();
            wide
        })
        .collect();
    assert!(
        faults.is_empty(),
        "lines of more than {WIDEST} columns; break them, and write a list where a table is too wide:\n{}",
        faults.join("\n")
    );
}

#[test]
fn width_counts_characters_and_starts_at_one() {
    let text = format!("{}\n{}\n", "é".repeat(WIDEST), "é".repeat(WIDEST + 1));
    assert_eq!(too_wide(&text).collect::<Vec<_>>(), [2]);
}

/// The numbers of the lines that are too wide.
fn too_wide(text: &str) -> impl Iterator<Item = usize> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| line.chars().count() > WIDEST)
        .map(|(index, _)| index + 1)
}

/// Every Markdown file that is tracked, or that would be; without a repository, every one that is here.
fn documents() -> Vec<PathBuf> {
    let listed = Finished::of(command("git").arg("-C").arg(repository()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "*.md",
    ]));
    if listed.code == Some(0) {
        let paths = listed.stdout.lines().map(PathBuf::from);
        return paths.filter(|path| repository().join(path).exists()).collect();
    }
    let mut found = Vec::new();
    walk(&repository(), &mut found);
    found
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}
