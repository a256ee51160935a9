//! The list of what a sandbox may reach, and the proof that a destination is on it.

use std::fmt;
use std::net::IpAddr;

use crate::egress::address::{Class, Range, RangeFault, classify};
use crate::egress::host::{Host, read_port};
use crate::egress::own;
use crate::egress::record::Reason;

/// Hosts with ports that a sandbox may reach, and inside ranges that these hosts may lie in. An entry is `host` (port
/// 443), `host:port`, or `*.host` for every name below `host` at any depth, not for `host` itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allowlist {
    entries: Vec<Entry>,
    private: Vec<Range>,
}

/// A destination that is on the list. Only [`Allowlist`] makes it, and only with it can a name be resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowedDestination {
    host: Host,
    port: u16,
}

impl AllowedDestination {
    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// An entry that cannot stand in a list.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{entry}` in `{list}` {kind}")]
pub struct AllowlistFault {
    /// `allow` or `private`.
    pub list: &'static str,
    /// Its place in that list, from 0.
    pub index: usize,
    /// The entry as it was written.
    pub entry: String,
    /// What is wrong with it.
    pub kind: FaultKind,
}

/// What is wrong with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// An address instead of a name.
    IpLiteral,
    /// `*` alone.
    Everything,
    /// A URL, a scheme or a path.
    Url,
    /// A port that is none.
    BadPort,
    /// A label that no host name has.
    BadLabel,
    /// A `*` that is not the whole first label.
    StarInside,
    /// A range that is not CIDR.
    NotCidr,
    /// A range with link-local, metadata or other addresses that are never reachable.
    NeverReachable,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IpLiteral => {
                "is an address; a sandbox reaches hosts by name only: write the host's name, and its range in `private` if it is not public"
            }
            Self::Everything => {
                "allows every host; a list that allows everything protects nothing: name the hosts, or `*.example.org` for those below one"
            }
            Self::Url => {
                "is a URL; only host and port are compared, so a path would promise too much: write `host` or `host:port`"
            }
            Self::BadPort => "has no valid port; ports are 1 to 65535: write `host:443`, or leave the port out for 443",
            Self::BadLabel => {
                "is no host name; names are letters, digits, hyphens and dots, and do not end in a number: write international names in their `xn--` form"
            }
            Self::StarInside => {
                "has a `*` in a place where it means nothing; it may only be the whole first label: write `*.example.org`"
            }
            Self::NotCidr => {
                "is no range; ranges are a network and a prefix length, without bits behind the prefix: write `10.20.0.0/16`"
            }
            Self::NeverReachable => {
                "holds link-local, metadata, unspecified, multicast or translated addresses; these are never reachable from a sandbox: write a narrower range without them"
            }
        })
    }
}

impl Allowlist {
    /// Reads the lists of a server's configuration. Reports every fault, not the first.
    ///
    /// # Errors
    /// All entries that cannot stand in their list.
    pub fn parse(allow: &[String], private: &[String]) -> Result<Self, Vec<AllowlistFault>> {
        let mut faults = Vec::new();
        let mut entries = Vec::new();
        for (index, text) in allow.iter().enumerate() {
            match Entry::parse(text) {
                Ok(entry) => entries.push(entry),
                Err(kind) => faults.push(fault("allow", index, text, kind)),
            }
        }
        let mut ranges = Vec::new();
        for (index, text) in private.iter().enumerate() {
            match Range::parse(text) {
                Ok(range) => ranges.push(range),
                Err(RangeFault::NotCidr) => faults.push(fault("private", index, text, FaultKind::NotCidr)),
                Err(RangeFault::Never) => faults.push(fault("private", index, text, FaultKind::NeverReachable)),
            }
        }
        if faults.is_empty() {
            Ok(Self {
                entries,
                private: ranges,
            })
        } else {
            Err(faults)
        }
    }

    /// The list that allows nothing: `block_all`, and every list during an incident.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            entries: Vec::new(),
            private: Vec::new(),
        }
    }

    /// Decides whether host and port are on the list.
    pub(crate) fn check(&self, host: &[u8], port: u16) -> Result<AllowedDestination, Reason> {
        let host = Host::parse(host).ok_or(Reason::IpLiteralOrMalformedHost)?;
        let mut named = self.entries.iter().filter(|entry| entry.names(&host)).peekable();
        if named.peek().is_none() {
            Err(Reason::DomainNotAllowlisted)
        } else if named.any(|entry| entry.port == port) {
            Ok(AllowedDestination { host, port })
        } else {
            Err(Reason::PortNotAllowed)
        }
    }

    /// Decides whether a name is on the list with any port: whether the sandbox's resolver knows it.
    pub(crate) fn knows(&self, host: &[u8]) -> Result<Host, Reason> {
        let host = Host::parse(host).ok_or(Reason::IpLiteralOrMalformedHost)?;
        if self.entries.iter().any(|entry| entry.names(&host)) {
            Ok(host)
        } else {
            Err(Reason::DomainNotAllowlisted)
        }
    }

    /// Decides whether an address that an allowed name resolved to may be dialled, and under which reason.
    pub(crate) fn admits(&self, address: IpAddr) -> Option<Reason> {
        let listed = || {
            let within = self.private.iter().any(|range| range.contains(address));
            within.then_some(Reason::AllowlistedPrivate)
        };
        match classify(address) {
            Class::Never => None,
            Class::Inside => listed(),
            Class::Public if own::is_own(address) => listed(),
            Class::Public => Some(Reason::Allowlisted),
        }
    }
}

/// One entry: a name or everything below a name, with one port.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    scope: Scope,
    port: u16,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Scope {
    Exactly(Host),
    /// Every name that ends in a dot and this; not this.
    Below(Host),
}

impl Entry {
    fn parse(text: &str) -> Result<Self, FaultKind> {
        if text.contains(['/', '@', '?', '#']) {
            return Err(FaultKind::Url);
        }
        if text.starts_with('[') || text.parse::<IpAddr>().is_ok() {
            return Err(FaultKind::IpLiteral);
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, read_port(port.as_bytes()).ok_or(FaultKind::BadPort)?),
            None => (text, DEFAULT_PORT),
        };
        if host == "*" {
            return Err(FaultKind::Everything);
        }
        if host.parse::<IpAddr>().is_ok() || looks_numeric(host) {
            return Err(FaultKind::IpLiteral);
        }
        let (below, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, host),
        };
        if name.contains('*') {
            return Err(FaultKind::StarInside);
        }
        let name = Host::parse(name.as_bytes()).ok_or(FaultKind::BadLabel)?;
        let scope = if below {
            Scope::Below(name)
        } else {
            Scope::Exactly(name)
        };
        Ok(Self { scope, port })
    }

    fn names(&self, host: &Host) -> bool {
        match &self.scope {
            Scope::Exactly(name) => host == name,
            Scope::Below(name) => {
                let start = host.as_str().strip_suffix(name.as_str());
                start.is_some_and(|start| start.len() > 1 && start.ends_with('.'))
            }
        }
    }
}

/// Numbers and dots, or hexadecimal: one of the short notations of IPv4.
fn looks_numeric(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    !last.is_empty() && (last.bytes().all(|byte| byte.is_ascii_digit()) || last.to_ascii_lowercase().starts_with("0x"))
}

fn fault(list: &'static str, index: usize, entry: &str, kind: FaultKind) -> AllowlistFault {
    AllowlistFault {
        list,
        index,
        entry: entry.to_owned(),
        kind,
    }
}

const DEFAULT_PORT: u16 = 443;

#[cfg(test)]
mod tests {
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
}
