//! Writes records: chains what it is given, writes it with one call, answers.
//! ADR 0013: the log keeps answering.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use vocabulary::{ReasonCode, ReceiptId, Risk};

use crate::append::flood::Floods;
use crate::append::queue::{Health, Job, Submission};
use crate::append::slow_disk::SlowDisk;
use crate::append::sync::{Syncer, Waiter};
use crate::chain::{Chain, Head};
use crate::ending::{Ending, Status, Verdict};
use crate::entry::{Entry, Final};
use crate::event::{Event, Note};
use crate::receipt::{LedgerDown, Written};
use crate::record::{Request, write_request};
use crate::segment::{Position, Tail};
use crate::settings::{Durability, Settings};
use crate::sign::Order;

/// A checkpoint is signed after so many records.
const SIGNED_EVERY: u64 = 256;
/// Records written at once.
const GROUP: usize = 1024;
/// How long after a failed write the next is tried, if nobody asks before.
const RETRY: Duration = Duration::from_secs(1);

/// What writes. INVARIANT: there is one, behind the inline writer's lock, so that the order of the chain is that of the file.
pub(crate) struct Writer {
    tail: Tail,
    chain: Chain,
    syncer: Syncer,
    pub(crate) health: Arc<Health>,
    durability: Durability,
    segment_bytes: u64,
    floods: Floods,
    /// Where the intents stand that have no final record yet.
    open: HashMap<ReceiptId, Position>,
    outage: Option<Outage>,
    buffer: Vec<u8>,
    /// When callers do not wait for the disk themselves.
    slow_disk: SlowDisk,
    /// Whoever signs is told of every so many records.
    signer: Option<Sender<Order>>,
}

/// The time since writing failed.
struct Outage {
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

/// Whether there is more to come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Continue,
    Last,
}

impl Writer {
    pub(crate) fn new(tail: Tail, chain: Chain, syncer: Syncer, health: Arc<Health>, settings: &Settings) -> Self {
        Self {
            tail,
            chain,
            syncer,
            health,
            durability: settings.durability,
            segment_bytes: settings.segment_bytes,
            floods: Floods::default(),
            open: HashMap::new(),
            outage: None,
            buffer: Vec::new(),
            slow_disk: SlowDisk::default(),
            signer: None,
        }
    }

    /// This writer, with somebody to tell of every 256 records.
    pub(crate) fn telling(mut self, signer: Sender<Order>) -> Self {
        self.signer = Some(signer);
        self
    }

    /// The log has grown to `seq`.
    fn reached(&self, seq: u64) {
        let before = self.health.last_seq.swap(seq, Ordering::AcqRel);
        if before / SIGNED_EVERY < seq / SIGNED_EVERY
            && let Some(signer) = &self.signer
        {
            // Whoever has ended by now signed what it could.
            let _ = signer.send(Order::Look);
        }
    }

    /// Writes `first`, everything that is queued behind it, and what has been held back long enough.
    pub(crate) fn turn(&mut self, first: Option<Job>, queue: &Receiver<Job>, group: &mut Vec<Submission>) -> Turn {
        let turn = self.collect(first, queue, group);
        match turn {
            Turn::Continue => self.floods.release(Instant::now(), group),
            Turn::Last => self.floods.release_all(group),
        }
        self.commit(group);
        turn
    }

    fn collect(&mut self, first: Option<Job>, queue: &Receiver<Job>, group: &mut Vec<Submission>) -> Turn {
        let now = Instant::now();
        let mut next = first;
        let mut taken = 0;
        while let Some(job) = next {
            match job {
                Job::Record(submission) if self.closes_an_intent(&submission.entry) => group.push(submission),
                Job::Record(submission) => group.extend(self.floods.sift(submission, now)),
                Job::Stop => return Turn::Last,
            }
            taken += 1;
            next = if taken < GROUP { queue.try_recv().ok() } else { None };
        }
        Turn::Continue
    }

