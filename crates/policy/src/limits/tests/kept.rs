//! Quotas across runs, and crashes between any two steps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::bounded::keys;
use super::*;

/// What is on disk.
#[derive(Clone, Default)]
struct Disk(BTreeMap<(String, Key), KeptCount>);

impl Disk {
    fn write(&mut self, due: &Due) {
        for name in &due.forgotten {
            self.0.remove(name);
        }
        self.put(&due.counts);
    }

    fn put(&mut self, counts: &[KeptCount]) {
        self.0.extend(
            counts
                .iter()
                .map(|count| ((count.rule.clone(), count.key), count.clone())),
        );
    }

    /// A new run.
    fn start(&self, rules: &LimitRules, clock: &Clock) -> CallLimits {
        let limits = CallLimits::new(rules, clock.clone());
        let kept: Vec<KeptCount> = self.0.values().cloned().collect();
        limits.restore(&kept, &limits.kept_rules());
        limits.keep();
        limits
    }

    /// Writes what is due.
    fn serve(&mut self, limits: &CallLimits) {
        let due = limits.due(Duration::ZERO);
        self.write(&due);
        limits.wrote(&due, true);
    }
}

/// Calls once, with somebody who writes when a call waits for it.
fn kept_read(disk: &mut Disk, limits: &CallLimits, who: &str) -> Option<ReasonCode> {
    let (who, tool) = (agent(who), tool("read"));
    let request = call(&who, &tool);
    let mut admitted = pin!(limits.admit(&request, &tool.server));
    for _ in 0..3 {
        if let Poll::Ready(done) = admitted.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done.err().map(|over| over.code);
        }
        disk.serve(limits);
    }
    panic!("it waits for ever")
}

fn used(limits: &CallLimits) -> u32 {
    limits.usage(9).iter().map(|usage| usage.used).sum()
}

fn daily(calls: u32) -> LimitRules {
    quotas(vec![rule(&[Per::Principal], calls, 86_400)])
}

#[test]
fn the_first_call_waits_until_it_is_on_disk_and_most_others_do_not() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(1_000), &clock);
    let (ann, tool) = (agent("ann"), tool("read"));
    let request = call(&ann, &tool);
    assert!(
        at_once(limits.admit(&request, &tool.server)).is_none(),
        "nothing is on disk"
    );
    assert_eq!(used(&limits), 0, "nor counted");
    disk.serve(&limits);
    let mut waited = 0;
    for _ in 0..100 {
        match at_once(limits.admit(&request, &tool.server)) {
            Some(admitted) => drop(admitted.expect("room")),
            None => waited += 1,
        }
        // Half of what is ahead is left when the next stretch is due.
        disk.serve(&limits);
    }
    assert_eq!((waited, used(&limits)), (0, 100));
}

#[test]
fn a_quota_outlives_an_orderly_end_exactly_and_a_crash_upwards() {
    for calls in [1u32, 2, 5, 150, 1_000] {
        for made in [0, 1, calls / 2, calls - 1, calls] {
            let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
            let limits = disk.start(&daily(calls), &clock);
            for _ in 0..made {
                assert_eq!(kept_read(&mut disk, &limits, "ann"), None);
            }
            let crashed = disk.start(&daily(calls), &clock);
            let ahead = used(&crashed) - made;
            assert!(ahead <= (calls / 100).max(1), "{calls} {made}: {ahead} too many");
            disk.put(&limits.close());
            let limits = disk.start(&daily(calls), &clock);
            assert_eq!(used(&limits), made, "{calls}");
            for _ in made..calls {
                assert_eq!(kept_read(&mut disk, &limits, "ann"), None);
            }
            assert_eq!(kept_read(&mut disk, &limits, "ann"), USED_UP, "{calls} {made}");
        }
    }
}

// Whenever it is killed, and however often: the next run counts at least what was called.
#[test]
fn a_crash_between_any_two_steps_forgets_nothing() {
    let (clock, mut disk, mut made) = (Clock::standing_at(now()), Disk::default(), 0u32);
    let rules = daily(400);
    let mut limits = disk.start(&rules, &clock);
    for step in 0..600u64 {
        turn(&clock, 1_000 + step * 7_919 % 60_000);
        if step % 3 == 0 {
            disk.serve(&limits);
        }
        let code = kept_read(&mut disk, &limits, "ann");
        made += u32::from(code.is_none());
        assert!(made <= 400, "more than the quota within a day");
        if step % 29 == 0 {
            limits = disk.start(&rules, &clock);
            let counted = used(&limits);
            assert!(counted >= made.min(400), "{counted} counted, {made} made");
        }
    }
    assert!(made > 300, "{made}");
}

