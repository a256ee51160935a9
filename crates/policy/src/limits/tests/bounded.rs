//! Memory, whoever calls.

use super::*;
use crate::limits::table::Table;

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("a number");
    pages * 4096
}

fn keys(limits: &CallLimits) -> usize {
    let books = lock(&limits.shared.books);
    books.tables.iter().flatten().map(Table::keys).sum()
}

/// A limiter whose tables have room for so few keys.
fn small(rules: &LimitRules, room: usize) -> (CallLimits, Clock) {
    let (limits, clock) = limits(rules);
    let mut books = lock(&limits.shared.books);
    for table in books.tables.iter_mut() {
        *table = table.take().map(|table| table.with_room_for(room));
    }
    drop(books);
    (limits, clock)
}

// As many callers as there is room for, and more: the first keep what they have, the others share, and nobody gets a second
// allowance. The room is an eighth of the true one; `portreeve-micro` puts a million through.
#[test]
fn many_principals_take_a_bounded_memory_and_no_more_than_is_allowed() {
    let most = 1u32 << 17;
    let (limits, clock) = small(&rates(vec![rule(&[Per::Principal], 1, 3_600)]), most as usize);
    let before = resident();
    let (mut someone, tool) = (agent("someone"), tool("read"));
    let mut ask = |limits: &CallLimits, number: u32| {
        someone.sub = format!("a principal with a name of usual length {number}");
        refusal(limits, &call(&someone, &tool))
    };
    for number in 0..most {
        assert_eq!(ask(&limits, number), None, "{number}");
    }
    let each = (resident() - before) / u64::from(most);
    println!("{each} bytes a key");
    assert!(each * (table::MOST_KEYS as u64) < 300 << 20, "{each} bytes a key");
    let late = (0..40_000)
        .filter(|number| ask(&limits, most + number).is_none())
        .count();
    assert!(
        (4_000..=4_096).contains(&late),
        "{late}: those without room share 4,096 counts"
    );
    assert!(keys(&limits) <= most as usize + 4_096);
    for number in (0..most).step_by(1_009) {
        assert_eq!(ask(&limits, number), TOO_OFTEN, "{number} was not forgotten");
    }
    // An hour later they are.
    turn(&clock, 3_600_000);
    sweep_all(&limits, &clock);
    assert_eq!(keys(&limits), 0);
    assert_eq!(ask(&limits, most + 1), None);
}

fn sweep_all(limits: &CallLimits, clock: &Clock) {
    for _ in 0..table::SHARDS {
        turn(clock, 250);
        let _ = limits.due(Duration::ZERO);
    }
}

#[test]
fn whoever_shared_a_count_gets_none_of_their_own_before_it_ran_out() {
    let (limits, clock) = small(&rates(vec![rule(&[Per::Principal], 2, 60)]), 1);
    assert_eq!(read(&limits, "first"), None);
    turn(&clock, 30_000);
    assert_eq!(read(&limits, "late"), None, "shared: there is no room");
    turn(&clock, 30_000);
    sweep_all(&limits, &clock);
    assert_eq!(keys(&limits), 1, "the first one's is gone");
    assert_eq!(
        [read(&limits, "late"), read(&limits, "late")],
        [None, TOO_OFTEN],
        "one of two was used before"
    );
    turn(&clock, 60_000);
    assert_eq!([0, 1, 2].map(|_| read(&limits, "late")), [None, None, TOO_OFTEN]);
    assert!(limits.usage(9).iter().all(|usage| usage.key != ["(others)"]) || keys(&limits) <= 2);
}

#[test]
fn those_who_share_cannot_call_more_than_one_of_them_might() {
    let (limits, _) = small(&rates(vec![rule(&[Per::Principal], 5, 60)]), 1);
    assert_eq!(read(&limits, "first"), None);
    let allowed = (0..200_000)
        .filter(|number| read(&limits, &format!("{number}")).is_none())
        .count();
    assert!(allowed <= 5 * 4_096, "{allowed}");
    let told = limits.usage(9);
    assert!(
        told.iter().any(|usage| usage.key == ["(others)"] && usage.used == 5),
        "{told:?}"
    );
}

#[test]
fn callers_of_long_ago_are_forgotten_and_others_are_not() {
    let (limits, clock) = limits(&rates(vec![rule(&[Per::Principal], 5, 1)]));
    for number in 0..5_000 {
        assert_eq!(read(&limits, &format!("agent-{number}")), None);
    }
    assert_eq!(keys(&limits), 5_000);
    turn(&clock, 10_000);
    assert_eq!(read(&limits, "busy"), None);
    for _ in 0..table::SHARDS {
        let _ = limits.due(Duration::ZERO);
    }
    assert!(keys(&limits) > 1, "not all at once");
    for _ in 0..table::SHARDS {
        turn(&clock, 250);
        assert_eq!(read(&limits, "busy"), None);
        let _ = limits.due(Duration::ZERO);
    }
    assert_eq!(keys(&limits), 1);
}
