//! The thread that signs: what wakes it and what it is asked.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use vocabulary::note::Verifier;

use super::{CheckpointSigner, SignFault};
use crate::append::queue::Health;

/// The longest time a record stands without a checkpoint over it.
const EVERY: Duration = Duration::from_secs(1);

/// What the thread is asked.
pub(crate) enum Order {
    /// Many records are new.
    Look,
    /// Sign everything; the answer is the latest checkpoint.
    Sign(Sender<Result<Option<String>, SignFault>>),
    /// Make the key that takes over; the answer is the one that signs and the one to come.
    Announce(Sender<Result<(Verifier, Verifier), SignFault>>),
    /// Sign everything and end.
    Stop,
}

/// The handle's end of the thread.
pub(crate) struct SignerThread {
    pub(crate) orders: Sender<Order>,
    pub(crate) handle: JoinHandle<()>,
}

impl SignerThread {
    pub(crate) fn start(signer: CheckpointSigner, health: Arc<Health>) -> io::Result<Self> {
        let (orders, inbox) = channel();
        let thread = Thread {
            signer,
            health,
            inbox,
            trouble: Trouble::None,
        };
        let handle = Builder::new()
            .name("ledger-sign".to_owned())
            .spawn(move || thread.run())?;
        Ok(Self { orders, handle })
    }
}

/// Whether the last attempt went well.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// It failed, was said so, and is tried again.
    Told,
    /// Nothing is signed any more.
    Final,
}

struct Thread {
    signer: CheckpointSigner,
    health: Arc<Health>,
    inbox: Receiver<Order>,
    trouble: Trouble,
}

impl Thread {
    fn run(mut self) {
        loop {
            match self.inbox.recv_timeout(EVERY) {
                // What the sync thread has brought to the disk is enough: more will follow.
                Ok(Order::Look) => drop(self.sign_synced()),
                // On a full disk, what is left is the log's: files beside it neither take room nor give it back for a moment.
                Err(RecvTimeoutError::Timeout) if !self.health.written.load(Ordering::Acquire) => {}
                Err(RecvTimeoutError::Timeout) => drop(self.sign_all()),
                // Nobody waits any more for an answer that is not taken.
                Ok(Order::Sign(reply)) => drop(reply.send(self.sign_all())),
                Ok(Order::Announce(reply)) => drop(reply.send(self.signer.announce())),
                Ok(Order::Stop) => {
                    let _ = self.sign_all();
                    return;
                }
                // Everybody has gone without a word, as in a crash.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn sign_synced(&mut self) -> Result<Option<String>, SignFault> {
        self.sign(self.health.synced_seq.load(Ordering::Acquire))
    }

    /// Signs everything there is, and brings it to the disk first where the sync thread did not.
    fn sign_all(&mut self) -> Result<Option<String>, SignFault> {
        let last = self.health.last_seq.load(Ordering::Acquire);
        if self.health.synced_seq.load(Ordering::Acquire) < last
            && last > self.signer.signed
            && let Err(error) = self.sync()
        {
            return Err(self.tell(SignFault::Disk(error)));
        }
        self.sign(last)
    }

    fn sync(&self) -> io::Result<()> {
        let files = self.signer.unsynced_files()?;
        files.iter().try_for_each(|path| match File::open(path) {
            Ok(file) => file.sync_data(),
            // It was packed, and what is packed is on the disk.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        })
    }

    fn sign(&mut self, size: u64) -> Result<Option<String>, SignFault> {
        if self.trouble == Trouble::Final {
            return Err(SignFault::Stopped);
        }
        let signed = self.signer.sign_up_to(size).map(|note| note.map(str::to_owned));
        match signed {
            Ok(note) => {
                self.trouble = Trouble::None;
                Ok(note)
            }
            Err(fault) => Err(self.tell(fault)),
        }
    }

    fn tell(&mut self, fault: SignFault) -> SignFault {
        let passes = fault.may_pass();
        if self.trouble == Trouble::None || !passes {
            let cause = std::error::Error::source(&fault)
                .map(ToString::to_string)
                .unwrap_or_default();
            tracing::error!(error = %fault, cause, "no checkpoint is signed; records are written as before");
        }
        self.trouble = if passes { Trouble::Told } else { Trouble::Final };
        fault
    }
}
