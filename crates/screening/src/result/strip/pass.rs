//! One way through a literal: what of it is to be taken out as it stands now.

use std::ops::Range;

use super::cursor::{BLACK_FLAG, Cursor, MASK, Reading, Token};
use super::tables::{class_of, is_pictograph};
use super::{Class, Classes, Counts, MOST_EDITS, add};

/// What stays the same from pass to pass.
pub(super) struct Pass<'a> {
    pub(super) raw: &'a [u8],
    pub(super) classes: Classes,
    pub(super) masked: &'a [Range<usize>],
}

impl<'a> Pass<'a> {
    /// What is to go, in order, of what `gone` has left.
    pub(super) fn run(&self, gone: &[Range<usize>], counts: &mut Counts) -> Vec<Range<usize>> {
        let mut run = Run {
            cursor: Cursor {
                raw: self.raw,
                at: 0,
                gone,
                masked: self.masked,
            },
            classes: self.classes,
            before: Before::default(),
            found: Vec::new(),
            counts,
        };
        run.text();
        run.found
    }

    /// Backslashes, and halves of pairs without the other.
    pub(super) fn spelling(&self, gone: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut cursor = Cursor {
            raw: self.raw,
            at: 0,
            gone,
            masked: self.masked,
        };
        let mut found = Vec::new();
        while let Some(first) = cursor.unit() {
            let whole = if matches!(first.code, 0xD800..=0xDBFF) {
                cursor.second_half(first)
            } else {
                first
            };
            if whole.code == u32::from('\\') || matches!(whole.code, 0xD800..=0xDFFF) {
                add(&mut found, whole.start..whole.end);
            }
        }
        found
    }
}

struct Run<'a, 'c> {
    cursor: Cursor<'a>,
    classes: Classes,
    before: Before,
    found: Vec<Range<usize>>,
    counts: &'c mut Counts,
}

/// The two characters before, as they stand in the text, also those that go: what is kept next to something stays
/// next to it, so one pass cannot make the reasons of another one wrong.
#[derive(Clone, Copy, Default)]
struct Before {
    last: Seen,
    but_one: Seen,
}

/// A character and how it is written: one that is spelled is no neighbour of one that stands for itself.
#[derive(Clone, Copy, Default)]
struct Seen {
    code: u32,
    spelled: bool,
}

impl Seen {
    fn of(token: Token) -> Self {
        Self {
            code: token.code,
            spelled: token.spelled,
        }
    }

    /// The code for something written like `other`.
    fn beside(self, other: Token) -> u32 {
        if self.spelled == other.spelled { self.code } else { 0 }
    }
}

impl Before {
    fn push(&mut self, seen: Seen) {
        self.but_one = std::mem::replace(&mut self.last, seen);
    }
}

/// Where in a control sequence we are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Inside {
    /// Behind ESC.
    Escape,
    /// Behind ESC and intermediate bytes.
    Intermediate,
    /// Behind CSI.
    Csi,
}

impl Run<'_, '_> {
    fn text(&mut self) {
        loop {
            for code in self.cursor.skip_harmless().into_iter().flatten() {
                self.before.push(Seen { code, spelled: false });
            }
            let Some(token) = self.cursor.token(Reading::Text) else {
                return;
            };
            if self.found.len() > MOST_EDITS {
                return;
            }
            if self.begins_sequence(token.code) {
                self.remove(token, Class::Ansi);
                self.before.push(Seen::of(token));
                self.sequence(token);
            } else if token.code == BLACK_FLAG && self.is_flag(token) {
                self.before = Before::default();
            } else {
                if let Some(class) = self.class_of(token.code)
                    && !self.belongs_to_a_picture(token)
                {
                    self.remove(token, class);
                }
                self.before.push(Seen::of(token));
            }
        }
    }

    fn remove(&mut self, token: Token, class: Class) {
        add(&mut self.found, token.start..token.end);
        self.counts.add(class);
    }

    /// Takes a token along with the sequence it is part of.
    fn remove_rest(&mut self, token: Token) {
        add(&mut self.found, token.start..token.end);
        self.before.push(Seen::of(token));
    }

    fn begins_sequence(&self, code: u32) -> bool {
        self.classes.holds(Class::Ansi) && matches!(code, ESC | 0x80..=0x9F)
    }

    fn class_of(&self, code: u32) -> Option<Class> {
        class_of(code).filter(|class| self.classes.holds(*class))
    }

