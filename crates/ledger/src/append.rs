//! The door to the log: hand in how a request ended, wait until it is written, get a [`Receipt`].

pub(crate) mod queue;
pub(crate) mod sync;
pub(crate) mod slow_disk;
pub(crate) mod flood;
pub(crate) mod writer;
pub(crate) mod inline;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use tokio::sync::oneshot;
use vocabulary::note::Verifier;
use vocabulary::{Clock, ReceiptId};

use crate::chain::Chain;
use crate::ending::{Arrival, Ending, Intent, Status};
use crate::entry::{Announced, Entry, Final};
use crate::event::{Event, Fact, Note};
use crate::payload::{KeptPayloads, PayloadKind, PayloadRef, Payloads};
use crate::receipt::{EventReceipt, IntentReceipt, LedgerDown, Receipt, Recorded, Written};
use crate::retention::{Keeper, Kept};
use crate::segment::Tail;
use crate::settings::Settings;
use crate::sign::{CheckpointSigner, Order, ROTATION, SignFault, SignerThread};
use crate::witness::WitnessThread;
use inline::InlineWriter;
use queue::{Answer, Health, Job, Replies, Submission};
use sync::Syncer;
use writer::Writer;

/// Records that may wait to be written. One more is refused.
const QUEUE: usize = 8192;

/// A handle on the log that this process writes. Clones write the same log.
#[derive(Clone)]
pub struct Ledger(Arc<Shared>);

struct Shared {
    queue: SyncSender<Job>,
    inline: Arc<InlineWriter>,
    health: Arc<Health>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    signer: Mutex<Option<SignerThread>>,
    keeper: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
    beside: Beside,
    rotating: Mutex<()>,
    witness: Mutex<Option<WitnessThread>>,
}

/// What is kept beside the records.
pub(crate) struct Beside {
    pub(crate) kept: KeptPayloads,
    pub(crate) payloads: Option<Payloads>,
    pub(crate) clock: Clock,
}

impl Ledger {
    /// Records how a request ended and waits until that is as safe as its risk asks.
    ///
    /// Refusals of one kind from one address past 100 in a second wait for the end of that second and share a record:
    /// answer with [`Receipt::id`], not with the id the request arrived with.
    ///
    /// # Errors
    /// When nothing could be written: the answer must not leave.
    pub async fn append(&self, arrival: &Arrival, ending: Ending, size_bytes_out: u64) -> Result<Receipt, LedgerDown> {
        self.append_final(Final {
            arrival: *arrival,
            ending,
            size_bytes_out,
            count: 1,
            result_ref: None,
        })
        .await
    }

    /// [`Ledger::append`] for what is answered with `answer`, which is kept where answers of servers are.
    ///
    /// # Errors
    /// When nothing could be written: the answer must not leave.
    pub async fn append_answer(
        &self,
        arrival: &Arrival,
        ending: Ending,
        size_bytes_out: u64,
        answer: impl FnOnce() -> Vec<u8>,
    ) -> Result<Receipt, LedgerDown> {
        let is_carried_out = match &ending {
            Ending::Called { outcome, .. } => outcome.status == Status::Success,
            Ending::Unidentified { .. }
            | Ending::Unreadable { .. }
            | Ending::Refused { .. }
            | Ending::Answered { .. } => false,
        };
        let mut entry = Final {
            arrival: *arrival,
            ending,
            size_bytes_out,
            count: 1,
            result_ref: None,
        };
        if is_carried_out && self.0.beside.kept.results {
            match self.keep_payload(arrival.receipt_id, PayloadKind::Result, answer()) {
                Ok(kept) => entry.result_ref = Some(kept),
                Err(down) => {
                    // It is on record that it was carried out, and that nobody was told.
                    let _ = self.append_final(entry.withheld()).await?;
                    return Err(down);
                }
            }
        }
        self.append_final(entry).await
    }

