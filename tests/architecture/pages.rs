//! Pages that are made from the tree and kept in it: compared by the tests, written again by `make pages`.

use crate::support::environment::{repository, writes_pages};

/// Columns after which made text is broken.
const WIDTH: usize = 136;

/// Compares a page with what it should be, or writes it where the caller asked for that.
pub(super) fn keep(path: &str, expected: &str) {
    let file = repository().join(path);
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    if found == expected {
        return;
    }
    if writes_pages() {
        std::fs::write(&file, expected).unwrap();
        return;
    }
    let differing = found
        .lines()
        .zip(expected.lines())
        .position(|(is, should)| is != should);
    let line = differing.unwrap_or_else(|| found.lines().count().min(expected.lines().count()));
    panic!(
        "{path} is not what the tree says, from line {} on; run `make pages`.\n  is:     {}\n  should: {}",
        line + 1,
        found.lines().nth(line).unwrap_or("(the end)"),
        expected.lines().nth(line).unwrap_or("(the end)"),
    );
}

/// Text in lines that fit: the first one behind `first`, the others as far in.
pub(super) fn wrapped(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.chars().count());
    let (mut lines, mut line) = (String::new(), first.to_owned());
    let mut fresh = true;
    for word in text.split_whitespace() {
        if !fresh && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = indent.clone();
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(word);
        fresh = false;
    }
    lines + &line + "\n"
}

#[test]
fn long_text_is_broken_between_words_and_set_in() {
    let word = "w".repeat(60);
    let text = wrapped("- ", &format!("{word} {word} {word}"));
    assert_eq!(text, format!("- {word} {word}\n  {word}\n"));
    assert_eq!(wrapped("- ", "short"), "- short\n");
}
