//! How far an armoured key goes behind its first line.

use memchr::memmem;

/// Where END lines are, found in one pass however many BEGIN lines ask.
pub(super) struct Ends {
    finder: memmem::Finder<'static>,
    /// The first END at or behind the place that was asked last; `None` if there is none.
    next: Next,
}

enum Next {
    Unknown,
    At(usize),
    Nowhere,
}

impl Ends {
    pub(super) fn new() -> Self {
        Self {
            finder: memmem::Finder::new(b"-----END"),
            next: Next::Unknown,
        }
    }

    /// The end of the block whose first line ends at `from`: behind its END line, or where base64 stops. `None` if no
    /// key follows: a first line alone gives nothing away.
    pub(super) fn of_block(&mut self, text: &[u8], from: usize) -> Option<usize> {
        let run = run_end(text, from);
        let marker = self.after(text, from).filter(|end| end - from <= LONGEST);
        let Some(marker) = marker else { return run };
        let body = text.get(from..marker)?;
        let word = body.split(|byte| !is_base64(*byte)).map(<[u8]>::len).max()?;
        if word < SHORTEST_LINE {
            return run;
        }
        let line = text.get(marker + 8..(marker + 72).min(text.len())).unwrap_or_default();
        let close = memmem::find(line, b"-----").map_or(8, |dashes| 8 + dashes + 5);
        Some((marker + close).max(run.unwrap_or_default()))
    }

    fn after(&mut self, text: &[u8], from: usize) -> Option<usize> {
        let known = match self.next {
            Next::Nowhere => return None,
            Next::At(end) => end >= from,
            Next::Unknown => false,
        };
        if !known {
            let found = self.finder.find(text.get(from..)?);
            self.next = found.map_or(Next::Nowhere, |found| Next::At(from + found));
        }
        match self.next {
            Next::At(end) => Some(end),
            Next::Unknown | Next::Nowhere => None,
        }
    }
}

/// The end of the lines of base64 that follow, headers skipped; `None` if there are none.
fn run_end(text: &[u8], from: usize) -> Option<usize> {
    let mut end = None;
    let mut at = from;
    loop {
        at += text
            .get(at..)?
            .iter()
            .take(64)
            .take_while(|byte| is_between(**byte))
            .count();
        let length = text.get(at..)?.iter().take_while(|byte| is_base64(**byte)).count();
        let stop = at + length;
        match (end, length) {
            (_, SHORTEST_LINE..) => end = Some(stop),
            // The last line of a key may be short.
            (Some(_), 2..) if ends_line(text, stop) => return Some(stop),
            (Some(_), _) => return end,
            (None, _) => {
                // `Proc-Type:` and the like stand between the first line and the key.
                let line = text.get(at..(at + 96).min(text.len()))?;
                let next = line
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .filter(|_| line.contains(&b':'))?;
                at += next;
                if at > from + 512 {
                    return None;
                }
                continue;
            }
        }
        at = stop;
    }
}

fn ends_line(text: &[u8], at: usize) -> bool {
    text.get(at)
        .is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'\\' | b'=' | b'-'))
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Line ends and what string literals in code put around them.
fn is_between(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b' ' | b'\t' | b'\\' | b'"' | b'\'' | b',')
}

/// A line of a key is at least as long.
const SHORTEST_LINE: usize = 32;

/// Behind BEGIN; an RSA key of 16 384 bits fits.
const LONGEST: usize = 16 << 10;
