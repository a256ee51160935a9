//! How much room connections may take: so many in all, so many from one address, and none for one
//! that asks nothing.

use std::collections::HashMap;
use std::io::IoSlice;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Buf;

/// However many descriptors there are.
const MOST_CONNECTIONS: usize = 10_000;
/// One address has a fifth of the seats.
const SHARES: usize = 5;
/// A connection must ask something within this time.
const FIRST_REQUEST: Duration = Duration::from_secs(15);
/// A connection on which nothing is asked ends after this time.
const IDLE: Duration = Duration::from_secs(120);
/// One over which nothing of an answer leaves, because nobody reads it, ends after this time.
const UNREAD: Duration = Duration::from_secs(20);

/// The seats taken, by address.
#[derive(Clone)]
pub(super) struct ConnectionLimit {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
}

/// A taken seat; free again when dropped.
pub(super) struct ConnectionSlot {
    limit: ConnectionLimit,
    address: IpAddr,
}

impl ConnectionLimit {
    /// So many seats, and no more than there are at all.
    pub(super) fn of(most: usize) -> Self {
        Self {
            taken: Arc::default(),
            most: most.clamp(1, MOST_CONNECTIONS),
        }
    }

    fn most_from_one_address(&self) -> usize {
        (self.most / SHARES).max(1)
    }

    /// Takes a seat, if there is one.
    pub(super) fn enter(&self, address: IpAddr) -> Option<ConnectionSlot> {
        let mut taken = lock(&self.taken);
        let here = taken.get(&address).copied().unwrap_or_default();
        if here >= self.most_from_one_address() || taken.values().sum::<usize>() >= self.most {
            return None;
        }
        taken.insert(address, here + 1);
        Some(ConnectionSlot {
            limit: self.clone(),
            address,
        })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = lock(&self.limit.taken);
        match taken.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.remove(&self.address)),
        }
    }
}

/// What happens on one connection.
pub(super) struct Activity(Mutex<Happening>);

struct Happening {
    /// Requests being answered.
    busy: usize,
    /// Whether anything was asked yet.
    greeted: bool,
    /// When something began or ended last.
    since: Instant,
    /// Parts of answers that have not left yet.
    unread: usize,
    /// When something of them left last.
    moved: Instant,
}

/// A request being answered; over when dropped.
pub(super) struct Busy(Arc<Activity>);

impl Default for Activity {
    fn default() -> Self {
        Self(Mutex::new(Happening {
            busy: 0,
            greeted: false,
            since: Instant::now(),
            unread: 0,
            moved: Instant::now(),
        }))
    }
}

impl Activity {
    /// A request begins.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        let mut now = lock(&self.0);
        (now.busy, now.greeted, now.since) = (now.busy + 1, true, Instant::now());
        Busy(self.clone())
    }

    /// Whether the connection has been silent for too long, or nobody reads what is said over it.
    pub(super) fn is_over(&self) -> bool {
        let now = lock(&self.0);
        let patience = if now.greeted { IDLE } else { FIRST_REQUEST };
        match now.unread {
            0 => now.busy == 0 && now.since.elapsed() > patience,
            _ => now.moved.elapsed() > UNREAD,
        }
    }

    /// Part of an answer is about to leave.
    pub(super) fn leaving<D: Buf>(self: &Arc<Self>, data: D) -> Leaving<D> {
        let mut now = lock(&self.0);
        if now.unread == 0 {
            now.moved = Instant::now();
        }
        now.unread += 1;
        Leaving {
            data,
            activity: self.clone(),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut now = lock(&self.0.0);
        (now.busy, now.since) = (now.busy.saturating_sub(1), Instant::now());
    }
}

/// Part of an answer on its way to the client. What is left of it is seen by whoever looks after the connection, whichever
/// version of HTTP holds it back.
pub(super) struct Leaving<D> {
    data: D,
    activity: Arc<Activity>,
}

impl<D: Buf> Buf for Leaving<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slots: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(slots)
    }

    fn advance(&mut self, count: usize) {
        lock(&self.activity.0).moved = Instant::now();
        self.data.advance(count);
    }
}

impl<D> Drop for Leaving<D> {
    fn drop(&mut self) {
        let mut now = lock(&self.activity.0);
        let left = Instant::now();
        (now.unread, now.moved, now.since) = (now.unread.saturating_sub(1), left, left);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_every_seat() {
        let limit = ConnectionLimit::of(usize::MAX);
        let here = IpAddr::from([127, 0, 0, 1]);
        let seats: Vec<_> = (0..MOST_CONNECTIONS).map_while(|_| limit.enter(here)).collect();
        assert_eq!(seats.len(), MOST_CONNECTIONS / SHARES);
        assert!(limit.enter(here).is_none());
        assert!(limit.enter(IpAddr::from([127, 0, 0, 2])).is_some());
        drop(seats);
        assert!(limit.enter(here).is_some());
        assert!(lock(&limit.taken).is_empty(), "a seat that is dropped is free");
    }

    #[test]
    fn a_connection_is_over_only_when_nothing_is_being_answered() {
        let activity = Arc::new(Activity::default());
        let long_ago = Instant::now().checked_sub(IDLE * 2).expect("uptime");
        let busy = activity.begin();
        lock(&activity.0).since = long_ago;
        assert!(!activity.is_over());
        drop(busy);
        assert!(!activity.is_over(), "it has just ended");
        lock(&activity.0).since = long_ago;
        assert!(activity.is_over());
    }

    #[test]
    fn a_connection_is_over_when_nothing_of_an_answer_leaves_and_not_while_it_does() {
        let activity = Arc::new(Activity::default());
        let _busy = activity.begin();
        let mut leaving = activity.leaving(bytes::Bytes::from_static(b"answer"));
        let long_ago = Instant::now().checked_sub(UNREAD * 2).expect("uptime");
        lock(&activity.0).moved = long_ago;
        assert!(activity.is_over(), "nobody reads");
        leaving.advance(1);
        assert!(!activity.is_over(), "it is read, however slowly");
        drop(leaving);
        lock(&activity.0).moved = long_ago;
        assert!(!activity.is_over(), "nothing is left to be read");
    }

    #[test]
    fn there_are_no_more_seats_than_descriptors_for_them() {
        let limit = ConnectionLimit::of(10);
        let from = |last| IpAddr::from([127, 0, 0, last]);
        let seats: Vec<_> = (0..20_u8).map_while(|last| limit.enter(from(last))).collect();
        assert_eq!(seats.len(), 10);
    }
}
