use serde_json::{Value, json};

use super::*;

fn package() -> Value {
    json!({"registryType": "npm", "registryBaseUrl": "https://registry.npmjs.org", "identifier": "@scope/server",
        "version": "1.2.3", "transport": {"type": "stdio"}})
}

fn document(packages: Value, remotes: Value) -> Value {
    json!({"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "com.example/server", "description": "d", "version": "1.0.0", "packages": packages, "remotes": remotes})
}

fn read(document: &Value) -> Result<Listing, Refused> {
    Listing::read(document.to_string().as_bytes())
}

fn with(mut value: Value, pointer: &str, member: Value) -> Value {
    value[pointer] = member;
    value
}

fn remote(url: &str, kind: &str) -> Result<Listing, Refused> {
    read(&document(json!([]), json!([{"type": kind, "url": url}])))
}

fn offered(package: Value) -> Result<PackageOffer, Refused> {
    match read(&document(json!([package]), json!([])))?.offer {
        Offer::Package(offer) => Ok(offer),
        Offer::Remote(_) => panic!("a package was offered"),
    }
}

#[test]
fn a_package_is_taken_in_its_exact_version_with_its_digest() {
    let digest = "fe333e598595000ae021bd27117db32ec69af6987f507ba7a63c90638ff633ce";
    let offer = offered(with(package(), "fileSha256", json!(digest))).unwrap();
    assert_eq!(offer.spec.to_string(), "npm:@scope/server@1.2.3");
    assert_eq!(offer.sha256.as_deref(), Some(digest));
    let wrapped = json!({"server": document(json!([package()]), json!([])), "_meta": {}});
    assert!(read(&wrapped).is_ok());
    // The first that can be used is taken.
    let image = json!({"registryType": "oci", "identifier": "x", "transport": {"type": "stdio"}});
    let listing = read(&document(json!([image, package()]), json!([]))).unwrap();
    assert!(matches!(listing.offer, Offer::Package(_)));
}

#[test]
fn what_cannot_be_compared_or_floats_is_refused() {
    for (member, value, told) in [
        ("version", json!("latest"), "exact version"),
        ("version", json!("^1.0.0"), "exact version"),
        ("version", Value::Null, "exact version"),
        ("identifier", json!("https://host/x.tgz"), "not the name"),
        ("fileSha256", json!("abc"), "fileSha256"),
        (
            "fileSha256",
            json!("FE333E598595000AE021BD27117DB32EC69AF6987F507BA7A63C90638FF633CE"),
            "fileSha256",
        ),
        (
            "registryBaseUrl",
            json!("https://registry.evil.example"),
            "another registry",
        ),
        (
            "registryBaseUrl",
            json!("http://registry.npmjs.org"),
            "another registry",
        ),
        (
            "transport",
            json!({"type": "streamable-http", "url": "http://x"}),
            "transport",
        ),
        ("transport", Value::Null, "transport"),
        ("registryType", json!("mcpb"), "kind"),
        ("registryType", json!("\u{1b}[2J"), "registryType"),
    ] {
        let why = offered(with(package(), member, value)).unwrap_err().to_string();
        assert!(
            why.contains(told) && !why.contains('\u{1b}') && !why.contains("evil"),
            "{member}: {why}"
        );
    }
}

#[test]
fn a_remote_lies_under_the_domain_of_its_namespace() {
    let taken = |url: &str, kind: &str| remote(url, kind).unwrap().offer;
    let (http, sse) = ("https://mcp.example.com/mcp", "https://EXAMPLE.com:8443/sse");
    assert_eq!(
        taken(http, "streamable-http"),
        Offer::Remote(NewReach::Url(http.to_owned()))
    );
    assert_eq!(taken(sse, "sse"), Offer::Remote(NewReach::Sse(sse.to_owned())));
    for (url, told) in [
        ("https://evil.example/mcp", "foreign"),
        ("https://evilexample.com/mcp", "foreign"),
        ("https://example.com.evil.example/mcp", "foreign"),
        ("https://example.com./mcp", "foreign"),
        ("https://example.com@evil.example/mcp", "user"),
        ("http://mcp.example.com/mcp", "loopback"),
        ("https://{host}.example.com/mcp", "template"),
        ("file:///etc/passwd", "URL"),
        ("", "URL"),
    ] {
        let why = remote(url, "streamable-http").unwrap_err().to_string();
        assert!(why.contains(told) && !why.contains("evil"), "{url}: {why}");
    }
    let why = remote("https://mcp.example.com/", "websocket").unwrap_err().to_string();
    assert!(why.contains("transport"), "{why}");
    for name in ["com/server", ".example/server", "com..example/server"] {
        let document = with(
            document(json!([]), json!([{"type": "sse", "url": "https://a.com/"}])),
            "name",
            json!(name),
        );
        assert!(read(&document).unwrap_err().to_string().contains("namespace"), "{name}");
    }
}

#[test]
fn what_is_no_document_is_told_without_its_words() {
    for text in [
        "",
        "[]",
        "{",
        "{\"name\": 7}",
        "{\"name\": \"com.example/a\", \"name\": \"com.example/b\"}",
        "{\"name\": \"no-slash\", \"packages\": []}",
        "{\"name\": \"com.example/a b\", \"packages\": []}",
        "{\"name\": \"com.example/a\"}",
        "{\"server\": {\"server\": {}}}",
    ] {
        let why = Listing::read(text.as_bytes()).unwrap_err().to_string();
        assert!(!why.contains("no-slash") && !why.contains("a b"), "{why}");
    }
}

#[test]
fn arguments_are_taken_as_far_as_they_are_said_and_variables_are_asked_for() {
    let arguments = json!([
        {"type": "positional", "value": "serve"},
        {"type": "named", "name": "--mode", "value": "quiet"},
        {"type": "named", "name": "--verbose", "isRequired": true},
        {"type": "positional", "value": "{directory}"},
        {"type": "positional", "valueHint": "more"},
        {"type": "named", "name": "--port", "isRequired": true, "default": "8080"},
    ]);
    let offer = offered(with(package(), "packageArguments", arguments)).unwrap();
    assert_eq!(
        offer.arguments,
        ["serve", "--mode", "quiet", "--verbose", "--port", "8080"]
    );
    assert!(!offer.lacks_arguments);
    let lacking = json!([{"type": "positional", "valueHint": "directory", "isRequired": true}]);
    assert!(
        offered(with(package(), "packageArguments", lacking))
            .unwrap()
            .lacks_arguments
    );
    let variables =
        json!([{"name": "KEY", "isRequired": true, "isSecret": true}, {"name": "NODE_OPTIONS", "value": "-r x"}]);
    let offer = offered(with(package(), "environmentVariables", variables)).unwrap();
    assert_eq!(offer.variables, ["KEY"]);
    let odd = json!([{"name": "A=B", "isRequired": true}]);
    assert!(offered(with(package(), "environmentVariables", odd)).is_err());
}
