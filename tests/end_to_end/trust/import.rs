//! `server add ID registry:…`: a stranger's document names a server, and everything that can be compared is.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::end_to_end::packages::is_added;
use crate::support::setup::Home;
use crate::support::{Server, Setup, tool};

const MEMORY: &str = "2026.8.31";

fn document(name: &str, rest: Value) -> Value {
    let mut document = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": name, "description": "A server.", "version": "1.0.0",
    });
    document
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    document
}

fn package(more: Value) -> Value {
    let mut package = json!({
        "registryType": "npm", "identifier": "@modelcontextprotocol/server-memory", "version": MEMORY,
        "transport": {"type": "stdio"},
    });
    package
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    document(
        "io.github.modelcontextprotocol/server-memory",
        json!({ "packages": [package] }),
    )
}

fn remote(name: &str, url: &str) -> Value {
    document(name, json!({"remotes": [{"type": "streamable-http", "url": url}]}))
}

fn written(home: &Home, document: &Value) -> String {
    let file = home.path("server.json");
    std::fs::write(&file, document.to_string()).unwrap();
    format!("registry:{}", file.display())
}

/// Answers every request with this.
async fn answers(status: &str, headers: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v0/servers/x", listener.local_addr().unwrap());
    let answer = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    format!("registry:{url}")
}

fn add(home: &Home, source: &str) -> crate::support::environment::Finished {
    home.cli(&["server", "add", "new", source, "--trust", "community"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_server_is_added_from_a_file_and_from_an_address() {
    let server = Server::start(&[tool("read")]).await;
    let url = server.url().replace("127.0.0.1", "localhost");
    for from_file in [true, false] {
        let home = Setup::new().home();
        let document = remote("localhost/files", &url);
        let source = match from_file {
            true => written(&home, &document),
            false => answers("200 OK", "", &json!({"server": document, "_meta": {}}).to_string()).await,
        };
        let added = add(&home, &source);
        assert!(added.success().contains(&url));
        let config = std::fs::read_to_string(home.config()).unwrap();
        assert!(
            config.contains(&format!("url = \"{url}\"\ntrust = \"community\"")),
            "{config}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_leads_elsewhere_changes_nothing() {
    let home = Setup::new().home();
    let before = std::fs::read_to_string(home.config()).unwrap();
    let honest = remote("com.example/files", "https://mcp.example.com/mcp");
    let elsewhere = answers("200 OK", "", &honest.to_string()).await;
    let location = format!("location: {}\r\n", elsewhere.trim_start_matches("registry:"));
    let foreign = remote("com.example/files", "https://evil.example/mcp");
    let large = " ".repeat((1 << 20) + 1);
    let sources = [
        (answers("302 Found", &location, "").await, "redirects"),
        (
            answers("307 Temporary Redirect", &location, &honest.to_string()).await,
            "redirects",
        ),
        (answers("404 Not Found", "", "").await, "status 404"),
        (answers("200 OK", "", &large).await, "larger than 1 MiB"),
        (answers("200 OK", "", "<html>").await, "not a `server.json`"),
        (answers("200 OK", "", &foreign.to_string()).await, "foreign"),
        ("registry:http://registry.example/x".to_owned(), "loopback"),
        ("registry:absent.json".to_owned(), "cannot be read"),
    ];
    for (source, told) in &sources {
        let refused = add(&home, source);
        assert_eq!(refused.code, Some(1), "{source}: {refused:?}");
        assert!(
            refused.stderr.contains(told) && !refused.stderr.contains("evil"),
            "{source}: {}",
            refused.stderr
        );
    }
    for (document, told) in [
        (remote("com.example/files", "http://mcp.example.com/mcp"), "loopback"),
        (package(json!({"version": "latest"})), "exact version"),
        (
            package(json!({"registryBaseUrl": "https://mirror.example"})),
            "another registry",
        ),
        (
            package(json!({"transport": {"type": "sse", "url": "https://x"}})),
            "transport",
        ),
        (
            package(json!({"environmentVariables": [{"name": "KEY", "isRequired": true}]})),
            "--env KEY=",
        ),
    ] {
        let refused = add(&home, &written(&home, &document));
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
    // Whose document it was is said.
    let nameless = add(&home, &written(&home, &document("nameless", json!({}))));
    assert!(
        nameless.stderr.contains("the document for `new` has no `name`"),
        "{}",
        nameless.stderr
    );
    assert_eq!(std::fs::read_to_string(home.config()).unwrap(), before);
    assert!(!home.path("servers.lock").exists() && !home.state().join("packages").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_whose_digest_is_another_is_not_kept() {
    // R213
    let home = Setup::new().home();
    let before = std::fs::read_to_string(home.config()).unwrap();
    let wrong = "00".repeat(32);
    let refused = add(&home, &written(&home, &package(json!({ "fileSha256": wrong }))));
    if !refused.stderr.contains("SHA-256 digest") && !is_added(&refused) {
        return;
    }
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains(&format!("but server.json says {wrong}")),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read_to_string(home.config()).unwrap(), before);
    assert!(!home.path("servers.lock").exists() && !home.state().join("packages/new").exists());
    // With the digest that it has, which the refusal told, it is added and locked.
    let (_, after) = refused.stderr.split_once("digest ").unwrap();
    let right = after.split(',').next().unwrap();
    let added = add(&home, &written(&home, &package(json!({ "fileSha256": right }))));
    assert!(added.success().contains("server-memory"));
    let lock = std::fs::read_to_string(home.path("servers.lock")).unwrap();
    assert!(lock.contains(&format!("version = \"{MEMORY}\"")), "{lock}");
    // A lock that was lost is written again from what is installed.
    std::fs::remove_file(home.path("servers.lock")).unwrap();
    assert_eq!(home.cli(&["check"]).code, Some(1));
    home.cli(&["server", "lock"]).success();
    assert_eq!(std::fs::read_to_string(home.path("servers.lock")).unwrap(), lock);
    assert_eq!(home.cli(&["check"]).code, Some(0));
}
