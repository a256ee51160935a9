//! The calls of one key that still count, in a few groups: never fewer than were made within the window.

use std::time::Duration;

use super::window::{Millis, Window};

/// Calls that were made close to one another; all count until the last of them does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// When the last of them was made, in milliseconds since 1970.
    pub last: i64,
    /// How long before that the first one was, in milliseconds.
    pub since: u32,
    /// How many.
    pub calls: u32,
}

/// See the module. Groups are in order of time; the newest one lies here, so that somebody who calls once needs no more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Count {
    newest: Group,
    total: u32,
    older: Option<Box<Older>>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Older(Vec<Group>);

impl Count {
    pub(super) const NOTHING: Self = Self {
        newest: Group {
            last: Millis::MIN,
            since: 0,
            calls: 0,
        },
        total: 0,
        older: None,
    };

    /// What was kept of an earlier run.
    pub(super) fn of(groups: &[Group]) -> Self {
        let mut count = Self::NOTHING;
        let mut groups: Vec<Group> = groups.iter().copied().filter(|group| group.calls > 0).collect();
        groups.sort_by_key(|group| group.last);
        count.total = groups.iter().fold(0, |total, group| total.saturating_add(group.calls));
        if let Some(newest) = groups.pop() {
            count.newest = newest;
        }
        count.keep_older(groups);
        count
    }

    /// Forgets what counts no more. After a clock was set back, what seems to be made later counts as made now.
    pub(super) fn settle(&mut self, window: Window, now: Millis) {
        if self.newest.last > now {
            let groups = self.older.iter_mut().flat_map(|older| older.0.iter_mut());
            for group in groups.chain([&mut self.newest]) {
                group.last = group.last.min(now);
            }
        }
        if window.frees(self.oldest().last) > now {
            return;
        }
        let mut older = self.older.take().map(|older| older.0).unwrap_or_default();
        older.retain(|group| window.frees(group.last) > now);
        self.keep_older(older);
        if window.frees(self.newest.last) <= now {
            *self = Self::NOTHING;
        }
        self.total = self.groups().fold(0, |total, group| total.saturating_add(group.calls));
    }

    /// How many count, as of the last [`Count::settle`].
    pub(super) fn used(&self) -> u32 {
        self.total
    }

    /// Counts calls that are made now; a window is told in about so many groups.
    pub(super) fn add(&mut self, window: Window, now: Millis, calls: u32, groups: i64) {
        self.total = self.total.saturating_add(calls);
        let begun = self.newest.last.saturating_sub(i64::from(self.newest.since));
        // Where there is none yet it began before all time, which is near to nothing.
        let is_near = now.saturating_sub(begun) < window.grain(groups);
        if self.newest.calls == 0 || is_near {
            let begun = if is_near { begun } else { now };
            self.newest = Group {
                last: now,
                since: u32::try_from(now.saturating_sub(begun)).unwrap_or(u32::MAX),
                calls: self.newest.calls.saturating_add(calls),
            };
            return;
        }
        let before = std::mem::replace(
            &mut self.newest,
            Group {
                last: now,
                since: 0,
                calls,
            },
        );
        self.older.get_or_insert_default().0.push(before);
    }

    /// How long until fewer than `most` count, if nothing is called meanwhile.
    pub(super) fn wait(&self, window: Window, now: Millis, most: u32) -> Duration {
        let mut left = self.total;
        for group in self.groups() {
            left = left.saturating_sub(group.calls);
            if left < most {
                return until(window.frees(group.last), now);
            }
        }
        until(self.resets(window), now)
    }

    /// When nothing counts any more, if nothing is called meanwhile.
    pub(super) fn resets(&self, window: Window) -> Millis {
        window.frees(self.newest.last)
    }

    /// Oldest first.
    pub(super) fn groups(&self) -> impl Iterator<Item = Group> {
        let older = self.older.iter().flat_map(|older| older.0.iter().copied());
        older.chain([self.newest]).filter(|group| group.calls > 0)
    }

    fn oldest(&self) -> Group {
        let oldest = self.older.as_ref().and_then(|older| older.0.first().copied());
        oldest.unwrap_or(self.newest)
    }

    fn keep_older(&mut self, older: Vec<Group>) {
        self.older = (!older.is_empty()).then(|| Box::new(Older(older)));
    }
}