// What was called after the count was written counts from the crash on: its own time is not known.
#[test]
fn calls_since_the_last_writing_count_for_a_whole_window_after_a_crash() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let rules = daily(1_000);
    let limits = disk.start(&rules, &clock);
    assert_eq!(kept_read(&mut disk, &limits, "ann"), None);
    turn(&clock, 20 * 3_600_000);
    for _ in 0..3 {
        assert_eq!(read(&limits, "ann"), None, "without a word to the disk");
    }
    let limits = disk.start(&rules, &clock);
    turn(&clock, 23 * 3_600_000);
    assert!(used(&limits) >= 3);
    turn(&clock, 3_600_000);
    assert_eq!(used(&limits), 0);
}

#[test]
fn what_cannot_be_written_is_not_called() {
    let (clock, disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(10), &clock);
    let (ann, tool) = (agent("ann"), tool("read"));
    let request = call(&ann, &tool);
    let mut waiting = pin!(limits.admit(&request, &tool.server));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let due = limits.due(Duration::ZERO);
    assert_eq!(due.counts.len(), 1);
    limits.wrote(&due, false);
    let Poll::Ready(Err(over)) = waiting.as_mut().poll(&mut context) else {
        panic!("it is refused")
    };
    assert_eq!(over.code, ReasonCode::DenyReceiptUnavailable);
    assert_eq!(used(&limits), 0);
    let mut disk = Disk::default();
    assert_eq!(
        kept_read(&mut disk, &limits, "ann"),
        None,
        "and the next one is, where it can"
    );
}

#[test]
fn nothing_is_counted_after_the_end() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(1_000), &clock);
    assert_eq!(kept_read(&mut disk, &limits, "ann"), None);
    disk.put(&limits.close());
    assert!(limits.is_closed());
    assert_eq!(read(&limits, "ann"), Some(ReasonCode::DenyReceiptUnavailable));
}

#[test]
fn what_counts_no_more_leaves_the_disk_and_what_came_after_stays() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let rules = daily(5);
    let limits = disk.start(&rules, &clock);
    assert_eq!(kept_read(&mut disk, &limits, "ann"), None);
    assert_eq!(kept_read(&mut disk, &limits, "bob"), None);
    disk.serve(&limits);
    assert_eq!(disk.0.len(), 2);
    turn(&clock, 86_400_000);
    for _ in 0..table::SHARDS {
        turn(&clock, 1_000);
        disk.serve(&limits);
    }
    assert_eq!(disk.0.len(), 0);
    assert_eq!(kept_read(&mut disk, &limits, "bob"), None);
    assert_eq!((disk.0.len(), used(&limits)), (1, 1));
    assert!(used(&disk.start(&rules, &clock)) >= 1);

    // And what had run out before a start.
    turn(&clock, 86_400_000);
    disk.put(&limits.close());
    let limits = disk.start(&rules, &clock);
    disk.serve(&limits);
    assert_eq!(disk.0.len(), 0);
}

#[test]
fn a_rule_that_comes_back_finds_what_was_kept_of_it() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(2), &clock);
    assert_eq!([0, 1].map(|_| kept_read(&mut disk, &limits, "ann")), [None, None]);
    let without = limits.with_rules(&quotas(Vec::new()));
    assert_eq!(read(&without, "ann"), None);
    let again = without.with_rules(&daily(2));
    let kept: Vec<KeptCount> = disk.0.values().cloned().collect();
    again.restore(&kept, &again.kept_rules());
    assert_eq!(read(&again, "ann"), USED_UP);
    let other = Window::Day;
    let changed = again.with_rules(&quotas(vec![Rule {
        window: other,
        ..rule(&[Per::Principal], 2, 1)
    }]));
    assert_eq!(
        kept_read(&mut disk, &changed, "ann"),
        None,
        "another window is another rule"
    );
}

#[test]
fn whoever_waits_for_a_rule_that_a_reload_takes_away_goes_on() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(5), &clock);
    let (ann, tool) = (agent("ann"), tool("read"));
    let request = call(&ann, &tool);
    let mut waiting = pin!(limits.admit(&request, &tool.server));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let _without = limits.with_rules(&quotas(Vec::new()));
    let due = limits.due(Duration::ZERO);
    assert!(!due.is_empty() && due.counts.is_empty());
    disk.write(&due);
    limits.wrote(&due, true);
    assert!(matches!(waiting.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn whoever_waits_for_the_disk_is_woken_when_something_was_written_and_at_the_end() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(5), &clock);
    for (step, end) in [false, true].into_iter().enumerate() {
        let (ann, tool) = (agent(&format!("{step}")), tool("read"));
        let request = call(&ann, &tool);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut waiting = pin!(limits.admit(&request, &tool.server));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        if end {
            disk.put(&limits.close());
        } else {
            disk.serve(&limits);
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "{step}");
    }
}

