//! Keeps the log from being filled from outside: past a hundred refusals a second from one network, or from all of them, the
//! further ones wait for the end of that second and share a record that carries their count.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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
        source: Source,
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
        let network = network(address);
        let of_now = seconds.values().filter(|second| second.ends > now);
        let recorded: u64 = of_now.map(|second| second.count.min(MOST_RECORDS)).sum();
        let is_over = seconds
            .get(&network)
            .is_some_and(|second| second.count >= MOST_RECORDS && second.ends > now);
        let key = if is_over || (seconds.len() < MOST_ADDRESSES && recorded < MOST_RECORDS) {
            network
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
            _ if key != OTHERS && second.count <= MOST_RECORDS => Turn::Record,
            Some(told) => {
                second.folded += 1;
                Turn::Share(told.clone())
            }
            None => {
                let (tell, told) = watch::channel(Fold::Waiting);
                second.fold = Some(told.clone());
                second.folded = 1;
                Turn::Fold {
                    source: Source(key),
                    at: second.ends,
                    tell,
                    told,
                }
            }
        }
    }

    /// Ends the second of a source; how many refusals its record stands for.
    pub(crate) fn take(&self, source: Source) -> u64 {
        let mut seconds = vocabulary::lock(&self.0);
        seconds.remove(&source.0).map_or(1, |second| second.folded)
    }
}

/// Where refusals come from that share a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Source(IpAddr);

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            OTHERS => f.write_str("several networks"),
            IpAddr::V4(network) => write!(f, "{network}/24"),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

/// Where a caller's requests are counted.
pub(crate) fn source(address: IpAddr) -> Source {
    Source(network(address))
}

/// The network of an address: who has one address of it has as many as they like.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & !0xff).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

const MOST_RECORDS: u64 = 100;
const MOST_ADDRESSES: usize = 4_096;
const SECOND: Duration = Duration::from_secs(1);
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
