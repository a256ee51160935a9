//! The door to the log: hand in how a request ended, wait until it is written, get a [`Receipt`].

pub(crate) mod flood;
pub(crate) mod inline;
pub(crate) mod slow_disk;
pub(crate) mod sync;
pub(crate) mod writer;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use vocabulary::Clock;

use crate::append::inline::Pen;
use crate::receipt::Written;
use crate::{Arrival, Ending, Event, EventReceipt, Intent, IntentReceipt, OpenError, Opened, Receipt};

/// What an answer waits for. In all three nothing is released before its record reached the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Every answer waits for the disk.
    Always,
    /// Calls of medium or higher risk wait for the disk, all others for the kernel.
    #[default]
    Writes,
    /// Every answer waits for the kernel; the disk follows within the commit interval.
    Interval,
}

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The log's name, fixed at first start: visible ASCII without space and `+`.
    pub origin: String,
    /// What an answer waits for.
    pub durability: Durability,
    /// The longest time a record stays in the kernel alone.
    pub commit_interval: Duration,
    /// Where `ts` comes from.
    pub clock: Clock,
    /// A segment that has grown to this many bytes is followed by a new one.
    pub segment_bytes: u64,
}

impl Settings {
    /// The defaults for a log of this name.
    #[must_use]
    pub fn new(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            durability: Durability::default(),
            commit_interval: Duration::from_millis(5),
            clock: Clock::system(),
            segment_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Why no receipt was given. What it was asked for must not be released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LedgerDown {
    /// More waits to be recorded than the log can take.
    #[error("the ledger's queue is full")]
    QueueFull,
    /// The record could not be written, or could not be brought to the disk.
    #[error("the ledger cannot write to its disk")]
    Disk,
    /// The log was closed.
    #[error("the ledger is closed")]
    Stopped,
}

/// A handle on the log that this process writes. Clones write the same log.
#[derive(Clone)]
pub struct Ledger(Arc<Shared>);

struct Shared {
    queue: SyncSender<Job>,
    pen: Arc<Pen>,
    health: Arc<Health>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Ledger {
    /// Opens the log in `ledger/` of the state directory, checks its tail, mends what a crash left and starts writing.
    ///
    /// # Errors
    /// When another process writes it, its name differs, its tail does not verify, or the disk fails.
    pub fn open(state: &Path, settings: Settings) -> Result<(Self, Opened), OpenError> {
        crate::open::open(state, settings)
    }

    /// Records how a request ended and waits until that is as safe as its risk asks.
    ///
    /// Refusals of one kind from one address past 100 in a second wait for the end of that second and share a record:
    /// answer with [`Receipt::id`], not with the id the request arrived with.
    ///
    /// # Errors
    /// When nothing could be written: the answer must not leave.
    pub async fn append(&self, arrival: &Arrival, ending: Ending, size_bytes_out: u64) -> Result<Receipt, LedgerDown> {
        let entry = Final {
            arrival: *arrival,
            ending,
            size_bytes_out,
            count: 1,
        };
        let written = match self.0.pen.write_now(&entry) {
            Some(written) => Ok(written),
            None => self.submit(Entry::Final(Box::new(entry))).await,
        };
        written.map(|written| written.into_receipt(arrival.receipt_id))
    }

    /// Records that a call is about to leave. Every intent needs a final [`Ledger::append`] under the same arrival.
    ///
    /// # Errors
    /// When nothing could be written: the call must not leave. Try to append a refusal with
    /// `DENY_RECEIPT_UNAVAILABLE` then: the intent may have reached the kernel before the disk failed.
    pub async fn append_intent(&self, arrival: &Arrival, intent: Intent) -> Result<IntentReceipt, LedgerDown> {
        let entry = Entry::Intent(Box::new((*arrival, intent)));
        self.submit(entry)
            .await
            .map(|written| written.into_intent(arrival.receipt_id))
    }

    /// Records something that is not a request.
    ///
    /// # Errors
    /// When nothing could be written: what it announces must not happen.
    pub async fn append_event(&self, event: Event) -> Result<EventReceipt, LedgerDown> {
        self.submit(Entry::Event(event)).await.map(Written::into_event)
    }

    /// [`Ledger::append_event`] for callers without a runtime. Blocks.
    ///
    /// # Errors
    /// When nothing could be written.
    pub fn append_event_blocking(&self, event: Event) -> Result<EventReceipt, LedgerDown> {
        let answer = self.enqueue(Entry::Event(event))?;
        answer
            .blocking_recv()
            .unwrap_or(Err(LedgerDown::Stopped))
            .map(Written::into_event)
    }

    /// Whether the last write and the last sync succeeded.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.0.health.written.load(Ordering::Acquire) && self.0.health.synced.load(Ordering::Acquire)
    }

    /// The place of the newest record; 0 in an empty log.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.0.health.last_seq.load(Ordering::Acquire)
    }

    /// Writes what is queued and held, syncs, and closes the log. Blocks; later appends get [`LedgerDown::Stopped`].
    pub fn shutdown(&self) {
        // An error means that the thread has ended already.
        let _ = self.0.queue.send(Job::Stop);
        let threads = std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a ledger thread ended by panic");
            }
        }
    }

    pub(crate) fn assemble(
        queue: SyncSender<Job>,
        pen: Arc<Pen>,
        health: Arc<Health>,
        threads: Vec<JoinHandle<()>>,
    ) -> Self {
        Self(Arc::new(Shared {
            queue,
            pen,
            health,
            threads: Mutex::new(threads),
        }))
    }

    async fn submit(&self, entry: Entry) -> Result<Written, LedgerDown> {
        self.enqueue(entry)?.await.unwrap_or(Err(LedgerDown::Stopped))
    }

    fn enqueue(&self, entry: Entry) -> Result<oneshot::Receiver<Answer>, LedgerDown> {
        let (reply, answer) = oneshot::channel();
        match self.0.queue.try_send(Job::Record(Submission {
            entry,
            replies: Replies::One(reply),
        })) {
            Ok(()) => Ok(answer),
            Err(TrySendError::Full(_)) => Err(LedgerDown::QueueFull),
            Err(TrySendError::Disconnected(_)) => Err(LedgerDown::Stopped),
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("last_seq", &self.last_seq())
            .finish_non_exhaustive()
    }
}

