//! A certificate of the gateway's as a server's credential, and credentials that are replaced while the gateway runs.
//! ADR 0133: a certificate is a credential like another.

use serde_json::json;

use crate::support::certificates::Authority;
use crate::support::{Agent, Issuer, Server, Setup, Town, eventually, tool};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_certificates_alone_is_shown_one() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let issuer = Issuer::start().await;
    let own = servers.issue(&["127.0.0.1"]);
    let server = Server::start_tls(own.serve_clients_of(&clients), &[tool("read")]).await;
    let (good, strange) = (clients.issue(&["gateway.test"]), strangers.issue(&["gateway.test"]));
    let setup = Setup::with(&issuer, &server).set("servers.files.ca", "ca.pem").set(
        "servers.files.credential",
        json!({"mtls": {"cert": "shown.pem", "key": "file:shown.key"}}),
    );
    let home = setup.home();
    std::fs::write(home.path("ca.pem"), &servers.pem).unwrap();
    std::fs::write(home.path("shown.pem"), &good.pem).unwrap();
    std::fs::write(home.path("shown.key"), &good.key).unwrap();
    let gateway = home.serve().await;
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    let answer = agent.call("read", json!({})).await;
    assert_eq!(answer.result()["isError"], false, "{}", answer.text());
    assert_eq!(
        gateway.receipt_of(&answer)["token_handling"],
        json!({"mode": "vault", "source": "mtls", "audience": null, "audience_verified": null, "passthrough_detected": false})
    );
    assert_eq!(server.calls()[0].headers.get("authorization"), None);
    // Another certificate takes the place of the first without a restart; one that nobody there knows is not let in.
    let calls = server.calls().len();
    std::fs::write(gateway.home.path("shown.key"), &strange.key).unwrap();
    std::fs::write(gateway.home.path("shown.pem"), &strange.pem).unwrap();
    eventually("the other certificate is shown", 60, async || {
        let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
        agent.call("read", json!({})).await.last().get("error").is_some()
    })
    .await;
    let renewed = clients.issue(&["gateway.test"]);
    std::fs::write(gateway.home.path("shown.key"), &renewed.key).unwrap();
    std::fs::write(gateway.home.path("shown.pem"), &renewed.pem).unwrap();
    eventually("the renewed certificate is shown", 60, async || {
        let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
        agent.call("read", json!({})).await.last().get("result").is_some()
    })
    .await;
    assert!(server.calls().len() > calls);
    assert!(!gateway.logs().contains("PRIVATE KEY"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_replaced_in_its_file_is_shown_without_a_restart() {
    let issuer = Issuer::start().await;
    let files = Server::start(&[tool("read")]).await;
    let home = Setup::with(&issuer, &files)
        .set("servers.files.credential", json!({"secret": "file:key"}))
        .home();
    std::fs::write(home.path("key"), "the-first-secret\n").unwrap();
    let gateway = home.serve().await;
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    agent.call("read", json!({})).await.result();
    let shown = |server: &Server| {
        server
            .calls()
            .last()
            .unwrap()
            .headers
            .get("authorization")
            .unwrap()
            .to_owned()
    };
    assert_eq!(shown(&files), "Bearer the-first-secret");
    std::fs::write(gateway.home.path("key"), "the-second-secret\n").unwrap();
    eventually("the second secret is shown", 60, async || {
        agent.call("read", json!({})).await.result();
        shown(&files) == "Bearer the-second-secret"
    })
    .await;
    let before = files.calls().len();
    // A file that says nothing leaves the last one in force.
    std::fs::write(gateway.home.path("key"), "").unwrap();
    agent.call("read", json!({})).await.result();
    assert_eq!(
        (files.calls().len(), shown(&files).as_str()),
        (before + 1, "Bearer the-second-secret")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_without_its_key_is_a_fault_at_the_start() {
    let town = Town::with(&["read"], |setup| setup).await;
    let authority = Authority::new();
    let (one, other) = (authority.issue(&["a.test"]), authority.issue(&["b.test"]));
    let home = &town.gateway.home;
    std::fs::write(home.path("one.pem"), &one.pem).unwrap();
    std::fs::write(home.path("other.key"), &other.key).unwrap();
    for (credential, why) in [
        (
            json!({"mtls": {"cert": "one.pem", "key": "file:other.key"}}),
            "does not fit the certificate",
        ),
        (
            json!({"mtls": {"cert": "one.pem", "key": "file:one.pem"}}),
            "names no private key in PEM",
        ),
        (
            json!({"mtls": {"cert": "one.pem", "key": "other.key"}}),
            "a secret is a reference",
        ),
        (
            json!({"mtls": {"cert": "other.key", "key": "file:other.key"}}),
            "holds no certificate in PEM",
        ),
    ] {
        let elsewhere = Setup::with(&town.issuer, &town.files)
            .set("servers.files.url", "https://files.test/mcp")
            .set("servers.files.credential", credential)
            .home();
        std::fs::write(elsewhere.path("one.pem"), &one.pem).unwrap();
        std::fs::write(elsewhere.path("other.key"), &other.key).unwrap();
        let told = elsewhere.cli(&["check"]);
        let said = format!("{}{}", told.stdout, told.stderr);
        assert_eq!(told.code, Some(1), "{said}");
        assert!(said.contains(why), "{why}: {said}");
        assert!(!said.contains("PRIVATE KEY"), "{said}");
    }
}