    /// What follows ESC or a control of eight bits. Another one of them inside begins anew.
    fn sequence(&mut self, first: Token) {
        let reading = if first.spelled {
            Reading::Spelled
        } else {
            Reading::Sequence
        };
        let mut inside = match first.code {
            ESC => Inside::Escape,
            0x9B => Inside::Csi,
            0x90 | 0x98 | 0x9D..=0x9F => return self.string(reading),
            _ => return,
        };
        loop {
            let here = self.cursor;
            let Some(token) = self.cursor.token(reading) else {
                return;
            };
            let code = token.code;
            // A terminal obeys these on its way and reads on.
            if let Some(class) = self.class_of(code).filter(|_| !ends_sequence(code)) {
                self.remove(token, class);
                self.before.push(Seen::of(token));
                continue;
            }
            let goes_on = match (inside, code) {
                _ if ends_literal(token, reading) || ends_sequence(code) => None,
                (_, 0..0x20 | 0x7F) => {
                    self.before.push(Seen::of(token));
                    continue;
                }
                (Inside::Escape | Inside::Intermediate, 0x20..=0x2F) => Some(Some(Inside::Intermediate)),
                (Inside::Escape, 0x5B) => Some(Some(Inside::Csi)),
                (Inside::Escape, 0x50 | 0x58 | 0x5D..=0x5F) => {
                    self.remove_rest(token);
                    return self.string(reading);
                }
                (Inside::Csi, 0x20..=0x3F) => Some(Some(Inside::Csi)),
                (Inside::Escape | Inside::Intermediate, 0x30..=0x7E) | (Inside::Csi, 0x40..=0x7E) => Some(None),
                (Inside::Escape | Inside::Intermediate | Inside::Csi, _) => None,
            };
            match goes_on {
                None => {
                    self.cursor = here;
                    return;
                }
                Some(next) => {
                    self.remove_rest(token);
                    match next {
                        None => return,
                        Some(next) => inside = next,
                    }
                }
            }
        }
    }

    /// What a sequence carries: up to its terminator, or to the end of the line if it has none. Nothing is looked at
    /// more than twice, since the next sequence begins no earlier than where this one's terminator was looked for.
    fn string(&mut self, reading: Reading) {
        let start = self.cursor;
        let mut line = None;
        let end = loop {
            let here = self.cursor;
            let Some(token) = self.cursor.token(reading) else {
                break line.unwrap_or(self.cursor);
            };
            if ends_literal(token, reading) {
                break line.unwrap_or(here);
            }
            match token.code {
                BEL | ST => break self.cursor,
                ESC => match self.cursor.token(reading) {
                    Some(next) if next.code == u32::from('\\') => break self.cursor,
                    Some(_) | None => break line.unwrap_or(here),
                },
                code if ends_sequence(code) => break line.unwrap_or(here),
                LF if line.is_none() => line = Some(here),
                _ => {}
            }
        };
        if start.at < end.at {
            add(&mut self.found, start.at..end.at);
        }
        self.cursor = end;
        self.before = Before::default();
    }

    /// ZWJ between pictures and one selector behind one are how emoji are written.
    fn belongs_to_a_picture(&self, token: Token) -> bool {
        let (last, but_one) = (self.before.last.beside(token), self.before.but_one.beside(token));
        let next = || {
            let mut ahead = self.cursor;
            let next = ahead.token(Reading::Text);
            next.map_or(MASK, |next| Seen::of(next).beside(token))
        };
        match token.code {
            ZWJ => {
                let suffixed = matches!(last, 0xFE0E..=0xFE0F | 0x1F3FB..=0x1F3FF) && is_pictograph(but_one);
                (is_pictograph(last) || suffixed) && is_pictograph(next())
            }
            0xFE0E..=0xFE0F => {
                // Of a digit only as part of a keycap: a selector behind each would spell a message.
                let key = matches!(char::from_u32(last), Some('0'..='9' | '#' | '*'));
                is_pictograph(last) || (key && next() == KEYCAP)
            }
            _ => false,
        }
    }

    /// Whether one of the three flags made of tags follows its black flag; then the cursor stands behind it.
    fn is_flag(&mut self, flag: Token) -> bool {
        let mut ahead = self.cursor;
        let mut tags = [0; 6];
        for tag in &mut tags {
            let next = ahead.token(Reading::Text);
            *tag = match next.map(|next| Seen::of(next).beside(flag)) {
                Some(code @ 0xE0020..=0xE007F) => (code & 0x7F) as u8,
                Some(_) | None => return false,
            };
        }
        let known = FLAGS.contains(&&tags);
        if known {
            self.cursor = ahead;
        }
        known
    }
}

/// An unescaped quote ends the string of JSON in which a sequence is spelled, and the sequence with it.
fn ends_literal(token: Token, reading: Reading) -> bool {
    reading == Reading::Spelled && !token.spelled && token.code == u32::from('"')
}

/// What no sequence goes on behind: the beginning of another, CAN, SUB.
fn ends_sequence(code: u32) -> bool {
    matches!(code, 0x18 | 0x1A | ESC | 0x80..=0x9F)
}

const BEL: u32 = 0x07;
const LF: u32 = 0x0A;
const ESC: u32 = 0x1B;
const ST: u32 = 0x9C;
const ZWJ: u32 = 0x200D;
const KEYCAP: u32 = 0x20E3;
/// England, Scotland, Wales.
const FLAGS: [&[u8; 6]; 3] = [b"gbeng\x7f", b"gbsct\x7f", b"gbwls\x7f"];
