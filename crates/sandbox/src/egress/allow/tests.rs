//! The list: what it names, what it does not, and what cannot stand in it.

use proptest::prelude::*;

use super::*;

fn list(allow: &[&str]) -> Allowlist {
    let allow: Vec<_> = allow.iter().map(|text| (*text).to_owned()).collect();
    Allowlist::parse(&allow, &[]).unwrap()
}

fn verdict(list: &Allowlist, host: &str, port: u16) -> Reason {
    match list.check(host.as_bytes(), port) {
        Ok(_) => Reason::Allowlisted,
        Err(reason) => reason,
    }
}

#[test]
fn an_empty_list_allows_nothing() {
    for host in ["good.test", "localhost", "*", "", "a.b"] {
        assert!(Allowlist::nothing().check(host.as_bytes(), 443).is_err());
    }
    assert_eq!(Allowlist::parse(&[], &[]), Ok(Allowlist::nothing()));
}

#[test]
fn host_and_port_must_both_be_named() {
    let list = list(&["good.test", "Other.Test:8443", "both.test:80", "both.test:443"]);
    assert_eq!(verdict(&list, "good.test", 443), Reason::Allowlisted);
    assert_eq!(verdict(&list, "GOOD.test.", 443), Reason::Allowlisted);
    assert_eq!(verdict(&list, "other.test", 8443), Reason::Allowlisted);
    assert_eq!(verdict(&list, "both.test", 80), Reason::Allowlisted);
    for (host, port) in [
        ("good.test", 22),
        ("good.test", 8080),
        ("good.test", 80),
        ("other.test", 443),
        ("good.test", 0),
    ] {
        assert_eq!(verdict(&list, host, port), Reason::PortNotAllowed, "{host}:{port}");
    }
}

#[test]
fn names_that_only_look_alike_are_not_on_the_list() {
    let list = list(&["good.test", "*.wild.test"]);
    for host in [
        "good.test.evil.test",
        "evilgood.test",
        "wild.test",
        "xwild.test",
        "evilwild.test",
        "a.wild.test.evil.test",
        "sub.good.test",
        "test",
    ] {
        assert_eq!(verdict(&list, host, 443), Reason::DomainNotAllowlisted, "{host}");
    }
    for host in [
        "good.test@evil.test",
        "good%2etest",
        "good\u{3002}test",
        "good.test\0",
        ".wild.test",
        "*.wild.test",
        "1.2.3.4",
    ] {
        assert_eq!(verdict(&list, host, 443), Reason::IpLiteralOrMalformedHost, "{host}");
    }
    assert_eq!(verdict(&list, "a.wild.test", 443), Reason::Allowlisted);
    assert_eq!(verdict(&list, "a.b.wild.test", 443), Reason::Allowlisted);
}

#[test]
fn every_fault_is_reported_with_its_place() {
    let cases = [
        ("93.184.216.34", FaultKind::IpLiteral),
        ("93.184.216.34:443", FaultKind::IpLiteral),
        ("[::1]:443", FaultKind::IpLiteral),
        ("::1", FaultKind::IpLiteral),
        ("127.1", FaultKind::IpLiteral),
        ("2130706433", FaultKind::IpLiteral),
        ("0x7f.1", FaultKind::IpLiteral),
        ("*", FaultKind::Everything),
        ("*:443", FaultKind::Everything),
        ("https://good.test", FaultKind::Url),
        ("good.test/path", FaultKind::Url),
        ("user@good.test", FaultKind::Url),
        ("good.test:0", FaultKind::BadPort),
        ("good.test:99999", FaultKind::BadPort),
        ("good.test:", FaultKind::BadPort),
        ("good.test:https", FaultKind::BadPort),
        ("good..test", FaultKind::BadLabel),
        ("", FaultKind::BadLabel),
        ("b\u{fc}cher.test", FaultKind::BadLabel),
        ("a_b.test", FaultKind::BadLabel),
        ("*.", FaultKind::BadLabel),
        ("a.*.test", FaultKind::StarInside),
        ("*a.test", FaultKind::StarInside),
        ("*.*.test", FaultKind::StarInside),
    ];
    let allow: Vec<_> = cases.iter().map(|(text, _)| (*text).to_owned()).collect();
    let private = [
        "10.0.0.0".to_owned(),
        "169.254.0.0/16".to_owned(),
        "10.0.0.0/8".to_owned(),
    ];
    let faults = Allowlist::parse(&allow, &private).unwrap_err();
    let found: Vec<_> = faults
        .iter()
        .map(|fault| (fault.list, fault.index, fault.kind))
        .collect();
    let mut expected: Vec<_> = cases
        .iter()
        .enumerate()
        .map(|(index, (_, kind))| ("allow", index, *kind))
        .collect();
    expected.push(("private", 0, FaultKind::NotCidr));
    expected.push(("private", 1, FaultKind::NeverReachable));
    assert_eq!(found, expected);
    assert_eq!(
        faults[7].to_string(),
        "`*` in `allow` allows every host; a list that allows everything protects nothing: name the hosts, or `*.example.org` for those below one"
    );
}

