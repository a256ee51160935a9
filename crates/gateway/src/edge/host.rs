//! Which hosts and origins we serve: the guard against rebound names and foreign pages.

use http::{HeaderMap, Uri, header};

/// The hosts and origins of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowedHosts {
    /// Host names, without ports.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call.
    pub origins: Vec<String>,
}

impl AllowedHosts {
    /// Whether the request is addressed to us: `Host` is one of ours, and `Origin` is absent,
    /// listed, or ours.
    #[must_use]
    pub fn admits(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(authority) = addressed_to(uri, headers) else {
            return false;
        };
        let Some(named) = host_of(authority) else { return false };
        if !self.hosts.iter().any(|host| host.eq_ignore_ascii_case(named)) {
            return false;
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => origin
                .to_str()
                .is_ok_and(|origin| self.admits_origin(origin, authority)),
            (Some(_), Some(_)) => false,
        }
    }

    fn admits_origin(&self, origin: &str, authority: &str) -> bool {
        let same = origin
            .split_once("://")
            .is_some_and(|(scheme, rest)| matches!(scheme, "http" | "https") && rest.eq_ignore_ascii_case(authority));
        same || self.origins.iter().any(|listed| listed.eq_ignore_ascii_case(origin))
    }
}

/// The authority a request names: that of its target (HTTP/2), else its one `Host` header.
pub(super) fn addressed_to<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let header = match (hosts.next(), hosts.next()) {
        (None, _) => None,
        (Some(host), None) => Some(host.to_str().ok()?),
        (Some(_), Some(_)) => return None,
    };
    match (uri.authority(), header) {
        (Some(target), Some(host)) if target.as_str() != host => None,
        (Some(target), _) => Some(target.as_str()),
        (None, host) => host,
    }
}

/// The host of an authority, port and brackets removed; `None` for anything but `host[:port]`.
pub(super) fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_once(':').map_or((authority, ""), |(host, _)| {
            (host, authority.get(host.len()..).unwrap_or_default())
        }),
    };
    let port_is_one = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    let plain = !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':'));
    (plain && port_is_one).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(host: &[&str], origin: Option<&str>) -> bool {
        let plate = AllowedHosts {
            hosts: vec!["localhost".into(), "::1".into()],
            origins: vec!["https://app.example".into()],
        };
        let mut headers = HeaderMap::new();
        for host in host {
            headers.append(header::HOST, host.parse().expect("a header"));
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().expect("a header"));
        }
        plate.admits(&Uri::from_static("/mcp"), &headers)
    }

    #[test]
    fn only_our_hosts_and_origins_are_admitted() {
        assert!(admits(&["localhost"], None) && admits(&["LocalHost:8443"], None) && admits(&["[::1]:1"], None));
        assert!(admits(&["localhost:8443"], Some("https://localhost:8443")));
        assert!(admits(&["localhost:8443"], Some("https://app.example")));
        for (host, origin) in [
            (vec![], None),
            (vec!["evil.example"], None),
            (vec!["localhost.evil.example"], None),
            (vec!["localhost", "localhost"], None),
            (vec!["localhost:1@evil.example"], None),
            (vec!["[::1]evil.example"], None),
            (vec!["localhost:evil"], None),
            (vec!["localhost:"], None),
            (vec!["localhost:8443"], Some("https://localhost:9")),
            (vec!["localhost:8443"], Some("https://evil.example")),
            (vec!["localhost:8443"], Some("null")),
        ] {
            assert!(!admits(&host, origin), "{host:?} {origin:?}");
        }
    }
}
