mod bounded;
mod kept;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::tests::{agent, now, server};
use vocabulary::{Digest, Principal, Timestamp, ToolName};

fn tool(name: &str) -> ToolId {
    ToolId {
        server: server("files"),
        name: ToolName::parse(name).expect("a name"),
    }
}

fn rule(per: &[Per], calls: u32, seconds: u64) -> Rule {
    Rule {
        per: PerSet::new(per.to_vec()).expect("one"),
        calls: NonZeroU32::new(calls).expect("more than none"),
        window: Window::Rolling(Duration::from_secs(seconds)),
        methods: Methods::Calls,
    }
}

fn rates(rate: Vec<Rule>) -> LimitRules {
    LimitRules {
        rate,
        per_principal: 99,
        per_server: 99,
        ..LimitRules::default()
    }
}

fn quotas(quota: Vec<Rule>) -> LimitRules {
    LimitRules {
        quota,
        ..rates(Vec::new())
    }
}

/// A limiter and the hand of its clock.
fn limits(rules: &LimitRules) -> (CallLimits, Clock) {
    let clock = Clock::standing_at(now());
    (CallLimits::new(rules, clock.clone()), clock)
}

fn turn(clock: &Clock, millis: u64) {
    clock.turn_to(clock.now().plus(Duration::from_millis(millis)));
}

fn call<'a>(who: &'a Principal, tool: &'a ToolId) -> Request<'a> {
    Request {
        who,
        session: None,
        server: Some(&tool.server),
        tool: Some(tool),
        class: Class::Call,
    }
}

/// How it ends that ends at once; `None` if it waits.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

fn admit(limits: &CallLimits, request: &Request<'_>) -> Result<InFlight, OverLimit> {
    let server = request.server.cloned().unwrap_or_else(|| server("files"));
    at_once(limits.admit(request, &server)).expect("nothing is waited for")
}

/// Calls a tool once: the code it was refused with.
fn read(limits: &CallLimits, who: &str) -> Option<ReasonCode> {
    refusal(limits, &call(&agent(who), &tool("read")))
}

fn refusal(limits: &CallLimits, request: &Request<'_>) -> Option<ReasonCode> {
    admit(limits, request).err().map(|over| over.code)
}

const TOO_OFTEN: Option<ReasonCode> = Some(ReasonCode::DenyRateLimit);
const USED_UP: Option<ReasonCode> = Some(ReasonCode::DenyQuota);

#[test]
fn a_principal_over_its_rate_waits_and_others_do_not() {
    let (limits, clock) = limits(&rates(vec![rule(&[Per::Principal], 2, 60)]));
    let (ann, read_tool) = (agent("ann"), tool("read"));
    assert_eq!(read(&limits, "ann"), None);
    turn(&clock, 10_000);
    assert_eq!(refusal(&limits, &call(&ann, &tool("write"))), None);
    let expected = OverLimit {
        code: ReasonCode::DenyRateLimit,
        retry_after: Some(Duration::from_secs(50)),
    };
    assert_eq!(admit(&limits, &call(&ann, &read_tool)).expect_err("over"), expected);
    assert_eq!(read(&limits, "bob"), None);
    let namesake = Principal {
        issuer: "https://idp.example".to_owned(),
        ..agent("ann")
    };
    assert_eq!(refusal(&limits, &call(&namesake, &read_tool)), None);
    turn(&clock, 49_999);
    assert_eq!(read(&limits, "ann"), TOO_OFTEN);
    turn(&clock, 1);
    assert_eq!(read(&limits, "ann"), None, "the wait that was told is true");
    assert_eq!(read(&limits, "ann"), TOO_OFTEN, "and one call has come free");
}

#[test]
fn no_window_ever_holds_more_than_is_allowed() {
    let (limits, clock) = limits(&rates(vec![rule(&[Per::Principal], 50, 60)]));
    let mut made: Vec<Timestamp> = Vec::new();
    for step in 0..5_000u64 {
        turn(&clock, step * 37 % 101);
        if read(&limits, "ann").is_none() {
            made.push(clock.now());
        }
    }
    assert!(made.len() > 100);
    for window in made.windows(51) {
        let [first, .., last] = window else { panic!("51") };
        assert!(last.as_micros() - first.as_micros() >= 60_000_000, "{first} {last}");
    }
}

