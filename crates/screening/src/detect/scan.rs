//! Scans one text: keywords open windows, and in its windows a rule's pattern is tried. The windows of a rule are
//! merged, so a flood of keywords costs no more than one pass for each rule.

use std::ops::{Range, RangeInclusive};

use super::block::Ends;
use super::check::{Verdict, is_placeholder};
use super::rule::{Mask, Rule, Wake};
use super::work::Work;
use super::{Detector, Redact, digits};

/// Which rules count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// All.
    Every,
    /// Those that mask: what was encoded is looked at for secrets, not for hints.
    Masking,
}

/// Room for the windows of all rules, used again for each text.
#[derive(Debug)]
pub(super) struct Windows {
    /// The window of each rule that may still grow; empty if none.
    open: Vec<Range<usize>>,
    touched: Vec<usize>,
    closed: Vec<(usize, Range<usize>)>,
    glued: Vec<Glued>,
    /// Bytes that may still be tried for borders that the text does not show.
    tries: usize,
    /// Bytes of refused matches that each rule may still look at again.
    again: Vec<usize>,
    /// What all rules together may still read.
    pub(super) work: Work,
}

/// What a rule needs beside its pattern, over all its windows in a text.
struct Effort<'a> {
    ends: &'a mut Ends,
    again: &'a mut usize,
    work: &'a mut Work,
}

impl Effort<'_> {
    /// Makes room for a window of a rule.
    fn allow(&mut self, rule: &Rule, length: usize) {
        // INVARIANT: the room of a card rule is never used up elsewhere, since nothing is told in its place.
        if rule.wake == Wake::Digits {
            *self.again = AGAIN;
        }
        let times = match rule.redact {
            Redact::Mask => AGAIN_TIMES,
            // A hint that hides in a refused one may be missed: nothing depends on it.
            Redact::DetectOnly => 1,
        };
        *self.again = self.again.saturating_add(times * length);
    }
}

/// A keyword with a border near it that the text does not show: what it begins may end there.
#[derive(Debug)]
struct Glued {
    rule: usize,
    keyword: usize,
    /// Where its window ends.
    end: usize,
}

impl Windows {
    pub(super) fn new(detector: &Detector, work: Work) -> Self {
        Self {
            work,
            open: vec![0..0; detector.rules.len()],
            touched: Vec::new(),
            closed: Vec::new(),
            glued: Vec::new(),
            tries: TRIES,
            again: vec![AGAIN; detector.rules.len()],
        }
    }

    fn widen(&mut self, rule: usize, window: Range<usize>) {
        let Some(open) = self.open.get_mut(rule) else { return };
        if open.start == open.end {
            self.touched.push(rule);
            *open = window;
        } else if window.start <= open.end && open.start <= window.end {
            *open = open.start.min(window.start)..open.end.max(window.end);
        } else {
            self.closed.push((rule, std::mem::replace(open, window)));
        }
    }

    fn glue(&mut self, glued: Glued) {
        let is_flood = self.glued.len() >= MOST_GLUED;
        match self.glued.last_mut().filter(|_| is_flood) {
            // It is told as one.
            Some(last) => last.end = last.end.max(glued.end),
            None => self.glued.push(glued),
        }
    }

    fn close(&mut self) {
        for rule in self.touched.drain(..) {
            if let Some(open) = self.open.get_mut(rule) {
                self.closed.push((rule, std::mem::replace(open, 0..0)));
            }
        }
        self.closed.sort_unstable_by_key(|(rule, window)| (*rule, window.start));
    }
}

/// One text and what it is scanned with.
pub(super) struct Scan<'a> {
    pub(super) detector: &'a Detector,
    pub(super) text: &'a [u8],
    /// Places where a reader may see a border that the text does not show, in order.
    pub(super) cuts: &'a [usize],
    pub(super) scope: Scope,
}

