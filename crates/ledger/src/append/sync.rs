//! Brings records to the disk beside the writer, so that those who need not wait for it do not.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::append::queue::{Health, Replies};
use crate::receipt::{LedgerDown, Written};

/// The writer's end of the sync thread.
pub(crate) struct Syncer {
    requests: Sender<Request>,
    dirty: Arc<AtomicBool>,
    pub(crate) syncing: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    health: Arc<Health>,
}

/// Whether a sync is under way, which a write may have to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disk {
    Idle,
    Syncing,
}

/// Somebody who waits for the disk.
pub(crate) struct Waiter {
    pub(crate) replies: Replies,
    pub(crate) written: Written,
}

struct Request {
    file: Arc<File>,
    /// Empty: nobody waits, the commit interval is soon enough.
    waiters: Vec<Waiter>,
}

impl Syncer {
    pub(crate) fn start(interval: Duration, health: Arc<Health>) -> io::Result<(Self, JoinHandle<()>)> {
        let (requests, inbox) = channel();
        let dirty = Arc::new(AtomicBool::new(false));
        let syncing = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicU64::new(0));
        let thread = Thread {
            inbox,
            asked: Arc::clone(&asked),
            reached: 0,
            dirty: Arc::clone(&dirty),
            syncing: Arc::clone(&syncing),
            interval,
            health: Arc::clone(&health),
            files: Vec::new(),
            unsynced: false,
        };
        let handle = Builder::new()
            .name("ledger-sync".to_owned())
            .spawn(move || thread.run())?;
        let syncer = Self {
            requests,
            dirty,
            syncing,
            asked,
            health,
        };
        Ok((syncer, handle))
    }

    /// Answers `waiters` once what was written to `file` so far is on disk; syncs within the interval if there are none.
    pub(crate) fn ask(&self, file: &Arc<File>, waiters: Vec<Waiter>) {
        // Without waiters one request is enough until the thread has taken it up.
        if !waiters.is_empty() || !self.dirty.swap(true, Ordering::AcqRel) {
            let request = Request {
                file: Arc::clone(file),
                waiters,
            };
            if let Err(lost) = self.requests.send(request) {
                lost.0
                    .waiters
                    .into_iter()
                    .for_each(|waiter| waiter.replies.send(Err(LedgerDown::Stopped)));
            }
        }
        // After the request is on its way: whoever reads this number finds the file that it is about.
        let written = self.health.last_seq.load(Ordering::Acquire);
        self.asked.store(written, Ordering::Release);
    }

    /// What the disk is doing now.
    pub(crate) fn disk(&self) -> Disk {
        if self.syncing.load(Ordering::Acquire) {
            Disk::Syncing
        } else {
            Disk::Idle
        }
    }

    /// A new file is written from here on; the old one is on disk.
    pub(crate) fn changed_file(&self) {
        self.dirty.store(false, Ordering::Release);
    }
}

struct Thread {
    inbox: Receiver<Request>,
    asked: Arc<AtomicU64>,
    /// Up to here the files of this round hold what was written.
    reached: u64,
    dirty: Arc<AtomicBool>,
    syncing: Arc<AtomicBool>,
    interval: Duration,
    health: Arc<Health>,
    files: Vec<Arc<File>>,
    /// The last sync failed, and is tried again.
    unsynced: bool,
}

