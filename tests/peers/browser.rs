//! `@playwright/mcp` with Debian's Chromium, both inside the sandbox: a browser has Unix sockets, dozens of processes and
//! shared memory of its own, and resolves names by itself.

use std::path::Path;

use serde_json::json;

use super::hosts::{self, PAGE, attempts};
use super::{are_installed, modules};
use crate::support::{Agent, Issuer, Setup, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn playwright_loads_a_page_of_the_host_that_is_named() {
    // R147
    let server = modules().join("@playwright/mcp/cli.js");
    let chromium = Path::new("/usr/bin/chromium");
    if !are_installed(&[&server, chromium]) {
        return;
    }
    hosts::page(8080).await;
    let mut command = vec![json!("node"), json!(server)];
    command.extend(["--headless", "--no-sandbox", "--isolated", "--executable-path"].map(|word| json!(word)));
    command.push(json!(chromium));
    let sandbox = json!({
        "read": [modules()],
        "unix_sockets": true,
        "net": "allowlist",
        "allow": ["harbour.test:8080"],
        "private": [format!("{}/32", hosts::address())],
        "limits": {"memory": "4GiB"},
    });
    let issuer = Issuer::start().await;
    let entry = json!({"command": command, "trust": "internal", "sandbox": sandbox});
    let setup = Setup::new().issuer(&issuer).set("servers.browser", entry);
    let Some(gateway) = hosts::start(setup).await else {
        return;
    };
    let agent = Agent::connect(&gateway, "/mcp/browser", &issuer.token("ann")).await;
    eventually("the server was discovered", 90, async || {
        agent.names().await.iter().any(|name| name == "browser_navigate")
    })
    .await;
    let open = async |url: &str| agent.call("browser_navigate", json!({ "url": url })).await;
    let opened = open("http://harbour.test:8080/page.html").await;
    assert_eq!(gateway.receipt_of(&opened)["sandbox"]["tier"], "A");
    let seen = agent.call("browser_snapshot", json!({})).await;
    assert!(
        seen.text().contains(PAGE) && seen.text().contains("Tides"),
        "{}\n{}\n{}",
        opened.text(),
        seen.text(),
        gateway.logs()
    );
    let refused = open("http://elsewhere.test:8080/page.html").await;
    // The browser uses the proxy that its environment names, which says why.
    assert!(refused.text().contains("403 Forbidden"), "{}", refused.text());
    assert!(!agent.call("browser_snapshot", json!({})).await.text().contains(PAGE));
    eventually("both attempts are in the log", 10, async || {
        let told = |host: &str, result: &str| attempts(&gateway, host).iter().any(|(seen, _)| seen == result);
        told("harbour.test", "allowed") && told("elsewhere.test", "blocked")
    })
    .await;
}