impl Scan<'_> {
    /// Gives each secret: the index of its rule and where it lies in the text.
    pub(super) fn each(&self, windows: &mut Windows, mut give: impl FnMut(usize, Range<usize>)) {
        self.wake(windows);
        if windows.closed.is_empty() {
            return;
        }
        let mut ends = Ends::new();
        let mut searched: (usize, usize) = (usize::MAX, 0);
        for (index, window) in windows.closed.drain(..) {
            let Some((rule, again)) = self.detector.rules.get(index).zip(windows.again.get_mut(index)) else {
                continue;
            };
            // A match may reach beyond its window: what was told once is not told again.
            let start = if searched.0 == index {
                window.start.max(searched.1)
            } else {
                window.start
            };
            let work = &mut windows.work;
            // The rule of cards reads digits alone, and nothing is told in its place.
            if rule.wake == Wake::Keywords && !work.takes(window.end.saturating_sub(start)) {
                if rule.redact == Redact::Mask && start < window.end {
                    give(index, start..window.end);
                }
                searched = (index, window.end);
                continue;
            }
            let effort = Effort {
                ends: &mut ends,
                again,
                work,
            };
            let end = self.window(rule, start..window.end, effort, |secret| give(index, secret));
            searched = (index, end);
        }
        for glued in std::mem::take(&mut windows.glued) {
            self.unglue(&glued, windows, &mut give);
        }
    }

    /// A secret whose end, or whose beginning, touches other text only because of what was taken out between them, or
    /// because the next block begins there. The longest way to read it wins.
    fn unglue(&self, glued: &Glued, windows: &mut Windows, give: &mut impl FnMut(usize, Range<usize>)) {
        let Windows { tries, again, work, .. } = windows;
        let Some((rule, again)) = self.detector.rules.get(glued.rule).zip(again.get_mut(glued.rule)) else {
            return;
        };
        let start = if self.cuts.binary_search(&glued.keyword).is_ok() {
            glued.keyword
        } else {
            glued.keyword.saturating_sub(rule.reach.before + 1)
        };
        let from = self.cuts.partition_point(|cut| *cut <= glued.keyword);
        let to = self.cuts.partition_point(|cut| *cut < glued.end);
        let cuts = self.cuts.get(from..to).unwrap_or_default();
        for end in cuts.iter().copied().chain([glued.end]).rev() {
            let Some(text) = self.text.get(start..end) else {
                continue;
            };
            let Some(rest) = tries.checked_sub(text.len()).filter(|_| work.takes(text.len())) else {
                // Somebody made a text to outlast us: what could be a secret counts as one.
                return give(glued.rule, glued.keyword..glued.end);
            };
            *tries = rest;
            let alone = Scan {
                text,
                cuts: &[],
                ..*self
            };
            let mut found = false;
            let window = glued.keyword.saturating_sub(rule.reach.before).max(start) - start..text.len();
            let ends = &mut Ends::new();
            alone.window(rule, window, Effort { ends, again, work }, |secret| {
                found = true;
                give(glued.rule, start + secret.start..start + secret.end);
            });
            if found {
                return;
            }
        }
    }

    fn wake(&self, windows: &mut Windows) {
        let length = self.text.len();
        let rules = &self.detector.rules;
        let wanted = |rule: &Rule| self.scope == Scope::Every || rule.redact == Redact::Mask;
        self.detector.keywords.each(self.text, |hit| {
            for index in self.detector.keywords.rules(&hit) {
                let Some(rule) = rules.get(*index).filter(|rule| wanted(rule)) else {
                    continue;
                };
                let start = hit.start.saturating_sub(rule.reach.before);
                let from = if rule.reach.before == 0 { hit.start } else { hit.end };
                let end = (from + rule.reach.after).min(length);
                windows.widen(*index, start..end);
                if rule.redact == Redact::Mask && self.is_cut(hit.start..=end) {
                    windows.glue(Glued {
                        rule: *index,
                        keyword: hit.start,
                        end,
                    });
                }
            }
        });
        let each = rules.iter().enumerate();
        let of_digits = each.filter(|(_, rule)| rule.wake == Wake::Digits && wanted(rule));
        let of_digits: Vec<usize> = of_digits.map(|(index, _)| index).collect();
        digits::each(self.text, |run| {
            for index in &of_digits {
                windows.widen(*index, run.clone());
            }
        });
        windows.close();
    }

    fn is_cut(&self, range: RangeInclusive<usize>) -> bool {
        let first = self.cuts.partition_point(|cut| cut < range.start());
        self.cuts.get(first).is_some_and(|cut| range.contains(cut))
    }

    /// Tries a rule in a window; gives the end of what it looked at.
    fn window(
        &self,
        rule: &Rule,
        window: Range<usize>,
        mut effort: Effort<'_>,
        mut give: impl FnMut(Range<usize>),
    ) -> usize {
        let (mut at, mut end) = (window.start, window.end);
        effort.allow(rule, window.len());
        let mut read_to = at;
        let mut hints = HINTS;
        while at + rule.reach.shortest <= end {
            let Some(seen) = self.text.get(..end) else { break };
            let Some(found) = rule.pattern.find_at(seen, at) else {
                break;
            };
            // Cut off by the window: look once more with all the room a match may have.
            if found.end() == end && end < self.text.len() {
                let wider = (found.start() + 4 * rule.reach.after).min(self.text.len());
                if wider > end {
                    (at, end) = (found.start(), wider);
                    continue;
                }
            }
            let whole = found.range();
            if let Some(secret) = self.secret(rule, &whole, seen, effort.ends) {
                at = secret.end.max(whole.end);
                give(secret);
                // The hundredth path of a key file says nothing new; the hundredth token has to be masked.
                hints -= usize::from(rule.redact == Redact::DetectOnly);
                if hints == 0 {
                    break;
                }
                continue;
            }
            // A refused match may hide a good one that begins inside it. What is read twice for that is paid for, and
            // an attacker may make each fail, so there is an end to it: then what could be a secret counts as one.
            let twice = read_to.saturating_sub(whole.start).min(whole.len());
            read_to = read_to.max(whole.end);
            let paid = effort.work.takes(twice);
            at = match effort.again.checked_sub(twice).filter(|_| paid) {
                Some(rest) => {
                    *effort.again = rest;
                    whole.start + 1
                }
                None => {
                    if rule.wake == Wake::Keywords && rule.redact == Redact::Mask {
                        // What begins inside may go on behind it.
                        give(whole.start..(whole.end + rule.reach.after).min(end));
                    }
                    whole.end
                }
            };
        }
        end.max(at)
    }

    /// What of a match is to be masked; `None` if it is no secret after all.
    fn secret(&self, rule: &Rule, whole: &Range<usize>, seen: &[u8], ends: &mut Ends) -> Option<Range<usize>> {
        let secret = match rule.mask {
            Mask::Match => whole.clone(),
            // Groups are dear in a long text, and all of them lie in the match; a pattern may look one byte further.
            Mask::Group => {
                let seen = seen.get(..(whole.end + 1).min(seen.len()))?;
                let short_way = rule.group.as_ref().and_then(|group| group.find(seen, whole.start));
                match short_way {
                    Some(group) => group,
                    None => rule.pattern.captures_at(seen, whole.start)?.get(1)?.range(),
                }
            }
            Mask::Block => whole.start..ends.of_block(self.text, whole.end)?,
        };
        let bytes = self.text.get(secret.clone())?;
        let verdict = rule.check.judge(self.text, whole, &secret);
        if verdict == Verdict::No || self.detector.is_documented(bytes, rule.check) {
            return None;
        }
        if verdict == Verdict::Likely && is_placeholder(bytes) {
            return None;
        }
        let matched = self.text.get(whole.clone())?;
        (!rule.allow.iter().any(|allow| allow.is_match(matched))).then_some(secret)
    }
}

/// Bytes of refused matches of a rule that are read twice in one search, that is in about a thousand strings, and as
/// many times its windows. Matches that do not overlap use none of it, so only a text that was made for it comes to the
/// end.
const AGAIN: usize = 64 << 10;
const AGAIN_TIMES: usize = 4;

/// Keywords near such borders that are remembered one by one.
const MOST_GLUED: usize = 1 << 16;

/// Bytes of one search that are tried again for borders that do not show.
const TRIES: usize = 1 << 20;

/// Findings that are only told, of one rule in one window.
const HINTS: usize = 16;