    /// When there is something to do although nothing is queued.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let retry = self.outage.as_ref().map(|_| Instant::now() + RETRY);
        self.floods.next_release().into_iter().chain(retry).min()
    }

    /// Writes one record for the caller that waits for it, if nothing but the kernel has to take it: no disk to wait
    /// for, no write that waited for it just now, no flood to fold, no outage, no new segment. `None`: it has to queue, also where
    /// writing failed, so that an outage is known to the thread that ends it.
    pub(crate) fn write_now(&mut self, entry: &Final) -> Option<Written> {
        let plain = match &entry.ending {
            Ending::Called { .. } | Ending::Answered { .. } => true,
            Ending::Unidentified { .. } | Ending::Unreadable { .. } | Ending::Refused { .. } => false,
        };
        let (now, disk) = (Instant::now(), self.syncer.disk());
        let ready = plain
            && !self.final_waits_for_disk(&entry.ending)
            && self.outage.is_none()
            && self.tail.length() < self.segment_bytes
            && self.slow_disk.admits(disk, now);
        if !ready {
            return None;
        }
        let before = self.chain.head();
        self.buffer.clear();
        let seq = self.chain.link(&mut self.buffer, |out, seal| {
            write_request(out, &Request::of_final(entry, now), seal)
        });
        let written = self.tail.append(&self.buffer);
        self.slow_disk.learn(disk, now, now.elapsed());
        if written.is_err() {
            self.chain.return_to(before);
            return None;
        }
        self.reached(seq);
        let id = entry.arrival.receipt_id;
        self.open.remove(&id);
        self.syncer.ask(self.tail.file(), Vec::new());
        Some(Written { id: Some(id), seq })
    }

    fn closes_an_intent(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Final(entry) => self.open.contains_key(&entry.arrival.receipt_id),
            Entry::Intent(_) | Entry::Event(_) => false,
        }
    }

    /// Writes the group and answers everybody in it.
    fn commit(&mut self, group: &mut Vec<Submission>) {
        let outage = self.outage.take();
        if group.is_empty() && outage.is_none() {
            return;
        }
        let before = self.chain.head();
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let placed = self.encode(outage.as_ref(), group, &mut buffer);
        match self.write(&buffer) {
            Ok(start) => self.settle(outage, placed, start),
            Err(error) => self.refuse(outage, placed, before, &error),
        }
        buffer.shrink_to(4 * 1024 * 1024);
        self.buffer = buffer;
    }

    fn encode(&mut self, outage: Option<&Outage>, group: &mut Vec<Submission>, buffer: &mut Vec<u8>) -> Vec<Placed> {
        let now = Instant::now();
        if let Some(outage) = outage {
            self.chain.write(&Entry::Event(outage.resumed(now)), now, buffer);
            for entry in &outage.owed {
                self.chain.link(buffer, |out, seal| {
                    write_request(out, &Request::of_final(entry, now), seal)
                });
            }
        }
        group
            .drain(..)
            .map(|submission| {
                let offset = buffer.len() as u64;
                let seq = self.chain.write(&submission.entry, now, buffer);
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
            if self.tail.rotate(&open)? {
                self.syncer.changed_file();
            }
        }
        self.tail.keep_ahead();
        let start = self.tail.end();
        self.tail.append(buffer)?;
        Ok(start)
    }

    /// The group is in the kernel: answers those who wait for that, and passes on those who wait for the disk.
    fn settle(&mut self, outage: Option<Outage>, placed: Vec<Placed>, start: Position) {
        self.reached(self.chain.head().seq);
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
                    self.open.insert(entry.arrival.receipt_id, position);
                    Some(entry.arrival.receipt_id)
                }
                Entry::Event(event) => event.receipt_id(),
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
        self.chain.return_to(before);
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
        match (self.durability, entry) {
            (_, Entry::Final(entry)) => self.final_waits_for_disk(&entry.ending),
            (Durability::Always, _) => true,
            (Durability::Interval, _) => false,
            (Durability::Writes, Entry::Intent(entry)) => entry.intent.message.risk != Some(Risk::Low),
            // What a person allowed, and that it was used, is on disk before anything follows from it.
            (Durability::Writes, Entry::Event(Event::Approval(_) | Event::Incident(_))) => true,
            (Durability::Writes, Entry::Event(Event::Admin(note))) => note.result == Verdict::Allow,
            (Durability::Writes, Entry::Event(Event::Inventory(_) | Event::Egress(_) | Event::Screening(_))) => false,
            // What it announces is applied by hooks and seen by consumers.
            (Durability::Writes, Entry::Event(Event::HarnessResult(_))) => true,
            (Durability::Writes, Entry::Event(Event::HarnessAttempt(_))) => false,
        }
    }

    fn final_waits_for_disk(&self, ending: &Ending) -> bool {
        match (self.durability, ending) {
            (Durability::Always, _) => true,
            (Durability::Interval, _) => false,
            (Durability::Writes, Ending::Called { message, .. }) => message.risk != Some(Risk::Low),
            (
                Durability::Writes,
                Ending::Unidentified { .. }
                | Ending::Unreadable { .. }
                | Ending::Refused { .. }
                | Ending::Answered { .. },
            ) => false,
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // However writing ended, nothing is written from here on.
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
    pub(crate) fn withheld(mut self) -> Self {
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
