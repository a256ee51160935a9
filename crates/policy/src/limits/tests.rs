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
    drop((second, third));
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
