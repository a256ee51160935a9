//! The name that a server's certificate must hold beside its host, and that it is part of what was signed for.

use super::{key, reach, sign, until_reach};
use crate::support::certificates::Authority;
use crate::support::{Issuer, Server, Setup, tool};

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_must_hold_the_name_that_is_pinned() {
    let authority = Authority::new();
    let issuer = Issuer::start().await;
    let named = Server::start_tls(
        authority.issue(&["127.0.0.1", "files.internal"]).serve(),
        &[tool("read")],
    )
    .await;
    // Another server behind the same host, with a certificate that is good for the host alone.
    let other = Server::start_tls(authority.issue(&["127.0.0.1"]).serve(), &[tool("read")]).await;
    let setup = Setup::with(&issuer, &named).server("other", &other);
    let setup = ["files", "other"].into_iter().fold(setup, |setup, id| {
        setup
            .set(&format!("servers.{id}.ca"), "ca.pem")
            .set(&format!("servers.{id}.certificate_name"), "files.internal")
    });
    let mut home = setup.home();
    std::fs::write(home.path("ca.pem"), &authority.pem).unwrap();
    let vkey = key(&home, "ops");
    home.rewrite(|setup| setup.set("trust.require_signed", true).set("trust.keys", [vkey]));
    sign(&home, "ops");
    let lock = std::fs::read_to_string(home.path("servers.lock")).unwrap();
    assert_eq!(lock.matches("certificate = \"files.internal\"").count(), 2, "{lock}");
    let mut gateway = home.serve().await;
    until_reach(&gateway, ["files up", "other down"]).await;
    assert!(other.seen().is_empty(), "nothing was asked of the one without the name");
    // Without the name it is another server than the one that was signed for.
    gateway
        .home
        .rewrite(|setup| setup.unset("servers.files.certificate_name"));
    until_reach(&gateway, ["files down", "other down"]).await;
    let why = reach(&gateway)[0].1.clone();
    assert!(why.contains("its `certificate_name` is another"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_none_is_a_fault() {
    for (url, name, told) in [
        (
            "https://files.example/mcp",
            "not a name",
            "is not a name that a certificate can hold",
        ),
        (
            "https://files.example/mcp",
            "",
            "is not a name that a certificate can hold",
        ),
        (
            "http://127.0.0.1:1/mcp",
            "files.internal",
            "needs an `https://` address",
        ),
    ] {
        let setup = Setup::new()
            .set("servers.files.url", url)
            .set("servers.files.certificate_name", name);
        let checked = setup.home().cli(&["check"]);
        assert!(checked.code == Some(1) && checked.stdout.contains(told), "{checked:?}");
    }
}
