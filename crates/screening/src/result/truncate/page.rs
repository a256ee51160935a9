//! Pages of a text that was cut: arrays of JSON by record, other text by bytes. Laid side by side, whatever the limits,
//! they are the whole.

use std::ops::Range;

use vocabulary::json::span::{DEEPEST, Scanner, SpanFault};

vocabulary::words! {
    /// What offsets and limits of a text count.
    pub enum Unit {
        /// Bytes, moved to the border of a character.
        Bytes = "bytes",
        /// Elements of an array.
        Records = "records",
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

/// Which page is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Where it begins, in bytes or records.
    pub offset: usize,
    /// The most bytes or records of it; 0 counts as 1.
    pub limit: usize,
    /// The most bytes of it, unless a single record has more.
    pub most_bytes: usize,
}

/// Where in a text its pages lie. Made once, in one pass: it is small however many records there are, and no page is
/// looked for from the beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    unit: Unit,
    total: usize,
    /// Now and then a record, and where it begins; of an array the first one always.
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    record: usize,
    at: usize,
}

/// How far marks lie apart, unless a single record is longer.
const STRIDE: usize = 64 << 10;

impl Index {
    /// Reads a text through.
    #[must_use]
    pub fn of(whole: &str) -> Self {
        Self::of_records(whole).unwrap_or(Self {
            unit: Unit::Bytes,
            total: whole.len(),
            marks: Vec::new(),
        })
    }

    /// Fails for what is not one array with at least one element, and nothing else.
    fn of_records(whole: &str) -> Result<Self, SpanFault> {
        let mut scanner = Scanner::new(whole.as_bytes(), DEEPEST);
        scanner.expect(b'[')?;
        let (mut marks, mut total): (Vec<Mark>, _) = (Vec::new(), 0);
        loop {
            let at = scanner.value(1)?.start;
            if marks.last().is_none_or(|last| at - last.at >= STRIDE) {
                marks.push(Mark { record: total, at });
            }
            total += 1;
            if !scanner.take(b',') {
                break;
            }
        }
        scanner.expect(b']')?;
        scanner.finish()?;
        Ok(Self {
            unit: Unit::Records,
            total,
            marks,
        })
    }

    /// What offsets count.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Where the offsets end.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    #[cfg(test)]
    pub(super) fn marks(&self) -> usize {
        self.marks.len()
    }

    /// A page of the text this is the index of. Page follows page without gap or overlap, whether the reader takes
    /// `next` or counts for itself.
    #[must_use]
    pub fn page<'a>(&self, whole: &'a str, wanted: &Wanted) -> Page<'a> {
        let (range, next) = match self.unit {
            Unit::Bytes => bytes(whole, wanted),
            Unit::Records => self.records(whole, wanted),
        };
        Page {
            text: whole.get(range).unwrap_or_default(),
            unit: self.unit,
            next: (next < self.total).then_some(next),
            total: self.total,
        }
    }

    /// How many records end within the first `shown` bytes; of other text, those bytes.
    #[must_use]
    pub fn within(&self, whole: &str, shown: usize) -> usize {
        if self.unit == Unit::Bytes {
            return shown;
        }
        let marks = self.marks.partition_point(|mark| mark.at <= shown);
        let Some(mark) = marks.checked_sub(1).and_then(|last| self.marks.get(last)) else {
            return 0;
        };
        let ended = spans_from(whole, *mark).take_while(|record| record.end <= shown);
        mark.record + ended.count()
    }

    /// The range of a page, and the record behind it. The brackets and what stands between the records belong to the
    /// page that comes first.
    fn records(&self, whole: &str, wanted: &Wanted) -> (Range<usize>, usize) {
        let (mut start, mut end) = (whole.len(), None);
        let last = (self.total, whole.len());
        for (record, at) in self.starts_near(whole, wanted.offset).chain([last]) {
            if record == wanted.offset {
                start = at;
            }
            if record <= wanted.offset {
                continue;
            }
            let too_long = at - start > wanted.most_bytes;
            if too_long && end.is_some() {
                break;
            }
            end = Some((record, at));
            if too_long || record - wanted.offset >= wanted.limit {
                break;
            }
        }
        let (next, at) = end.unwrap_or(last);
        (start..at, next)
    }

    /// Records and where their part of the text begins, from one on that is at or shortly before `record`.
    fn starts_near<'a>(&self, whole: &'a str, record: usize) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let marks = self.marks.partition_point(|mark| mark.record <= record);
        let mark = marks.checked_sub(1).and_then(|last| self.marks.get(last)).copied();
        let spans = mark.into_iter().flat_map(move |mark| {
            let numbers = mark.record..;
            numbers.zip(spans_from(whole, mark))
        });
        spans.map(|(record, span)| (record, if record == 0 { 0 } else { span.start }))
    }
}

/// The records of an array from a mark on. The text was read through before: what cannot be read any more is its end.
fn spans_from(whole: &str, mark: Mark) -> impl Iterator<Item = Range<usize>> {
    let mut scanner = Scanner::new(whole.as_bytes().get(mark.at..).unwrap_or_default(), DEEPEST);
    let mut more = true;
    std::iter::from_fn(move || {
        let span = more.then(|| scanner.value(1).ok()).flatten()?;
        more = scanner.take(b',');
        Some(mark.at + span.start..mark.at + span.end)
    })
}

fn bytes(whole: &str, wanted: &Wanted) -> (Range<usize>, usize) {
    let start = whole.floor_char_boundary(wanted.offset);
    let end = wanted.offset.saturating_add(wanted.limit.max(1));
    // There is always a way on.
    let most = start
        .saturating_add(wanted.most_bytes)
        .max(wanted.offset.saturating_add(1));
    let end = end.min(most);
    (start..whole.floor_char_boundary(end), end)
}
