//! The list of what a sandbox may reach, and the proof that a destination is on it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vocabulary::{HostList, HostPattern, HostPatternFault, HostStanding};

use crate::egress::address::{Class, Range, RangeFault, classify};
use crate::egress::gate::GATE_PORT;
use crate::egress::host::Host;
use crate::egress::own;
use crate::egress::record::Reason;
use crate::environment::PROXY_PORT;

/// Hosts with ports that a sandbox may reach, and inside ranges that these hosts may lie in. An entry is `host` (port
/// 443), `host:port`, or `*.host` for every name below `host` at any depth, not for `host` itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allowlist {
    entries: HostList,
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
    /// One port more than a sandbox has doors for.
    TooManyPorts,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IpLiteral => {
                "is an address; a sandbox reaches hosts by name only: write the host's name (`localhost` for this machine's loopback), and its range in `private` if it is not public"
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
            Self::TooManyPorts => {
                "names one more port than a sandbox has doors for, which are 64 beside 443 and 80: name fewer ports"
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
            match HostPattern::parse(text) {
                Ok(entry) => entries.push(entry),
                Err(kind) => faults.push(fault("allow", index, text, kind.into())),
            }
        }
        let mut doors = BTreeSet::new();
        for (index, text) in allow.iter().enumerate() {
            let port = HostPattern::parse(text).ok().and_then(|entry| door_port(&entry));
            if port.is_some_and(|port| doors.insert(port)) && doors.len() > MOST_DOORS {
                faults.push(fault("allow", index, text, FaultKind::TooManyPorts));
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
                entries: HostList::new(entries),
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
            entries: HostList::default(),
            private: Vec::new(),
        }
    }

    /// The ports that need a door of their own, beside 443 and 80: programs that know of no proxy connect to these. The
    /// ports of the sandbox's own proxy and gate are taken; hosts there are reached through the proxy alone. ADR 0056.
    #[must_use]
    pub fn door_ports(&self) -> BTreeSet<u16> {
        self.entries.iter().filter_map(door_port).collect()
    }

    /// The ports of the list that have no door, because the sandbox's own proxy and gate are there.
    #[must_use]
    pub fn proxy_only_ports(&self) -> BTreeSet<u16> {
        let ports = self.entries.iter().map(HostPattern::port);
        ports.filter(|port| TAKEN.contains(port)).collect()
    }

    /// Whether the list names `localhost` without naming its address in `private`, so that it cannot be reached.
    #[must_use]
    pub fn names_localhost_in_vain(&self) -> bool {
        let localhost = Host::localhost();
        self.entries.iter().any(|entry| entry.is_exactly(&localhost)) && self.loopback().is_empty()
    }

    /// The host's loopback addresses, as far as `private` lists them: all that `localhost` ever means.
    pub(crate) fn loopback(&self) -> Vec<IpAddr> {
        let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        both.into_iter()
            .filter(|address| self.admits(*address).is_some())
            .collect()
    }

    /// Decides whether host and port are on the list.
    pub(crate) fn check(&self, host: &[u8], port: u16) -> Result<AllowedDestination, Reason> {
        let host = Host::parse(host).ok_or(Reason::IpLiteralOrMalformedHost)?;
        match self.entries.standing(&host, port) {
            HostStanding::Listed => Ok(AllowedDestination { host, port }),
            HostStanding::OtherPort => Err(Reason::PortNotAllowed),
            HostStanding::Unlisted => Err(Reason::DomainNotAllowlisted),
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

/// The port of a pattern, if it needs a door of its own.
fn door_port(pattern: &HostPattern) -> Option<u16> {
    let port = pattern.port();
    let usual = [HostPattern::DEFAULT_PORT, HTTP_PORT].contains(&port);
    (!usual && !TAKEN.contains(&port)).then_some(port)
}

impl From<HostPatternFault> for FaultKind {
    fn from(fault: HostPatternFault) -> Self {
        match fault {
            HostPatternFault::IpLiteral => Self::IpLiteral,
            HostPatternFault::Everything => Self::Everything,
            HostPatternFault::Url => Self::Url,
            HostPatternFault::BadPort => Self::BadPort,
            HostPatternFault::BadLabel => Self::BadLabel,
            HostPatternFault::StarInside => Self::StarInside,
        }
    }
}

fn fault(list: &'static str, index: usize, entry: &str, kind: FaultKind) -> AllowlistFault {
    AllowlistFault {
        list,
        index,
        entry: entry.to_owned(),
        kind,
    }
}

const HTTP_PORT: u16 = 80;

/// Ports of the sandbox itself.
const TAKEN: [u16; 2] = [PROXY_PORT, GATE_PORT];

/// Each door is a descriptor in the gateway and a listener inside.
pub(crate) const MOST_DOORS: usize = 64;

#[cfg(test)]
mod tests;
