//! A disk that fails on demand, and what the segments do then.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many more bytes the disk takes before it is full.
#[derive(Clone)]
pub(crate) struct Faults(Arc<AtomicU64>);

impl Default for Faults {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Faults {
    pub(crate) fn leave_room_for(&self, bytes: u64) {
        self.0.store(bytes, Ordering::SeqCst);
    }

    /// Writes as much as there is room for, as a filling disk does.
    pub(crate) fn write_through(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        let room = self.0.load(Ordering::SeqCst);
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        file.write_all(&bytes[..fits])?;
        if fits < bytes.len() {
            self.0.store(0, Ordering::SeqCst);
            return Err(io::ErrorKind::StorageFull.into());
        }
        if room != u64::MAX {
            self.0.store(room - fits as u64, Ordering::SeqCst);
        }
        Ok(())
    }
}
