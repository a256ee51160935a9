//! What a URL names, and whether that is allowed: judged on its text, the way the strictest and the laxest reader would both
//! take it. What two readers could take for two hosts is refused.

use std::fmt;

use vocabulary::{Host, HostList, HostStanding, nearest, read_port};

/// Why a URL is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum UrlFault {
    NotAUrl,
    Scheme,
    UserInfo,
    Address,
    NotAName,
    Port,
    Unlisted { meant: Option<String> },
}

impl fmt::Display for UrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAUrl => "is no plain `https://host/…`",
            Self::Scheme => "is neither `https://` nor `http://`",
            Self::UserInfo => "has user information before its host",
            Self::Address => "names an address instead of a host",
            Self::NotAName => "names no host that can be read in one way only",
            Self::Port => "names a port that is not allowed with its host",
            Self::Unlisted { meant: None } => "names a host that is not allowed",
            Self::Unlisted { meant: Some(meant) } => {
                return write!(f, "names a host that is not allowed (did you mean {meant}?)");
            }
        })
    }
}

/// Judges a URL.
pub(super) fn judge(text: &str, hosts: &HostList) -> Result<(), UrlFault> {
    if text.chars().any(char::is_control) || text.trim() != text {
        return Err(UrlFault::NotAUrl);
    }
    let (scheme, rest) = text.split_once("://").ok_or(UrlFault::NotAUrl)?;
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if scheme.is_empty() || !scheme.bytes().all(is_scheme) {
        return Err(UrlFault::NotAUrl);
    }
    let default = default_port(scheme).ok_or(UrlFault::Scheme)?;
    // Some readers end the authority at `?` and `#`, and some do not.
    if rest.split('/').next().is_some_and(|wide| wide.contains('@')) {
        return Err(UrlFault::UserInfo);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(UrlFault::NotAUrl);
    }
    if authority.starts_with('[') {
        return Err(UrlFault::Address);
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, read_port(port.as_bytes()).ok_or(UrlFault::Port)?),
        None => (authority, default),
    };
    let name = Host::parse(host.as_bytes()).ok_or_else(|| unnamed(host))?;
    match hosts.standing(&name, port) {
        HostStanding::Listed => Ok(()),
        HostStanding::OtherPort => Err(UrlFault::Port),
        HostStanding::Unlisted => Err(UrlFault::Unlisted {
            meant: nearest(name.as_str(), hosts.iter().map(|pattern| pattern.host().as_str())).map(str::to_owned),
        }),
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    let is = |name: &str| scheme.eq_ignore_ascii_case(name);
    if is("https") || is("wss") {
        Some(443)
    } else if is("http") || is("ws") {
        Some(80)
    } else {
        None
    }
}

/// An address in one of its notations, or something that is no name.
fn unnamed(host: &str) -> UrlFault {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    let numeric = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    match numeric || hexadecimal {
        true => UrlFault::Address,
        false => UrlFault::NotAName,
    }
}

/// Whether a text is a URL that leads elsewhere than to a file.
pub(super) fn is_web_address(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once("://") else {
        return false;
    };
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    !scheme.is_empty() && scheme.bytes().all(is_scheme) && !scheme.eq_ignore_ascii_case("file")
}

#[cfg(test)]
mod tests;
