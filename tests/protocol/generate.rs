//! Spellings that every re-serialisation changes, made from a seed.

/// A generator whose seed tells all that comes.
pub(super) struct Odd(u64);

const NUMBERS: [&str; 12] = [
    "1.7976931348623157e309",
    "1e2",
    "-0",
    "12345678901234567890123",
    "1.0",
    "0.10",
    "-1E+5",
    "1e-7",
    "9007199254740993",
    "-98765432109876543210987",
    "0e0",
    "18446744073709551616",
];

const PIECES: [&str; 16] = [
    r"\u00fc",
    r"\/",
    r"\ud83d\ude00",
    "é",
    "😀",
    r"\u0000",
    r#"\""#,
    r"\\",
    r"\b\f\n\r\t",
    "\u{7f}",
    "\u{2028}",
    r"\uFEFF",
    "plain words",
    r"\u0041",
    "data: x",
    "}]",
];

/// Halves of characters, which no Unicode text can hold.
const HALVES: [&str; 3] = [r"\ud800", r"\uDC00x", r"\udbff\ud800"];

const SPACES: [&str; 10] = ["", "", "", "", " ", "  ", "\t", "\n", "\r\n", " \n\t "];

/// What may stand in a string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// Only what is Unicode.
    Whole,
    /// Halves of characters too.
    Halves,
}

impl Odd {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below `limit` (SplitMix64).
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn space(&mut self) -> &'static str {
        self.pick(&SPACES)
    }

    fn string(&mut self, text: Text) -> String {
        let mut out = String::from("\"");
        for _ in 0..self.below(5) {
            let half = text == Text::Halves && self.one_in(6);
            out += if half { self.pick(&HALVES) } else { self.pick(&PIECES) };
        }
        out + "\""
    }

    /// Any value, nested at most so deep.
    pub(super) fn value(&mut self, deep: usize, text: Text, keys: Keys) -> String {
        match self.below(if deep == 0 { 5 } else { 8 }) {
            0 => self.pick(&["true", "false", "null"]).to_owned(),
            // Arguments are hashed in a canonical form, which has no number beyond a double.
            1 | 2 if text == Text::Whole => self.pick(&NUMBERS[1..]).to_owned(),
            1 | 2 => self.pick(&NUMBERS).to_owned(),
            3 | 4 => self.string(text),
            5 => {
                let items: Vec<_> = (0..self.below(4)).map(|_| self.value(deep - 1, text, keys)).collect();
                self.spaced('[', &items, ']')
            }
            _ => self.object(deep - 1, text, keys),
        }
    }

    /// Any object; names stand in it twice now and then, if they may.
    pub(super) fn object(&mut self, deep: usize, text: Text, keys: Keys) -> String {
        let mut members = Vec::new();
        for place in 0..self.below(5) {
            let name = match self.below(4) {
                0 if keys == Keys::Twice => "\"twice\"".to_owned(),
                1 => format!("\"z{place}\""),
                2 => format!("\"\\u0041{place}\""),
                _ => self.string(text).replacen('"', &format!("\"{place}"), 1),
            };
            let (before, behind) = (self.space(), self.space());
            members.push(format!("{name}{before}:{behind}{}", self.value(deep, text, keys)));
        }
        self.spaced('{', &members, '}')
    }

    fn spaced(&mut self, open: char, items: &[String], close: char) -> String {
        let mut out = format!("{open}{}", self.space());
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                out += self.space();
                out.push(',');
                out += self.space();
            }
            out += item;
        }
        out += self.space();
        out.push(close);
        out
    }

    fn block(&mut self) -> String {
        let text = self.string(Text::Halves);
        let more = self.value(2, Text::Halves, Keys::Twice);
        match self.below(4) {
            0 => format!(r#"{{"type":"x-vendor/unheard-of" ,"payload":{more}}}"#),
            1 => format!(r#"{{"text": {text},"annotations":{{"audience":["system"],"x":{more}}},"type":"text"}}"#),
            2 => format!(r#"{{"type":"resource_link","uri":"a:b","name":{text},"_meta":{{"k":{more}}}}}"#),
            _ => format!(r#"{{"type":"text","text":{text}}}"#),
        }
    }

    /// A tool's result, with these members beside the usual ones.
    pub(super) fn result(&mut self, beside: &[&str]) -> String {
        let blocks: Vec<_> = (0..1 + self.below(3)).map(|_| self.block()).collect();
        let mut members = vec![format!("\"content\":{}", self.spaced('[', &blocks, ']'))];
        if self.one_in(2) {
            let structured = self.object(3, Text::Halves, Keys::Twice);
            members.push(format!("\"structuredContent\" : {structured}"));
        }
        if self.one_in(3) {
            members.push("\"isError\":false".to_owned());
        }
        if self.one_in(2) {
            let inner = self.value(2, Text::Halves, Keys::Twice);
            members.push(format!("\"_meta\":{{ \"vendor/key\":{inner}}}"));
        }
        if self.one_in(2) {
            let inner = self.value(2, Text::Halves, Keys::Twice);
            members.push(format!("\"x-\\u0075nknown\":{inner}"));
        }
        if self.one_in(50) {
            let depth = 50 + self.below(200);
            members.push(format!("\"deep\":{}{}", "[".repeat(depth), "]".repeat(depth)));
        }
        if self.one_in(20) {
            members.push(r#""\ud800":1"#.to_owned());
        }
        members.extend(beside.iter().map(|&member| member.to_owned()));
        for place in 1..members.len() {
            let other = self.below(place + 1);
            members.swap(place, other);
        }
        self.spaced('{', &members, '}')
    }
}

/// Whether a name may stand in an object twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Once,
    Twice,
}
