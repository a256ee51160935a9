//! Lists of hosts with ports, as operators write them: what a sandbox may reach, what the arguments of a tool may name.

use std::fmt;
use std::net::IpAddr;

use crate::host::{Host, read_port};

/// An entry of such a list: `host` (port 443), `host:port`, or `*.host` for every name below `host` at any depth, not for
/// `host` itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPattern {
    scope: Scope,
    port: u16,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Scope {
    Exactly(Host),
    /// Every name that ends in a dot and this; not this.
    Below(Host),
}

/// What is wrong with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostPatternFault {
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
}

impl fmt::Display for HostPatternFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IpLiteral => "is an address; hosts are named: write the host's name",
            Self::Everything => "names every host: name those that are meant, or `*.example.org` for all below one",
            Self::Url => "is a URL; only host and port are compared: write `host` or `host:port`",
            Self::BadPort => "has no valid port; ports are 1 to 65535: write `host:443`, or leave the port out for 443",
            Self::BadLabel => {
                "is no host name; names are letters, digits, hyphens and dots: write international names in their `xn--` form"
            }
            Self::StarInside => "has a `*` that is not the whole first label: write `*.example.org`",
        })
    }
}

impl HostPattern {
    /// The port of an entry that names none.
    pub const DEFAULT_PORT: u16 = 443;

    /// Reads an entry.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, HostPatternFault> {
        if text.contains(['/', '@', '?', '#']) {
            return Err(HostPatternFault::Url);
        }
        if text.starts_with('[') || text.parse::<IpAddr>().is_ok() {
            return Err(HostPatternFault::IpLiteral);
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, read_port(port.as_bytes()).ok_or(HostPatternFault::BadPort)?),
            None => (text, Self::DEFAULT_PORT),
        };
        if host == "*" {
            return Err(HostPatternFault::Everything);
        }
        if host.parse::<IpAddr>().is_ok() || looks_numeric(host) {
            return Err(HostPatternFault::IpLiteral);
        }
        let (below, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, host),
        };
        if name.contains('*') {
            return Err(HostPatternFault::StarInside);
        }
        let name = Host::parse(name.as_bytes()).ok_or(HostPatternFault::BadLabel)?;
        let scope = if below {
            Scope::Below(name)
        } else {
            Scope::Exactly(name)
        };
        Ok(Self { scope, port })
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host it names, or the one below which it names all.
    #[must_use]
    pub fn host(&self) -> &Host {
        match &self.scope {
            Scope::Exactly(host) | Scope::Below(host) => host,
        }
    }

    /// Whether it names this host and no other.
    #[must_use]
    pub fn is_exactly(&self, host: &Host) -> bool {
        matches!(&self.scope, Scope::Exactly(name) if name == host)
    }

    /// Whether it names this host, with whatever port.
    #[must_use]
    pub fn names(&self, host: &Host) -> bool {
        match &self.scope {
            Scope::Exactly(name) => host == name,
            Scope::Below(name) => {
                let start = host.as_str().strip_suffix(name.as_str());
                start.is_some_and(|start| start.len() > 1 && start.ends_with('.'))
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Scope::Exactly(host) => write!(f, "{host}:{}", self.port),
            Scope::Below(host) => write!(f, "*.{host}:{}", self.port),
        }
    }
}

/// Hosts with ports; an empty list names nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HostList(Vec<HostPattern>);

/// How a host with a port stands to a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostStanding {
    /// It is named.
    Listed,
    /// The host is, with other ports.
    OtherPort,
    /// The host is not.
    Unlisted,
}

impl HostList {
    /// A list of these.
    #[must_use]
    pub fn new(patterns: Vec<HostPattern>) -> Self {
        Self(patterns)
    }

    /// Its entries.
    pub fn iter(&self) -> std::slice::Iter<'_, HostPattern> {
        self.0.iter()
    }

    /// How a host with a port stands to it.
    #[must_use]
    pub fn standing(&self, host: &Host, port: u16) -> HostStanding {
        let mut named = self.0.iter().filter(|pattern| pattern.names(host)).peekable();
        if named.peek().is_none() {
            HostStanding::Unlisted
        } else if named.any(|pattern| pattern.port == port) {
            HostStanding::Listed
        } else {
            HostStanding::OtherPort
        }
    }
}

/// Numbers and dots, or hexadecimal: one of the short notations of IPv4.
fn looks_numeric(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    !last.is_empty() && (last.bytes().all(|byte| byte.is_ascii_digit()) || last.to_ascii_lowercase().starts_with("0x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(patterns: &[&str]) -> HostList {
        HostList::new(patterns.iter().map(|text| HostPattern::parse(text).unwrap()).collect())
    }

    #[test]
    fn a_list_names_hosts_with_their_ports_and_no_more() {
        let list = list(&["api.example.org", "*.example.org:8443", "api.example.org:80"]);
        let standing = |host: &str, port| list.standing(&Host::parse(host.as_bytes()).unwrap(), port);
        for (host, port, expected) in [
            ("api.example.org", 443, HostStanding::Listed),
            ("API.example.org.", 80, HostStanding::Listed),
            ("api.example.org", 8443, HostStanding::Listed),
            ("api.example.org", 22, HostStanding::OtherPort),
            ("a.b.example.org", 8443, HostStanding::Listed),
            ("a.b.example.org", 443, HostStanding::OtherPort),
            ("example.org", 8443, HostStanding::Unlisted),
            ("evilexample.org", 8443, HostStanding::Unlisted),
            ("api.example.org.evil.test", 443, HostStanding::Unlisted),
        ] {
            assert_eq!(standing(host, port), expected, "{host}:{port}");
        }
        assert_eq!(
            HostList::default().standing(&Host::localhost(), 443),
            HostStanding::Unlisted
        );
    }

    #[test]
    fn an_entry_is_shown_with_its_port() {
        for (written, shown) in [
            ("API.example.org", "api.example.org:443"),
            ("*.example.org:8443", "*.example.org:8443"),
        ] {
            assert_eq!(HostPattern::parse(written).unwrap().to_string(), shown);
        }
    }
}
