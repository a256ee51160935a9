//! Client certificates as credentials.

use serde_json::json;

use crate::support::agent::initialize_body;
use crate::support::certificates::{Authority, Certificate};
use crate::support::wire::Door;
use crate::support::{Agent, Ask, Gateway, Issuer, Server, Setup, tool};

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_the_client_authority_is_a_system_principal() {
    // R108, R166, R167
    let scene = Scene::start().await;
    let cases = [
        (vec!["robot.test", "spiffe://test/robot"], "spiffe://test/robot"),
        (vec!["robot.test"], "robot.test"),
    ];
    for (names, sub) in cases {
        let door = scene.door(Some(&scene.clients.issue(&names)));
        let agent = Agent::through(&door, "/mcp/files", None).await;
        let receipt = scene.gateway.receipt_of(&agent.call("read", json!({})).await);
        let principal = &receipt["principal"];
        assert_eq!(
            (&principal["sub"], &principal["actor_type"], &principal["authn"]),
            (&json!(sub), &json!("system"), &json!("mtls"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_token_the_certificate_does_not_count() {
    // R166
    let scene = Scene::start().await;
    let door = scene.door(Some(&scene.clients.issue(&["robot.test"])));
    let agent = Agent::through(&door, "/mcp/files", Some(&scene.issuer.token("ann"))).await;
    let receipt = scene.gateway.receipt_of(&agent.call("read", json!({})).await);
    assert_eq!(
        (&receipt["principal"]["sub"], &receipt["principal"]["authn"]),
        (&json!("ann"), &json!("jwt"))
    );
    let refused = door
        .ask(&Ask::post("/mcp", initialize_body()).bearer("not.a.token"))
        .await;
    assert_eq!(refused.status, 401, "a bad token is not healed by a certificate");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_expired_or_missing_certificate_is_no_credential() {
    let scene = Scene::start().await;
    assert_eq!(scene.knock(None).await, Some(401));
    let stranger = Authority::new().issue(&["robot.test"]);
    let expired = scene.clients.issue_expired(&["robot.test"]);
    for certificate in [stranger, expired] {
        let status = scene.knock(Some(&certificate)).await;
        assert!(matches!(status, None | Some(401)), "{status:?}");
    }
}

struct Scene {
    authority: Authority,
    clients: Authority,
    issuer: Issuer,
    gateway: Gateway,
    _files: Server,
}

impl Scene {
    async fn start() -> Self {
        let (authority, clients) = (Authority::new(), Authority::new());
        let (issuer, files) = (Issuer::start().await, Server::start(&[tool("read")]).await);
        let tls = json!({"mode": "files", "cert": "server.pem", "key": "server.key", "client_ca": "clients.pem"});
        let setup = Setup::with(&issuer, &files)
            .set("listen.tls", tls)
            .set("identity.mtls.enabled", true);
        let home = setup.home();
        let server = authority.issue(&["localhost", "127.0.0.1"]);
        for (name, text) in [
            ("server.pem", &server.pem),
            ("server.key", &server.key),
            ("clients.pem", &clients.pem),
        ] {
            std::fs::write(home.path(name), text).unwrap();
        }
        Self {
            gateway: home.serve().await,
            authority,
            clients,
            issuer,
            _files: files,
        }
    }

    fn door(&self, shows: Option<&Certificate>) -> Door {
        self.gateway.mcp_trusting(&self.authority.pem, shows)
    }

    async fn knock(&self, shows: Option<&Certificate>) -> Option<u16> {
        let reply = self.door(shows).try_ask(&Ask::post("/mcp", initialize_body())).await;
        reply.ok().map(|reply| reply.status)
    }
}
