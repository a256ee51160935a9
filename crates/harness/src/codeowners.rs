//! Whether every file of a harness has an owner in the repository's CODEOWNERS: who reviews a change of what an agent may
//! hand on.

use std::path::{Path, PathBuf};

/// What CODEOWNERS says of the files of a harness.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ownership {
    /// No repository, or none with such a file.
    NoFile,
    /// These have no owner, as paths from the repository's root.
    Unowned(Vec<String>),
}

/// Looks the files up in the CODEOWNERS of the repository that holds them.
pub(crate) fn check(files: &[PathBuf], harness: &Path) -> Ownership {
    let Some(repository) = harness.ancestors().find(|path| path.join(".git").exists()) else {
        return Ownership::NoFile;
    };
    let places = [
        ".github/CODEOWNERS",
        "CODEOWNERS",
        "docs/CODEOWNERS",
        ".gitlab/CODEOWNERS",
    ];
    let text = places
        .iter()
        .find_map(|place| std::fs::read_to_string(repository.join(place)).ok());
    let Some(text) = text else { return Ownership::NoFile };
    let rules = rules(&text);
    let unowned = files
        .iter()
        .filter_map(|path| path.strip_prefix(repository).ok()?.to_str().map(str::to_owned))
        .filter(|path| !is_owned(&rules, path));
    Ownership::Unowned(unowned.collect())
}

/// A pattern, and whether it names anybody.
struct Rule {
    pattern: String,
    owned: bool,
}

fn rules(text: &str) -> Vec<Rule> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('['))
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            Some(Rule {
                pattern: words.next()?.to_owned(),
                owned: words.next().is_some(),
            })
        })
        .collect()
}

/// The last pattern that matches decides.
fn is_owned(rules: &[Rule], path: &str) -> bool {
    let last = rules.iter().rev().find(|rule| matches(&rule.pattern, path));
    last.is_some_and(|rule| rule.owned)
}

/// Patterns as in `.gitignore`: a leading `/` anchors, so does one inside; a directory stands for all below it.
fn matches(pattern: &str, path: &str) -> bool {
    let directory = pattern.ends_with('/');
    let bare = pattern.trim_matches('/');
    let anchored = pattern.starts_with('/') || bare.contains('/');
    let wanted: Vec<&str> = bare.split('/').collect();
    let parts: Vec<&str> = path.split('/').collect();
    let starts = if anchored { 1 } else { parts.len() };
    (0..starts).any(|start| {
        let rest = parts.get(start..).unwrap_or_default();
        (1..=rest.len()).any(|length| {
            // A shorter match is a directory above the file; `dir/*` does not reach below that.
            let whole = length == rest.len();
            let below = !whole && wanted.last() != Some(&"*");
            (below || (whole && !directory)) && parts_match(&wanted, rest.get(..length).unwrap_or_default())
        })
    })
}

fn parts_match(wanted: &[&str], parts: &[&str]) -> bool {
    match (wanted.split_first(), parts.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => {
            (0..=parts.len()).any(|skip| parts_match(rest, parts.get(skip..).unwrap_or_default()))
        }
        (Some((first, wanted)), Some((part, parts))) => name_matches(first, part) && parts_match(wanted, parts),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// `*` stands for any characters but `/`, `?` for one.
fn name_matches(pattern: &str, name: &str) -> bool {
    let mut wanted = pattern.chars();
    match wanted.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = wanted.as_str();
            name.char_indices()
                .map(|(at, _)| at)
                .chain([name.len()])
                .any(|at| name.get(at..).is_some_and(|tail| name_matches(rest, tail)))
        }
        Some(letter) => {
            let mut letters = name.chars();
            let first = letters.next();
            first.is_some_and(|first| letter == '?' || first == letter)
                && name_matches(wanted.as_str(), letters.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_people_expect() {
        for (pattern, path, fits) in [
            ("*", "a/b/harness.toml", true),
            ("harness.toml", "a/b/harness.toml", true),
            ("/harness.toml", "a/harness.toml", false),
            ("/agents/", "agents/schemas/x.json", true),
            ("agents/", "deep/agents/x", true),
            ("/agents/*", "agents/x", true),
            ("/agents/*", "agents/schemas/x", false),
            ("/agents/**", "agents/schemas/x", true),
            ("*.json", "agents/schemas/x.json", true),
            ("schemas/*.json", "schemas/x.json", true),
            ("schemas/*.json", "agents/schemas/x.json", false),
            ("**/schemas", "agents/schemas/x.json", true),
            ("hooks/", "hooks", false),
        ] {
            assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
        }
    }

    // R248
    #[test]
    fn the_last_match_decides_and_a_line_without_owner_owns_nothing() {
        let rules = rules("* @all # everybody\n/agents/schemas/ @schemas\n/agents/schemas/draft.json\n");
        assert!(is_owned(&rules, "agents/schemas/x.json"));
        assert!(!is_owned(&rules, "agents/schemas/draft.json"));
        assert!(!is_owned(&[], "x"));
    }
}
