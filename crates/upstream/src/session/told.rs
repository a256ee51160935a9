//! Who said that something of what a server offers is not what it was: the sessions and processes of clients, in which a server can
//! say something else than in those of the gateway.
//! ADR 0111: a change in one client's own process is a change.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::Notify;
use vocabulary::lock;

use crate::session::guest::{Guest, SessionKey};

/// The most sessions or processes of which that is kept for one server: of the others it is heard that they said so, and no more.
const MOST: usize = 64;

/// See the module. However often something is said, it is kept once.
#[derive(Default)]
pub(crate) struct Told {
    guests: Mutex<HashMap<SessionKey, Guest>>,
    bell: Notify,
}

impl Told {
    /// Somebody said so; in a session of their own, where a guest is named.
    pub(crate) fn note(&self, guest: Option<Guest>) {
        if let Some(guest) = guest {
            let mut guests = lock(&self.guests);
            if guests.len() < MOST || guests.contains_key(&guest.key) {
                guests.insert(guest.key, guest);
            }
        }
        self.bell.notify_one();
    }

    /// Completes when somebody said so since this was asked last.
    pub(crate) async fn heard(&self) {
        self.bell.notified().await;
    }

    /// Those who said so and whose sessions are still open; the others are forgotten.
    pub(crate) fn guests(&self, is_open: impl Fn(&SessionKey) -> bool) -> Vec<Guest> {
        let mut guests = lock(&self.guests);
        guests.retain(|key, _| is_open(key));
        guests.values().cloned().collect()
    }
}
