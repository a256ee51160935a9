//! Published servers that need the network, in the sandbox: what the operator named is reached, and nothing beside it.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::hosts::{self, PAGE, attempts};
use super::{are_installed, script};
use crate::end_to_end::packages::is_added;
use crate::support::certificates::self_signed;
use crate::support::environment::{self, Finished, command, portreeve};
use crate::support::{Agent, Gateway, Issuer, Setup, eventually};

/// A gateway with one server that may reach `harbour.test` on one port.
async fn gateway(server: Value, port: u16) -> Option<(Gateway, Agent)> {
    let issuer = Issuer::start().await;
    let setup = Setup::new()
        .issuer(&issuer)
        .set("servers.web", server)
        .set("servers.web.trust", "internal")
        .set("servers.web.sandbox.net", "allowlist")
        .set("servers.web.sandbox.allow", json!([format!("harbour.test:{port}")]))
        .set(
            "servers.web.sandbox.private",
            json!([format!("{}/32", hosts::address())]),
        );
    let gateway = hosts::start(setup).await?;
    let agent = discovered(&gateway, &issuer).await;
    Some((gateway, agent))
}

async fn discovered(gateway: &Gateway, issuer: &Issuer) -> Agent {
    let agent = Agent::connect(gateway, "/mcp/web", &issuer.token("ann")).await;
    eventually("the server was discovered", 90, async || {
        agent.names().await.iter().any(|name| name == "fetch")
    })
    .await;
    agent
}

