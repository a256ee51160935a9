//! What a summary counts of a request.

use super::super::filter::Status;
use super::super::read::Facts;
use super::super::walk::{Escapes, Walk};

/// One final record of a request, as summaries see it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Group {
    pub(super) principal: String,
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) method: String,
    /// The first of its codes, so that lines by reason add up to all.
    pub(super) reason: String,
    pub(super) status: i64,
}

/// A request: what it is counted under, and what is counted.
pub(super) struct Measured {
    pub(super) micros: i64,
    pub(super) group: Group,
    pub(super) calls: u64,
    pub(super) duration: Option<u64>,
}

#[derive(Default)]
struct Further<'a> {
    method: Option<&'a [u8]>,
    reason: Option<&'a [u8]>,
    count: Option<u64>,
    duration: Option<u64>,
}

impl Measured {
    /// Reads a line, of which these facts are known; `None` where it is not the final record of a request.
    pub(super) fn read(facts: &Facts<'_>, line: &[u8]) -> Option<Self> {
        if !facts.is_final_request() {
            return None;
        }
        let escapes = Escapes::of(line);
        let walk = Walk::around(escapes.as_ref());
        let mut further = Further::default();
        further.take(walk, line)?;
        let text = |text: Option<&[u8]>| match text {
            Some(inside) => walk.decode(inside).map(|text| owned(&text)),
            None => Some(String::new()),
        };
        let [server, tool, principal, ..] = facts.texts().map(|text| owned(text.unwrap_or_default()));
        Some(Self {
            micros: facts.ts.as_micros(),
            group: Group {
                principal,
                server,
                tool,
                method: text(further.method)?,
                reason: text(further.reason)?,
                status: facts.status.map_or(-1, Status::code),
            },
            calls: further.count.unwrap_or(1),
            duration: further.duration,
        })
    }
}

impl<'a> Further<'a> {
    fn take(&mut self, walk: Walk<'_>, line: &'a [u8]) -> Option<()> {
        let rest = walk.members(line, |name, value| match name {
            b"count" => walk.number(value, &mut self.count),
            b"mcp" => walk.members(value, |name, value| match name {
                b"method" => walk.text(value, &mut self.method),
                _ => walk.pass(value),
            }),
            b"decision" => walk.members(value, |name, value| match (name, value) {
                (b"reason_codes", [b'[', first @ ..]) if first.first() == Some(&b'"') => {
                    walk.text(first, &mut self.reason)?;
                    walk.pass(value)
                }
                _ => walk.pass(value),
            }),
            b"outcome" => walk.members(value, |name, value| match name {
                b"duration_us" if value.first().is_some_and(u8::is_ascii_digit) => {
                    walk.number(value, &mut self.duration)
                }
                _ => walk.pass(value),
            }),
            _ => walk.pass(value),
        })?;
        rest.is_empty().then_some(())
    }
}

fn owned(text: &[u8]) -> String {
    // The line was found to be UTF-8.
    String::from_utf8_lossy(text).into_owned()
}
