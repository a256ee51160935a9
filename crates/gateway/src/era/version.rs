//! Which era a request is of: its `_meta` decides first, then the version header.

use http::HeaderMap;
use mcp::Version;

/// What a modern request says its version is, in `_meta`.
pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Whether a message is of the modern era.
pub(crate) fn is_modern(headers: &HeaderMap, params: &mcp::Params) -> bool {
    params.meta(VERSION).is_some() || names_no_session_version(headers)
}

/// A version header that names no version with sessions.
pub(crate) fn names_no_session_version(headers: &HeaderMap) -> bool {
    let mut versions = headers.get_all(mcp::http::PROTOCOL_VERSION).iter();
    let known = |version: &http::HeaderValue| {
        let version = version.to_str().ok().and_then(Version::parse);
        version.is_some_and(|version| version.era() == mcp::Era::Legacy)
    };
    let first = versions.next().map(known);
    first == Some(false) || versions.next().is_some()
}
