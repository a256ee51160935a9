//! Published servers that need the network, in the sandbox: what the operator named is reached, and nothing beside it.
//!
//! The gateway gets a name of its own (`harbour.test`) through an `/etc/hosts` that it alone sees, which takes root.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{are_installed, script};
use crate::support::environment::{self, command, portreeve};
use crate::support::records;
use crate::support::{Agent, Gateway, Issuer, Setup, eventually};

const PAGE: &str = "high water at noon";

/// A web server on an address of the loopback that is nobody else's, on the port that needs no proxy.
async fn page() -> Ipv4Addr {
    let number = std::process::id();
    let [.., a, b] = number.to_be_bytes();
    let address = Ipv4Addr::new(127, 77, a, b);
    let listener = TcpListener::bind((address, 80)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let length = PAGE.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n");
                let _ = stream
                    .write_all(format!("{head}Connection: close\r\n\r\n{PAGE}").as_bytes())
                    .await;
            });
        }
    });
    address
}

/// A gateway that knows `harbour.test` and `elsewhere.test`, with one server that may reach the former.
async fn gateway(server: Value) -> Option<(Gateway, Agent)> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: a name for one process takes root");
        return None;
    }
    let (issuer, address) = (Issuer::start().await, page().await);
    let home = Setup::new()
        .issuer(&issuer)
        .set("servers.web", server)
        .set("servers.web.trust", "internal")
        .set("servers.web.sandbox.net", "allowlist")
        .set("servers.web.sandbox.allow", json!(["harbour.test:80"]))
        .set("servers.web.sandbox.private", json!([format!("{address}/32")]))
        .home();
    let hosts = format!("127.0.0.1 localhost\n{address} harbour.test\n{address} elsewhere.test\n");
    std::fs::write(home.path("hosts"), hosts).unwrap();
    let mut program = command("unshare");
    program.args(["--mount", "sh", "-c", r#"mount --bind "$0" /etc/hosts && exec "$@""#]);
    program.arg(home.path("hosts")).arg(portreeve());
    let gateway = Gateway::start_as(home, program).await;
    let agent = Agent::connect(&gateway, "/mcp/web", &issuer.token("ann")).await;
    eventually("the server was discovered", 90, async || {
        agent.names().await.iter().any(|name| name == "fetch")
    })
    .await;
    Some((gateway, agent))
}

/// What the log says of attempts to reach a host: results and reasons.
fn attempts(gateway: &Gateway, host: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = records::all(&gateway.home).into_iter();
    let found = found.filter(|record| record["type"] == "egress" && record["dst"]["host"] == host);
    found
        .map(|record| (text(&record["result"]), text(&record["reason"])))
        .collect()
}

async fn reaches_what_is_named_and_nothing_else(gateway: &Gateway, agent: &Agent, more: Value) {
    let fetch = async |url: &str| {
        let mut arguments = json!({ "url": url });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        agent.call("fetch", arguments).await
    };
    let reached = fetch("http://harbour.test/").await;
    assert!(reached.text().contains(PAGE), "{}\n{}", reached.text(), gateway.logs());
    assert_eq!(gateway.receipt_of(&reached)["sandbox"]["net_policy"], "allowlist");
    let refused = fetch("http://elsewhere.test/").await;
    assert!(!refused.text().contains(PAGE), "{}", refused.text());
    eventually("both attempts are in the log", 10, async || {
        let allowed = attempts(gateway, "harbour.test");
        let blocked = attempts(gateway, "elsewhere.test");
        allowed.iter().any(|(result, _)| result == "allowed")
            && blocked
                .iter()
                .any(|(result, reason)| result == "blocked" && reason == "domain_not_allowlisted")
    })
    .await;
    let let_through = attempts(gateway, "elsewhere.test");
    assert!(
        let_through.iter().all(|(result, _)| result == "blocked"),
        "{let_through:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fetch_of_node_needs_no_proxy_variables() {
    // R147
    let server = script("fetching_server.mjs");
    let directory = server.parent().unwrap().to_owned();
    let entry = json!({"command": ["node", server], "sandbox": {"read": [directory]}});
    let Some((gateway, agent)) = gateway(entry).await else {
        return;
    };
    reaches_what_is_named_and_nothing_else(&gateway, &agent, json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_server_fetch_reaches_what_is_named() {
    // R147
    let venv = environment::peers().join("venv");
    let program = venv.join("bin/mcp-server-fetch");
    if !are_installed(&[&program]) {
        return;
    }
    let interpreter = venv.join("bin/python");
    let prefix = interpreter
        .canonicalize()
        .unwrap()
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned();
    let read: Vec<PathBuf> = [
        Some(venv.clone()),
        Some(prefix).filter(|prefix| !prefix.starts_with("/usr")),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Inside, names resolve to stand-ins, which this server takes for private addresses; the gateway judges the real ones.
    let words = json!([interpreter, program, "--ignore-robots-txt", "--allow-private-ips"]);
    let entry = json!({"command": words, "sandbox": {"read": read}});
    let Some((gateway, agent)) = gateway(entry).await else {
        return;
    };
    reaches_what_is_named_and_nothing_else(&gateway, &agent, json!({"raw": true})).await;
}