fn until(then: Millis, now: Millis) -> Duration {
    Duration::from_millis(u64::try_from(then.saturating_sub(now)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Window = Window::Rolling(Duration::from_secs(60));

    #[test]
    fn one_call_counts_exactly_as_long_as_the_window_is() {
        let mut count = Count::NOTHING;
        count.add(MINUTE, 1_000, 1, 64);
        count.settle(MINUTE, 60_999);
        assert_eq!(
            (count.used(), count.wait(MINUTE, 60_999, 1)),
            (1, Duration::from_millis(1))
        );
        count.settle(MINUTE, 61_000);
        assert_eq!((count.used(), &count), (0, &Count::NOTHING));
    }

    #[test]
    fn a_clock_that_is_set_back_neither_forgets_nor_locks_out_for_ever() {
        for window in [MINUTE, Window::Day, Window::Month] {
            let (later, now) = (400 * 86_400_000, 20 * 86_400_000);
            let mut count = Count::NOTHING;
            count.add(window, later, 3, 64);
            count.settle(window, now);
            assert_eq!(count.used(), 3);
            assert!(count.wait(window, now, 3) <= Duration::from_secs(31 * 86_400));
            count.settle(window, now + 31 * 86_400_000);
            assert_eq!(count.used(), 0, "{window}");
        }
    }

    fn group(last: Millis, calls: u32) -> Group {
        Group { last, since: 0, calls }
    }

    #[test]
    fn calls_are_one_group_until_a_grain_after_the_first_of_them() {
        let grain = MINUTE.grain(64);
        let mut count = Count::NOTHING;
        for at in [0, grain - 1, grain, 2 * grain - 1] {
            count.add(MINUTE, at, 1, 64);
        }
        let since = u32::try_from(grain - 1).expect("short");
        let told: Vec<Group> = count.groups().collect();
        let pair = |last| Group {
            since,
            ..group(last, 2)
        };
        assert_eq!(told, [pair(grain - 1), pair(2 * grain - 1)]);
    }

    #[test]
    fn what_counts_no_more_is_told_by_no_group() {
        let mut count = Count::NOTHING;
        assert_eq!(count.groups().next(), None);
        count.add(MINUTE, 0, 3, 64);
        count.settle(MINUTE, 10 * 60_000);
        assert_eq!((count.used(), count.groups().next()), (0, None));
    }

    #[test]
    fn calls_of_a_day_are_one_group_that_begins_with_the_first() {
        let mut count = Count::NOTHING;
        count.add(Window::Day, 5_000, 1, 64);
        count.add(Window::Day, 7_000, 1, 64);
        let told: Vec<Group> = count.groups().collect();
        assert_eq!(
            told,
            [Group {
                since: 2_000,
                ..group(7_000, 2)
            }]
        );
    }

    #[test]
    fn whoever_is_far_over_waits_until_fewer_than_are_allowed_count() {
        let count = Count::of(&[group(1_000, 2), group(9_000, 2)]);
        assert_eq!(count.wait(MINUTE, 10_000, 2), Duration::from_millis(59_000));
        assert_eq!(count.wait(MINUTE, 10_000, 3), Duration::from_millis(51_000));
    }

    #[test]
    fn what_was_kept_of_no_calls_makes_nothing_count_longer() {
        let count = Count::of(&[group(1_000, 2), group(50_000, 0)]);
        assert_eq!((count.used(), count.resets(MINUTE)), (2, 61_000));
    }

    proptest! {
        // Never fewer than were made within the window, never one that is older by more than a grain; and the wait is true.
        #[test]
        fn what_counts_is_what_was_made_to_within_a_grain(
            gaps in prop::collection::vec(0i64..20_000, 1..200),
            groups in prop::sample::select(vec![8i64, 64]),
            most in 1u32..40,
        ) {
            let (mut count, mut now, mut made) = (Count::NOTHING, 1_000_000, Vec::new());
            for gap in gaps {
                now += gap;
                count.settle(MINUTE, now);
                let within = |length: i64| made.iter().filter(|at: &&i64| **at + length > now).count();
                prop_assert!(count.used() as usize >= within(60_000));
                prop_assert!(count.used() as usize <= within(60_000 + MINUTE.grain(groups)));
                if count.used() < most {
                    count.add(MINUTE, now, 1, groups);
                    made.push(now);
                } else {
                    let wait = count.wait(MINUTE, now, most);
                    prop_assert!(wait > Duration::ZERO && wait <= Duration::from_secs(60));
                    let (mut before, mut then) = (count.clone(), count.clone());
                    let free = now + i64::try_from(wait.as_millis()).expect("short");
                    before.settle(MINUTE, free - 1);
                    then.settle(MINUTE, free);
                    prop_assert!(before.used() >= most && then.used() < most);
                }
                prop_assert!(count.groups().count() <= usize::try_from(groups).expect("few") + 2);
            }
        }
    }
}
