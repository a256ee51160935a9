//! Goes over the pieces of a document, alone and joined, and gathers what rules find.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use super::encoded;
use super::hidden::{needs_view, spoken};
use super::quick::suspects;
use super::rule::Rule;
use super::scan::{Scan, Scope, Windows};
use super::view::{Hidden, Parts, View};
use super::work::Work;
use super::{Category, Detector, Excuse, Finding, Joins, Piece, PieceKind, Redact, card};

/// Finds everything in `pieces`.
pub(super) fn run(detector: &Detector, pieces: &[Piece<'_>], excuse: &Excuse<'_>, work: &mut Work) -> Vec<Finding> {
    let suspects = suspects(detector, pieces);
    if suspects.is_empty() {
        return Vec::new();
    }
    let mut search = Search::new(detector, pieces, excuse);
    std::mem::swap(&mut search.windows.work, work);
    search.closely(|index| suspects.binary_search(&index).is_ok());
    std::mem::swap(&mut search.windows.work, work);
    told_once(detector, search.findings)
}

/// Looks closely at the pieces that are suspected.
#[cfg(test)]
pub(super) fn closely(
    detector: &Detector,
    pieces: &[Piece<'_>],
    excuse: &Excuse<'_>,
    suspected: impl Fn(usize) -> bool,
) -> Vec<Finding> {
    let mut search = Search::new(detector, pieces, excuse);
    search.closely(suspected);
    told_once(detector, search.findings)
}

struct Search<'a> {
    detector: &'a Detector,
    pieces: &'a [Piece<'a>],
    excused: Vec<&'a str>,
    windows: Windows,
    /// Room for what is seen in one text, used again for each.
    seen: Vec<(usize, Range<usize>)>,
    findings: Vec<Found>,
}

/// What will be a finding if nothing graver covers it, by the index of its rule.
struct Found {
    rule: usize,
    parts: Parts,
}