#[test]
fn the_writer_waits_only_while_nothing_is_due_and_it_is_not_the_end() {
    let (clock, disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(5), &clock);
    assert!(limits.due(Duration::ZERO).is_empty(), "nothing was called");
    let (ann, tool) = (agent("ann"), tool("read"));
    assert!(at_once(limits.admit(&call(&ann, &tool), &tool.server)).is_none());
    let (writer, told) = (limits.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let hour = Duration::from_secs(3_600);
        let due = writer.due(hour).counts.len();
        let was_closed = writer.is_closed();
        let _ = writer.close();
        let _ = writer.due(hour);
        told.0.send((due, was_closed, writer.is_closed()))
    });
    let hang = Duration::from_secs(25);
    assert_eq!(told.1.recv_timeout(hang), Ok((1, false, true)));
}

#[test]
fn what_was_kept_goes_to_the_quota_it_was_kept_of() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let both = quotas(vec![rule(&[Per::Principal], 9, 3_600), rule(&[Per::Tool], 9, 86_400)]);
    let limits = disk.start(&quotas(both.quota[1..].to_vec()), &clock);
    assert_eq!(kept_read(&mut disk, &limits, "ann"), None);
    disk.put(&limits.close());
    let told = disk.start(&both, &clock).usage(9);
    assert_eq!(
        told.iter()
            .map(|usage| (usage.per.to_string(), usage.used))
            .collect::<Vec<_>>(),
        [("tool".to_owned(), 1)]
    );
}

#[test]
fn the_next_stretch_is_due_when_half_of_the_last_is_left() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(1_000), &clock);
    assert_eq!(kept_read(&mut disk, &limits, "ann"), None);
    let mut made = 1;
    while limits.due(Duration::ZERO).is_empty() {
        assert_eq!(read(&limits, "ann"), None);
        made += 1;
    }
    assert_eq!(made, 5, "of ten that were on disk");
}

#[test]
fn nothing_is_due_where_all_that_is_left_is_on_disk_nor_for_a_rate() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(3), &clock);
    for _ in 0..3 {
        assert_eq!(kept_read(&mut disk, &limits, "ann"), None);
    }
    assert!(limits.due(Duration::ZERO).is_empty(), "all of it was called");
    let limits = disk.start(&rates(vec![rule(&[Per::Principal], 3, 86_400)]), &clock);
    assert_eq!(read(&limits, "ann"), None);
    assert!(limits.due(Duration::ZERO).is_empty(), "rates are not kept");
}

#[test]
fn calls_go_on_with_what_is_ahead_while_more_is_written_and_ask_for_it_once() {
    let (clock, mut disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(1_000), &clock);
    assert_eq!(kept_read(&mut disk, &limits, "ann"), None);
    for _ in 0..6 {
        assert_eq!(read(&limits, "ann"), None);
    }
    let due = limits.due(Duration::ZERO);
    assert_eq!(due.counts.len(), 1, "asked for twice, written once");
    for _ in 0..3 {
        assert_eq!(read(&limits, "ann"), None, "ten were on disk");
    }
    limits.wrote(&due, true);
    assert_eq!(used(&limits), 10);
}

// Nothing counts of it yet; forgotten now, it would be written as nothing.
#[test]
fn a_count_that_is_waited_for_is_not_forgotten_before_it_is_written() {
    let (clock, disk) = (Clock::standing_at(now()), Disk::default());
    let limits = disk.start(&daily(5), &clock);
    let (ann, tool) = (agent("ann"), tool("read"));
    let sweep_all = || {
        for _ in 0..table::SHARDS {
            turn(&clock, 250);
            lock(&limits.shared.books).sweep(millis(clock.now()));
        }
        keys(&limits)
    };
    assert!(at_once(limits.admit(&call(&ann, &tool), &tool.server)).is_none());
    assert_eq!(sweep_all(), 1, "due");
    let due = limits.due(Duration::ZERO);
    assert_eq!(due.counts.len(), 1);
    assert_eq!(sweep_all(), 1, "being written");
    limits.wrote(&due, true);
    assert_eq!(sweep_all(), 0, "and never called");
}
