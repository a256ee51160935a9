//! RFC 9728: tells a client which authorization servers issue tokens for us, and the challenge
//! that points there.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderMap, Uri};
use serde::Serialize;

use super::host::{addressed_to, host_of};

/// Where the documents live.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// How clients reach the gateway, without a slash at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicUrl {
    url: String,
    follows: bool,
}

impl PublicUrl {
    /// As the operator says it.
    #[must_use]
    pub fn fixed(url: String) -> Self {
        Self { url, follows: false }
    }

    /// The bound address on loopback, which has several names: a client is answered by the one it used, since it compares the
    /// resource with where it went.
    #[must_use]
    pub fn on_loopback(url: String) -> Self {
        Self { url, follows: true }
    }

    /// As the client of this request knows it; its host was admitted before.
    #[must_use]
    pub fn named_by(&self, uri: &Uri, headers: &HeaderMap) -> Cow<'_, str> {
        let named = addressed_to(uri, headers).filter(|authority| host_of(authority).is_some_and(is_loopback));
        match (named.filter(|_| self.follows), self.url.split_once("://")) {
            (Some(authority), Some((scheme, _))) => {
                Cow::Owned(format!("{scheme}://{}", authority.to_ascii_lowercase()))
            }
            _ => Cow::Borrowed(&self.url),
        }
    }
}

/// Whether a host can only be this machine.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[derive(Serialize)]
struct Document<'a> {
    resource: String,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    authorization_servers: &'a [String],
    bearer_methods_supported: [&'static str; 1],
    resource_name: &'static str,
}

/// The document for the resource at `path` (empty for the whole gateway).
#[must_use]
pub fn document(public_url: &str, path: &str, issuers: &[String]) -> Vec<u8> {
    let document = Document {
        resource: format!("{public_url}{path}"),
        authorization_servers: issuers,
        bearer_methods_supported: ["header"],
        resource_name: "Portreeve",
    };
    serde_json::to_vec(&document).unwrap_or_default()
}

/// The `WWW-Authenticate` value for the resource at `path`; `error` where a credential was sent
/// and refused.
#[must_use]
pub fn challenge(public_url: &str, path: &str, error: Option<&str>) -> String {
    let error = error.map(|error| format!("error=\"{error}\", ")).unwrap_or_default();
    format!("Bearer {error}resource_metadata=\"{public_url}{WELL_KNOWN}{path}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_on_loopback_is_answered_by_the_name_it_used() {
        let named = |url: &PublicUrl, host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::HOST, host.parse().expect("a header"));
            url.named_by(&Uri::from_static("/mcp"), &headers).into_owned()
        };
        let bound = PublicUrl::on_loopback("https://127.0.0.1:8443".to_owned());
        assert_eq!(named(&bound, "LocalHost:8443"), "https://localhost:8443");
        assert_eq!(named(&bound, "127.0.0.1:8443"), "https://127.0.0.1:8443");
        assert_eq!(named(&bound, "[::1]:8443"), "https://[::1]:8443");
        assert_eq!(named(&bound, "gw.example:8443"), "https://127.0.0.1:8443");
        let fixed = PublicUrl::fixed("https://gw.example".to_owned());
        assert_eq!(named(&fixed, "localhost:8443"), "https://gw.example");
    }

    #[test]
    fn the_document_names_the_resource_the_client_used() {
        let text = document("https://gw.example", "/mcp/files", &["https://idp.example".to_owned()]);
        let json: serde_json::Value = serde_json::from_slice(&text).expect("json");
        assert_eq!(json["resource"], "https://gw.example/mcp/files");
        assert_eq!(json["authorization_servers"][0], "https://idp.example");
        assert_eq!(json["bearer_methods_supported"][0], "header");
        assert_eq!(
            challenge("https://gw.example", "/mcp", Some("invalid_token")),
            "Bearer error=\"invalid_token\", resource_metadata=\"https://gw.example/.well-known/oauth-protected-resource/mcp\""
        );
    }
}
