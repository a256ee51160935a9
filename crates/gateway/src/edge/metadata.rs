//! RFC 9728: tells a client which authorization servers issue tokens for us, and the challenge
//! that points there.

use serde::Serialize;

/// Where the documents live.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

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