/// What the threads tell the handles.
pub(crate) struct Health {
    pub(crate) written: AtomicBool,
    pub(crate) synced: AtomicBool,
    pub(crate) last_seq: AtomicU64,
}

pub(crate) enum Job {
    Record(Submission),
    Stop,
}

pub(crate) type Answer = Result<Written, LedgerDown>;
pub(crate) type Reply = oneshot::Sender<Answer>;

/// One record to write, and who waits for it.
pub(crate) struct Submission {
    pub(crate) entry: Entry,
    pub(crate) replies: Replies,
}

pub(crate) enum Replies {
    One(Reply),
    Many(Vec<Reply>),
}

impl Replies {
    pub(crate) fn send(self, answer: Answer) {
        // A waiter that has gone away does not unmake its record.
        match self {
            Self::One(reply) => {
                let _ = reply.send(answer);
            }
            Self::Many(replies) => {
                for reply in replies {
                    let _ = reply.send(answer);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(replies) => replies.len(),
        }
    }
}

pub(crate) enum Entry {
    Final(Box<Final>),
    Intent(Box<(Arrival, Intent)>),
    Event(Event),
}

/// The final record of a request, or of `count` refusals that share it.
pub(crate) struct Final {
    pub(crate) arrival: Arrival,
    pub(crate) ending: Ending,
    pub(crate) size_bytes_out: u64,
    pub(crate) count: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::{Note, sample};

    // R226
    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_a_closed_one_too() {
        let (queue, inbox) = sync_channel(1);
        let health = Arc::new(Health {
            written: true.into(),
            synced: true.into(),
            last_seq: 0.into(),
        });
        let pen = Arc::new(Pen::lost(Arc::clone(&health)));
        let ledger = Ledger::assemble(queue, pen, health, Vec::new());
        let waiting = ledger
            .enqueue(Entry::Event(Event::Admin(Note::done("a.b", "c", None, "d"))))
            .unwrap();
        let refused = ledger.append(&sample::arrival(), sample::answered(), 1).await;
        assert_eq!(refused.unwrap_err(), LedgerDown::QueueFull);
        drop(inbox);
        let refused = ledger
            .append_intent(&sample::arrival(), sample::intent(vocabulary::Risk::High))
            .await;
        assert_eq!(refused.unwrap_err(), LedgerDown::Stopped);
        assert!(waiting.await.is_err(), "what was queued is not acknowledged");
    }
}
