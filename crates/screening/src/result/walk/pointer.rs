//! Says where a literal stands, in words that a server did not choose: names that somebody else knows are printed,
//! others are counted.

use std::collections::HashMap;

use vocabulary::json::span::{DEEPEST, Scanner, SpanFault};

use crate::result::edit::units::decoded;

/// Pointers (RFC 6901) to the values, or to the members whose names they are, that begin at `places`: ascending offsets
/// as of [`Literal::span`](super::Literal::span). Names that `is_known` does not know become `<unexpected key #1>`, one
/// number for each name.
///
/// # Errors
/// When the message is not well-formed.
pub fn pointers(raw: &[u8], places: &[usize], is_known: &dyn Fn(&str) -> bool) -> Result<Vec<String>, SpanFault> {
    let mut search = Search {
        raw,
        scanner: Scanner::new(raw, DEEPEST),
        places,
        steps: Vec::new(),
        unknown: HashMap::new(),
        is_known,
        found: Vec::with_capacity(places.len()),
    };
    while search.found.len() < places.len() && search.value()? {}
    Ok(search.found)
}

struct Search<'a> {
    raw: &'a [u8],
    scanner: Scanner<'a>,
    places: &'a [usize],
    steps: Vec<Step>,
    unknown: HashMap<String, usize>,
    is_known: &'a dyn Fn(&str) -> bool,
    found: Vec<String>,
}

/// One level of the way to the current value.
enum Step {
    Element(usize),
    /// Where the name lies.
    Member(std::ops::Range<usize>),
}

impl Search<'_> {
    /// Reads the next value, or goes into it; false at the end.
    fn value(&mut self) -> Result<bool, SpanFault> {
        match self.scanner.peek() {
            Some(b'{') => {
                self.scanner.enter(self.steps.len())?;
                if !self.scanner.take(b'}') {
                    return self.member().map(|()| true);
                }
            }
            Some(b'[') => {
                self.scanner.expect(b'[')?;
                if self.steps.len() >= DEEPEST {
                    return Err(SpanFault::TooDeep);
                }
                if !self.scanner.take(b']') {
                    self.steps.push(Step::Element(0));
                    return Ok(true);
                }
            }
            Some(_) | None => {
                let span = self.scanner.value(self.steps.len())?;
                let quote = usize::from(self.raw.get(span.start) == Some(&b'"'));
                self.arrive(span.start + quote);
            }
        }
        self.follow()
    }

    fn member(&mut self) -> Result<(), SpanFault> {
        let name = self.scanner.key_span()?;
        let start = name.start;
        self.steps.push(Step::Member(name));
        self.arrive(start);
        Ok(())
    }

    /// Goes on behind a value; false at the end.
    fn follow(&mut self) -> Result<bool, SpanFault> {
        while let Some(step) = self.steps.pop() {
            let more = self.scanner.take(b',');
            match step {
                Step::Element(index) if more => {
                    self.steps.push(Step::Element(index + 1));
                    return Ok(true);
                }
                Step::Member(_) if more => return self.member().map(|()| true),
                Step::Element(_) => self.scanner.expect(b']')?,
                Step::Member(_) => self.scanner.expect(b'}')?,
            }
        }
        Ok(false)
    }

    /// Something begins at `place`; tells the way to it, as often as it was asked for.
    fn arrive(&mut self, place: usize) {
        while self.places.get(self.found.len()) == Some(&place) {
            let mut pointer = String::new();
            for step in &self.steps {
                pointer.push('/');
                match step {
                    Step::Element(index) => pointer.push_str(&index.to_string()),
                    Step::Member(name) => {
                        let name = decoded(self.raw.get(name.clone()).unwrap_or_default());
                        if (self.is_known)(&name) {
                            pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                        } else {
                            let number = self.unknown.len() + 1;
                            let number = *self.unknown.entry(name).or_insert(number);
                            pointer.push_str(&format!("<unexpected key #{number}>"));
                        }
                    }
                }
            }
            self.found.push(pointer);
        }
    }
}
