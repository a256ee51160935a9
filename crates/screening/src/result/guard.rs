//! Size, depth and balance of raw bytes: one loop over a table, no tree, no recursion.

use vocabulary::json::scanned::{Named, Scanned};
use vocabulary::json::{Limits, Value, plain_length};

use super::{Guards, Said};

/// Which guard was broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Breach {
    TooLarge,
    TooDeep,
    /// Not UTF-8, a bracket or a quote without its partner, or nothing at all.
    Malformed,
}

/// What the loop saw on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    /// `"isError": true` stands at the top level.
    pub(super) is_error: bool,
    /// What `resultType` at the top level says.
    pub(super) result_type: Said,
}

/// A member of the top level that is looked at on the way.
enum Told {
    IsError(bool),
    ResultType(Said),
}

/// The same of bytes that were read through before: nothing is left to do but to compare.
pub(super) fn judge(scanned: &Scanned, guards: &Guards) -> Result<Seen, Breach> {
    if scanned.bytes().len() > guards.max_bytes {
        return Err(Breach::TooLarge);
    }
    if scanned.depth() > guards.max_depth {
        return Err(Breach::TooDeep);
    }
    let is_error = match scanned.member("isError") {
        Named::Never => false,
        Named::Once(raw) => raw == b"true",
        Named::Again => return Err(Breach::Malformed),
    };
    let result_type = match scanned.member("resultType") {
        Named::Never => Said::Nothing,
        Named::Once(b"\"complete\"") => Said::Complete,
        Named::Once(_) => Said::Otherwise,
        Named::Again => return Err(Breach::Malformed),
    };
    Ok(Seen { is_error, result_type })
}

/// Goes once over `bytes`. Memory grows by one bit for each level of depth, no more than the guard allows.
pub(super) fn scan(bytes: &[u8], guards: &Guards) -> Result<Seen, Breach> {
    if bytes.len() > guards.max_bytes {
        return Err(Breach::TooLarge);
    }
    if std::str::from_utf8(bytes).is_err() {
        return Err(Breach::Malformed);
    }
    let mut open = Brackets::default();
    let mut seen = Seen {
        is_error: false,
        result_type: Said::Nothing,
    };
    let (mut values, mut said) = (false, false);
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        let class = CLASSES.get(usize::from(*byte)).copied().unwrap_or(Class::Scalar);
        if class == Class::Between {
            continue;
        }
        if let Class::Close(bracket) = class {
            open.close(bracket)?;
            continue;
        }
        // Whatever begins here stands one level below what is open around it.
        if open.depth >= guards.max_depth {
            return Err(Breach::TooDeep);
        }
        // Two documents one after the other are not a document.
        if open.depth == 0 && std::mem::replace(&mut values, true) && class != Class::Scalar {
            return Err(Breach::Malformed);
        }
        match class {
            Class::Open(bracket) => open.open(bracket),
            Class::Quote => {
                let start = at;
                at = end_of_string(bytes, at)?;
                if open.depth == 1 {
                    let name = bytes.get(start..at - 1).unwrap_or_default();
                    // Said twice, one reader takes the first and another the last.
                    let twice = match told(name, bytes.get(at..).unwrap_or_default()) {
                        None => false,
                        Some(Told::IsError(is_error)) => {
                            seen.is_error = is_error;
                            std::mem::replace(&mut said, true)
                        }
                        Some(Told::ResultType(said)) => std::mem::replace(&mut seen.result_type, said) != Said::Nothing,
                    };
                    if twice {
                        return Err(Breach::Malformed);
                    }
                }
            }
            Class::Scalar | Class::Between | Class::Close(_) => {}
        }
    }
    if open.depth == 0 && values {
        Ok(seen)
    } else {
        Err(Breach::Malformed)
    }
}

/// What a byte means outside of strings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// White space, `,` and `:`.
    Between,
    /// A part of a number or a word, or nothing JSON knows.
    Scalar,
    Quote,
    Open(Bracket),
    Close(Bracket),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bracket {
    Square,
    Curly,
}

static CLASSES: [Class; 256] = classes();

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated when compiling; each index is below 256"
)]
const fn classes() -> [Class; 256] {
    let mut table = [Class::Scalar; 256];
    table[b' ' as usize] = Class::Between;
    table[b'\t' as usize] = Class::Between;
    table[b'\n' as usize] = Class::Between;
    table[b'\r' as usize] = Class::Between;
    table[b',' as usize] = Class::Between;
    table[b':' as usize] = Class::Between;
    table[b'"' as usize] = Class::Quote;
    table[b'[' as usize] = Class::Open(Bracket::Square);
    table[b'{' as usize] = Class::Open(Bracket::Curly);
    table[b']' as usize] = Class::Close(Bracket::Square);
    table[b'}' as usize] = Class::Close(Bracket::Curly);
    table
}

/// The brackets that are open, one bit each.
#[derive(Default)]
struct Brackets {
    depth: usize,
    /// Full words below the top one.
    below: Vec<u64>,
    top: u64,
}

impl Brackets {
    fn open(&mut self, bracket: Bracket) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.below.push(self.top);
        }
        self.top = self.top << 1 | u64::from(bracket == Bracket::Curly);
        self.depth += 1;
    }

    fn close(&mut self, bracket: Bracket) -> Result<(), Breach> {
        if self.depth == 0 || self.top & 1 != u64::from(bracket == Bracket::Curly) {
            return Err(Breach::Malformed);
        }
        self.depth -= 1;
        self.top >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.top = self.below.pop().unwrap_or_default();
        }
        Ok(())
    }
}

/// The place behind the closing quote of a string that begins at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> Result<usize, Breach> {
    loop {
        at += plain_length(bytes.get(at..).unwrap_or_default());
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return Err(Breach::Malformed),
        }
    }
}

/// Whether a string at the top level, and what follows it, is a member that is looked at, and what it says.
fn told(name: &[u8], rest: &[u8]) -> Option<Told> {
    const LONGEST_SPELLING: usize = "resultType".len() * "\\u0000".len();
    if name.len() > LONGEST_SPELLING {
        return None;
    }
    let is = |word: &str| name == word.as_bytes() || (name.contains(&b'\\') && decoded(name).as_deref() == Some(word));
    let value = || Some(rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start());
    if is("isError") {
        Some(Told::IsError(value()?.starts_with(b"true")))
    } else if is("resultType") {
        let complete = value()?.starts_with(b"\"complete\"");
        Some(Told::ResultType(if complete {
            Said::Complete
        } else {
            Said::Otherwise
        }))
    } else {
        None
    }
}

fn decoded(name: &[u8]) -> Option<String> {
    let limits = Limits {
        max_bytes: 64,
        max_depth: 1,
        max_string: 64,
        max_items: 0,
    };
    let literal = [b"\"", name, b"\""].concat();
    Value::parse(&literal, &limits)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
}