impl<'a> Search<'a> {
    fn new(detector: &'a Detector, pieces: &'a [Piece<'a>], excuse: &Excuse<'_>) -> Self {
        Self {
            detector,
            pieces,
            excused: detector.excused(excuse),
            windows: Windows::new(detector, Work::of(pieces.iter().map(|piece| piece.raw.len()).sum())),
            seen: Vec::new(),
            findings: Vec::new(),
        }
    }

    fn closely(&mut self, suspected: impl Fn(usize) -> bool) {
        let mut start = 0;
        for group in self.pieces.chunk_by(|_, next| next.joins == Joins::Previous) {
            let end = start + group.len();
            for (index, piece) in (start..end).zip(group) {
                if suspected(index) {
                    self.alone(index, piece);
                }
            }
            if group.len() > 1 && (start..end).any(&suspected) {
                self.together(start, group, "");
            }
            start = end;
        }
    }

    fn alone(&mut self, index: usize, piece: &Piece<'_>) {
        if piece.kind == PieceKind::Number {
            return self.number(index, piece);
        }
        let name = piece.name.map(spoken);
        let speaks =
            |name: &Cow<'_, str>| self.detector.keywords.any(name.as_bytes()) || card::speaks_of_cards(name.as_bytes());
        let context = match name {
            // The number of a card, if it is one: cards are objects that have one.
            Some(name) if name.eq_ignore_ascii_case("number") => Some(Cow::Borrowed("card number")),
            name => name.filter(speaks),
        };
        if context.is_none() && !needs_view(piece.raw) {
            return self.scan(&View::plain(index, piece.raw));
        }
        let context = context.map_or_else(String::new, |name| format!("\"{name}\": \""));
        self.together(index, std::slice::from_ref(piece), &context);
    }

    /// Scans pieces as one text behind a context, as it is read with and without what is hidden in it.
    fn together(&mut self, start: usize, pieces: &[Piece<'_>], context: &str) {
        let view = View::decoded(context, pieces, start, Hidden::Removed);
        self.scan(&view);
        if view.had_hidden() {
            self.scan(&View::decoded(context, pieces, start, Hidden::Separates));
        }
    }

    /// A bare number is a card only where its name says so: ids and amounts pass Luhn often enough.
    fn number(&mut self, index: usize, piece: &Piece<'_>) {
        let is_number = card::is_card(piece.raw) && piece.raw.iter().all(u8::is_ascii_digit);
        if is_number
            && piece
                .name
                .is_some_and(|name| card::speaks_of_cards(spoken(name).as_bytes()))
        {
            self.together(index, std::slice::from_ref(piece), "\"card\": ");
        }
    }

    fn scan(&mut self, view: &View<'_>) {
        let Self {
            detector,
            windows,
            seen,
            ..
        } = self;
        let mut seen = std::mem::take(seen);
        let scan = Scan {
            detector,
            text: view.text(),
            cuts: view.cuts(),
            scope: Scope::Every,
        };
        scan.each(windows, |rule, range| seen.push((rule, range)));
        encoded::each(view.text(), |run, stretch| {
            let scan = Scan {
                detector,
                text: stretch.text,
                cuts: &[],
                scope: Scope::Masking,
            };
            scan.each(windows, |rule, range| {
                if range.end > stretch.context {
                    seen.push((rule, run.clone()));
                }
            });
        });
        if !seen.is_empty() {
            let places = view.places();
            for (rule, range) in seen.drain(..) {
                if let Some(parts) = places.parts(&range) {
                    self.tell(rule, parts);
                }
            }
        }
        self.seen = seen;
    }

    fn tell(&mut self, index: usize, parts: Parts) {
        let Some(rule) = self.detector.rules.get(index) else {
            return;
        };
        if self.excused.contains(&&*rule.id) {
            return;
        }
        let parts = parts.map(|piece, range| {
            let raw = self.pieces.get(piece).map_or(&[][..], |piece| piece.raw);
            whole_characters(raw, range)
        });
        self.findings.push(Found { rule: index, parts });
    }
}

/// Patterns count bytes; what is cut out must not leave half a character.
fn whole_characters(raw: &[u8], range: Range<usize>) -> Range<usize> {
    let inside = |place: &usize| raw.get(*place).is_some_and(|byte| (0x80..0xc0).contains(byte));
    let back = (0..3)
        .take_while(|step| range.start.checked_sub(*step).as_ref().is_some_and(inside))
        .count();
    let forth = (0..3).take_while(|step| inside(&(range.end + step))).count();
    range.start.saturating_sub(back)..range.end + forth
}

/// In document order, without findings that lie in a graver one and would only be said twice.
fn told_once(detector: &Detector, mut found: Vec<Found>) -> Vec<Finding> {
    let masks = |rule: &Rule| rule.redact == Redact::Mask;
    let gravest_first = |one: usize, other: usize| {
        let (a, b) = detector.rules.get(one).zip(detector.rules.get(other))?;
        let order = b.severity.cmp(&a.severity).then_with(|| masks(b).cmp(&masks(a)));
        Some(order.then_with(|| rank(a.category).cmp(&rank(b.category))))
    };
    found.sort_unstable_by(|a, b| {
        let ([begins, ends], [other_begins, other_ends]) = (a.parts.ends(), b.parts.ends());
        (begins.cmp(&other_begins))
            .then_with(|| other_ends.cmp(&ends))
            .then_with(|| gravest_first(a.rule, b.rule).unwrap_or(Ordering::Equal))
            .then_with(|| a.rule.cmp(&b.rule))
    });
    let mut told: Vec<Finding> = Vec::new();
    let mut widest: Option<((usize, usize), &Rule)> = None;
    for Found { rule, parts } in found {
        let Some(rule) = detector.rules.get(rule) else { continue };
        let [_, end] = parts.ends();
        let said = widest.is_some_and(|(widest, cover)| {
            widest >= end && cover.severity >= rule.severity && masks(cover) >= masks(rule)
        });
        if said {
            continue;
        }
        if widest.is_none_or(|(widest, cover)| end > widest || (masks(rule) && !masks(cover))) {
            widest = Some((end, rule));
        }
        told.push(Finding {
            rule: rule.id.clone(),
            category: rule.category,
            severity: rule.severity,
            parts: parts.into_vec(),
            redact: rule.redact,
        });
    }
    told
}

/// The order in which categories explain the same bytes best.
fn rank(category: Category) -> usize {
    Category::ALL
        .iter()
        .position(|other| *other == category)
        .unwrap_or(usize::MAX)
}