#[test]
fn each_kind_of_key_is_counted_apart_and_so_are_pairs() {
    let [ann, bob] = ["ann", "bob"].map(|name| Principal {
        client_id: Some("ide".into()),
        ..agent(name)
    });
    let elsewhere = Principal {
        client_id: Some("other".into()),
        ..ann.clone()
    };
    let (read, write) = (tool("read"), tool("write"));
    let web = ToolId {
        server: server("web"),
        ..tool("read")
    };
    let session = |request| Request {
        session: Some(Digest::of(b"one")),
        ..request
    };
    let base = session(call(&ann, &read));
    let others = [
        ("principal", session(call(&bob, &read))),
        ("client", session(call(&elsewhere, &read))),
        ("session", Request { session: None, ..base }),
        ("tool", session(call(&ann, &write))),
        ("server", session(call(&ann, &web))),
    ];
    // Which of the others has an allowance of its own, by what is counted.
    let cases: [(&[Per], &[&str]); 8] = [
        (&[Per::Principal], &["principal"]),
        (&[Per::Client], &["client"]),
        (&[Per::Session], &["session"]),
        (&[Per::Tool], &["tool", "server"]),
        (&[Per::Server], &["server"]),
        (&[Per::Principal, Per::Tool], &["principal", "tool", "server"]),
        (&[Per::Client, Per::Server], &["client", "server"]),
        (
            &[Per::Session, Per::Tool, Per::Principal],
            &["principal", "session", "tool", "server"],
        ),
    ];
    for (per, apart) in cases {
        let (limits, _) = limits(&rates(vec![rule(per, 2, 60)]));
        assert_eq!([refusal(&limits, &base), refusal(&limits, &base)], [None, None]);
        assert_eq!(refusal(&limits, &base), TOO_OFTEN, "{per:?}");
        for (differs, other) in &others {
            let expected = if apart.contains(differs) { None } else { TOO_OFTEN };
            assert_eq!(refusal(&limits, other), expected, "{per:?}: another {differs}");
        }
    }
}

#[test]
fn another_client_id_is_no_further_allowance_of_a_principal_nor_a_further_seat() {
    let rules = LimitRules {
        per_principal: 1,
        ..rates(vec![rule(&[Per::Principal], 3, 60)])
    };
    let (limits, _) = limits(&rules);
    let read = tool("read");
    let clients = ["one", "two", "three", "four"].map(|client| Principal {
        client_id: Some(client.into()),
        ..agent("ann")
    });
    let running = admit(&limits, &call(&clients[0], &read)).expect("room");
    assert_eq!(
        refusal(&limits, &call(&clients[1], &read)),
        Some(ReasonCode::DenyConcurrency)
    );
    drop(running);
    let codes = clients.map(|who| refusal(&limits, &call(&who, &read)));
    assert_eq!(codes, [None, None, TOO_OFTEN, TOO_OFTEN]);
}

#[test]
fn what_is_refused_takes_nothing_from_any_limit() {
    let (limits, _) = limits(&rates(vec![rule(&[Per::Tool], 2, 60), rule(&[Per::Principal], 1, 60)]));
    assert_eq!(read(&limits, "ann"), None);
    for _ in 0..5 {
        assert_eq!(read(&limits, "ann"), TOO_OFTEN);
    }
    assert_eq!(read(&limits, "bob"), None, "the tool has one call left");
    assert_eq!(read(&limits, "eve"), TOO_OFTEN);
    assert_eq!(
        refusal(&limits, &call(&agent("eve"), &tool("write"))),
        None,
        "eve's own is untouched"
    );
}

