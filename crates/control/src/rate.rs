//! Keeps one caller from taking the control plane for itself: a bucket for each, which fills again with time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// The buckets.
#[derive(Default)]
pub(crate) struct Rate(Mutex<HashMap<String, Bucket>>);

struct Bucket {
    left: u32,
    counted: Instant,
}

impl Rate {
    /// Takes one request out of the caller's bucket; whether there was one left.
    pub(crate) fn admits(&self, caller: &str) -> bool {
        let now = Instant::now();
        let mut buckets = vocabulary::lock(&self.0);
        if buckets.len() >= MOST_CALLERS && !buckets.contains_key(caller) {
            buckets.retain(|_, bucket| bucket.refill(now) < BURST);
        }
        // Callers beyond the bound share one.
        let key = if buckets.len() < MOST_CALLERS || buckets.contains_key(caller) {
            caller
        } else {
            OTHERS
        };
        let bucket = buckets.entry(key.to_owned()).or_insert(Bucket {
            left: BURST,
            counted: now,
        });
        let left = bucket.refill(now);
        bucket.left = left.saturating_sub(1);
        left > 0
    }
}

impl Bucket {
    /// Puts in what has come since; how much there is.
    fn refill(&mut self, now: Instant) -> u32 {
        let since = now.saturating_duration_since(self.counted).as_millis() / EACH.as_millis();
        let come = u32::try_from(since).unwrap_or(BURST).min(BURST);
        if come == BURST {
            (self.left, self.counted) = (BURST, now);
        } else {
            self.left = self.left.saturating_add(come).min(BURST);
            self.counted += EACH * come;
        }
        self.left
    }
}

/// What a caller may ask at once.
const BURST: u32 = 1_000;
/// After which time there is one more: a hundred a second.
const EACH: Duration = Duration::from_millis(10);
const MOST_CALLERS: usize = 4_096;
const OTHERS: &str = "";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_is_emptied_once_and_fills_with_time_and_nobody_empties_anothers() {
        let rate = Rate::default();
        let burst = |caller: &str| (0..BURST * 2).filter(|_| rate.admits(caller)).count();
        assert_eq!(burst("ann"), BURST as usize);
        assert!(!rate.admits("ann") && rate.admits("bob"));
        tokio::time::advance(EACH * 3).await;
        assert_eq!(burst("ann"), 3);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(burst("ann"), BURST as usize);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_beyond_the_bound_share_one_bucket_and_the_table_stays_small() {
        let rate = Rate::default();
        for caller in 0..MOST_CALLERS {
            assert!(rate.admits(&format!("caller {caller}")));
        }
        let strangers = (0..BURST * 2).filter(|caller| rate.admits(&format!("stranger {caller}")));
        assert_eq!(strangers.count(), BURST as usize);
        assert_eq!(vocabulary::lock(&rate.0).len(), MOST_CALLERS + 1);
    }
}
