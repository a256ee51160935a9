//! A certified identity provider and authorisation server (npm `oidc-provider`): its own tokens are shown to the gateway, exchanged
//! there and shown to servers. What it refuses is denied.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::{are_installed, modules, node, script};
use crate::support::environment::command;
use crate::support::wire::{Ask, Door};
use crate::support::{Modern, Server, Setup, tool};

const GATEWAY: &str = "https://gateway.test/mcp";
/// What it accepts of each client, the gateway among them.
fn secret(client: &str) -> String {
    format!("secret of {client}: 50%/+&")
}

/// A running provider.
struct Provider {
    issuer: String,
    process: Child,
    /// Kept open: it may have more to say.
    _stdout: BufReader<std::process::ChildStdout>,
}

impl Provider {
    /// A provider that issues tokens for these resources.
    fn start(resources: &[String]) -> Self {
        let mut process = command(node())
            .arg(script("authorization_server.mjs"))
            .arg(modules())
            .args(resources)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        Self {
            issuer: said["issuer"].as_str().unwrap().to_owned(),
            process,
            _stdout: stdout,
        }
    }

    /// A token of its own for somebody, for a resource.
    async fn token(&self, who: &str, resource: &str) -> String {
        use base64::Engine as _;
        let escape =
            |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
        let basic = format!("{who}:{}", escape(&secret(who)));
        let basic = base64::engine::general_purpose::STANDARD.encode(basic);
        let form = format!("grant_type=client_credentials&scope=read&resource={}", escape(resource));
        let ask = Ask::post("/token", form)
            .instead("Content-Type", Some("application/x-www-form-urlencoded"))
            .header("Authorization", &format!("Basic {basic}"));
        let door = Door {
            address: self.issuer.strip_prefix("http://").unwrap().parse().unwrap(),
            tls: None,
            from: None,
        };
        let answer = door.ask(&ask).await.json();
        answer["access_token"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The claims of a JWT.
fn claims(token: &str) -> Value {
    use base64::Engine as _;
    let part = token.split('.').nth(1).unwrap();
    let json = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// The token that a server was shown last.
fn shown(server: &Server) -> String {
    let calls = server.calls();
    let header = calls.last().unwrap().headers.get("authorization").unwrap();
    header.strip_prefix("Bearer ").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_certified_provider_are_exchanged_for_those_of_one_server_each() {
    // R123, R124, R129, R180, R193, R194, R196
    let provider = modules().join("oidc-provider/lib/index.js");
    if !are_installed(&[&provider]) {
        return;
    }
    let (one, two, three) = (
        Server::start(&[tool("read")]).await,
        Server::start(&[tool("read")]).await,
        Server::start(&[tool("read")]).await,
    );
    let provider = Provider::start(&[GATEWAY.to_owned(), one.url(), two.url(), three.url()]);
    let client = |changes: Value| {
        let mut settings = json!({"token_url": format!("{}/token", provider.issuer), "client_id": "gateway",
            "client_secret": "env:ENDPOINT_SECRET"});
        settings
            .as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        settings
    };
    let gateway = Setup::new()
        .server("one", &one)
        .server("two", &two)
        .server("three", &three)
        .variable("ENDPOINT_SECRET", &secret("gateway"))
        .set(
            "identity.jwt",
            json!([{"issuer": provider.issuer, "audience": GATEWAY, "jwks": format!("{}/jwks", provider.issuer),
                "algorithms": ["ES256"], "claims": {"client": "client_id"}}]),
        )
        .set(
            "servers.one.credential",
            json!({"exchange": client(json!({"scopes": ["read"]}))}),
        )
        .set(
            "servers.two.credential",
            json!({"exchange": client(json!({"resource": two.url(), "scopes": ["read", "write"]}))}),
        )
        .set(
            "servers.three.credential",
            json!({"exchange": client(json!({"resource": "https://nobody.test/mcp"}))}),
        )
        .start()
        .await;
    let (ann, bob) = (
        provider.token("ann", GATEWAY).await,
        provider.token("bob", GATEWAY).await,
    );
    for (server, route, scope) in [(&one, "/mcp/one", "read"), (&two, "/mcp/two", "read write")] {
        for (sub, token) in [("ann", &ann), ("bob", &bob)] {
            let answer = Modern::new(&gateway, route, token).call("read", json!({})).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(
                answer.last().get("result").is_some(),
                "{route} {sub}: {} {}",
                answer.text(),
                gateway.logs()
            );
            let claims = claims(&shown(server));
            assert_eq!((&claims["aud"], &claims["sub"]), (&json!(server.url()), &json!(sub)));
            assert_eq!(
                (&claims["iss"], &claims["scope"]),
                (&json!(provider.issuer), &json!(scope))
            );
            let receipt = gateway.receipt_of(&answer);
            assert_eq!(receipt["token_handling"]["mode"], "exchanged");
            assert_eq!(receipt["token_handling"]["audience"], claims["aud"]);
            assert_eq!(receipt["token_handling"]["audience_verified"], true);
            assert_eq!(receipt["token_handling"]["passthrough_detected"], false);
        }
    }
    // What the provider does not know it grants nothing for.
    let refused = Modern::new(&gateway, "/mcp/three", &ann).call("read", json!({})).await;
    assert!(refused.last().get("result").is_none(), "{}", refused.text());
    assert_eq!(three.calls().len(), 0);
    // A token for another resource of the same provider is none for the gateway, and goes nowhere.
    let before = one.seen().len();
    let foreign = provider.token("ann", &one.url()).await;
    let refused = Modern::new(&gateway, "/mcp/one", &foreign)
        .call("read", json!({}))
        .await;
    assert_eq!(refused.status, 401, "{}", refused.text());
    let receipt = gateway.receipt_of(&refused);
    assert_eq!(receipt["token_handling"]["passthrough_detected"], false);
    assert_eq!(one.seen().len(), before);
    for token in [&ann, &bob, &foreign] {
        let signature = token.rsplit('.').next().unwrap();
        for server in [&one, &two, &three] {
            assert!(!server.transcript().contains(signature));
        }
        assert!(!gateway.logs().contains(signature));
    }
    assert_ne!(claims(&shown(&one))["aud"], claims(&shown(&two))["aud"]);
    // The provider is gone: what was granted lasts its time, and nobody new gets anything.
    let carol = provider.token("ann", GATEWAY).await;
    drop(provider);
    let kept = Modern::new(&gateway, "/mcp/one", &carol).call("read", json!({})).await;
    assert_eq!(kept.result()["isError"], false, "{}", kept.text());
}
