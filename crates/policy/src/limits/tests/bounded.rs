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

pub(super) fn keys(limits: &CallLimits) -> usize {
    let books = lock(&limits.shared.books);
    books.tables.iter().flatten().map(Table::keys).sum()
}

/// How many keys there is memory for.
fn capacity(limits: &CallLimits) -> usize {
    let books = lock(&limits.shared.books);
    books.tables.iter().flatten().map(Table::capacity).sum()
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
fn sharing_goes_on_where_there_is_room_again_until_what_was_shared_counts_no_more() {
    let (limits, clock) = small(&rates(vec![rule(&[Per::Principal], 2, 60)]), 2);
    assert_eq!([read(&limits, "first"), read(&limits, "second")], [None, None]);
    turn(&clock, 30_000);
    assert_eq!(read(&limits, "late"), None, "shared: there is no room");
    turn(&clock, 30_000);
    sweep_all(&limits, &clock);
    assert_eq!(keys(&limits), 1, "room for one");
    assert_eq!([read(&limits, "late"), read(&limits, "late")], [None, TOO_OFTEN]);
    turn(&clock, 60_000);
    let now = millis(clock.now());
    for table in lock(&limits.shared.books).tables.iter_mut().flatten() {
        (0..table::SHARDS).for_each(|_| assert!(table.sweep(now).is_empty()));
    }
    assert_eq!((keys(&limits), read(&limits, "late")), (0, None));
    let told: Vec<Usage> = limits.usage(9);
    assert!(told.iter().all(|usage| usage.key != ["(others)"]), "{told:?}");
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
    assert!(capacity(&limits) >= 5_000);
    turn(&clock, 10_000);
    assert_eq!(read(&limits, "busy"), None);
    for _ in 0..table::SHARDS {
        let _ = limits.due(Duration::ZERO);
    }
    assert!((2..5_001).contains(&keys(&limits)), "some, and not all at once");
    for _ in 0..table::SHARDS {
        turn(&clock, 250);
        assert_eq!(read(&limits, "busy"), None);
        let _ = limits.due(Duration::ZERO);
    }
    assert_eq!(keys(&limits), 1);
    assert!((1..8).contains(&capacity(&limits)), "their memory is given back");
}

#[test]
fn a_key_without_room_shares_one_of_4096_counts_by_its_first_twelve_bits() {
    let mut bytes = [0x77; 16];
    bytes[..2].copy_from_slice(&[0xab, 0xcd]);
    let (key, shared) = (Key::from_bytes(bytes), Key::from_bytes(bytes).shared());
    assert_eq!(shared.as_bytes()[14..], [0x0b, 0xcd]);
    assert_eq!((key.is_shared(), shared.is_shared()), (false, true));
}

// In groups of so many milliseconds each, of an hour; the table has room for 32 and is crowded from the second key on.
#[test]
fn windows_are_told_in_coarser_groups_where_there_are_many_keys() {
    let hour = rule(&[Per::Principal], 1_000, 3_600);
    let spec = Placed::new((Kind::Rate, &hour), None, &mut Books::default()).spec;
    for (others, expected) in [(0u8, 60), (1, 8), (2, 8)] {
        let mut table = Table::new(spec.clone(), 1_000).with_room_for(32);
        for other in 0..others {
            table.add(Key::from_bytes([other; 16]), 0, false, String::new);
        }
        let ours = Key::from_bytes([0x77; 16]);
        for minute in 0..60 {
            table.add(ours, minute * 60_000, false, String::new);
        }
        let told = table.write(ours, 59 * 60_000).expect("it is there").groups.len();
        assert_eq!(told, expected, "beside {others}");
    }
}
