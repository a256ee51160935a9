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
        ("!(context.args has n)", r#"{"n":1e40}"#),
        ("!(context.args has n)", r#"{"n":null}"#),
        (
            "context.args.b && context.args.s == \"é\"",
            r#"{"b":true,"s":"\u00e9"}"#,
        ),
        (
            "context.args.l == [1, \"a\", {deep: true}]",
            r#"{"l":["a",null,1,{"deep":true,"x":null}]}"#,
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
        address: "::1".parse().expect("an address"),
    };
    let context = of_call(&facts, Authn::Jwt, &reads).expect("a context");
    assert!(
        context.get("source").is_some() && context.get("args").is_none(),
        "{text}"
    );
}
