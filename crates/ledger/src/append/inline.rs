//! Writing inline: whoever holds the lock on the writer writes the next record. The thread takes it for what is queued;
//! a caller whose record need only reach the kernel takes it if it is free, and saves the way through the queue and back.
//! ADR 0019: who writes a record.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Instant;

use crate::append::queue::{Health, Job};
use crate::append::writer::{Turn, Writer};
use crate::entry::Final;
use crate::receipt::Written;

/// How often a caller looks whether the writer has become free before it queues: about as long as a record takes.
const LOOKS: usize = 100;

/// The one writer, or nothing once the log is closed.
pub(crate) struct InlineWriter {
    writer: Mutex<Option<Writer>>,
    health: Arc<Health>,
}

impl InlineWriter {
    pub(crate) fn new(writer: Writer) -> Self {
        Self {
            health: Arc::clone(&writer.health),
            writer: Mutex::new(Some(writer)),
        }
    }

    /// One that writes nothing any more.
    #[cfg(test)]
    pub(crate) fn closed(health: Arc<Health>) -> Self {
        Self {
            writer: Mutex::new(None),
            health,
        }
    }

    /// Keeps everybody else from writing.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> std::sync::MutexGuard<'_, Option<Writer>> {
        vocabulary::lock(&self.writer)
    }

    /// Writes a final record at once; `None` where it has to queue.
    pub(crate) fn write_now(&self, entry: &Final) -> Option<Written> {
        for _ in 0..LOOKS {
            match self.writer.try_lock() {
                Ok(mut writer) => return writer.as_mut()?.write_now(entry),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => {
                    self.health.written.store(false, Ordering::Release);
                    return None;
                }
            }
        }
        None
    }

    /// Writes what comes through the queue until it is told to stop, and closes the log.
    pub(crate) fn serve(&self, queue: &Receiver<Job>) {
        // INVARIANT: however this ends, nothing is written from here on, and the sync thread is let go.
        let _closing = Closing(self);
        let mut group = Vec::new();
        let mut deadline: Option<Instant> = None;
        loop {
            let first = match deadline {
                Some(deadline) => queue.recv_timeout(deadline.saturating_duration_since(Instant::now())),
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let first = match first {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Job::Stop),
            };
            // Somebody panicked while writing: what the log looks like is for the next start to find out.
            let Ok(mut held) = self.writer.lock() else { return };
            let Some(writer) = held.as_mut() else { return };
            if writer.turn(first, queue, &mut group) == Turn::Last {
                return;
            }
            deadline = writer.next_deadline();
        }
    }
}

/// Closes the writer for good.
struct Closing<'a>(&'a InlineWriter);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        drop(vocabulary::lock(&self.0.writer).take());
    }
}