#[test]
fn of_several_limits_the_one_that_takes_longest_says_when() {
    let rules = LimitRules {
        quota: vec![rule(&[Per::Principal], 1, 86_400)],
        ..rates(vec![rule(&[Per::Principal], 1, 60), rule(&[Per::Tool], 1, 3_600)])
    };
    let (limits, clock) = limits(&rules);
    assert_eq!(read(&limits, "ann"), None);
    let over = admit(&limits, &call(&agent("ann"), &tool("read"))).expect_err("over");
    assert_eq!(
        (over.code, over.retry_after),
        (ReasonCode::DenyQuota, Some(Duration::from_secs(86_400)))
    );
    turn(&clock, 86_400_000);
    assert_eq!(read(&limits, "ann"), None);
}

#[test]
fn in_whatever_order_limits_stand_the_longest_wait_is_told() {
    let (short, long) = (rule(&[Per::Principal], 1, 60), rule(&[Per::Tool], 1, 3_600));
    for rules in [vec![short.clone(), long.clone()], vec![long, short]] {
        let (limits, _) = limits(&rates(rules));
        assert_eq!(read(&limits, "ann"), None);
        let over = admit(&limits, &call(&agent("ann"), &tool("read"))).expect_err("over");
        assert_eq!(over.retry_after, Some(Duration::from_secs(3_600)));
    }
}

#[test]
fn sessions_are_asked_for_where_a_rule_counts_requests_of_that_class_by_them() {
    let asked = |rules| {
        let (limits, _) = limits(&rates(rules));
        [Class::Call, Class::List].map(|class| limits.counts_sessions(class))
    };
    let by_principal = rule(&[Per::Principal], 1, 60);
    assert_eq!(asked(vec![by_principal.clone()]), [false, false]);
    assert_eq!(asked(vec![by_principal, rule(&[Per::Session], 1, 60)]), [true, false]);
}

#[test]
fn the_debug_form_tells_nothing_of_callers() {
    let (limits, _) = limits(&rates(vec![rule(&[Per::Principal], 1, 60)]));
    assert_eq!(read(&limits, "ann"), None);
    assert_eq!(format!("{limits:?}"), "CallLimits { .. }");
}

#[test]
fn calls_at_once_are_counted_while_they_run() {
    let rules = LimitRules {
        per_principal: 2,
        per_server: 3,
        ..LimitRules::default()
    };
    let (limits, _) = limits(&rules);
    let full = Some(ReasonCode::DenyConcurrency);
    let take = |who: &str, name: &str| admit(&limits, &call(&agent(who), &tool(name)));
    let (first, second) = (take("ann", "read").expect("room"), take("ann", "write").expect("room"));
    assert_eq!(read(&limits, "ann"), full, "per principal");
    let third = take("bob", "read").expect("room");
    assert_eq!(read(&limits, "eve"), full, "per server");
    drop(first);
    assert_eq!(read(&limits, "eve"), None);
    let again = take("ann", "read").expect("room");
    assert_eq!(read(&limits, "ann"), full, "one call that ended makes room for one");
    drop((second, third, again));
    let Running {
        principals,
        servers,
        tools,
    } = &limits.running;
    assert_eq!(
        (principals.keys(), servers.keys(), tools.keys()),
        (0, 0, 0),
        "nothing is kept"
    );
}

#[test]
fn a_call_over_its_rate_takes_no_seat_and_no_seats_mean_no_calls() {
    let rules = LimitRules {
        per_principal: 1,
        per_server: 1,
        ..rates(vec![rule(&[Per::Principal], 1, 60)])
    };
    let (limits, _) = limits(&rules);
    assert_eq!(
        [read(&limits, "ann"), read(&limits, "ann"), read(&limits, "bob")],
        [None, TOO_OFTEN, None]
    );
    let none = self::limits(&LimitRules {
        per_principal: 0,
        ..rates(Vec::new())
    });
    assert_eq!(read(&none.0, "ann"), Some(ReasonCode::DenyConcurrency));
}

