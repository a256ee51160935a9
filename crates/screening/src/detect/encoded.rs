//! Runs of base64, hex and percent escapes, decoded once. A long run is taken in windows that overlap, to its end: each
//! character is decoded in at most six ways and in at most two windows, so the cost grows with the text and no faster.

use std::ops::Range;

/// Something readable that was encoded.
pub(super) struct Stretch<'a> {
    pub(super) text: &'a [u8],
    /// How many bytes at its start stand before the run and were never encoded.
    pub(super) context: usize,
}

/// Gives each readable stretch that a run of `text` decodes to, with the place of the run.
pub(super) fn each(text: &[u8], mut give: impl FnMut(Range<usize>, Stretch<'_>)) {
    base64_runs(text, |run| {
        for window in windows(&run) {
            let bytes = text.get(window).unwrap_or_default();
            decode_run(bytes, run.len(), |decoded| {
                readable(decoded, 0, |stretch| give(run.clone(), stretch))
            });
        }
    });
    percent_runs(text, |run| {
        for window in windows(&run) {
            // The name of a parameter stands before its value, and rules may need it.
            let before = text
                .get(run.start.saturating_sub(CONTEXT)..run.start)
                .filter(|_| window.start == run.start)
                .unwrap_or_default();
            let decoded = [before, &percent(text.get(window).unwrap_or_default())].concat();
            readable(&decoded, before.len(), |stretch| give(run.clone(), stretch));
        }
    });
}

/// The windows of a run: most have one.
fn windows(run: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = run.end;
    let more = run.len().saturating_sub(WINDOW).div_ceil(STRIDE);
    let start = run.start;
    (0..=more).map(move |index| {
        let from = start + index * STRIDE;
        from..(from + WINDOW).min(end)
    })
}

/// Gives the start of each run that [`each`] could find something in, also if the text is not decoded yet and the
/// letter of an escape (`\n`) stands before a run like a part of it.
pub(super) fn hints(text: &[u8], mut give: impl FnMut(usize)) {
    runs(
        text,
        UNPADDED,
        |byte| is_base64(*byte),
        |start| {
            let end = base64_end(text, start);
            let run = text.get(start..end).unwrap_or_default();
            let goes_on = run.len() >= WRAPPED && text.get(end) == Some(&b'\\');
            if run.len() >= SHORTEST && (goes_on || may_be_readable(run)) {
                give(start);
            }
            end
        },
    );
    percent_runs(text, |run| give(run.start));
}

fn may_be_readable(run: &[u8]) -> bool {
    let mut pairs = false;
    hex_runs(run, |digits| pairs |= has_printable_pairs(digits));
    pairs || printable_ways(run, run.len().saturating_sub(1)) != 0
}

/// Tries every way to read a run: a word before it may have shifted where four characters begin. Most runs are names
/// and hashes; whether anything printable can come out is seen without decoding.
/// `length` is that of the whole run, of which this may be a window.
fn decode_run(run: &[u8], length: usize, mut give: impl FnMut(&[u8])) {
    let ways = printable_ways(run, length);
    for skip in (0..4).filter(|skip| ways >> skip & 1 == 1) {
        give(&base64(run.iter().copied().filter(|byte| is_base64(*byte)).skip(skip)));
    }
    hex_runs(run, |digits| {
        if has_printable_pairs(digits) {
            give(&hex(digits));
        }
    });
}

/// Gives each run of hex digits, from its first digit and from its second.
fn hex_runs(run: &[u8], mut give: impl FnMut(&[u8])) {
    runs(run, SHORTEST, u8::is_ascii_hexdigit, |start| {
        let digits = run.get(start..).unwrap_or_default();
        let length = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        for shift in [0, 1] {
            give(digits.get(shift..length).unwrap_or_default());
        }
        start + length
    });
}

/// In which of the four ways to cut a run into fours enough of them in a row can be printable: bit `n` for fours that
/// begin at character `n`. `length` says whether the run counts as a long one.
fn printable_ways(run: &[u8], length: usize) -> u8 {
    let [first, second, third, fourth] = &FITS;
    let fits = |table: &[u8; 256], sign: u8| table.get(usize::from(sign)).copied().unwrap_or(0);
    let (mut ways, mut count) = (0, 0);
    for line in run.split(|byte| matches!(byte, b'\n' | b'\r' | b'=')) {
        let (mut past, mut here) = (0_u32, 0_u32);
        for four in line.chunks_exact(4) {
            let &[one, two, three, four] = four else { continue };
            let ways = fits(first, one) & fits(second, two) & fits(third, three) & fits(fourth, four);
            past = past << 4 | u32::from(ways);
            // In a long run three readable fours happen by chance.
            let row = past & past >> 4 & past >> 8;
            here |= if length > LONG {
                row & past >> 12 & past >> 16
            } else {
                row
            };
        }
        // Lines are cut without regard to fours.
        let here = here & 15;
        ways |= here << (count % 4) | here >> (4 - count % 4);
        count += line.len();
    }
    u8::try_from(ways & 15).unwrap_or(15)
}

/// Whether enough pairs in a row have the first digit of a printable character.
fn has_printable_pairs(digits: &[u8]) -> bool {
    let odd = |pair: &[u8]| !pair.first().is_some_and(|digit| matches!(digit, b'0' | b'2'..=b'7'));
    let mut at = 0;
    while let Some(row) = digits.get(at..at + 2 * READABLE) {
        match row.chunks_exact(2).rposition(odd) {
            Some(gap) => at += 2 * (gap + 1),
            None => return true,
        }
    }
    false
}

/// Secrets are printable, and what is no encoding decodes to noise: short stretches are not worth a scan.
fn readable(decoded: &[u8], context: usize, mut give: impl FnMut(Stretch<'_>)) {
    let printable = |byte: u8| (b' '..=b'~').contains(&byte) || matches!(byte, b'\n' | b'\r' | b'\t');
    let mut start = 0;
    for text in decoded.split(|byte| !printable(*byte)) {
        if text.len() >= READABLE {
            give(Stretch {
                text,
                context: context.saturating_sub(start),
            });
        }
        start += text.len() + 1;
    }
}

/// Runs of both base64 alphabets, over line ends where lines are as long as encoders make them.
fn base64_runs(text: &[u8], mut give: impl FnMut(Range<usize>)) {
    let fits = |byte: &u8| is_base64(*byte);
    runs(text, UNPADDED, fits, |start| {
        let end = base64_end(text, start);
        if end - start >= SHORTEST {
            give(start..end);
        }
        end
    });
}

/// Calls `take` with the start of each run of at least `shortest` bytes that `fits`; it gives the end. Most bytes are
/// never looked at: where the last byte of a stretch does not fit, no run lies in it.
fn runs(text: &[u8], shortest: usize, fits: impl Fn(&u8) -> bool, mut take: impl FnMut(usize) -> usize) {
    let mut at = 0;
    while let Some(row) = text.get(at..at + shortest) {
        at = match row.iter().rposition(|byte| !fits(byte)) {
            Some(gap) => at + gap + 1,
            None => take(at).max(at + 1),
        };
    }
}

fn base64_end(text: &[u8], start: usize) -> usize {
    let mut line = start;
    loop {
        let rest = text.get(line..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| is_base64(**byte)).count();
        let after = rest.get(length..).unwrap_or_default();
        let padding = after.iter().take(2).take_while(|byte| **byte == b'=').count();
        let end = line + length + padding;
        let feed = match after {
            [b'\n', next, ..] if is_base64(*next) => 1,
            [b'\r', b'\n', next, ..] if is_base64(*next) => 2,
            _ => 0,
        };
        if feed == 0 || length < WRAPPED {
            return end;
        }
        line = end + feed;
    }
}

/// Runs of characters that need no escape in a URL, with at least one escape among them.
fn percent_runs(text: &[u8], mut give: impl FnMut(Range<usize>)) {
    let mut done = 0;
    for at in memchr::memchr_iter(b'%', text) {
        let escape = text
            .get(at + 1..at + 3)
            .is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit));
        if at < done || !escape {
            continue;
        }
        let before = text.get(done..at).unwrap_or_default();
        let start = at - before.iter().rev().take_while(|byte| is_unreserved(**byte)).count();
        let rest = text.get(at..).unwrap_or_default();
        done = at + rest.iter().take_while(|byte| is_unreserved(**byte)).count();
        if done - start >= SHORTEST {
            give(start..done);
        }
    }
}