    /// Keeps the arguments of a request, if arguments are kept.
    ///
    /// # Errors
    /// When they could not be written: the request must not go on.
    pub fn keep_arguments(
        &self,
        receipt: ReceiptId,
        arguments: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<PayloadRef>, LedgerDown> {
        match self.0.beside.kept.arguments {
            true => self
                .keep_payload(receipt, PayloadKind::Arguments, arguments())
                .map(Some),
            false => Ok(None),
        }
    }

    fn keep_payload(&self, receipt: ReceiptId, kind: PayloadKind, bytes: Vec<u8>) -> Result<PayloadRef, LedgerDown> {
        let payloads = self.0.beside.payloads.as_ref().ok_or(LedgerDown::Stopped)?;
        let kept = payloads.keep(self.0.beside.clock.now(), receipt, kind, bytes);
        kept.map_err(|fault| {
            tracing::error!(
                error = &fault as &dyn std::error::Error,
                "what should be kept beside a record cannot be written; the request is refused"
            );
            LedgerDown::Disk
        })
    }

    /// Records several endings within one request that are alike, as one record with their count.
    ///
    /// # Errors
    /// When nothing could be written: what they allow must not happen.
    pub async fn append_alike(&self, arrival: &Arrival, ending: Ending, count: u64) -> Result<Receipt, LedgerDown> {
        self.append_final(Final {
            arrival: *arrival,
            ending,
            size_bytes_out: 0,
            count,
            result_ref: None,
        })
        .await
    }

    async fn append_final(&self, entry: Final) -> Result<Receipt, LedgerDown> {
        let receipt_id = entry.arrival.receipt_id;
        let written = match self.0.inline.write_now(&entry) {
            Some(written) => Ok(written),
            None => self.submit(Entry::Final(Box::new(entry))).await,
        };
        written.map(|written| written.into_receipt(receipt_id))
    }

    /// Records that a call is about to leave. Every intent needs a final [`Ledger::append`] under the same arrival.
    ///
    /// # Errors
    /// When nothing could be written: the call must not leave. Try to append a refusal with
    /// `DENY_RECEIPT_UNAVAILABLE` then: the intent may have reached the kernel before the disk failed.
    pub async fn append_intent(&self, arrival: &Arrival, intent: Intent) -> Result<IntentReceipt, LedgerDown> {
        let entry = Entry::Intent(Box::new(Announced {
            arrival: *arrival,
            intent,
        }));
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

    /// Records several things in this order; those written together share what makes them last.
    ///
    /// # Errors
    /// When one could not be written: what they announce must not happen.
    pub async fn append_events(&self, events: Vec<Event>) -> Result<(), LedgerDown> {
        let mut events = events.into_iter().peekable();
        while events.peek().is_some() {
            let some: Vec<_> = events
                .by_ref()
                .take(TOGETHER)
                .map(|event| self.enqueue(Entry::Event(event)))
                .collect();
            for answer in some {
                answer?.await.unwrap_or(Err(LedgerDown::Stopped))?;
            }
        }
        Ok(())
    }

    /// Records a fact and gives it back with the proof.
    ///
    /// # Errors
    /// When nothing could be written: what follows from the fact must not happen.
    pub async fn record<F: Fact>(&self, fact: F, subject: F::Subject) -> Result<Recorded<F>, LedgerDown> {
        let receipt = self.append_event(fact.event(subject)).await?;
        Ok(Recorded::new(fact, &receipt))
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

    /// Whether the log is larger than it may be, and nothing more of it may go: the disk may soon be too small.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.0.health.pressed.load(Ordering::Acquire)
    }

    /// The place of the newest record; 0 in an empty log.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.0.health.last_seq.load(Ordering::Acquire)
    }

    /// Signs a checkpoint over everything there is, if anything is new, and gives back the latest; `None` in an empty log. Blocks.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn checkpoint(&self) -> Result<Option<String>, SignFault> {
        self.order(Order::Sign)?
    }

    /// ADR 0122: hands over to a new key: makes it, records its name, and has the next checkpoint signed by both. Gives back its public
    /// half. Blocks.
    ///
    /// # Errors
    /// When one of these cannot be done; the old key signs on unless the record was written.
    pub fn rotate_key(&self, actor: &str) -> Result<Verifier, SignFault> {
        // One at a time: a record must never name a key that another rotation replaced before it signed.
        let _rotating = vocabulary::lock(&self.0.rotating);
        let (old, new) = self.order(Order::Announce)??;
        let message = format!("the log hands over to a new key; until here it was {old}");
        let note = Note::done(ROTATION, actor, Some(&new.to_string()), &message);
        let recorded = self.append_event_blocking(Event::Admin(note));
        recorded.map_err(|_| SignFault::Disk(io::ErrorKind::Other.into()))?;
        self.checkpoint()?;
        Ok(new)
    }

    /// Asks the thread that signs.
    fn order<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Result<T, SignFault> {
        let (reply, answer) = channel();
        let orders = vocabulary::lock(&self.0.signer)
            .as_ref()
            .map(|signer| signer.orders.clone());
        let sent = orders.map(|orders| orders.send(order(reply)));
        if !matches!(sent, Some(Ok(()))) {
            return Err(SignFault::Stopped);
        }
        answer.recv().map_err(|_| SignFault::Stopped)
    }