#[test]
fn a_tool_has_limits_of_its_own_beside_all_others() {
    let of_tool = ToolLimits {
        rate: vec![rule(&[Per::Principal], 1, 60), rule(&[Per::Tool], 2, 60)],
        quota: vec![rule(&[Per::Tool], 3, 86_400)],
        concurrency: Some(1),
        timeout: Some(Duration::from_secs(5)),
    };
    let rules = LimitRules {
        tools: [(tool("read"), of_tool)].into(),
        ..rates(Vec::new())
    };
    let (limits, clock) = limits(&rules);
    let running = admit(&limits, &call(&agent("ann"), &tool("read"))).expect("room");
    assert_eq!(read(&limits, "bob"), Some(ReasonCode::DenyConcurrency));
    drop(running);
    assert_eq!(
        [read(&limits, "ann"), read(&limits, "bob"), read(&limits, "eve")],
        [TOO_OFTEN, None, TOO_OFTEN]
    );
    turn(&clock, 60_000);
    assert_eq!([read(&limits, "ann"), read(&limits, "bob")], [None, USED_UP]);
    for _ in 0..9 {
        assert_eq!(
            refusal(&limits, &call(&agent("ann"), &tool("write"))),
            None,
            "another tool"
        );
    }
    assert_eq!(limits.timeout_of(&tool("read")), Some(Duration::from_secs(5)));
    assert_eq!(limits.timeout_of(&tool("write")), None);
}

#[test]
fn a_request_that_is_no_call_of_a_tool_is_counted_by_no_tool() {
    let (limits, _) = limits(&rates(vec![rule(&[Per::Principal], 3, 60), rule(&[Per::Tool], 1, 60)]));
    let (ann, read) = (agent("ann"), tool("read"));
    let resource = Request {
        tool: None,
        ..call(&ann, &read)
    };
    let codes = [(); 4].map(|()| refusal(&limits, &resource));
    assert_eq!(codes, [None, None, None, TOO_OFTEN]);
}

#[test]
fn lists_have_an_allowance_of_their_own_until_a_rule_speaks_of_them() {
    let ann = agent("ann");
    let list = Request {
        who: &ann,
        session: None,
        server: None,
        tool: None,
        class: Class::List,
    };
    let many = |limits: &CallLimits| {
        let mut asked = (0..9_999).map(|_| at_once(limits.admit_own(&list)).expect("nothing is waited for"));
        (
            asked.by_ref().take_while(Result::is_ok).count(),
            asked.next().expect("more").map_err(|over| over.code),
        )
    };
    let (plain, clock) = limits(&rates(vec![rule(&[Per::Principal], 1, 60)]));
    assert_eq!(read(&plain, "ann"), None);
    assert_eq!(many(&plain), (1_200, Err(ReasonCode::DenyRateLimit)));
    turn(&clock, 60_000);
    assert_eq!(
        many(&plain),
        (1_200, Err(ReasonCode::DenyRateLimit)),
        "and lists are not calls"
    );
    assert_eq!(read(&plain, "ann"), None);

    let speaking = |methods| Rule {
        methods,
        ..rule(&[Per::Principal], 5, 60)
    };
    let (lists, _) = limits(&rates(vec![speaking(Methods::Lists)]));
    assert_eq!(many(&lists).0, 5);
    assert_eq!(read(&lists, "ann"), None);
    let (all, _) = limits(&rates(vec![speaking(Methods::All)]));
    assert_eq!([read(&all, "ann"), read(&all, "ann")], [None, None]);
    assert_eq!(many(&all).0, 3);
    assert_eq!(read(&all, "ann"), TOO_OFTEN);
}

#[test]
fn counts_go_on_where_the_rule_is_the_same_and_begin_anew_where_it_is_not() {
    let before = rates(vec![rule(&[Per::Principal], 3, 60), rule(&[Per::Tool], 9, 60)]);
    let (limits, _) = limits(&before);
    assert_eq!([read(&limits, "ann"), read(&limits, "ann")], [None, None]);
    let running = admit(&limits, &call(&agent("bob"), &tool("read"))).expect("room");
    // The order and what they allow change; one is new.
    let after = rates(vec![
        rule(&[Per::Tool, Per::Principal], 9, 60),
        rule(&[Per::Principal], 2, 60),
    ]);
    let reloaded = limits.with_rules(&LimitRules {
        per_principal: 1,
        ..after
    });
    assert_eq!(read(&reloaded, "ann"), TOO_OFTEN, "two are used of what are two now");
    assert_eq!(
        read(&reloaded, "bob"),
        Some(ReasonCode::DenyConcurrency),
        "what runs goes on running"
    );
    drop(running);
    assert_eq!([read(&reloaded, "bob"), read(&reloaded, "bob")], [None, TOO_OFTEN]);
    assert_eq!(
        read(&limits, "eve"),
        None,
        "who began under the old rules is still counted"
    );
    assert_eq!([read(&reloaded, "eve"), read(&reloaded, "eve")], [None, TOO_OFTEN]);
}

