//! Keeps what was granted for a short time, for exactly whom it was granted to. Whoever needs the same at the same time waits for
//! the one who asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use moka::sync::Cache;
use vocabulary::{Digest, lock};

use crate::credentials::Made;
use crate::credentials::unavailable::Unavailable;

/// Counts what made every credential that was granted before void: what is kept from an earlier count is not used.
#[derive(Clone, Default, Debug)]
pub struct CredentialEpoch(Arc<AtomicU64>);

impl CredentialEpoch {
    /// Voids everything that was granted so far, and everything that is being asked for now.
    pub fn begin_another(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// See the module.
pub(super) struct Kept {
    slots: Cache<Digest, Arc<Slot>>,
    epoch: CredentialEpoch,
}

#[derive(Default)]
struct Slot {
    last: Mutex<Option<Last>>,
    /// Held by whoever asks.
    asking: tokio::sync::Mutex<()>,
}

/// What was asked for last, and what came of it.
#[derive(Clone)]
struct Last {
    outcome: Result<Arc<Made>, Unavailable>,
    until: Instant,
    epoch: u64,
}

/// So many principals' tokens are kept for one server.
const MOST: u64 = 10_000;
/// Nothing is kept longer.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// A token is not used in its last moments.
const MARGIN: Duration = Duration::from_secs(30);
/// Where nobody says how long a token is good.
const UNSAID: Duration = Duration::from_secs(60);
/// An endpoint that failed is left alone for so long.
const RESPITE: Duration = Duration::from_secs(1);

impl Kept {
    pub(super) fn new(epoch: CredentialEpoch) -> Self {
        let slots = Cache::builder().max_capacity(MOST).time_to_idle(LONGEST * 2).build();
        Self { slots, epoch }
    }

    /// What is kept for this key, or what `ask` brings and how long that is good.
    pub(super) async fn or_ask<F>(&self, key: Digest, ask: impl FnOnce() -> F) -> Result<Arc<Made>, Unavailable>
    where
        F: Future<Output = Result<(Made, Option<Duration>), Unavailable>>,
    {
        let slot = self.slots.get_with(key, Arc::default);
        let now = self.epoch.now();
        if let Some(last) = slot.last(now) {
            return last;
        }
        let _asking = slot.asking.lock().await;
        let epoch = self.epoch.now();
        if let Some(last) = slot.last(epoch) {
            return last;
        }
        let began = Instant::now();
        let (outcome, keep) = match ask().await {
            Ok((made, lifetime)) => {
                let keep = lifetime
                    .map_or(UNSAID, |lifetime| lifetime.saturating_sub(MARGIN))
                    .min(LONGEST);
                (Ok(Arc::new(made)), keep)
            }
            Err(why) => (Err(why), RESPITE + began.elapsed()),
        };
        *lock(&slot.last) = Some(Last {
            outcome: outcome.clone(),
            until: began + keep,
            epoch,
        });
        // What was asked for before somebody voided everything is void.
        match self.epoch.now() == epoch {
            true => outcome,
            false => Err(Unavailable::Voided),
        }
    }
}

impl Slot {
    fn last(&self, epoch: u64) -> Option<Result<Arc<Made>, Unavailable>> {
        let last = lock(&self.last).clone()?;
        (last.epoch == epoch && Instant::now() < last.until).then_some(last.outcome)
    }
}