#[test]
fn every_port_but_those_that_are_there_anyway_gets_a_door_and_not_too_many() {
    let list = list(&[
        "a.test",
        "a.test:80",
        "a.test:5432",
        "b.test:5432",
        "*.c.test:8443",
        "p.test:3128",
    ]);
    assert_eq!(list.door_ports(), BTreeSet::from([5432, 8443]));
    assert_eq!(list.proxy_only_ports(), BTreeSet::from([3128]));
    let mut many: Vec<String> = (1000..1064).map(|port| format!("a.test:{port}")).collect();
    many.extend(["b.test:1000".to_owned(), "a.test:443".to_owned()]);
    assert_eq!(Allowlist::parse(&many, &[]).unwrap().door_ports().len(), MOST_DOORS);
    many.push("a.test:1064".to_owned());
    let faults = Allowlist::parse(&many, &[]).unwrap_err();
    assert_eq!(
        (faults[0].index, faults[0].kind, faults.len()),
        (66, FaultKind::TooManyPorts, 1)
    );
}

#[test]
fn localhost_is_what_private_lists_of_the_loopback() {
    let with = |allow: &str, private: &[&str]| {
        let private: Vec<_> = private.iter().map(|text| (*text).to_owned()).collect();
        Allowlist::parse(&[allow.to_owned()], &private).unwrap()
    };
    assert!(with("localhost:5432", &[]).names_localhost_in_vain());
    assert!(with("LOCALHOST", &["10.0.0.0/8"]).names_localhost_in_vain());
    for (list, found) in [
        (with("localhost:5432", &["127.0.0.0/8"]), &["127.0.0.1"][..]),
        (with("localhost:5432", &["::1/128"]), &["::1"]),
        (
            with("localhost:5432", &["127.0.0.1/32", "::1/128"]),
            &["127.0.0.1", "::1"],
        ),
    ] {
        assert!(!list.names_localhost_in_vain());
        assert_eq!(
            list.loopback().iter().map(ToString::to_string).collect::<Vec<_>>(),
            found
        );
    }
    assert!(!with("good.test", &[]).names_localhost_in_vain());
}

#[test]
fn a_private_range_opens_its_addresses_and_never_link_local() {
    let list = Allowlist::parse(&[], &["10.20.0.0/16".to_owned(), "127.0.0.0/8".to_owned()]).unwrap();
    let admits = |text: &str| list.admits(text.parse().unwrap());
    assert_eq!(admits("10.20.1.1"), Some(Reason::AllowlistedPrivate));
    assert_eq!(admits("127.0.0.1"), Some(Reason::AllowlistedPrivate));
    for text in [
        "10.21.1.1",
        "169.254.169.254",
        "::1",
        "fe80::1",
        "0.0.0.0",
        "64:ff9b::a14:101",
        "::10.20.1.1",
    ] {
        assert_eq!(admits(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn a_wildcard_never_reaches_its_apex_or_a_neighbour(
        name in "[a-z]{1,8}\\.[a-z]{1,8}", label in "[a-z0-9]{1,8}", evil in "[a-z]{1,8}"
    ) {
        let list = list(&[&format!("*.{name}")]);
        let below = format!("{label}.{name}");
        let others = [name.clone(), format!("{evil}{name}"), format!("{label}.{name}.{evil}x")];
        prop_assert!(list.check(below.as_bytes(), 443).is_ok());
        for other in others {
            prop_assert!(list.check(other.as_bytes(), 443).is_err());
        }
    }

    #[test]
    fn whatever_passes_is_the_name_itself(bytes in proptest::collection::vec(any::<u8>(), 0..40), port in any::<u16>()) {
        let list = list(&["good.test"]);
        if let Ok(passed) = list.check(&bytes, port) {
            prop_assert_eq!((passed.host().as_str(), passed.port()), ("good.test", 443));
        }
    }

    #[test]
    fn any_text_is_an_entry_or_a_fault(text in ".{0,60}") {
        let entries = std::slice::from_ref(&text);
        let _ = Allowlist::parse(entries, entries);
    }
}
