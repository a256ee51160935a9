//! One case-insensitive automaton over the keywords of all rules.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};

/// The automaton, and which rules each keyword wakes.
#[derive(Debug)]
pub(super) struct Keywords {
    automaton: DFA,
    start: StateID,
    rules: Vec<Vec<usize>>,
    longest: usize,
    within_lines: bool,
}

/// A keyword in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    keyword: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Where a lane ended, and what the automaton had read by then.
struct LaneEnd {
    state: StateID,
    at: usize,
}

impl Keywords {
    /// Builds the automaton.
    ///
    /// # Errors
    /// When there are too many keywords for one.
    pub(super) fn new(keywords: Vec<(String, Vec<usize>)>) -> Result<Self, String> {
        let automaton = DFA::builder()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .build(keywords.iter().map(|(word, _)| word))
            .map_err(|error| format!("the keywords cannot be compiled: {error}"))?;
        let start = automaton
            .start_state(Anchored::No)
            .map_err(|error| format!("the keywords cannot be compiled: {error}"))?;
        let odd = |byte: u8| matches!(byte, b'"' | b'\n' | b'\r' | b'\t');
        Ok(Self {
            within_lines: !keywords.iter().any(|(word, _)| word.bytes().any(odd)),
            longest: keywords.iter().map(|(word, _)| word.len()).max().unwrap_or_default(),
            rules: keywords.into_iter().map(|(_, rules)| rules).collect(),
            automaton,
            start,
        })
    }

    /// Whether no keyword holds a quote, a tab or the end of a line.
    pub(super) fn are_within_lines(&self) -> bool {
        self.within_lines
    }

    /// The rules that a hit wakes.
    pub(super) fn rules(&self, hit: &Hit) -> &[usize] {
        self.rules.get(hit.keyword).map_or(&[], Vec::as_slice)
    }

    /// Whether any keyword lies in `text`.
    pub(super) fn any(&self, text: &[u8]) -> bool {
        let mut state = self.start;
        text.iter().any(|byte| {
            state = self.automaton.next_state(Anchored::No, state, *byte);
            self.automaton.is_match(state)
        })
    }

    /// Gives every keyword in `text`, overlapping ones too, in the order of where they begin a block, then a lane.
    pub(super) fn each(&self, text: &[u8], mut give: impl FnMut(Hit)) {
        let mut hits: [Vec<Hit>; LANES] = [const { Vec::new() }; LANES];
        let mut base = 0;
        while base < text.len() {
            let length = (text.len() - base).min(BLOCK);
            self.block(text, base..base + length, &mut hits);
            for lane in &mut hits {
                lane.drain(..).for_each(&mut give);
            }
            base += length;
        }
    }

    /// One step of the automaton waits for the one before it, so four places of the text are read at once.
    fn block(&self, text: &[u8], range: std::ops::Range<usize>, hits: &mut [Vec<Hit>; LANES]) {
        let lane = range.len() / LANES;
        let [first, second, third, fourth] = hits;
        let [a, b, c] = [range.start + lane, range.start + 2 * lane, range.start + 3 * lane];
        let mut states = [self.start; LANES];
        if lane > 0 {
            let part = |start: usize| text.get(start..start + lane).unwrap_or_default().iter();
            let steps = part(range.start).zip(part(a)).zip(part(b)).zip(part(c));
            for (offset, (((w, x), y), z)) in steps.enumerate() {
                let [p, q, r, s] = states;
                states = [
                    self.automaton.next_state(Anchored::No, p, *w),
                    self.automaton.next_state(Anchored::No, q, *x),
                    self.automaton.next_state(Anchored::No, r, *y),
                    self.automaton.next_state(Anchored::No, s, *z),
                ];
                let [p, q, r, s] = states;
                let special = |state| self.automaton.is_special(state);
                if special(p) | special(q) | special(r) | special(s) {
                    self.matched(p, range.start + offset + 1, first);
                    self.matched(q, a + offset + 1, second);
                    self.matched(r, b + offset + 1, third);
                    self.matched(s, c + offset + 1, fourth);
                }
            }
        }
        let [p, q, r, s] = states;
        // A keyword that begins in a lane may end in the next; the last lane also has what did not divide.
        self.tail(text, LaneEnd { state: p, at: a }, a, first);
        self.tail(text, LaneEnd { state: q, at: b }, b, second);
        self.tail(text, LaneEnd { state: r, at: c }, c, third);
        let last = LaneEnd { state: s, at: c + lane };
        self.tail(text, last, range.end, fourth);
    }

    /// Reads on from where a lane ended, for keywords that begin before `until`.
    fn tail(&self, text: &[u8], lane: LaneEnd, until: usize, hits: &mut Vec<Hit>) {
        let LaneEnd { mut state, at: from } = lane;
        let end = (until + self.longest.saturating_sub(1)).min(text.len());
        for (offset, byte) in text.get(from..end).unwrap_or_default().iter().enumerate() {
            state = self.automaton.next_state(Anchored::No, state, *byte);
            if self.automaton.is_special(state) {
                let seen = hits.len();
                self.matched(state, from + offset + 1, hits);
                // INVARIANT: what begins beyond is the next lane's to tell, so that nothing is told twice.
                let mine = hits.iter().skip(seen).filter(|hit| hit.start < until).count();
                if mine < hits.len() - seen {
                    let kept: Vec<_> = hits.drain(seen..).filter(|hit| hit.start < until).collect();
                    hits.extend(kept);
                }
            }
        }
    }

    fn matched(&self, state: StateID, end: usize, hits: &mut Vec<Hit>) {
        if !self.automaton.is_match(state) {
            return;
        }
        for index in 0..self.automaton.match_len(state) {
            let pattern = self.automaton.match_pattern(state, index);
            let start = end - self.automaton.pattern_len(pattern);
            hits.push(Hit {
                keyword: pattern.as_usize(),
                start,
                end,
            });
        }
    }
}

const LANES: usize = 4;

/// Hits are handed on after as many bytes, so that a flood of keywords does not fill the memory.
const BLOCK: usize = 64 << 10;
