//! How much is too much: calls per time by principal and by tool, and calls at once by principal
//! and by server.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use vocabulary::{Principal, PrincipalKey, ReasonCode, ServerId, ToolId};

/// What the operator allows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LimitRules {
    /// Calls per time; all of them apply.
    pub rate: Vec<Rate>,
    /// Calls at once by one principal; 0 allows none.
    pub per_principal: usize,
    /// Calls at once on one server; 0 allows none.
    pub per_server: usize,
}

/// So many calls in so much time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// What is counted apart.
    pub per: RateKey,
    /// How many calls.
    pub calls: NonZeroU32,
    /// In how long.
    pub window: Duration,
}

/// What calls are counted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateKey {
    /// A principal, over all tools.
    Principal,
    /// A tool, over all principals.
    Tool,
}

/// A call was over a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverLimit {
    /// Which kind of limit.
    pub code: ReasonCode,
    /// When to try again, where that can be said.
    pub retry_after: Option<Duration>,
}

impl OverLimit {
    /// When to try again, in milliseconds and never at once.
    #[must_use]
    pub fn retry_after_ms(&self) -> Option<u64> {
        let wait = self.retry_after?;
        Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1))
    }
}

/// Counts calls. Cloning gives another handle on the same counters.
#[derive(Clone, Debug)]
pub struct CallLimits(Arc<Counters<DefaultClock>>);

/// A call that is running; dropping it makes room for the next.
#[derive(Debug)]
#[must_use = "the call counts as running only while this is held"]
pub struct InFlight {
    _principal: Seat<PrincipalKey>,
    _server: Seat<ServerId>,
}

impl CallLimits {
    /// Starts counting from nothing.
    #[must_use]
    pub fn new(rules: &LimitRules) -> Self {
        Self(Arc::new(Counters::new(rules, DefaultClock::default())))
    }

    /// Counts a call in.
    ///
    /// # Errors
    /// When a limit is reached; a call that is refused takes no room.
    pub fn admit(&self, who: &Principal, tool: &ToolId) -> Result<InFlight, OverLimit> {
        self.0.admit(who, tool)
    }

    /// Counts a request in that the gateway answers by itself, or from the lists of servers. These have an allowance of
    /// their own: whoever used up the calls may still ask what there is.
    ///
    /// # Errors
    /// When there were too many in the last minute.
    pub fn admit_own(&self, who: &Principal) -> Result<(), OverLimit> {
        self.0.admit_own(who)
    }

    /// Counts a request in that is not a call of a tool: what counts by tool does not count it.
    ///
    /// # Errors
    /// When a limit is reached; a request that is refused takes no room.
    pub fn admit_request(&self, who: &Principal, server: &ServerId) -> Result<InFlight, OverLimit> {
        self.0.admit_request(who, server)
    }
}

type Buckets<K, C> = RateLimiter<K, HashMapStateStore<K>, C, NoOpMiddleware<<C as Clock>::Instant>>;

struct Counters<C: Clock> {
    by_principal: Vec<Buckets<PrincipalKey, C>>,
    by_tool: Vec<Buckets<ToolId, C>>,
    /// What is answered without a decision about a target.
    own: Buckets<PrincipalKey, C>,
    principals: Arc<Seats<PrincipalKey>>,
    servers: Arc<Seats<ServerId>>,
    clock: C,
    since_sweep: AtomicU32,
}

impl<C: Clock> fmt::Debug for Counters<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

impl<C: Clock + Clone> Counters<C> {
    fn new(rules: &LimitRules, clock: C) -> Self {
        let quota = |rate: &Rate| {
            let each = (rate.window / rate.calls.get()).max(Duration::from_nanos(1));
            Some(Quota::with_period(each)?.allow_burst(rate.calls))
        };
        let quotas = |key| rules.rate.iter().filter(move |rate| rate.per == key).filter_map(quota);
        Self {
            by_principal: quotas(RateKey::Principal).map(|quota| limiter(quota, &clock)).collect(),
            by_tool: quotas(RateKey::Tool).map(|quota| limiter(quota, &clock)).collect(),
            own: limiter(Quota::per_minute(OWN_A_MINUTE), &clock),
            principals: Arc::new(Seats {
                limit: rules.per_principal,
                taken: Mutex::default(),
            }),
            servers: Arc::new(Seats {
                limit: rules.per_server,
                taken: Mutex::default(),
            }),
            clock,
            since_sweep: AtomicU32::new(0),
        }
    }

