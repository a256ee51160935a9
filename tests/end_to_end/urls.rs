//! URLs among arguments: what names a host that is not allowed is refused before the server hears of it, whoever calls.

use serde_json::{Value, json};

use super::paths::{recorded, refused};
use crate::support::environment::repository;
use crate::support::issuer::{but, claims};
use crate::support::{Agent, Issuer, Setup, Town, eventually};

/// What must not pass with `api.example.org`, `*.example.net:8443` and `plain.example.com:80` allowed.
const CORPUS: &[&str] = &[
    "https://evil.test/",
    "https://api.example.org.evil.test/",
    "https://example.org/",
    "https://example.net:8443/",
    "https://evilexample.net:8443/",
    "https://localhost/",
    "https://127.0.0.1.nip.io/",
    "https://api.example.org:8443/",
    "http://api.example.org/",
    "https://a.example.net/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://127.0.0.1./",
    "https://169.254.169.254/latest/meta-data/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://user@api.example.org/",
    "https://user:pass@api.example.org/",
    "https://api.example.org@evil.test/",
    "https://api.example.org:443@evil.test/",
    "https://api.example.org%40evil.test/",
    "https://api.example.org#@evil.test/",
    "https://api.example.org?@evil.test/",
    "https://api.example.org\\@evil.test/",
    "https://evil.test\\.api.example.org/",
    "https:\\\\api.example.org\\",
    "https:///api.example.org/",
    "https:api.example.org",
    "//api.example.org/",
    "api.example.org",
    " https://api.example.org/",
    "https://api.example.org/\n",
    "https://api.exam\tple.org/",
    "https://api.example.org\r\nHost: evil.test",
    "https://api.example.org\0.evil.test/",
    "https://\u{430}pi.example.org/",
    "https://api\u{3002}example\u{3002}org/",
    "https://\u{ff41}pi.example.org/",
    "https://xn--pi-7kc.example.org/",
    "https://api%2eexample%2eorg/",
    "https://api.example.org../",
    "file:///etc/passwd",
    "ftp://api.example.org/",
    "gopher://api.example.org:443/_x",
    "javascript:alert(1)",
    "data:text/html,x",
];

const HONEST: &[&str] = &[
    "https://api.example.org",
    "https://API.example.org:443/a?b=c@d#e",
    "https://api.example.org./x",
    "https://a.b.example.net:8443/x",
    "http://plain.example.com/x",
    "wss://api.example.org/socket",
];

fn hosts() -> Value {
    json!(["api.example.org", "*.example.net:8443", "plain.example.com:80"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_of_another_host_is_refused_and_never_sent() {
    // R143, R144
    let fetch = json!({"name": "fetch", "inputSchema": {"type": "object", "properties": {
        "url": {"type": "string", "format": "uri"}, "target": {}, "links": {"type": "array"}}}});
    let town = Town::offering(&[fetch], |setup| {
        setup.set(
            "servers.files.tools.fetch",
            json!({"urls": ["/target", "/links/*"], "hosts": hosts()}),
        )
    })
    .await;
    let admin = town.issuer.sign(&but(claims("root"), json!({"groups": ["admin"]})));
    for token in [town.issuer.token("ann"), admin] {
        let agent = Agent::connect(&town.gateway, "/mcp/files", &token).await;
        for url in CORPUS {
            for (arguments, field) in [
                (json!({"url": url}), "/url"),
                (json!({"target": url}), "/target"),
                (json!({"links": ["https://api.example.org/", url]}), "/links/1"),
            ] {
                let answer = agent.call("fetch", arguments).await;
                let told = refused(&answer, "DENY_HOST_NOT_ALLOWED");
                assert!(told.starts_with(&format!("the URL in {field} ")), "{url:?}: {told}");
                assert!(
                    told.contains("allowed are api.example.org:443, *.example.net:8443"),
                    "{told}"
                );
                assert!(
                    !told.contains("evil") && !told.contains("passwd"),
                    "it quotes nothing: {told}"
                );
            }
        }
        for value in [json!(null), json!(7), json!(["https://api.example.org/"])] {
            let answer = agent.call("fetch", json!({"target": value})).await;
            refused(&answer, "DENY_SCHEMA_VIOLATION");
        }
        assert_eq!(town.files.calls().len(), 0);
    }
    recorded(&town.gateway, "DENY_HOST_NOT_ALLOWED", 2 * 3 * CORPUS.len());
    let agent = town.agent("ann").await;
    let near = agent.call("fetch", json!({"url": "https://api.exampel.org/"})).await;
    let told = refused(&near, "DENY_HOST_NOT_ALLOWED");
    assert!(told.contains("did you mean api.example.org?"), "{told}");
    for url in HONEST {
        let answer = agent
            .call("fetch", json!({"url": url, "target": url, "links": [url]}))
            .await;
        assert_eq!(answer.result()["isError"], false, "{url}: {}", answer.text());
    }
    assert_eq!(town.files.calls().len(), HONEST.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_hosts_of_the_tool_the_list_of_the_sandbox_holds() {
    let issuer = Issuer::start().await;
    let home = repository().join("tests/end_to_end/paths");
    let shelf = |sandbox: Value| {
        json!({"command": ["/usr/bin/python3", home.join("shelf.py")], "trust": "internal", "sandbox": sandbox,
            "tools": {"fetch": {"urls": ["/links/*"]}}})
    };
    let listed = json!({"read": [home], "net": "allowlist", "allow": hosts()});
    let gateway = Setup::new()
        .issuer(&issuer)
        .set("servers.listed", shelf(listed))
        .set("servers.walled", shelf(json!({"read": [home]})))
        .start()
        .await;
    let agent = async |server: &str| {
        let agent = Agent::connect(&gateway, &format!("/mcp/{server}"), &issuer.token("ann")).await;
        eventually("the server is listed", 60, async || !agent.names().await.is_empty()).await;
        agent
    };
    let (listed, walled) = (agent("listed").await, agent("walled").await);
    let answer = listed.call("fetch", json!({"url": "https://evil.test/"})).await;
    refused(&answer, "DENY_HOST_NOT_ALLOWED");
    let fine = json!({"url": "https://api.example.org/", "links": ["https://api.example.org/"]});
    assert_ne!(listed.call("fetch", fine).await.result()["isError"], true);
    // Nothing can be reached: a URI is a name there, unless the operator says that it is more.
    assert_ne!(
        walled.call("fetch", json!({"url": "urn:isbn:1"})).await.result()["isError"],
        true
    );
    let answer = walled
        .call("fetch", json!({"links": ["https://api.example.org/"]}))
        .await;
    let told = refused(&answer, "DENY_HOST_NOT_ALLOWED");
    assert!(told.contains("this server may reach no host"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_elsewhere_is_told_relative_paths_alone() {
    let files = json!({"name": "look", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}});
    let town = Town::offering(&[files], |setup| setup.set("servers.files.tools.look.paths", ["/path"])).await;
    let agent = town.agent("ann").await;
    for path in ["../x", "/etc/passwd", "~/x", "%2e%2e/x", "a\\b", "file:///x"] {
        let answer = agent.call("look", json!({"path": path})).await;
        refused(&answer, "DENY_PATH_TRAVERSAL");
    }
    assert_eq!(town.files.calls().len(), 0);
    assert_eq!(
        agent.call("look", json!({"path": "a/b.txt"})).await.result()["isError"],
        false
    );
}