/// Decodes base64 of either alphabet; what is left over at the end is dropped.
pub(super) fn base64(signs: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(signs.size_hint().0 * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for sign in signs {
        let Some(value) = VALUES.get(usize::from(sign)).copied().filter(|value| *value < 64) else {
            break;
        };
        bits = bits << 6 | u32::from(value);
        count += 1;
        if count == 4 {
            let [_, one, two, three] = bits.to_be_bytes();
            out.extend_from_slice(&[one, two, three]);
            (bits, count) = (0, 0);
        }
    }
    let [_, one, two, _] = (bits << (6 * (4 - count))).to_be_bytes();
    match count {
        2 => out.push(one),
        3 => out.extend_from_slice(&[one, two]),
        _ => {}
    }
    out
}

fn hex(digits: &[u8]) -> Vec<u8> {
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
            .unwrap_or(0)
    };
    let pair = |pair: &[u8]| pair.iter().fold(0_u8, |byte, digit| byte << 4 | value(*digit));
    digits.chunks_exact(2).map(pair).collect()
}

fn percent(run: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(run.len());
    let mut rest = run;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.extend(hex(&[*high, *low]));
                rest = after;
            }
            _ => out.push(*first),
        }
    }
    out
}

fn is_base64(byte: u8) -> bool {
    VALUES.get(usize::from(byte)).is_some_and(|value| *value < 64)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'-' | b'.' | b'_' | b'~' | b'+')
}

