//! The one thread that writes: takes what is queued, chains it, writes it with one call, answers.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use vocabulary::{ReasonCode, ReceiptId, Risk};

use crate::append::{Entry, Final, Health, Job, Submission};
use crate::chain::{Head, Scribe};
use crate::flood::Floods;
use crate::receipt::Written;
use crate::record::{Request, write_request};
use crate::segment::{Position, Tail};
use crate::sync::{Syncer, Waiter};
use crate::{Durability, Ending, Event, LedgerDown, Note, Status, Verdict};

/// Records written at once.
const GROUP: usize = 1024;
/// How long after a failed write the next is tried, if nobody asks before.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Appender {
    pub(crate) queue: Receiver<Job>,
    pub(crate) tail: Tail,
    pub(crate) scribe: Scribe,
    pub(crate) syncer: Syncer,
    pub(crate) health: Arc<Health>,
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    pub(crate) floods: Floods,
    /// Where the intents stand that have no final record yet.
    pub(crate) open: HashMap<ReceiptId, Position>,
    pub(crate) outage: Option<Outage>,
}

/// The time since writing failed.
pub(crate) struct Outage {
    since: Instant,
    refused: u64,
    /// Finals of calls whose intent is in the log: they are written first when writing works again.
    owed: Vec<Final>,
}

/// A record in the buffer that is about to be written.
struct Placed {
    submission: Submission,
    seq: u64,
    offset: u64,
}

enum Turn {
    Continue,
    Last,
}

