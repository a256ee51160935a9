//! Finds the word somebody meant.

/// The one of `known` that `word` was probably meant to be.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().take(LONGEST + 1).count();
    let reach = 1 + length / 4;
    // Lengths tell most words apart, and bound the work: a word may come from anybody.
    let is_alike = |candidate: &&str| {
        let other = candidate.chars().take(2 * LONGEST).count();
        length <= LONGEST && length.abs_diff(other) <= reach
    };
    let near = known
        .into_iter()
        .filter(is_alike)
        .map(|candidate| (distance(word, candidate), candidate));
    near.filter(|(far, _)| *far <= reach)
        .min()
        .map(|(_, candidate)| candidate)
}

/// A longer word is nobody's slip of the pen.
const LONGEST: usize = 64;

/// Edit distance: insertions, removals, replacements; `-` and `_` count as one letter.
fn distance(a: &str, b: &str) -> usize {
    let fold = |c: char| if c == '-' { '_' } else { c.to_ascii_lowercase() };
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, left) in a.chars().map(fold).enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(b.chars().map(fold)) {
            let replaced = diagonal + usize::from(left != right);
            diagonal = *cell;
            *cell = replaced.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_finds_its_word_and_another_word_does_not() {
        assert_eq!(nearest("retentoin", ["origin", "retention"]), Some("retention"));
        assert_eq!(
            nearest("allowed-hosts", ["allowed_hosts", "allowed_origins"]),
            Some("allowed_hosts")
        );
        assert_eq!(nearest("url", ["risk", "trust"]), None);
        let long = "x".repeat(65);
        assert_eq!(nearest(&long, [long.as_str()]), None, "no work for a long word");
        assert_eq!(nearest("path", ["path".repeat(1000).as_str(), "paths"]), Some("paths"));
        assert_eq!(
            (distance("", "abc"), distance("abc", ""), distance("abc", "abd")),
            (3, 3, 1)
        );
    }
}
