//! The calls that a process is at work on: what it tries to reach is told with them.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use vocabulary::{Clock, Digest, ReceiptId, Timestamp, lock};

/// Longer than an attempt takes to be reported.
const REMEMBERED: Duration = Duration::from_secs(2);

/// A call that a process is at work on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenCall {
    /// Its receipt.
    pub receipt_id: ReceiptId,
    /// The tool, if it is one.
    pub tool: Option<String>,
    /// The client's session.
    pub session: Option<Digest>,
}

/// The calls that are open in one process, and those that were a moment ago: an attempt may be reported after the call
/// that it was made for has ended.
#[derive(Default)]
pub(crate) struct OpenCalls(Mutex<Vec<Noted>>);

struct Noted {
    id: u64,
    call: OpenCall,
    opened: Timestamp,
    closed: Option<Timestamp>,
}

impl OpenCalls {
    pub(crate) fn open(&self, id: u64, call: OpenCall) {
        self.open_at(id, call, Clock::system().now());
    }

    pub(crate) fn close(&self, id: u64) {
        self.close_at(id, Clock::system().now());
    }

    fn open_at(&self, id: u64, call: OpenCall, opened: Timestamp) {
        self.lock().push(Noted {
            id,
            call,
            opened,
            closed: None,
        });
    }

    fn close_at(&self, id: u64, now: Timestamp) {
        let mut calls = self.lock();
        calls.retain(|noted| noted.closed.is_none_or(|closed| closed.plus(REMEMBERED) > now));
        if let Some(noted) = calls.iter_mut().find(|noted| noted.id == id) {
            noted.closed = Some(now);
        }
    }

    /// Those that were open at any time between `from` and `until`.
    pub(super) fn between(&self, from: Timestamp, until: Timestamp) -> Vec<OpenCall> {
        let calls = self.lock();
        let open = calls
            .iter()
            .filter(|noted| noted.opened <= until && noted.closed.is_none_or(|closed| closed >= from));
        open.map(|noted| noted.call.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Noted>> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_belongs_to_the_calls_that_were_open_when_it_was_made() {
        let calls = OpenCalls::default();
        let at = Timestamp::from_micros;
        let call = |tool: &str| OpenCall {
            receipt_id: ReceiptId::parse("rcp_00000000000070008000000000000000").unwrap(),
            tool: Some(tool.to_owned()),
            session: None,
        };
        let named = |from, until| -> Vec<String> {
            let open = calls.between(at(from), at(until));
            open.into_iter().filter_map(|call| call.tool).collect()
        };
        calls.open_at(1, call("one"), at(10));
        calls.close_at(1, at(20));
        calls.open_at(2, call("two"), at(30));
        assert_eq!(named(15, 15), ["one"], "heard of after its end");
        assert_eq!(named(25, 25), [""; 0]);
        assert_eq!(named(35, 35), ["two"]);
        assert_eq!(named(15, 35), ["one", "two"], "repeats may be of both");
        calls.close_at(2, at(3_000_000));
        assert_eq!(named(15, 15), [""; 0], "forgotten");
        assert_eq!(named(35, 35), ["two"]);
    }
}
