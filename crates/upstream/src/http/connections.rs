//! How many connections to servers there may be, over all of them: descriptors are the whole process's.

use std::sync::atomic::{AtomicUsize, Ordering};

static OPEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// From now on there are no more connections to servers than this.
pub fn bound_connections(most: usize) {
    MOST.store(most, Ordering::Relaxed);
}

/// A connection that is open; another may be opened when it is dropped.
pub(crate) struct ConnectionPermit(());

impl ConnectionPermit {
    /// One more, if there may be.
    pub(crate) fn take() -> Option<Self> {
        let most = MOST.load(Ordering::Relaxed);
        let taken = OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < most).then_some(open + 1)
        });
        taken.is_ok().then_some(Self(()))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}
