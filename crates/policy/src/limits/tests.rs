use governor::clock::FakeRelativeClock;

use super::*;
use crate::tests::{agent, server};
use vocabulary::ToolName;

fn tool(name: &str) -> ToolId {
    ToolId {
        server: server("files"),
        name: ToolName::parse(name).expect("a name"),
    }
}

fn rate(per: RateKey, calls: u32, seconds: u64) -> Rate {
    Rate {
        per,
        calls: NonZeroU32::new(calls).expect("more than none"),
        window: Duration::from_secs(seconds),
    }
}

fn counters(
    rate: Vec<Rate>,
    per_principal: usize,
    per_server: usize,
) -> (Counters<FakeRelativeClock>, FakeRelativeClock) {
    let clock = FakeRelativeClock::default();
    (
        Counters::new(
            &LimitRules {
                rate,
                per_principal,
                per_server,
            },
            clock.clone(),
        ),
        clock,
    )
}

fn code(result: Result<InFlight, OverLimit>) -> Option<ReasonCode> {
    result.err().map(|over| over.code)
}

#[test]
fn a_principal_over_its_rate_waits_and_others_do_not() {
    let (counters, clock) = counters(vec![rate(RateKey::Principal, 2, 60)], 99, 99);
    let (ann, bob) = (agent("ann"), agent("bob"));
    assert_eq!(code(counters.admit(&ann, &tool("read"))), None);
    assert_eq!(code(counters.admit(&ann, &tool("write"))), None);
    let over = counters.admit(&ann, &tool("read")).expect_err("over");
    let expected = OverLimit {
        code: ReasonCode::DenyRateLimit,
        retry_after: Some(Duration::from_secs(30)),
    };
    assert_eq!(over, expected);
    assert_eq!(code(counters.admit(&bob, &tool("read"))), None);
    let namesake = Principal {
        issuer: "https://idp.example".to_owned(),
        ..agent("ann")
    };
    assert_eq!(code(counters.admit(&namesake, &tool("read"))), None);
    clock.advance(Duration::from_secs(30));
    assert_eq!(code(counters.admit(&ann, &tool("read"))), None);
    assert_eq!(
        code(counters.admit(&ann, &tool("read"))),
        Some(ReasonCode::DenyRateLimit)
    );
}

#[test]
fn a_tools_rate_is_shared_by_all_and_is_not_used_up_by_refused_callers() {
    let (counters, _) = counters(
        vec![rate(RateKey::Tool, 2, 60), rate(RateKey::Principal, 1, 60)],
        99,
        99,
    );
    assert_eq!(code(counters.admit(&agent("ann"), &tool("read"))), None);
    for _ in 0..5 {
        assert_eq!(
            code(counters.admit(&agent("ann"), &tool("read"))),
            Some(ReasonCode::DenyRateLimit)
        );
    }
    assert_eq!(code(counters.admit(&agent("bob"), &tool("read"))), None);
    assert_eq!(
        code(counters.admit(&agent("eve"), &tool("read"))),
        Some(ReasonCode::DenyRateLimit)
    );
    assert_eq!(code(counters.admit(&agent("joe"), &tool("write"))), None);
}

#[test]
fn calls_at_once_are_counted_while_they_run() {
    let (counters, _) = counters(Vec::new(), 2, 3);
    let full = Some(ReasonCode::DenyConcurrency);
    let first = counters.admit(&agent("ann"), &tool("read")).expect("room");
    let second = counters.admit(&agent("ann"), &tool("write")).expect("room");
    assert_eq!(
        code(counters.admit(&agent("ann"), &tool("read"))),
        full,
        "per principal"
    );
    let third = counters.admit(&agent("bob"), &tool("read")).expect("room");
    assert_eq!(code(counters.admit(&agent("eve"), &tool("read"))), full, "per server");
    drop(first);
    assert_eq!(code(counters.admit(&agent("eve"), &tool("read"))), None);
    let again = counters.admit(&agent("ann"), &tool("read")).expect("room");
    assert_eq!(
        code(counters.admit(&agent("ann"), &tool("read"))),
        full,
        "one call that ended makes room for one"
    );
    drop((second, third, again));
    assert!(
        counters.principals.lock().is_empty() && counters.servers.lock().is_empty(),
        "nothing is kept"
    );
}