    /// Writes what is queued and held, syncs, and closes the log. Blocks; later appends get [`LedgerDown::Stopped`].
    pub fn shutdown(&self) {
        if let Some((stop, keeping)) = vocabulary::lock(&self.0.keeper).take() {
            drop(stop);
            end(keeping);
        }
        // An error means that the thread has ended already.
        let _ = self.0.queue.send(Job::Stop);
        let threads = std::mem::take(&mut *vocabulary::lock(&self.0.threads));
        // INVARIANT: nothing is written any more when the last checkpoint is signed.
        let signer = vocabulary::lock(&self.0.signer).take();
        let (signing, stop) = signer.map(|signer| (signer.handle, signer.orders)).unzip();
        threads.into_iter().for_each(end);
        let _ = stop.map(|orders| orders.send(Order::Stop));
        signing.into_iter().for_each(end);
        // After the last checkpoint.
        let witness = vocabulary::lock(&self.0.witness).take();
        witness.into_iter().for_each(WitnessThread::end);
    }

    /// Starts the threads that write behind `tail`.
    pub(crate) fn start(
        tail: Tail,
        chain: Chain,
        signer: CheckpointSigner,
        settings: &Settings,
        payloads: Option<Payloads>,
    ) -> io::Result<Self> {
        let health = Arc::new(Health {
            written: AtomicBool::new(true),
            synced: AtomicBool::new(true),
            last_seq: AtomicU64::new(chain.head().seq),
            synced_seq: AtomicU64::new(chain.head().seq),
            pressed: AtomicBool::new(false),
        });
        let (queue, inbox) = sync_channel(QUEUE);
        let (syncer, sync_thread) = Syncer::start(settings.commit_interval, Arc::clone(&health))?;
        let signer = SignerThread::start(signer, Arc::clone(&health))?;
        let writer = Writer::new(tail, chain, syncer, Arc::clone(&health), settings).telling(signer.orders.clone());
        let inline = Arc::new(InlineWriter::new(writer));
        let shared = Arc::clone(&inline);
        let write_thread = Builder::new()
            .name("ledger-append".to_owned())
            .spawn(move || shared.serve(&inbox))?;
        let beside = Beside {
            kept: settings.payloads,
            payloads,
            clock: settings.clock.clone(),
        };
        let ledger = Self::assemble(queue, (inline, health), vec![write_thread, sync_thread], beside);
        *vocabulary::lock(&ledger.0.signer) = Some(signer);
        Ok(ledger)
    }

    fn assemble(
        queue: SyncSender<Job>,
        (inline, health): (Arc<InlineWriter>, Arc<Health>),
        threads: Vec<JoinHandle<()>>,
        beside: Beside,
    ) -> Self {
        Self(Arc::new(Shared {
            queue,
            inline,
            health,
            threads: Mutex::new(threads),
            signer: Mutex::new(None),
            keeper: Mutex::new(None),
            beside,
            rotating: Mutex::new(()),
            witness: Mutex::new(None),
        }))
    }

    /// Removes and packs old segments from here on.
    pub(crate) fn keep(&self, keeper: Keeper) -> io::Result<()> {
        let (stop, stopped) = channel();
        let log = Arc::downgrade(&self.0);
        let thread = Builder::new()
            .name("ledger-keep".to_owned())
            .spawn(move || keeper.run(&stopped, || log.upgrade().map(Self)))?;
        *vocabulary::lock(&self.0.keeper) = Some((stop, thread));
        Ok(())
    }

    /// Has every checkpoint copied from here on.
    pub(crate) fn be_witnessed(&self, witness: WitnessThread) {
        *vocabulary::lock(&self.0.witness) = Some(witness);
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

impl Kept for Ledger {
    fn record(&self, event: Event) -> Result<(), LedgerDown> {
        self.append_event_blocking(event).map(drop)
    }

    fn tell(&self, is_pressed: bool) {
        self.0.health.pressed.store(is_pressed, Ordering::Release);
    }
}

fn end(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a ledger thread ended by panic");
    }
}

/// How many things are recorded together at most; far fewer than the queue holds.
const TOGETHER: usize = 64;

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("last_seq", &self.last_seq())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::event::Note;
    use crate::sample;

    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_a_closed_one_too() {
        let (queue, inbox) = sync_channel(1);
        let health = Arc::new(Health {
            written: true.into(),
            synced: true.into(),
            last_seq: 0.into(),
            synced_seq: 0.into(),
            pressed: false.into(),
        });
        let inline = Arc::new(InlineWriter::closed(Arc::clone(&health)));
        let beside = Beside {
            kept: KeptPayloads::default(),
            payloads: None,
            clock: Clock::system(),
        };
        let ledger = Ledger::assemble(queue, (inline, health), Vec::new(), beside);
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
