//! The sessions of one server, by whose they are: bounded, and those that stand idle make room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vocabulary::lock;

use crate::failure::Failure;
use crate::session::guest::SessionKey;
use crate::session::opened::Opened;

/// The sessions of one server.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionKey, Slot>>);

/// One session, or none yet; locked while it is opened, so that it is opened once.
pub(crate) type SessionSlot = Arc<tokio::sync::Mutex<Option<Opened>>>;

struct Slot {
    opened: SessionSlot,
    used: Instant,
}

const IDLE: Duration = Duration::from_secs(30 * 60);

impl Sessions {
    /// Lets go of all of them.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Whether there is one that can be spoken in.
    pub(crate) fn is_open(&self, key: &SessionKey) -> bool {
        let Some(opened) = lock(&self.0).get(key).map(|slot| slot.opened.clone()) else {
            return false;
        };
        // Whoever holds it is opening it.
        let opened = opened.try_lock();
        opened.map_or(true, |opened| opened.as_ref().is_some_and(|opened| !opened.is_closed()))
    }

    /// Takes a session out; the caller may tell the server.
    pub(crate) fn forget(&self, key: &SessionKey) -> Option<Opened> {
        let slot = lock(&self.0).remove(key)?;
        slot.opened.try_lock().ok().and_then(|mut opened| opened.take())
    }

    /// What was opened for one is another's from now on, unless that one has its own.
    pub(crate) fn hand_over(&self, from: &SessionKey, to: SessionKey) {
        let mut slots = lock(&self.0);
        if let Some(slot) = slots.remove(from) {
            slots.entry(to).or_insert(slot);
        }
    }

    /// The place of one session. Past `most` of them, those idle for longest make room.
    pub(crate) fn slot(&self, key: SessionKey, most: usize) -> Result<SessionSlot, Failure> {
        let now = Instant::now();
        let mut slots = lock(&self.0);
        if slots.len() >= most && !slots.contains_key(&key) {
            slots.retain(|_, slot| now.duration_since(slot.used) < IDLE && !slot.is_over());
            if slots.len() >= most {
                let idle = slots.iter().filter(|(_, slot)| slot.is_idle());
                let oldest = idle.min_by_key(|(_, slot)| slot.used).map(|(key, _)| *key);
                slots.remove(&oldest.ok_or(Failure::TooMany)?);
            }
        }
        let slot = slots.entry(key).or_insert_with(|| Slot {
            opened: Arc::default(),
            used: now,
        });
        slot.used = now;
        Ok(slot.opened.clone())
    }
}

impl Slot {
    fn is_over(&self) -> bool {
        let opened = self.opened.try_lock();
        opened.is_ok_and(|opened| opened.as_ref().is_none_or(Opened::is_closed))
    }

    /// Whether nobody is at work in it. A session over HTTP can be opened again, so it counts as idle.
    fn is_idle(&self) -> bool {
        let multiplex = |opened: &Opened| {
            opened
                .multiplex
                .as_ref()
                .is_none_or(|multiplex| multiplex.idle_for().is_some())
        };
        let opened = self.opened.try_lock();
        opened.is_ok_and(|opened| opened.as_ref().is_none_or(multiplex))
    }
}
