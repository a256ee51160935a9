//! Identity: a request whose credential was verified before.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gateway::edge::Peer;
use gateway::edge::authenticate::{CertificateUse, Identity};
use gateway::edge::jwks::{KeyRing, KeySource};
use gateway::edge::jwt::{ClaimNames, Issuer};
use gateway::edge::tokens::{IssuedToken, TokenStanding, TokenTable};
use http::{HeaderValue, header};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;
use vocabulary::{Clock, Digest};

use crate::stopwatch::Figure;
use crate::town;

const ISSUER: &str = "https://idp.example";
const AUDIENCE: &str = "https://gateway.example/mcp";
const AGENT_TOKEN: &str = "ptr_agt_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const IDENTITY_US: f64 = 3.0;

/// Measures a cached JWT and an agent token.
pub(crate) fn measure(only: &str) -> Result<Vec<Figure>> {
    let key = Ed25519KeyPair::generate().ok().context("no key was made")?;
    let identity = Identity::new(
        vec![issuer(&key)?],
        Some(tokens()),
        CertificateUse::Ignored,
        Clock::system(),
    );
    let peer = Peer {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        certificate: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut figures = Vec::new();
    let stages = [
        ("identity, JWT seen before", jwt(&key)?),
        ("identity, agent token", AGENT_TOKEN.to_owned()),
    ];
    for (stage, token) in stages.iter().filter(|(stage, _)| stage.contains(only)) {
        let value = HeaderValue::try_from(format!("Bearer {token}"))?;
        let head = || {
            let request = http::Request::post("/mcp").header(header::AUTHORIZATION, value.clone());
            request.body(()).map(|request| request.into_parts().0)
        };
        let first = runtime.block_on(identity.identify(head()?, &peer, None));
        ensure!(first.is_ok(), "{stage}: the token is not taken");
        let figure = Figure::of(stage, || at_once(identity.identify(head().ok()?, &peer, None)));
        figures.push(figure.at_most(IDENTITY_US));
    }
    Ok(figures)
}

/// The result of something that has nothing to wait for.
fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut std::task::Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn issuer(key: &Ed25519KeyPair) -> Result<Issuer> {
    let x = BASE64_URL_SAFE_NO_PAD.encode(key.public_key().as_ref());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "one", "alg": "EdDSA", "use": "sig"});
    let source = KeySource::Text(json!({"keys": [jwk]}).to_string());
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Ok(Issuer {
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        algorithms: vec![Algorithm::EdDSA],
        claims: ClaimNames {
            org: "org_id".to_owned(),
            groups: "groups".to_owned(),
            client: "azp".to_owned(),
            further: BTreeMap::new(),
        },
        keys: Arc::new(KeyRing::new(source, reqwest::Client::builder().build()?)),
    })
}

fn jwt(key: &Ed25519KeyPair) -> Result<String> {
    let now = Clock::system().now().as_seconds();
    let claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "azp": "client", "org_id": "org",
        "groups": ["team-1", "team-2"], "iat": now, "exp": now + 3_600,
    });
    let document = key.to_pkcs8v1().ok().context("the key cannot be written")?;
    let header = Header {
        kid: Some("one".to_owned()),
        ..Header::new(Algorithm::EdDSA)
    };
    Ok(jsonwebtoken::encode(
        &header,
        &claims,
        &EncodingKey::from_ed_der(document.as_ref()),
    )?)
}

fn tokens() -> Arc<TokenTable> {
    let expires = Clock::system().now().plus(Duration::from_secs(3_600));
    let mine = IssuedToken {
        principal: town::agent("regular"),
        expires,
        standing: TokenStanding::Live,
    };
    let table = TokenTable::default();
    table.replace(HashMap::from([(Digest::of(AGENT_TOKEN.as_bytes()), mine)]));
    Arc::new(table)
}
