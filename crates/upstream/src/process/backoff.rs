//! A process that ends soon after its start is started again later and later, and meanwhile nobody waits for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use vocabulary::lock;

use crate::failure::Failure;
use crate::session::guest::SessionKey;

/// A process that lived this long did not end at its start.
const LIVED: Duration = Duration::from_secs(60);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// So often it is started again at once.
const FREE_STARTS: u32 = 1;
/// Past this many guests, those whose time is over are forgotten.
const MOST: usize = 1000;

/// One for each guest: nobody can hold up another's process.
#[derive(Default)]
pub(super) struct Backoffs(Mutex<HashMap<SessionKey, Backoff>>);

#[derive(Clone, Copy)]
struct Backoff {
    failures: u32,
    not_before: Instant,
}

impl Backoffs {
    /// Whether a process may be started now.
    pub(super) fn admit(&self, guest: &SessionKey, now: Instant) -> Result<(), Failure> {
        match self.lock().get(guest) {
            Some(backoff) if backoff.not_before > now => Err(Failure::CrashLoop(backoff.not_before - now)),
            Some(_) | None => Ok(()),
        }
    }

    /// A process could not be started.
    pub(super) fn failed(&self, guest: &SessionKey, now: Instant) {
        let mut backoffs = self.lock();
        if backoffs.len() >= MOST {
            backoffs.retain(|_, backoff| backoff.not_before > now);
        }
        let backoff = backoffs.entry(*guest).or_insert(Backoff {
            failures: 0,
            not_before: now,
        });
        backoff.failures = backoff.failures.saturating_add(1);
        let steps = backoff.failures.saturating_sub(FREE_STARTS + 1).min(16);
        let wait = match backoff.failures <= FREE_STARTS {
            true => Duration::ZERO,
            false => (FIRST_WAIT * 2_u32.saturating_pow(steps)).min(LONGEST_WAIT),
        };
        backoff.not_before = now + wait;
    }

    /// A process ended by itself after `lived`.
    pub(super) fn ended(&self, guest: &SessionKey, lived: Duration, now: Instant) {
        if lived >= LIVED {
            self.lock().remove(guest);
        } else {
            self.failed(guest, now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Backoff>> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use vocabulary::{Era, Face};

    use super::*;

    #[test]
    fn a_process_that_keeps_ending_is_started_later_and_later_and_one_that_lives_is_forgiven() {
        let (backoffs, guest, now) = (Backoffs::default(), SessionKey::Shared(Era::Legacy), Instant::now());
        let wait = || match backoffs.admit(&guest, now) {
            Err(Failure::CrashLoop(wait)) => wait.as_secs(),
            _ => 0,
        };
        let waits: Vec<u64> = (0..10)
            .map(|_| {
                backoffs.ended(&guest, Duration::from_secs(1), now);
                wait()
            })
            .collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(
            backoffs.admit(&SessionKey::Discovery(Face::LEAST), now).is_ok(),
            "another's is its own"
        );
        assert!(backoffs.admit(&guest, now + LONGEST_WAIT).is_ok());
        backoffs.ended(&guest, LIVED, now);
        assert_eq!(wait(), 0);
    }
}
