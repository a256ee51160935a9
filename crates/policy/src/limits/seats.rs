//! Calls at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use vocabulary::lock;

/// Calls at once, by key. A key nobody holds takes no memory.
#[derive(Debug)]
pub(super) struct Seats<K>(Mutex<HashMap<K, usize>>);

impl<K> Default for Seats<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone> Seats<K> {
    /// A seat, if fewer than `limit` are taken.
    pub(super) fn take(seats: &Arc<Self>, key: K, limit: usize) -> Option<Seat<K>> {
        let mut taken = lock(&seats.0);
        let count = taken.get(&key).copied().unwrap_or(0);
        if count >= limit {
            return None;
        }
        taken.insert(key.clone(), count + 1);
        drop(taken);
        Some(Seat {
            seats: seats.clone(),
            key,
        })
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        lock(&self.0).len()
    }
}

/// Taken while this is held.
#[derive(Debug)]
pub(super) struct Seat<K: Hash + Eq> {
    seats: Arc<Seats<K>>,
    key: K,
}

impl<K: Hash + Eq> Drop for Seat<K> {
    fn drop(&mut self) {
        let mut taken = lock(&self.seats.0);
        match taken.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(taken.remove(&self.key)),
        }
    }
}
