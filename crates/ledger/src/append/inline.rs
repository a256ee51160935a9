//! The pen: whoever holds it writes the next record. The thread takes it for what is queued; a caller whose record
//! need only reach the kernel takes it if it lies free, and saves the way through the queue and back.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Instant;

use crate::append::writer::{Appender, Turn};
use crate::append::{Final, Health, Job};
use crate::receipt::Written;

/// How often a caller looks whether the pen has become free before it queues: about as long as a record takes.
const LOOKS: usize = 100;

/// The one appender, or nothing once the log is closed.
pub(crate) struct Pen {
    appender: Mutex<Option<Appender>>,
    health: Arc<Health>,
}

impl Pen {
    pub(crate) fn new(appender: Appender) -> Self {
        Self {
            health: Arc::clone(&appender.health),
            appender: Mutex::new(Some(appender)),
        }
    }

    /// Nobody can write with it.
    #[cfg(test)]
    pub(crate) fn lost(health: Arc<Health>) -> Self {
        Self {
            appender: Mutex::new(None),
            health,
        }
    }

    /// Writes a final record at once; `None` where it has to queue.
    pub(crate) fn write_now(&self, entry: &Final) -> Option<Written> {
        for _ in 0..LOOKS {
            match self.appender.try_lock() {
                Ok(mut appender) => return appender.as_mut()?.write_now(entry),
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
            let Ok(mut pen) = self.appender.lock() else { return };
            let Some(appender) = pen.as_mut() else { return };
            if appender.turn(first, queue, &mut group) == Turn::Last {
                return;
            }
            deadline = appender.next_deadline();
        }
    }
}

/// Puts the pen away for good.
struct Closing<'a>(&'a Pen);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        drop(self.0.appender.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
