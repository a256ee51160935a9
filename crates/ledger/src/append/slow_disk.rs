//! When a caller leaves writing to the thread: after a write that had to wait for the disk.
//! ADR 0027: writing beside a sync.

use std::time::{Duration, Instant};

use crate::append::sync::Disk;

/// A write that took longer shows a slow disk, which callers leave to the thread for some time.
const SLOW: Duration = Duration::from_millis(20);
const AVOID_SLOW: Duration = Duration::from_secs(1);
/// A write beside a sync that took longer may have waited for it: some file systems let nobody write to a page that is
/// on its way to the disk. But it may be that its thread was put aside, hence it takes several in a row.
const HELD_UP: Duration = Duration::from_millis(2);
const HELD_UP_IN_A_ROW: u32 = 3;
const AVOID_SYNCS: Duration = Duration::from_secs(2);

/// What the last writes of callers showed.
#[derive(Default)]
pub(crate) struct SlowDisk {
    slow_until: Option<Instant>,
    syncs_block_until: Option<Instant>,
    held_up: u32,
}

impl SlowDisk {
    /// Whether a caller may write by itself, the disk being as it is.
    pub(crate) fn admits(&self, disk: Disk, now: Instant) -> bool {
        let over = |until: Option<Instant>| until.is_none_or(|until| until <= now);
        over(self.slow_until) && (disk == Disk::Idle || over(self.syncs_block_until))
    }

    /// A caller's write, begun at `began`, is over.
    pub(crate) fn learn(&mut self, disk: Disk, began: Instant, took: Duration) {
        if took > SLOW {
            self.slow_until = Some(began + AVOID_SLOW);
        }
        match disk {
            Disk::Idle => {}
            Disk::Syncing if took <= HELD_UP => self.held_up = 0,
            Disk::Syncing => {
                self.held_up += 1;
                if self.held_up >= HELD_UP_IN_A_ROW {
                    self.held_up = 0;
                    self.syncs_block_until = Some(began + AVOID_SYNCS);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(20);
    const LONG: Duration = Duration::from_millis(3);

    #[test]
    fn a_slow_write_is_followed_by_none_for_a_while() {
        let (mut slow_disk, now) = (SlowDisk::default(), Instant::now());
        assert!(slow_disk.admits(Disk::Idle, now));
        slow_disk.learn(Disk::Idle, now, Duration::from_millis(21));
        assert!(!slow_disk.admits(Disk::Idle, now) && !slow_disk.admits(Disk::Syncing, now));
        assert!(slow_disk.admits(Disk::Idle, now + AVOID_SLOW));
    }

    #[test]
    fn a_write_that_took_exactly_the_time_allowed_shows_nothing() {
        let (mut slow_disk, now) = (SlowDisk::default(), Instant::now());
        slow_disk.learn(Disk::Idle, now, SLOW);
        assert!(slow_disk.admits(Disk::Idle, now));
        for _ in 0..HELD_UP_IN_A_ROW {
            slow_disk.learn(Disk::Syncing, now, HELD_UP);
        }
        assert!(slow_disk.admits(Disk::Syncing, now));
    }

    #[test]
    fn syncs_are_kept_clear_of_where_writes_wait_for_them_and_nowhere_else() {
        let (mut slow_disk, now) = (SlowDisk::default(), Instant::now());
        for took in [LONG, LONG, QUICK, LONG, LONG] {
            slow_disk.learn(Disk::Syncing, now, took);
            slow_disk.learn(Disk::Idle, now, LONG);
            assert!(slow_disk.admits(Disk::Syncing, now), "two long writes show nothing");
        }
        slow_disk.learn(Disk::Syncing, now, LONG);
        assert!(!slow_disk.admits(Disk::Syncing, now) && slow_disk.admits(Disk::Idle, now));
        assert!(slow_disk.admits(Disk::Syncing, now + AVOID_SYNCS), "it is tried again");
    }
}