impl Thread {
    fn run(mut self) {
        const RETRY: Duration = Duration::from_secs(1);
        let mut waiters = Vec::new();
        loop {
            let first = if self.unsynced {
                self.inbox.recv_timeout(RETRY)
            } else {
                self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match first {
                Ok(request) => self.gather(request, &mut waiters),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Before the sync: what is written from here on asks again.
            self.dirty.store(false, Ordering::Release);
            let answer = self.sync();
            for waiter in waiters.drain(..) {
                waiter.replies.send(answer.map(|()| waiter.written));
            }
        }
    }

    /// Takes in what has been asked; without a waiter, what is asked within the interval too.
    fn gather(&mut self, first: Request, waiters: &mut Vec<Waiter>) {
        let until = Instant::now() + self.interval;
        self.take(first, waiters);
        while waiters.is_empty() {
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(request) => self.take(request, waiters),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        self.reached = self.asked.load(Ordering::Acquire);
        while let Ok(request) = self.inbox.try_recv() {
            self.take(request, waiters);
        }
    }

    fn take(&mut self, request: Request, waiters: &mut Vec<Waiter>) {
        if !self.files.iter().any(|file| Arc::ptr_eq(file, &request.file)) {
            self.files.push(request.file);
        }
        waiters.extend(request.waiters);
    }

    fn sync(&mut self) -> Result<(), LedgerDown> {
        self.syncing.store(true, Ordering::Release);
        let result = self.files.iter().try_for_each(|file| file.sync_data());
        self.syncing.store(false, Ordering::Release);
        if let Err(error) = &result
            && !self.unsynced
        {
            tracing::error!(%error, "the ledger cannot bring its records to the disk; calls that need it are refused");
        }
        self.unsynced = result.is_err();
        self.health.synced.store(result.is_ok(), Ordering::Release);
        if result.is_ok() {
            self.health.synced_seq.store(self.reached, Ordering::Release);
            self.files.clear();
        }
        result.map_err(|_| LedgerDown::Disk)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use tokio::sync::oneshot;

    use super::*;

    fn health() -> Arc<Health> {
        Arc::new(Health {
            written: AtomicBool::new(true),
            synced: AtomicBool::new(true),
            last_seq: AtomicU64::new(0),
            synced_seq: AtomicU64::new(0),
            pressed: AtomicBool::new(false),
        })
    }

    fn waiter() -> (Waiter, oneshot::Receiver<Result<Written, LedgerDown>>) {
        let (reply, answer) = oneshot::channel();
        (
            Waiter {
                replies: Replies::One(reply),
                written: Written { id: None, seq: 1 },
            },
            answer,
        )
    }

    #[test]
    fn whoever_waits_is_served_at_once_though_a_sync_was_asked_for_already() {
        let health = health();
        // Nobody would be served by the interval within the life of this test.
        let (syncer, thread) = Syncer::start(Duration::from_secs(3_600), health).unwrap();
        let file = Arc::new(File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap());
        syncer.ask(&file, Vec::new());
        let (waits, served) = waiter();
        syncer.ask(&file, vec![waits]);
        assert_eq!(served.blocking_recv().unwrap().map(|written| written.seq), Ok(1));
        drop(syncer);
        thread.join().unwrap();
    }

    #[test]
    fn a_new_file_is_asked_for_though_the_old_one_was_already() {
        let health = health();
        let (syncer, thread) = Syncer::start(Duration::from_secs(3_600), health).unwrap();
        let old = Arc::new(File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap());
        // A device cannot be synced, which tells that it was tried.
        let new = Arc::new(File::open("/dev/null").unwrap());
        syncer.ask(&old, Vec::new());
        syncer.changed_file();
        syncer.ask(&new, Vec::new());
        let (waits, answer) = waiter();
        syncer.ask(&old, vec![waits]);
        assert_eq!(answer.blocking_recv().unwrap().err(), Some(LedgerDown::Disk));
        drop(syncer);
        thread.join().unwrap();
    }

    #[test]
    fn what_nobody_waits_for_is_left_until_the_interval_is_over() {
        let health = health();
        let (syncer, thread) = Syncer::start(Duration::from_secs(3_600), Arc::clone(&health)).unwrap();
        // A device cannot be synced, which tells that it was tried.
        syncer.ask(&Arc::new(File::open("/dev/null").unwrap()), Vec::new());
        std::thread::sleep(Duration::from_millis(200));
        assert!(health.synced.load(Ordering::Acquire));
        drop(syncer);
        thread.join().unwrap();
        assert!(!health.synced.load(Ordering::Acquire), "the end does not wait for it");
    }

    #[test]
    fn whoever_waits_for_the_disk_is_refused_while_it_fails_and_served_when_it_works_again() {
        let health = health();
        let (syncer, thread) = Syncer::start(Duration::from_millis(1), Arc::clone(&health)).unwrap();
        // A device cannot be synced; an ordinary file can.
        let device = Arc::new(File::open("/dev/null").unwrap());
        let (first, refused) = waiter();
        syncer.ask(&device, vec![first]);
        assert_eq!(refused.blocking_recv().unwrap().err(), Some(LedgerDown::Disk));
        assert!(!health.synced.load(Ordering::Acquire));
        drop(syncer);
        thread.join().unwrap();

        let (syncer, thread) = Syncer::start(Duration::from_millis(1), Arc::clone(&health)).unwrap();
        let file = Arc::new(File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap());
        let (second, served) = waiter();
        syncer.ask(&file, vec![second]);
        assert_eq!(served.blocking_recv().unwrap().map(|written| written.seq), Ok(1));
        assert!(health.synced.load(Ordering::Acquire));
        drop(syncer);
        thread.join().unwrap();
    }
}
