//! How much room connections may take: so many in all, so many from one address, and none for one
//! that asks nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const MOST_CONNECTIONS: usize = 10_000;
const MOST_FROM_ONE_ADDRESS: usize = 2_000;
/// A connection must ask something within this time.
const FIRST_REQUEST: Duration = Duration::from_secs(15);
/// A connection on which nothing is asked, or whose last answer nobody reads, ends after this time.
const IDLE: Duration = Duration::from_secs(120);

/// The seats taken, by address.
#[derive(Clone, Default)]
pub(super) struct ConnectionLimit(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A taken seat; free again when dropped.
pub(super) struct ConnectionSlot {
    limit: ConnectionLimit,
    address: IpAddr,
}

impl ConnectionLimit {
    /// Takes a seat, if there is one.
    pub(super) fn enter(&self, address: IpAddr) -> Option<ConnectionSlot> {
        let mut taken = lock(&self.0);
        let here = taken.get(&address).copied().unwrap_or_default();
        if here >= MOST_FROM_ONE_ADDRESS || taken.values().sum::<usize>() >= MOST_CONNECTIONS {
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
        let mut taken = lock(&self.limit.0);
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
}

/// A request being answered; over when dropped.
pub(super) struct Busy(Arc<Activity>);

impl Default for Activity {
    fn default() -> Self {
        Self(Mutex::new(Happening {
            busy: 0,
            greeted: false,
            since: Instant::now(),
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

    /// Whether the connection has been silent for too long.
    pub(super) fn is_over(&self) -> bool {
        let now = lock(&self.0);
        let patience = if now.greeted { IDLE } else { FIRST_REQUEST };
        now.busy == 0 && now.since.elapsed() > patience
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut now = lock(&self.0.0);
        (now.busy, now.since) = (now.busy.saturating_sub(1), Instant::now());
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
        let limit = ConnectionLimit::default();
        let here = IpAddr::from([127, 0, 0, 1]);
        let seats: Vec<_> = (0..MOST_FROM_ONE_ADDRESS).map_while(|_| limit.enter(here)).collect();
        assert_eq!(seats.len(), MOST_FROM_ONE_ADDRESS);
        assert!(limit.enter(here).is_none());
        assert!(limit.enter(IpAddr::from([127, 0, 0, 2])).is_some());
        drop(seats);
        assert!(limit.enter(here).is_some());
        assert!(lock(&limit.0).is_empty(), "a seat that is dropped is free");
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
}
