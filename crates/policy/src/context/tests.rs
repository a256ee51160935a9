use super::*;
use crate::Verdict;
use crate::tests::{agent, ask, snapshot, tree};

#[test]
fn numbers_are_taken_by_value() {
    let long = |number| Some(Number::Long(number));
    let decimal = |text: &str| Some(Number::Decimal(text.to_owned()));
    for (spelling, expected) in [
        ("0", long(0)),
        ("-0", long(0)),
        ("0.000", long(0)),
        ("0e999999999999", long(0)),
        ("17", long(17)),
        ("-17", long(-17)),
        ("1.0", long(1)),
        ("1e3", long(1000)),
        ("1.5E+1", long(15)),
        ("150e-1", long(15)),
        ("9223372036854775807", long(i64::MAX)),
        ("-9223372036854775808", long(i64::MIN)),
        ("9223372036854775808", None),
        ("1e19", None),
        ("1.5", decimal("1.5")),
        ("-0.0001", decimal("-0.0001")),
        ("12.3450", decimal("12.345")),
        ("5e-3", decimal("0.005")),
        ("0.00001", None),
        ("922337203685477.5807", decimal("922337203685477.5807")),
        ("922337203685477.5808", None),
        ("-922337203685477.5808", decimal("-922337203685477.5808")),
        ("1e-9223372036854775808", None),
        ("1e99999999999999999999", None),
    ] {
        assert_eq!(number(spelling), expected, "{spelling}");
    }
}

// R118
#[test]
fn arguments_arrive_with_their_types() {
    for (condition, json) in [
        ("context.args.n == 3", r#"{"n":3}"#),
        ("context.args.n == 3", r#"{"n":3.0}"#),
        ("context.args.n == decimal(\"3.25\")", r#"{"n":3.25}"#),
        (
            "context.args.b && context.args.s == \"é\"",
            r#"{"b":true,"s":"\u00e9"}"#,
        ),
        (
            "context.args.l == [1, \"a\", {deep: true}]",
            r#"{"l":["a",1,{"deep":true}],"other":null}"#,
        ),
        ("context.args.o.p.q == -1", r#"{"o":{"p":{"q":-1}}}"#),
        ("context.args == {a: 1}", r#"{"a":1}"#),
        ("!(context.args has n)", "{}"),
        ("context.session.labels == []", "{}"),
        ("context.incident == {active: false, stage: \"normal\"}", "{}"),
        (
            "context.source.address == ip(\"192.0.2.7\") && context.source.authn == \"token\"",
            "{}",
        ),
    ] {
        let text = format!("permit(principal, action, resource) when {{ {condition} }};");
        let (verdict, grounds) = ask(&snapshot(&text), &agent("a"), "files/read", json);
        assert_eq!(verdict, Verdict::Allow, "{condition} with {json}: {grounds:?}");
    }
}

#[test]
fn an_ipv6_source_is_an_address_too() {
    let text = "permit(principal, action, resource) when { context.source.address.isLoopback() };";
    let reads = Reads {
        source: true,
        ..Reads::default()
    };
    let arguments = tree("{}");
    let facts = CallFacts {
        arguments: &arguments,
        args_hash: Digest::of(b""),
        found: None,
        address: "::1".parse().expect("an address"),
    };
    let context = of_call(&facts, Risk::Low, Authn::Jwt, &reads).expect("a context");
    assert!(
        context.get("source").is_some() && context.get("args").is_none(),
        "{text}"
    );
}

#[test]
fn what_a_policy_reads_and_cannot_see_denies_with_the_place() {
    let compared = "context.args has n && context.args.n > 100";
    for (condition, json, place) in [
        (compared, r#"{"n":1e30}"#, "/n"),
        (compared, r#"{"n":99999999999999999999}"#, "/n"),
        (compared, r#"{"n":101.00001}"#, "/n"),
        (compared, r#"{"n":null}"#, "/n"),
        ("context.args has n", r#"{"n":null}"#, "/n"),
        ("context.args has o.n && context.args.o.n > 1", r#"{"o":null}"#, "/o"),
        (
            "context.args has o && context.args.o has n && context.args.o.n > 1",
            r#"{"o":{"n":1e99}}"#,
            "/o/n",
        ),
        (
            "context.args has l && context.args.l.contains(7)",
            r#"{"l":[1,7e30]}"#,
            "/l",
        ),
        (
            "context.args has o && context.args.o == {}",
            r#"{"o":{"x":null}}"#,
            "/o",
        ),
        (
            r#"context.args has "a/b~" && context.args["a/b~"] == 1"#,
            r#"{"a/b~":null}"#,
            "/a~1b~0",
        ),
        ("context.args == {}", r#"{"x":null}"#, ""),
    ] {
        let text = format!(
            "@id(\"all\") permit(principal, action, resource); @id(\"f\") forbid(principal, action, resource) when {{ {condition} }};"
        );
        let (verdict, grounds) = ask(&snapshot(&text), &agent("a"), "files/read", json);
        assert_eq!(verdict, Verdict::Deny, "{condition} with {json}: {grounds:?}");
        assert_eq!(grounds.code.as_str(), "DENY_POLICY_ERROR", "{condition} with {json}");
        assert_eq!(
            (&*grounds.policy_id, grounds.unseen.as_deref()),
            ("f", Some(place)),
            "{condition} with {json}"
        );
    }
}

#[test]
fn what_no_policy_in_scope_reads_may_be_anything() {
    for (condition, json) in [
        (
            "context.args has n && context.args.n > 100",
            r#"{"m":1e30,"o":{"n":null},"l":[null]}"#,
        ),
        (
            "context.args has o && context.args.o has n && context.args.o.n > 1",
            r#"{"o":{"x":null,"n":1}}"#,
        ),
        ("context.args has o", r#"{"x":1e99}"#),
        ("context.args has n && context.args.n > 100", r#"{"n":100}"#),
        ("resource.risk == \"critical\" && context.args.n > 1", r#"{"n":null}"#),
    ] {
        let text =
            format!("permit(principal, action, resource); forbid(principal, action, resource) when {{ {condition} }};");
        let (verdict, grounds) = ask(&snapshot(&text), &agent("a"), "files/read", json);
        assert_eq!(verdict, Verdict::Allow, "{condition} with {json}: {grounds:?}");
    }
}
