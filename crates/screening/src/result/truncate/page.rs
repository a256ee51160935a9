//! Pages of a text that was cut: arrays of JSON by record, other text by bytes. Laid side by side, whatever the limits,
//! they are the whole.

use std::ops::Range;

use vocabulary::json::span::{DEEPEST, Scanner, SpanFault};

/// What offsets and limits of a text count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes, moved to the border of a character.
    Bytes,
    /// Elements of an array.
    Records,
}

impl Unit {
    /// As notices say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Records => "records",
        }
    }
}

/// One page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page<'a> {
    /// The text, as it stands in the whole.
    pub text: &'a str,
    /// What offsets count.
    pub unit: Unit,
    /// Where to read on; `None` at the end.
    pub next: Option<usize>,
    /// Where the offsets end.
    pub total: usize,
}

/// The page of `whole` that begins at `offset` and has at most `limit` bytes or records (0 counts as 1). Page follows
/// page without gap or overlap, whether the reader takes `next` or counts for itself.
#[must_use]
pub fn page(whole: &str, offset: usize, limit: usize) -> Page<'_> {
    let end = offset.saturating_add(limit.max(1));
    let (unit, total, place): (_, _, Box<dyn Fn(usize) -> usize>) = match records(whole) {
        Some(records) => {
            let total = records.len();
            // The brackets and what stands between the records belong to the page that comes first.
            let place = move |record: usize| match record {
                0 => 0,
                _ => records.get(record).map_or(whole.len(), |record| record.start),
            };
            (Unit::Records, total, Box::new(place))
        }
        None => (
            Unit::Bytes,
            whole.len(),
            Box::new(|byte| whole.floor_char_boundary(byte)),
        ),
    };
    Page {
        text: whole.get(place(offset)..place(end)).unwrap_or_default(),
        unit,
        next: (end < total).then_some(end),
        total,
    }
}

/// How many records of an array end within its first `shown` bytes, and how many there are; `None` for other text.
#[must_use]
pub fn records_within(whole: &str, shown: usize) -> Option<(usize, usize)> {
    let records = records(whole)?;
    let within = records.partition_point(|record| record.end <= shown);
    Some((within, records.len()))
}

/// Where the elements of an array lie; `None` for what is not one array with at least one element, and nothing else.
fn records(whole: &str) -> Option<Vec<Range<usize>>> {
    let read = || -> Result<Vec<Range<usize>>, SpanFault> {
        let mut scanner = Scanner::new(whole.as_bytes(), DEEPEST);
        scanner.expect(b'[')?;
        let mut records = Vec::new();
        loop {
            records.push(scanner.value(1)?);
            if !scanner.take(b',') {
                break;
            }
        }
        scanner.expect(b']')?;
        scanner.finish().map(|()| records)
    };
    read().ok()
}
