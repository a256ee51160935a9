//! How deep and how long a policy is, looked at before it is parsed: the parser goes down into it level by level, and a stack
//! that ends takes the whole process with it.

/// Brackets in brackets. People write five.
const DEEPEST: usize = 24;
/// Operators in one policy: the parser hangs each below the one before it. Sets (`[…].contains(…)`) say more with one.
const MOST_OPERATORS: usize = 200;
/// Members of members (`a.b["c"]`).
const LONGEST_PATH: usize = 32;

/// Where the text goes deeper or on longer than a policy may.
pub(super) fn overgrown(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut operators, mut path) = (0, 0_usize, 0, 0);
    let mut word_before = false;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let length = match rest {
            [b'"', ..] => string(rest),
            [b'/', b'/', ..] => rest.iter().take_while(|byte| **byte != b'\n').count(),
            [b'&', b'&', ..] | [b'|', b'|', ..] => 2,
            _ => 1,
        };
        match rest {
            [b'/', b'/', ..] => {}
            [b'.', ..] => path += 1,
            [b'(' | b'{', ..] => depth += 1,
            [b'[', ..] => (depth, path) = (depth + 1, path + 1),
            [b')' | b']' | b'}', ..] => depth = depth.saturating_sub(1),
            [b';', ..] => (operators, path) = (if depth == 0 { 0 } else { operators }, 0),
            [b'&', b'&', ..] | [b'|', b'|', ..] | [b'+' | b'-' | b'*', ..] => (operators, path) = (operators + 1, 0),
            [b',' | b'=' | b'<' | b'>', ..] => path = 0,
            [b'i', b'f', after, ..] if !word_before && !is_word(*after) => operators += 1,
            _ => {}
        }
        if depth > DEEPEST || operators > MOST_OPERATORS || path > LONGEST_PATH {
            return Some(at);
        }
        word_before = rest.first().is_some_and(|byte| is_word(*byte));
        at += length;
    }
    None
}

/// How long a string is, with its quotes; one that does not end goes to the end.
fn string(rest: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.iter().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