#[test]
fn a_call_over_its_rate_takes_no_seat() {
    let (counters, _) = counters(vec![rate(RateKey::Principal, 1, 60)], 1, 1);
    drop(counters.admit(&agent("ann"), &tool("read")).expect("room"));
    assert_eq!(
        code(counters.admit(&agent("ann"), &tool("read"))),
        Some(ReasonCode::DenyRateLimit)
    );
    assert_eq!(code(counters.admit(&agent("bob"), &tool("read"))), None);
}

#[test]
fn no_seats_means_no_calls() {
    let (counters, _) = counters(Vec::new(), 0, 9);
    assert_eq!(
        code(counters.admit(&agent("ann"), &tool("read"))),
        Some(ReasonCode::DenyConcurrency)
    );
}

#[test]
fn callers_of_long_ago_are_forgotten() {
    let (counters, clock) = counters(
        vec![rate(RateKey::Principal, 5, 1), rate(RateKey::Tool, 1_000_000, 1)],
        9,
        9,
    );
    for number in 0..SWEEP_EVERY {
        let _ = counters.admit(&agent(&format!("agent-{number}")), &tool("read"));
    }
    assert!(counters.by_principal[0].len() > 1000);
    clock.advance(Duration::from_secs(10));
    for _ in 0..SWEEP_EVERY {
        let _ = counters.admit(&agent("busy"), &tool("read"));
    }
    assert_eq!(counters.by_principal[0].len(), 1);
}

#[test]
fn a_request_that_is_no_call_counts_by_principal_and_server_and_by_no_tool() {
    let rates = vec![rate(RateKey::Principal, 3, 60), rate(RateKey::Tool, 1, 60)];
    let (counters, _) = counters(rates, 2, 2);
    let (ann, bob, files) = (agent("ann"), agent("bob"), server("files"));
    assert_eq!(code(counters.admit(&ann, &tool("read"))), None);
    assert_eq!(code(counters.admit_request(&ann, &files)), None);
    assert_eq!(code(counters.admit_request(&ann, &files)), None);
    assert_eq!(
        code(counters.admit_request(&ann, &files)),
        Some(ReasonCode::DenyRateLimit)
    );
    let running = [
        counters.admit_request(&bob, &files).expect("room"),
        counters.admit_request(&bob, &files).expect("room"),
    ];
    assert_eq!(
        code(counters.admit_request(&bob, &server("web"))),
        Some(ReasonCode::DenyConcurrency)
    );
    assert_eq!(
        code(counters.admit_request(&agent("eve"), &files)),
        Some(ReasonCode::DenyConcurrency)
    );
    drop(running);
    assert_eq!(code(counters.admit_request(&agent("eve"), &files)), None);
}

#[test]
fn what_the_gateway_answers_itself_has_an_allowance_of_its_own() {
    let limits = CallLimits::new(&LimitRules::default());
    let (ann, bob) = (agent("ann"), agent("bob"));
    for _ in 0..OWN_A_MINUTE.get() {
        assert_eq!(limits.admit_own(&ann), Ok(()));
    }
    // The clock runs: at most a few have become free again.
    let over = (0..OWN_A_MINUTE.get()).find_map(|_| limits.admit_own(&ann).err());
    let over = over.expect("there is an end");
    assert_eq!(over.code, ReasonCode::DenyRateLimit);
    assert!(over.retry_after.is_some());
    assert_eq!(limits.admit_own(&bob), Ok(()), "another has one of their own");
}

#[test]
fn when_to_try_again_is_told_in_milliseconds_and_never_at_once() {
    let told = |retry_after| {
        let code = ReasonCode::DenyRateLimit;
        OverLimit { code, retry_after }.retry_after_ms()
    };
    assert_eq!(told(Some(Duration::from_millis(1500))), Some(1500));
    assert_eq!(told(Some(Duration::from_micros(3))), Some(1));
    assert_eq!(told(Some(Duration::MAX)), Some(u64::MAX));
    assert_eq!(told(None), None);
}

#[test]
fn the_counters_are_swept_rarely() {
    let (counters, _) = counters(Vec::new(), 9, 9);
    for count in 1..10 {
        let _ = counters.admit(&agent("ann"), &tool("read"));
        assert_eq!(counters.since_sweep.load(Ordering::Relaxed), count);
    }
}