impl Appender {
    pub(crate) fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP);
        let mut buffer = Vec::new();
        loop {
            let turn = self.collect(&mut group);
            match turn {
                Turn::Continue => self.floods.release(Instant::now(), &mut group),
                Turn::Last => self.floods.release_all(&mut group),
            }
            self.commit(&mut group, &mut buffer);
            if let Turn::Last = turn {
                return;
            }
        }
    }

    /// Waits for something to do, then takes everything that is queued.
    fn collect(&mut self, group: &mut Vec<Submission>) -> Turn {
        let first = match self.next_deadline() {
            Some(deadline) => self
                .queue
                .recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => self.queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut next = match first {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Turn::Last,
        };
        let now = Instant::now();
        let mut taken = 0;
        while let Some(job) = next {
            match job {
                Job::Record(submission) if self.closes_an_intent(&submission.entry) => group.push(submission),
                Job::Record(submission) => group.extend(self.floods.sift(submission, now)),
                Job::Stop => return Turn::Last,
            }
            taken += 1;
            next = if taken < GROUP {
                self.queue.try_recv().ok()
            } else {
                None
            };
        }
        Turn::Continue
    }

    fn next_deadline(&self) -> Option<Instant> {
        let retry = self.outage.as_ref().map(|_| Instant::now() + RETRY);
        self.floods.next_release().into_iter().chain(retry).min()
    }

    fn closes_an_intent(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Final(entry) => self.open.contains_key(&entry.arrival.receipt_id),
            Entry::Intent(_) | Entry::Event(_) => false,
        }
    }

    /// Writes the group and answers everybody in it.
    fn commit(&mut self, group: &mut Vec<Submission>, buffer: &mut Vec<u8>) {
        let outage = self.outage.take();
        if group.is_empty() && outage.is_none() {
            return;
        }
        let before = self.scribe.head();
        let placed = self.encode(outage.as_ref(), group, buffer);
        match self.write(buffer) {
            Ok(start) => self.settle(outage, placed, start),
            Err(error) => self.refuse(outage, placed, before, &error),
        }
        buffer.clear();
        buffer.shrink_to(4 * 1024 * 1024);
    }

    fn encode(&mut self, outage: Option<&Outage>, group: &mut Vec<Submission>, buffer: &mut Vec<u8>) -> Vec<Placed> {
        let now = Instant::now();
        if let Some(outage) = outage {
            self.scribe.write(&Entry::Event(outage.resumed(now)), now, buffer);
            for entry in &outage.owed {
                self.scribe.link(buffer, |out, seal| {
                    write_request(out, &Request::of_final(entry, now), seal)
                });
            }
        }
        group
            .drain(..)
            .map(|submission| {
                let offset = buffer.len() as u64;
                let seq = self.scribe.write(&submission.entry, now, buffer);
                Placed {
                    submission,
                    seq,
                    offset,
                }
            })
            .collect()
    }

    /// Adds the buffer to the log; gives back where it begins.
    fn write(&mut self, buffer: &[u8]) -> io::Result<Position> {
        if self.tail.length() >= self.segment_bytes {
            let open: Vec<Position> = self.open.values().copied().collect();
            self.tail.rotate(&open)?;
            self.syncer.changed_file();
        }
        let start = self.tail.end();
        self.tail.append(buffer)?;
        Ok(start)
    }

    /// The group is in the kernel: answers those who wait for that, and passes on those who wait for the disk.
    fn settle(&mut self, outage: Option<Outage>, placed: Vec<Placed>, start: Position) {
        self.health.last_seq.store(self.scribe.head().seq, Ordering::Release);
        if let Some(outage) = outage {
            self.health.written.store(true, Ordering::Release);
            tracing::info!(refused = outage.refused, "the ledger can write again");
            for entry in outage.owed {
                self.open.remove(&entry.arrival.receipt_id);
            }
        }
        let mut waiters = Vec::new();
        for Placed {
            submission,
            seq,
            offset,
        } in placed
        {
            let durable = self.waits_for_disk(&submission.entry);
            let id = match &submission.entry {
                Entry::Final(entry) => {
                    self.open.remove(&entry.arrival.receipt_id);
                    Some(entry.arrival.receipt_id)
                }
                Entry::Intent(entry) => {
                    let position = Position {
                        offset: start.offset + offset,
                        ..start
                    };
                    self.open.insert(entry.0.receipt_id, position);
                    Some(entry.0.receipt_id)
                }
                Entry::Event(event) => event.note().receipt_id,
            };
            let written = Written { id, seq };
            if durable {
                waiters.push(Waiter {
                    replies: submission.replies,
                    written,
                });
            } else {
                submission.replies.send(Ok(written));
            }
        }
        self.syncer.ask(self.tail.file(), waiters);
    }

    /// Nothing of the group is in the log: refuses everybody, and keeps the finals that an intent waits for.
    fn refuse(&mut self, outage: Option<Outage>, placed: Vec<Placed>, before: Head, error: &io::Error) {
        self.scribe.return_to(before);
        self.health.written.store(false, Ordering::Release);
        if outage.is_none() {
            tracing::error!(%error, "the ledger cannot write; calls are refused");
        }
        let mut outage = outage.unwrap_or(Outage {
            since: Instant::now(),
            refused: 0,
            owed: Vec::new(),
        });
        for Placed {
            submission: Submission { entry, replies },
            ..
        } in placed
        {
            outage.refused += replies.len() as u64;
            replies.send(Err(LedgerDown::Disk));
            match entry {
                Entry::Final(entry) if self.open.contains_key(&entry.arrival.receipt_id) => {
                    outage.owed.push(entry.withheld());
                }
                Entry::Final(_) | Entry::Intent(_) | Entry::Event(_) => {}
            }
        }
        self.outage = Some(outage);
    }

    fn waits_for_disk(&self, entry: &Entry) -> bool {
        match self.durability {
            Durability::Always => true,
            Durability::Interval => false,
            Durability::Writes => match entry {
                Entry::Intent(entry) => entry.1.message.risk != Some(Risk::Low),
                Entry::Final(entry) => match &entry.ending {
                    Ending::Called { message, .. } => message.risk != Some(Risk::Low),
                    Ending::Unidentified { .. }
                    | Ending::Unreadable { .. }
                    | Ending::Refused { .. }
                    | Ending::Answered { .. } => false,
                },
                Entry::Event(Event::Admin(note)) => note.result == Verdict::Allow,
                Entry::Event(Event::Inventory(_)) => false,
            },
        }
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // However the thread ended, nothing is written from here on.
        self.health.written.store(false, Ordering::Release);
    }
}

impl Outage {
    /// The record that says what could not be recorded.
    fn resumed(&self, now: Instant) -> Event {
        let lasted = now.saturating_duration_since(self.since).as_millis();
        let message = format!(
            "the log could not be written for {lasted} ms; {} answers were withheld",
            self.refused
        );
        Event::Admin(Note::done("ledger.resume", "portreeve", None, &message))
    }
}

impl Final {
    /// This ending as it must be told later: its answer was not released.
    fn withheld(mut self) -> Self {
        self.size_bytes_out = 0;
        if let Ending::Called { decision, outcome, .. } = &mut self.ending {
            outcome.status = Status::Error;
            decision.reason_codes.push(ReasonCode::DenyReceiptUnavailable);
        }
        self
    }
}

#[cfg(test)]
mod tests;