/// The value of each sign, 255 for what is none.
const VALUES: [u8; 256] = values();

const fn values() -> [u8; 256] {
    let mut values = [255_u8; 256];
    let mut code = 0_u8;
    loop {
        let value = match code {
            b'A'..=b'Z' => code - b'A',
            b'a'..=b'z' => code - b'a' + 26,
            b'0'..=b'9' => code - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => 255,
        };
        #[expect(
            clippy::indexing_slicing,
            reason = "a byte is always within 256 entries; checked while compiling"
        )]
        {
            values[code as usize] = value;
        }
        if code == 255 {
            return values;
        }
        code += 1;
    }
}

/// Characters of a run that is worth decoding.
const SHORTEST: usize = 24;

/// Characters that are decoded at a time, and how far the next window lies behind one. What two windows share is longer than
/// any token and its name in any of the encodings; of a key the beginning is enough, since all of its run is masked.
const WINDOW: usize = 8192;
const STRIDE: usize = 4096;

/// The shortest run without its padding.
const UNPADDED: usize = SHORTEST - 2;

/// A line of at least as many characters may go on in the next.
const WRAPPED: usize = 60;

/// How much of what stands before a run of percent escapes is read with it.
const CONTEXT: usize = 24;

/// Printable bytes that do not follow each other by chance.
const READABLE: usize = 12;

/// Characters of a long run.
const LONG: usize = 512;

/// For each place in four characters and each character: in which of the four ways to cut it can stand there, if all
/// that comes out is printable.
const FITS: [[u8; 256]; 4] = [fits(0), fits(1), fits(2), fits(3)];

const fn fits(place: usize) -> [u8; 256] {
    let mut table = [0_u8; 256];
    let mut code = 0;
    while code < 256 {
        #[expect(
            clippy::indexing_slicing,
            reason = "both tables have 256 entries; checked while compiling"
        )]
        let value = VALUES[code];
        let mut way = 0;
        while way < 4 && value < 64 {
            let printable = match (place + 4 - way) % 4 {
                0 => value >= 8 && value < 32,
                1 => value & 15 >= 2 && value & 15 < 8,
                2 => value & 3 < 2,
                _ => true,
            };
            if printable {
                #[expect(
                    clippy::indexing_slicing,
                    reason = "both tables have 256 entries; checked while compiling"
                )]
                {
                    table[code] |= 1 << way;
                }
            }
            way += 1;
        }
        code += 1;
    }
    table
}
