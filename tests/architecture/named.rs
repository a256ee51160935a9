//! Which test names which row. A row is named by a comment that holds row names and nothing else, or a colon and a remark
//! behind them: `// R108, R110`, `// Attack 34`, `// E8: the proxy`. The comment stands directly above the test, or opens its
//! body.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::environment::repository;

/// A row, and a test that names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub row: String,
    pub file: String,
    pub test: String,
}

/// Every row that a test of this repository names. Panics where a comment names a row that does not exist or belongs to no
/// test.
pub(super) fn everywhere(known: &BTreeSet<String>) -> BTreeSet<Named> {
    let (mut named, mut faults) = (BTreeSet::new(), Vec::new());
    for room in ["crates", "apps", "tests"] {
        walk(&repository().join(room), &mut |path, text| {
            let file = path.strip_prefix(repository()).unwrap().display().to_string();
            for found in in_file(text, known) {
                match found {
                    Ok((row, test)) => drop(named.insert(Named {
                        row,
                        test,
                        file: file.clone(),
                    })),
                    Err(fault) => faults.push(format!("{file}:{fault}")),
                }
            }
        });
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    named
}

/// Row and test, or a line and what is wrong there.
fn in_file(text: &str, known: &BTreeSet<String>) -> Vec<Result<(String, String), String>> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let rows = line.strip_prefix("// ").map(|comment| rows_of(comment, known));
        let rows = match rows {
            None | Some(Ok(None)) => continue,
            Some(Ok(Some(rows))) => rows,
            Some(Err(fault)) => {
                found.push(Err(format!("{}: {fault}", index + 1)));
                continue;
            }
        };
        match test_at(&lines, index) {
            Some(test) => found.extend(rows.into_iter().map(|row| Ok((row, test.clone())))),
            None => found.push(Err(format!(
                "{}: `{line}` stands neither above a test nor first in one",
                index + 1
            ))),
        }
    }
    found
}

/// The rows a comment names, if it is one that names rows. They are parted by commas, or by spaces alone.
fn rows_of(comment: &str, known: &BTreeSet<String>) -> Result<Option<Vec<String>>, String> {
    let names = comment.split(':').next().unwrap_or_default();
    let first = names.split(',').next().unwrap_or_default().trim();
    let leads = first.split(' ').next().unwrap_or_default();
    if !(known.contains(leads) || is_requirement(leads) || is_attack(first)) {
        return Ok(None);
    }
    let mut rows = Vec::new();
    for part in names.split(',').map(str::trim) {
        let words: Vec<&str> = if known.contains(part) {
            vec![part]
        } else {
            part.split(' ').collect()
        };
        if let Some(unknown) = words.iter().find(|word| !known.contains(**word)) {
            return Err(format!(
                "`{unknown}` is no row of docs/requirements.toml or docs/attacks.toml"
            ));
        }
        rows.extend(words.into_iter().map(str::to_owned));
    }
    Ok(Some(rows))
}

fn is_requirement(word: &str) -> bool {
    let number = word.strip_prefix('R').unwrap_or_default();
    number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_attack(name: &str) -> bool {
    let number = name.strip_prefix("Attack ").unwrap_or_default();
    number.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
}

/// The test that a comment belongs to: the one whose body it opens, else the one right below.
fn test_at(lines: &[&str], comment: usize) -> Option<String> {
    let is_comment = |index: &usize| lines[*index].starts_with("//");
    let above = (0..comment).rev().find(|index| !is_comment(index));
    if let Some(opening) = above.filter(|index| lines[*index].ends_with('{')) {
        let mut nearest = (0..=opening).rev().take(12);
        let signature = nearest.find(|index| function(lines[*index]).is_some());
        // A signature of several lines ends with a bracket of its own.
        let ends_here = |start: &usize| *start == opening || lines[opening].starts_with(')');
        if let Some(test) = signature.filter(ends_here).filter(|index| is_test(lines, *index)) {
            return function(lines[test]).map(str::to_owned);
        }
    }
    let below = (comment..lines.len()).find(|index| !is_comment(index) && !lines[*index].starts_with('#'))?;
    let name = function(lines[below])?;
    is_test(lines, below).then(|| name.to_owned())
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let name = line.strip_prefix("fn ")?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    name.get(..end)
}

/// Whether `#[test]` or the like stands above a function, or it is an entry of `on_stage!`, which makes tests.
fn is_test(lines: &[&str], signature: usize) -> bool {
    let is_entry = [", Root, ", ", Ordinary, "]
        .iter()
        .any(|cast| lines[signature].contains(cast));
    let attributes = lines[..signature]
        .iter()
        .rev()
        .take_while(|line| line.starts_with(['#', '/']));
    is_entry
        || attributes
            .into_iter()
            .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

fn walk(directory: &Path, visit: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Result<(String, String), String>> {
        let known = ["R001", "R002", "Attack 3", "E8"].map(str::to_owned).into();
        in_file(text, &known)
    }

    fn names(row: &str, test: &str) -> Result<(String, String), String> {
        Ok((row.to_owned(), test.to_owned()))
    }

    #[test]
    fn a_comment_belongs_to_the_test_below_it_or_the_one_it_opens() {
        assert_eq!(
            found("// R001, E8\n#[test]\nfn a() {\n    // Attack 3: and why\n    x();\n}\n"),
            [names("R001", "a"), names("E8", "a"), names("Attack 3", "a")]
        );
        assert_eq!(
            found("#[tokio::test(flavor = \"x\")]\nasync fn b(\n    n: u8,\n) {\n// R002\n"),
            [names("R002", "b")]
        );
        assert_eq!(
            found("on_stage! {\n    // E8\n    fn c, Root, act;\n"),
            [names("E8", "c")]
        );
    }

    #[test]
    fn a_comment_on_anything_else_is_a_fault() {
        for text in [
            "// R001\nfn helper() {}\n",
            "#[test]\nfn a() {\n    x();\n    // R001\n    y();\n}\n",
            "// R999\n#[test]\nfn a() {}\n",
            "// R001 and more\n#[test]\nfn a() {}\n",
            "// Attack 4\n#[test]\nfn a() {}\n",
        ] {
            assert!(matches!(found(text)[..], [Err(_)]), "{text}");
        }
    }

    #[test]
    fn other_comments_name_nothing() {
        assert_eq!(
            found("//! R001\nlet x = \"R002\"; // R001\n// see R001\n// Attackers wait\n// E9\n"),
            []
        );
    }
}
