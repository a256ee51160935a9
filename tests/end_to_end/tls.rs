//! TLS on every connection: our own listeners, and the servers behind us.

use std::os::unix::fs::PermissionsExt as _;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::agent::initialize_body;
use crate::support::certificates::{Authority, Certificate, self_signed};
use crate::support::gateway::tls_of;
use crate::support::wire::Door;
use crate::support::{Act, Agent, Ask, Issuer, Server, Setup, Town, tool};

fn with_tls(setup: Setup) -> Setup {
    setup.unset("listen.tls")
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_on_by_default_with_an_authority_that_outlives_a_restart() {
    // R106
    let town = Town::with(&["read"], with_tls).await;
    assert!(town.gateway.ready["mcp"].as_str().unwrap().starts_with("https://"));
    assert_eq!(town.agent("ann").await.names().await, ["read"]);
    assert_eq!(
        town.gateway
            .ask_admin(Ask::new("GET", "/api/v1/openapi.json"))
            .await
            .status,
        200
    );
    let authority = |town: &Town| std::fs::read(town.gateway.ready["ca"].as_str().unwrap()).unwrap();
    let before = authority(&town);
    let town = town.restarted().await;
    assert_eq!(authority(&town), before);
    assert_eq!(town.agent("ann").await.names().await, ["read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn private_keys_and_tokens_are_for_the_owner_alone() {
    // R106
    let town = Town::with(&["read"], with_tls).await;
    let keys: Vec<_> = town
        .gateway
        .home
        .state_files()
        .into_iter()
        .filter(|path| {
            let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
            text.contains("PRIVATE KEY") || text.contains("ptr_adm_")
        })
        .collect();
    assert!(keys.len() >= 2, "{keys:?}");
    for key in keys {
        assert_eq!(
            std::fs::metadata(&key).unwrap().permissions().mode() & 0o077,
            0,
            "{}",
            key.display()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_is_spoken_too() {
    // R106
    let town = Town::with(&["read"], with_tls).await;
    let mut config = (*tls_of(&town.gateway.mcp)).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = town.gateway.mcp.connect().await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let tls = connector
        .connect(ServerName::try_from("localhost").unwrap(), tcp)
        .await
        .unwrap();
    assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tls))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = http::Request::post(format!("https://localhost:{}/mcp", town.gateway.mcp.address.port()))
        .header("authorization", format!("Bearer {}", town.issuer.token("ann")))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Full::new(Bytes::from(initialize_body())))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()["result"]["protocolVersion"],
        "2025-11-25"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_1_1_is_refused() {
    // R106
    let town = Town::with(&["read"], with_tls).await;
    for door in [&town.gateway.mcp, &town.gateway.admin] {
        let mut stream = door.connect().await.unwrap();
        stream.write_all(&client_hello_of_tls_1_1()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let alert = 0x15;
        assert_eq!(answer.first(), Some(&alert), "{answer:02x?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_gets_no_answer_from_a_tls_listener() {
    // R106
    let town = Town::with(&["read"], with_tls).await;
    let plain = Door {
        tls: None,
        ..town.gateway.mcp.clone()
    };
    let reply = plain
        .try_ask(&Ask::post("/mcp", initialize_body()).bearer(&town.issuer.token("ann")))
        .await;
    assert!(reply.is_err(), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_may_be_off_on_loopback_only() {
    // R106
    for listener in ["listen.mcp", "listen.admin"] {
        let home = Setup::new().set(listener, "0.0.0.0:0").home();
        let checked = home.cli(&["check"]);
        assert_eq!(checked.code, Some(1), "{checked:?}");
    }
    assert_eq!(Setup::new().home().cli(&["check"]).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_https_unless_on_loopback() {
    // R106
    for (url, code) in [
        ("http://mcp.example/mcp", 1),
        ("http://10.0.0.1/mcp", 1),
        ("http://localhost.example/mcp", 1),
        ("ftp://127.0.0.1/mcp", 1),
        ("https://mcp.example/mcp", 0),
        ("http://127.0.0.1:1/mcp", 0),
        ("http://localhost:1/mcp", 0),
    ] {
        let checked = Setup::new().set("servers.one.url", url).home().cli(&["check"]);
        assert_eq!(checked.code, Some(code), "{url}: {checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_believed_only_with_a_certificate_that_holds() {
    // R106
    let authority = Authority::new();
    let cases: Vec<(&str, Certificate, bool)> = vec![
        ("good", authority.issue(&["127.0.0.1"]), true),
        ("self-signed", self_signed(&["127.0.0.1"]), false),
        ("wrong host", authority.issue(&["other.test"]), false),
        ("expired", authority.issue_expired(&["127.0.0.1"]), false),
    ];
    for (case, certificate, good) in cases {
        let issuer = Issuer::start().await;
        let server = Server::start_tls(certificate.serve(), &[tool("read")]).await;
        let home = Setup::with(&issuer, &server).set("servers.files.ca", "ca.pem").home();
        std::fs::write(home.path("ca.pem"), &authority.pem).unwrap();
        let gateway = home.serve().await;
        let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
        let listed = if good { vec!["files__read"] } else { vec![] };
        assert_eq!(agent.names().await, listed, "{case}");
        assert_eq!(server.seen().is_empty(), !good, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_further_trust_root_is_for_its_server_alone() {
    // R106
    let authority = Authority::new();
    let issuer = Issuer::start().await;
    let server = Server::start_tls(authority.issue(&["127.0.0.1"]).serve(), &[tool("read")]).await;
    let setup = Setup::with(&issuer, &server).server("other", &server);
    let home = setup.set("servers.files.ca", "ca.pem").home();
    std::fs::write(home.path("ca.pem"), &authority.pem).unwrap();
    let gateway = home.serve().await;
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["files__read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed() {
    // R106
    let elsewhere = Server::start(&[tool("read")]).await;
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    town.files.on("read", Act::Redirect(elsewhere.url()));
    let answer = agent.call("read", json!({})).await;
    assert_eq!(answer.error_code(), -32603);
    assert_eq!(town.gateway.receipt_named_by(&answer)["outcome"]["status"], "error");
    assert_eq!(elsewhere.seen().len(), 0);
}

/// A ClientHello that offers TLS 1.1 and nothing newer.
fn client_hello_of_tls_1_1() -> Vec<u8> {
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    hello.push(0);
    hello.extend([0, 8, 0xc0, 0x13, 0xc0, 0x14, 0xc0, 0x09, 0x00, 0x2f]);
    hello.extend([1, 0]);
    let groups = [0, 10, 0, 4, 0, 2, 0, 23];
    hello.extend([0, 8]);
    hello.extend(groups);
    let length = u8::try_from(hello.len()).unwrap();
    let mut record = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    record
}