#[test]
fn calendar_windows_open_again_when_the_calendar_says() {
    for (window, at, before, after) in [
        (
            Window::Day,
            "2028-02-28T10:00:00Z",
            "2028-02-28T23:59:59.999Z",
            "2028-02-29T00:00:00Z",
        ),
        (
            Window::Day,
            "2028-02-29T23:59:59.999Z",
            "2028-02-29T23:59:59.999Z",
            "2028-03-01T00:00:00Z",
        ),
        (
            Window::Month,
            "2028-02-01T00:00:00Z",
            "2028-02-29T23:59:59.999Z",
            "2028-03-01T00:00:00Z",
        ),
        (
            Window::Month,
            "2027-02-01T00:00:00Z",
            "2027-02-28T23:59:59.999Z",
            "2027-03-01T00:00:00Z",
        ),
        (
            Window::Month,
            "2026-12-31T23:59:59Z",
            "2026-12-31T23:59:59.999Z",
            "2027-01-01T00:00:00Z",
        ),
    ] {
        let time = |text: &str| Timestamp::parse(text).expect("a time");
        let (limits, clock) = limits(&quotas(vec![Rule {
            window,
            ..rule(&[Per::Principal], 2, 1)
        }]));
        clock.turn_to(time(at));
        assert_eq!([read(&limits, "ann"), read(&limits, "ann")], [None, None]);
        clock.turn_to(time(before));
        let over = admit(&limits, &call(&agent("ann"), &tool("read"))).expect_err("over");
        let wait = time(after).as_micros() - time(before).as_micros();
        assert_eq!(
            over.retry_after.map(|wait| wait.as_micros() as i64),
            Some(wait),
            "{window} {at}"
        );
        clock.turn_to(time(after));
        assert_eq!(
            [read(&limits, "ann"), read(&limits, "ann"), read(&limits, "ann")],
            [None, None, USED_UP]
        );
    }
}

#[test]
fn who_has_used_how_much_is_told_with_those_first_who_used_most() {
    let rules = LimitRules {
        quota: vec![rule(&[Per::Principal, Per::Tool], 4, 86_400)],
        ..rates(vec![rule(&[Per::Principal], 10, 60)])
    };
    let (limits, clock) = limits(&rules);
    for who in ["ann", "ann", "ann", "bob"] {
        assert_eq!(read(&limits, who), None);
        turn(&clock, 1_000);
    }
    let told = |usage: &Usage| {
        (
            usage.kind.as_str(),
            usage.per.to_string(),
            usage.key.join(" "),
            usage.used,
            usage.calls,
        )
    };
    let usage = limits.usage(99);
    let row = |kind, per: &str, key: &str, used, calls| (kind, per.to_owned(), key.to_owned(), used, calls);
    assert_eq!(
        usage.iter().map(told).collect::<Vec<_>>(),
        [
            row("quota", "principal+tool", "ann files/read", 3, 4),
            row("rate", "principal", "ann", 3, 10),
            row("quota", "principal+tool", "bob files/read", 1, 4),
            row("rate", "principal", "bob", 1, 10),
        ]
    );
    assert_eq!(usage[1].resets, now().plus(Duration::from_secs(62)));
    assert_eq!(
        limits.usage(2).iter().map(told).collect::<Vec<_>>(),
        usage.iter().take(2).map(told).collect::<Vec<_>>()
    );
    turn(&clock, 120_000);
    assert_eq!(limits.usage(99).len(), 2, "what counts no more is not told");
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
