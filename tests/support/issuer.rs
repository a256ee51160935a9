//! An identity provider: keys of three kinds, tokens good and bad, and a JWKS endpoint that counts who fetches it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::left_behind::never_keep;
use super::wire::Wire;

/// The name the tests' issuer goes by.
pub(crate) const ISSUER: &str = "https://idp.test";
/// Whom its tokens are for.
pub(crate) const AUDIENCE: &str = "https://gateway.test/mcp";

/// A signing key with its id.
pub(crate) struct Key {
    pub kid: String,
    pair: Pair,
}

enum Pair {
    Rs256(Box<RsaKeyPair>),
    Es256(Box<EcdsaKeyPair>),
    EdDsa(Ed25519KeyPair),
}

impl Key {
    /// An ES256 key.
    pub(crate) fn es256(kid: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self {
            kid: kid.to_owned(),
            pair: Pair::Es256(Box::new(pair)),
        }
    }

    /// An RS256 key of 2048 bits.
    pub(crate) fn rs256(kid: &str) -> Self {
        Self {
            kid: kid.to_owned(),
            pair: Pair::Rs256(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())),
        }
    }

    /// An Ed25519 key.
    pub(crate) fn eddsa(kid: &str) -> Self {
        Self {
            kid: kid.to_owned(),
            pair: Pair::EdDsa(Ed25519KeyPair::generate().unwrap()),
        }
    }

    /// The algorithm's name in a token's header.
    pub(crate) fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rs256(_) => "RS256",
            Pair::Es256(_) => "ES256",
            Pair::EdDsa(_) => "EdDSA",
        }
    }

    /// The header a token signed with this key has.
    pub(crate) fn header(&self) -> Value {
        json!({"alg": self.algorithm(), "kid": self.kid, "typ": "at+jwt"})
    }

    /// A compact token of exactly this header and these claims.
    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        self.sign_text(header, &claims.to_string())
    }

    /// A token with claims spelled exactly so.
    pub(crate) fn sign_text(&self, header: &Value, claims: &str) -> String {
        let text = format!(
            "{}.{}",
            base64url(header.to_string().as_bytes()),
            base64url(claims.as_bytes())
        );
        let signature = match &self.pair {
            Pair::Es256(pair) => pair
                .sign(&SystemRandom::new(), text.as_bytes())
                .unwrap()
                .as_ref()
                .to_vec(),
            Pair::EdDsa(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
            Pair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
                    .unwrap();
                signature
            }
        };
        let signature = base64url(&signature);
        never_keep(&signature);
        format!("{text}.{signature}")
    }

    /// The public half, in the bytes somebody might mistake for an HMAC secret.
    pub(crate) fn public_bytes(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Rs256(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Es256(pair) => pair.public_key().as_ref().to_vec(),
            Pair::EdDsa(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    /// The public half as a JWK.
    pub(crate) fn jwk(&self) -> Value {
        let public = self.public_bytes();
        let mut jwk = match &self.pair {
            Pair::Rs256(_) => {
                let (modulus, exponent) = rsa_parts(&public);
                json!({"kty": "RSA", "n": base64url(modulus), "e": base64url(exponent)})
            }
            Pair::Es256(_) => {
                json!({"kty": "EC", "crv": "P-256", "x": base64url(&public[1..33]), "y": base64url(&public[33..])})
            }
            Pair::EdDsa(_) => json!({"kty": "OKP", "crv": "Ed25519", "x": base64url(&public)}),
        };
        jwk["kid"] = json!(self.kid);
        jwk["alg"] = json!(self.algorithm());
        jwk["use"] = json!("sig");
        jwk
    }
}

/// An identity provider that listens on loopback.
pub(crate) struct Issuer {
    state: Arc<State>,
    address: SocketAddr,
}

struct State {
    keys: Mutex<Vec<Arc<Key>>>,
    fetches: AtomicUsize,
    broken: Mutex<bool>,
}

impl Issuer {
    /// An issuer with one ES256 key.
    pub(crate) async fn start() -> Self {
        Self::with_key(Key::es256("key-1")).await
    }

    /// An issuer with this key.
    pub(crate) async fn with_key(key: Key) -> Self {
        let state = State {
            keys: Mutex::new(vec![Arc::new(key)]),
            fetches: AtomicUsize::new(0),
            broken: Mutex::new(false),
        };
        let state = Arc::new(state);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Arc::clone(&state)));
        Self { state, address }
    }

    /// Where the JWKS is.
    pub(crate) fn jwks_url(&self) -> String {
        format!("http://{}/jwks", self.address)
    }

    /// How often the JWKS was fetched.
    pub(crate) fn fetches(&self) -> usize {
        self.state.fetches.load(Ordering::SeqCst)
    }

    /// From now on these keys and no others.
    pub(crate) fn rotate_to(&self, key: Key) {
        *self.state.keys.lock().unwrap() = vec![Arc::new(key)];
    }

    /// From now on the JWKS endpoint answers with an error.
    pub(crate) fn break_down(&self) {
        *self.state.broken.lock().unwrap() = true;
    }

    /// The key in use.
    pub(crate) fn key(&self) -> Arc<Key> {
        Arc::clone(&self.state.keys.lock().unwrap()[0])
    }

    /// A good token for somebody.
    pub(crate) fn token(&self, sub: &str) -> String {
        self.sign(&claims(sub))
    }

    /// A token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        let key = self.key();
        key.sign(&key.header(), claims)
    }
}

/// The claims of a good token.
pub(crate) fn claims(sub: &str) -> Value {
    let now = jiff::Timestamp::now().as_second();
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": sub, "azp": "client-7", "iat": now, "nbf": now - 5, "exp": now + 600})
}

/// The same claims with some replaced; null takes one away.
pub(crate) fn but(mut claims: Value, changes: Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

/// Header and claims, encoded, without a signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    format!(
        "{}.{}",
        base64url(header.to_string().as_bytes()),
        base64url(claims.to_string().as_bytes())
    )
}

/// Base64 as tokens use it.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let mut wire = Wire::over(stream);
            while wire.request().await.is_ok() {
                state.fetches.fetch_add(1, Ordering::SeqCst);
                let broken = *state.broken.lock().unwrap();
                let keys: Vec<_> = state.keys.lock().unwrap().iter().map(|key| key.jwk()).collect();
                let (status, body) = if broken {
                    ("503 Down", String::new())
                } else {
                    ("200 OK", json!({"keys": keys}).to_string())
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}",
                    body.len()
                );
                let _ = wire.send(format!("{head}\r\n\r\n{body}").as_bytes()).await;
            }
        });
    }
}

/// Modulus and exponent out of a PKCS#1 public key: a sequence of two integers.
fn rsa_parts(der: &[u8]) -> (&[u8], &[u8]) {
    let (sequence, _) = der_value(der);
    let (modulus, rest) = der_value(sequence);
    let (exponent, _) = der_value(rest);
    (modulus.strip_prefix(&[0]).unwrap_or(modulus), exponent)
}

fn der_value(der: &[u8]) -> (&[u8], &[u8]) {
    let short = usize::from(der[1]);
    let (length, header) = match short {
        0..=127 => (short, 2),
        _ => (
            der[2..2 + short - 128]
                .iter()
                .fold(0, |sum, byte| sum * 256 + usize::from(*byte)),
            2 + short - 128,
        ),
    };
    der[header..].split_at(length)
}
