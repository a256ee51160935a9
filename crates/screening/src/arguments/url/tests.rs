//! URLs: those of listed hosts pass, and everything that somebody could read as another host does not.

use proptest::prelude::*;
use vocabulary::HostPattern;

use super::*;

fn hosts() -> HostList {
    let patterns = [
        "api.example.org",
        "*.wild.test:8443",
        "plain.test:80",
        "xn--bcher-kva.example",
    ];
    HostList::new(patterns.iter().map(|text| HostPattern::parse(text).unwrap()).collect())
}

fn fault(text: &str) -> Option<UrlFault> {
    judge(text, &hosts()).err()
}

#[test]
fn a_listed_host_passes_however_it_is_written() {
    for text in [
        "https://api.example.org",
        "https://api.example.org/",
        "https://API.Example.org/a/b?c=d#e",
        "HTTPS://api.example.org:443/x",
        "https://api.example.org./x",
        "https://api.example.org?q=1",
        "https://api.example.org/login?email=a@b.c",
        "https://api.example.org/redirect?to=https://evil.test/",
        "https://api.example.org/a b",
        "wss://api.example.org/socket",
        "https://a.b.wild.test:8443/x",
        "http://plain.test/x",
        "https://xn--bcher-kva.example/",
    ] {
        assert_eq!(fault(text), None, "{text}");
    }
}

#[test]
fn every_other_destination_is_refused() {
    let unlisted = || UrlFault::Unlisted { meant: None };
    for (text, expected) in [
        ("https://evil.test/", unlisted()),
        ("https://api.example.org.evil.test/", unlisted()),
        ("https://evilwild.test:8443/", unlisted()),
        ("https://localhost/", unlisted()),
        ("https://127.0.0.1.nip.io/", unlisted()),
        ("https://xn--80ak6aa92e.com/", unlisted()),
        ("https://api.example.org:8443/", UrlFault::Port),
        ("http://api.example.org/", UrlFault::Port),
        ("https://api.example.org:/", UrlFault::Port),
        ("https://api.example.org:443:443/", UrlFault::Port),
        ("https://a.wild.test/", UrlFault::Port),
        ("https://127.0.0.1/", UrlFault::Address),
        ("https://127.1/", UrlFault::Address),
        ("https://2130706433/", UrlFault::Address),
        ("https://0x7f000001/", UrlFault::Address),
        ("https://0x7f.0.0.1/", UrlFault::Address),
        ("https://0177.0.0.1/", UrlFault::Address),
        ("https://127.0.0.1./", UrlFault::Address),
        ("https://169.254.169.254/latest/meta-data/", UrlFault::Address),
        ("https://[::1]/", UrlFault::Address),
        ("https://[::ffff:127.0.0.1]/", UrlFault::Address),
        ("https://[::ffff:7f00:1]:443/", UrlFault::Address),
        ("https://[fe80::1%25eth0]/", UrlFault::Address),
        ("https://user@api.example.org/", UrlFault::UserInfo),
        ("https://user:pass@api.example.org/", UrlFault::UserInfo),
        ("https://api.example.org@evil.test/", UrlFault::UserInfo),
        ("https://api.example.org:443@evil.test/", UrlFault::UserInfo),
        ("https://api.example.org%40evil.test/", UrlFault::NotAName),
        ("https://api.example.org#@evil.test/", UrlFault::UserInfo),
        ("https://api.example.org?@evil.test/", UrlFault::UserInfo),
        ("https://api.example.org\\@evil.test/", UrlFault::UserInfo),
        ("https://evil.test\\.api.example.org/", UrlFault::NotAName),
        ("https:\\\\evil.test\\", UrlFault::NotAUrl),
        ("https:/\\evil.test/", UrlFault::NotAUrl),
        ("https:///evil.test/", UrlFault::NotAUrl),
        ("https:evil.test", UrlFault::NotAUrl),
        ("//evil.test/", UrlFault::NotAUrl),
        ("evil.test/x", UrlFault::NotAUrl),
        ("api.example.org", UrlFault::NotAUrl),
        ("", UrlFault::NotAUrl),
        (" https://api.example.org/", UrlFault::NotAUrl),
        ("https://api.example.org/\n", UrlFault::NotAUrl),
        ("https://ev\til.test/", UrlFault::NotAUrl),
        ("ht\ntps://api.example.org/", UrlFault::NotAUrl),
        ("https://api.example.org\r\nHost: evil.test/", UrlFault::NotAUrl),
        ("https://api.example.org\0.evil.test/", UrlFault::NotAUrl),
        ("https://api.ex\u{e4}mple.org/", UrlFault::NotAName),
        ("https://\u{430}pi.example.org/", UrlFault::NotAName),
        ("https://api\u{3002}example\u{3002}org/", UrlFault::NotAName),
        ("https://\u{ff41}pi.example.org/", UrlFault::NotAName),
        ("https://\u{2460}27.0.0.1/", UrlFault::Address),
        ("https://b\u{fc}cher.example/", UrlFault::NotAName),
        ("https://api.example.org../", UrlFault::NotAName),
        ("https://api%2eexample%2eorg/", UrlFault::NotAName),
        ("https://api.example.org /", UrlFault::NotAName),
        ("file:///etc/passwd", UrlFault::Scheme),
        ("ftp://api.example.org/", UrlFault::Scheme),
        ("gopher://api.example.org:443/_x", UrlFault::Scheme),
        ("dict://api.example.org:443/", UrlFault::Scheme),
        ("jar:https://api.example.org!/", UrlFault::NotAUrl),
        ("javascript:alert(1)", UrlFault::NotAUrl),
        ("data:text/html,x", UrlFault::NotAUrl),
        ("javascript://api.example.org/%0aalert(1)", UrlFault::Scheme),
        ("view-source://api.example.org/", UrlFault::Scheme),
    ] {
        let mut found = fault(text);
        if let Some(UrlFault::Unlisted { meant }) = &mut found {
            *meant = None;
        }
        assert_eq!(found, Some(expected), "{text:?}");
    }
    assert_eq!(
        fault("https://api.exampel.org/"),
        Some(UrlFault::Unlisted {
            meant: Some("api.example.org".to_owned())
        })
    );
    assert!(judge("https://api.example.org/", &HostList::default()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_passes_has_a_listed_host_right_behind_its_scheme(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("https://".to_owned()), Just("api.example.org".to_owned()), Just("evil.test".to_owned()), Just("@".to_owned()),
                Just("/".to_owned()), Just("\\".to_owned()), Just(":".to_owned()), Just("443".to_owned()), Just("#".to_owned()),
                Just("?".to_owned()), Just("%40".to_owned()), Just("\t".to_owned()), Just(".".to_owned()), ".{1,2}",
            ],
            1..8,
        )
    ) {
        let text = parts.concat();
        if judge(&text, &hosts()).is_ok() {
            let lower = text.to_ascii_lowercase();
            let rest = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("wss://"));
            let rest = rest.and_then(|rest| rest.strip_prefix("api.example.org")).map(|rest| rest.strip_prefix('.').unwrap_or(rest));
            let rest = rest.map(|rest| rest.strip_prefix(":443").unwrap_or(rest));
            prop_assert!(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#'])), "{:?}", text);
        }
    }

    #[test]
    fn any_text_is_judged(text in ".{0,60}") {
        let _ = judge(&text, &hosts());
        let _ = is_web_address(&text);
    }
}
