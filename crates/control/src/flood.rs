//! Keeps the log from being filled from outside: past a hundred refusals a second from one address, the
//! further ones wait for the end of that second and share a record that carries their count.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Counts refusals by address.
#[derive(Default)]
pub(crate) struct Flood(Mutex<HashMap<IpAddr, Second>>);

struct Second {
    ends: Instant,
    count: u64,
    fold: Option<watch::Receiver<Fold>>,
    folded: u64,
}

/// How far the shared record of a second has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fold {
    Waiting,
    Recorded,
    Failed,
}

/// What to do about one refusal.
pub(crate) enum Turn {
    /// Record it by itself.
    Record,
    /// The first over the limit: at `at` one record has to be written for [`Flood::take`] of them, and all
    /// have to be told.
    Fold {
        at: Instant,
        tell: watch::Sender<Fold>,
        told: watch::Receiver<Fold>,
    },
    /// Somebody else writes the record: wait for that.
    Share(watch::Receiver<Fold>),
}

impl Flood {
    /// Counts a refusal.
    pub(crate) fn count(&self, address: IpAddr) -> Turn {
        let now = Instant::now();
        let mut seconds = vocabulary::lock(&self.0);
        if seconds.len() >= MOST_ADDRESSES {
            seconds.retain(|_, second| second.ends > now || second.fold.is_some());
        }
        // Addresses beyond the bound are counted together, which folds them sooner.
        let key = if seconds.len() < MOST_ADDRESSES || seconds.contains_key(&address) {
            address
        } else {
            OTHERS
        };
        let fresh = || Second {
            ends: now + SECOND,
            count: 0,
            fold: None,
            folded: 0,
        };
        let second = seconds.entry(key).or_insert_with(fresh);
        if second.ends <= now && second.fold.is_none() {
            *second = fresh();
        }
        second.count += 1;
        match &second.fold {
            _ if second.count <= MOST_RECORDS => Turn::Record,
            Some(told) => {
                second.folded += 1;
                Turn::Share(told.clone())
            }
            None => {
                let (tell, told) = watch::channel(Fold::Waiting);
                second.fold = Some(told.clone());
                second.folded = 1;
                Turn::Fold {
                    at: second.ends,
                    tell,
                    told,
                }
            }
        }
    }

    /// Ends the address's second; how many refusals its record stands for.
    pub(crate) fn take(&self, address: IpAddr) -> u64 {
        let mut seconds = vocabulary::lock(&self.0);
        let key = if seconds.contains_key(&address) {
            address
        } else {
            OTHERS
        };
        seconds.remove(&key).map_or(1, |second| second.folded)
    }
}

const MOST_RECORDS: u64 = 100;
const MOST_ADDRESSES: usize = 4_096;
const SECOND: Duration = Duration::from_secs(1);
const OTHERS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