/// Fetches from `harbour.test`, and not from `elsewhere.test` on the same port.
async fn reaches_what_is_named_and_nothing_else(gateway: &Gateway, agent: &Agent, place: &str, more: Value) {
    let fetch = async |url: &str| {
        let mut arguments = json!({ "url": url });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        agent.call("fetch", arguments).await
    };
    let reached = fetch(place).await;
    assert!(reached.text().contains(PAGE), "{}\n{}", reached.text(), gateway.logs());
    assert_eq!(gateway.receipt_of(&reached)["sandbox"]["net_policy"], "allowlist");
    let refused = fetch(&place.replace("harbour", "elsewhere")).await;
    assert!(!refused.text().contains(PAGE), "{}", refused.text());
    eventually("both attempts are in the log", 10, async || {
        let allowed = attempts(gateway, "harbour.test");
        let blocked = attempts(gateway, "elsewhere.test");
        allowed
            .iter()
            .any(|(result, reason)| result == "allowed" && reason == "allowlisted_private")
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

/// A server that deletes every proxy variable and then uses `fetch` of Node.
fn fetching_server() -> Value {
    let server = script("fetching_server.mjs");
    let directory = server.parent().unwrap().to_owned();
    json!({"command": ["node", server], "sandbox": {"read": [directory]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fetch_of_node_needs_no_proxy_variables() {
    // R147
    if !hosts::is_possible() {
        return;
    }
    hosts::page(80).await;
    let Some((gateway, agent)) = gateway(fetching_server(), 80).await else {
        return;
    };
    reaches_what_is_named_and_nothing_else(&gateway, &agent, "http://harbour.test/", json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_url_and_no_redirect_leads_to_a_host_that_is_not_allowed() {
    // R142
    if !hosts::is_possible() {
        return;
    }
    hosts::page(80).await;
    let mut server = fetching_server();
    server["tools"] = json!({"fetch": {"urls": ["/url"]}});
    let Some((gateway, agent)) = gateway(server, 80).await else {
        return;
    };
    let fetch = async |url: &str| agent.call("fetch", json!({ "url": url })).await;
    for url in [
        "http://elsewhere.test/".to_owned(),
        format!("http://{}/", hosts::address()),
        "http://harbour.test@elsewhere.test/".to_owned(),
        "http://ann@harbour.test/".to_owned(),
        "http://h\u{430}rbour.test/".to_owned(),
        "http://harbour.test:81/".to_owned(),
    ] {
        let answer = fetch(&url).await;
        assert_eq!(
            answer.reason_codes(),
            ["DENY_HOST_NOT_ALLOWED"],
            "{url}: {}",
            answer.text()
        );
    }
    assert!(attempts(&gateway, "elsewhere.test").is_empty(), "nothing was tried");
    // The first host is allowed, and what it leads to is beyond what arguments say: the sandbox holds it.
    let near = fetch("http://harbour.test/away?http://harbour.test/").await;
    assert!(near.text().contains(PAGE), "{}\n{}", near.text(), gateway.logs());
    let away = fetch("http://harbour.test/away?http://elsewhere.test/").await;
    assert_eq!(away.result()["isError"], true, "{}", away.text());
    assert!(!away.text().contains(PAGE), "{}", away.text());
    eventually("the attempt is in the log", 10, async || {
        let blocked = ("blocked".to_owned(), "domain_not_allowlisted".to_owned());
        attempts(&gateway, "elsewhere.test").contains(&blocked)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fetch_of_node_reaches_another_port_that_is_named() {
    // R147
    let certificate = self_signed(&["harbour.test", "elsewhere.test"]);
    let acceptor = TlsAcceptor::from(certificate.serve());
    let listener = TcpListener::bind((hosts::address(), 8443)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    hosts::answer(stream).await;
                }
            });
        }
    });
    let trusted = tempfile::TempDir::new().unwrap();
    let file = trusted.path().join("ca.pem");
    std::fs::write(&file, &certificate.pem).unwrap();
    std::fs::set_permissions(trusted.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut server = fetching_server();
    let read = server["sandbox"]["read"].as_array_mut().unwrap();
    read.push(json!(trusted.path()));
    server["sandbox"]["env"] = json!({"NODE_EXTRA_CA_CERTS": format!("text:{}", file.display())});
    let Some((gateway, agent)) = gateway(server, 8443).await else {
        return;
    };
    reaches_what_is_named_and_nothing_else(&gateway, &agent, "https://harbour.test:8443/", json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_server_fetch_reaches_what_is_named() {
    // R147
    let venv = environment::peers().join("venv");
    let program = venv.join("bin/mcp-server-fetch");
    if !are_installed(&[&program]) || !hosts::is_possible() {
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
    // Its schema marks the URL, so the gateway would refuse the other host before the server is asked: named here, so that the
    // walls are what refuses it.
    let hosts = json!(["harbour.test:80", "elsewhere.test:80"]);
    let entry = json!({"command": words, "sandbox": {"read": read}, "tools": {"fetch": {"hosts": hosts}}});
    hosts::page(80).await;
    let Some((gateway, agent)) = gateway(entry, 80).await else {
        return;
    };
    reaches_what_is_named_and_nothing_else(&gateway, &agent, "http://harbour.test/", json!({"raw": true})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_server_fetch_turns_pages_into_text_as_it_is_added() {
    let issuer = Issuer::start().await;
    let home = Setup::new().issuer(&issuer).home();
    let mut add = command(portreeve());
    add.arg("--config").arg(home.config());
    add.args([
        "server",
        "add",
        "web",
        "pypi:mcp-server-fetch@2026.10.24",
        "--trust",
        "internal",
    ]);
    add.args(["--", "--ignore-robots-txt", "--allow-private-ips"]);
    if !is_added(&Finished::of(add.envs(home.variables()))) {
        return;
    }
    let written = std::fs::read_to_string(home.config()).unwrap();
    let range = hosts::address();
    let reach = format!("net = \"allowlist\"\nallow = [\"harbour.test:80\"]\nprivate = [\"{range}/32\"]\n");
    let table = "[servers.web.sandbox]\n";
    assert!(written.contains(table), "{written}");
    let named = "\n[servers.web.tools.fetch]\nhosts = [\"harbour.test:80\", \"elsewhere.test:80\"]\n";
    home.write_config(&format!(
        "{}{named}",
        written.replace(table, &format!("{table}{reach}"))
    ));
    hosts::page(80).await;
    let Some(gateway) = hosts::start_in(home).await else {
        return;
    };
    let agent = discovered(&gateway, &issuer).await;
    reaches_what_is_named_and_nothing_else(&gateway, &agent, "http://harbour.test/page.html", json!({})).await;
}