    /// The principal's own limits before the tool's rate, so that one who calls too much does not use
    /// up what others share.
    fn admit(&self, who: &Principal, tool: &ToolId) -> Result<InFlight, OverLimit> {
        let in_flight = self.admit_request(who, &tool.server)?;
        self.by_tool.iter().try_for_each(|bucket| self.spend(bucket, tool))?;
        Ok(in_flight)
    }

    fn admit_request(&self, who: &Principal, server: &ServerId) -> Result<InFlight, OverLimit> {
        self.sweep_now_and_then();
        let principal = PrincipalKey::of(who);
        // Seats first: they are given back if a rate refuses.
        let full = OverLimit {
            code: ReasonCode::DenyConcurrency,
            retry_after: None,
        };
        let in_flight = InFlight {
            _principal: Seats::take(&self.principals, principal).ok_or(full)?,
            _server: Seats::take(&self.servers, server.clone()).ok_or(full)?,
        };
        self.by_principal
            .iter()
            .try_for_each(|bucket| self.spend(bucket, &principal))?;
        Ok(in_flight)
    }

    fn admit_own(&self, who: &Principal) -> Result<(), OverLimit> {
        self.sweep_now_and_then();
        self.spend(&self.own, &PrincipalKey::of(who))
    }

    fn spend<K: Hash + Eq + Clone>(&self, bucket: &Buckets<K, C>, key: &K) -> Result<(), OverLimit> {
        bucket.check_key(key).map_err(|until| OverLimit {
            code: ReasonCode::DenyRateLimit,
            retry_after: Some(until.wait_time_from(self.clock.now())),
        })
    }

    /// Forgets those who have not called for so long that they have their whole allowance again.
    fn sweep_now_and_then(&self) {
        if self.since_sweep.fetch_add(1, Ordering::Relaxed) >= SWEEP_EVERY {
            self.since_sweep.store(0, Ordering::Relaxed);
            self.by_principal.iter().for_each(RateLimiter::retain_recent);
            self.by_tool.iter().for_each(RateLimiter::retain_recent);
            self.own.retain_recent();
        }
    }
}

fn limiter<K: Hash + Eq + Clone, C: Clock + Clone>(quota: Quota, clock: &C) -> Buckets<K, C> {
    RateLimiter::hashmap_with_clock(quota, clock.clone())
}

/// Calls at once, by key. A key nobody holds takes no memory.
#[derive(Debug)]
struct Seats<K> {
    limit: usize,
    taken: Mutex<HashMap<K, usize>>,
}

impl<K: Hash + Eq + Clone> Seats<K> {
    fn take(seats: &Arc<Self>, key: K) -> Option<Seat<K>> {
        let mut taken = seats.lock();
        let count = taken.get(&key).copied().unwrap_or(0);
        if count >= seats.limit {
            return None;
        }
        taken.insert(key.clone(), count + 1);
        drop(taken);
        Some(Seat {
            seats: seats.clone(),
            key,
        })
    }
}

impl<K> Seats<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        vocabulary::lock(&self.taken)
    }
}

#[derive(Debug)]
struct Seat<K: Hash + Eq> {
    seats: Arc<Seats<K>>,
    key: K,
}

impl<K: Hash + Eq> Drop for Seat<K> {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        match taken.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(taken.remove(&self.key)),
        }
    }
}

/// Requests a minute that the gateway answers by itself, for one principal: each leaves a record.
const OWN_A_MINUTE: NonZeroU32 = match NonZeroU32::new(1_200) {
    Some(number) => number,
    None => NonZeroU32::MIN,
};
/// Calls between two sweeps of the rate counters.
const SWEEP_EVERY: u32 = 4096;

#[cfg(test)]
mod tests;
