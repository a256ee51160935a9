//! Where the first group of a match lies, found without the groups of the engine: they are dear, and an attacker may
//! make every match ask for one.

use std::ops::Range;

use regex::bytes::Regex;
use regex_syntax::hir::{Hir, HirKind};

use super::rule::plain;

/// A pattern cut into what leads to its first group, and the rest.
#[derive(Debug)]
pub(super) struct Group {
    lead: Lead,
    /// The group and what follows it.
    rest: Regex,
    end: End,
}

/// What leads to the group.
#[derive(Debug)]
enum Lead {
    /// It is always as long.
    Length(usize),
    Pattern(Regex),
    /// It looks back at what stands before the match.
    Looking(Regex),
}

/// Where the group ends.
#[derive(Debug)]
enum End {
    /// As many bytes before the end of the match.
    Before(usize),
    /// As many bytes behind its own start.
    Behind(usize),
}

impl Group {
    /// Cuts a pattern; `None` if it cannot be cut, and only the engine can tell where the group lies.
    pub(super) fn cut(pattern: &Hir) -> Option<Self> {
        let (before, group, after) = parts(pattern)?;
        // What has to hold where the match begins does hold.
        let before = match before {
            [first, others @ ..] if matches!(first.kind(), HirKind::Look(_)) => others,
            all => all,
        };
        let (lead, tail) = (Hir::concat(before.to_vec()), Hir::concat(after.to_vec()));
        let end = match (length_of(&tail), length_of(group)) {
            (Some(length), _) => End::Before(length),
            (None, Some(length)) => End::Behind(length),
            (None, None) => return None,
        };
        let rest = Hir::concat(vec![group.clone(), tail]);
        let looks_back = |part: &Hir| !part.properties().look_set_prefix_any().is_empty();
        if looks_back(&rest) {
            return None;
        }
        Some(Self {
            lead: match length_of(&lead) {
                Some(length) => Lead::Length(length),
                None if looks_back(&lead) => Lead::Looking(plain(&lead.to_string()).ok()?),
                None => Lead::Pattern(from_start(&lead)?),
            },
            rest: from_start(&rest)?,
            end,
        })
    }

    /// The group of the match of the whole pattern that begins at `start`. `None` does not say that there is none.
    pub(super) fn find(&self, text: &[u8], start: usize) -> Option<Range<usize>> {
        // An engine takes the first way to read the lead after which the rest fits. If the rest fits after the very
        // first way, this is the one; otherwise it has to try others.
        let from = match &self.lead {
            Lead::Length(length) => start + length,
            Lead::Pattern(lead) => start + lead.find(text.get(start..)?)?.end(),
            Lead::Looking(lead) => lead.find_at(text, start).filter(|lead| lead.start() == start)?.end(),
        };
        let end = from + self.rest.find(text.get(from..)?)?.end();
        let group = match self.end {
            End::Before(length) => from..end.checked_sub(length)?,
            End::Behind(length) => from..from + length,
        };
        Some(group)
    }
}

/// What stands before the first group, what is in it, and what stands behind.
fn parts(pattern: &Hir) -> Option<(&[Hir], &Hir, &[Hir])> {
    let parts = if let HirKind::Concat(parts) = pattern.kind() {
        parts.as_slice()
    } else {
        std::slice::from_ref(pattern)
    };
    parts.iter().enumerate().find_map(|(index, part)| {
        let HirKind::Capture(capture) = part.kind() else {
            return None;
        };
        let around = parts.get(..index).zip(parts.get(index + 1..));
        let (before, after) = around.filter(|_| capture.index == 1)?;
        Some((before, &*capture.sub, after))
    })
}

/// How long every match is, if all are as long.
fn length_of(part: &Hir) -> Option<usize> {
    let properties = part.properties();
    properties
        .minimum_len()
        .filter(|length| properties.maximum_len() == Some(*length))
}

fn from_start(part: &Hir) -> Option<Regex> {
    plain(&format!(r"\A(?:{part})")).ok()
}
