//! An issuer's signing keys: cached, fetched by one flight at a time, refreshed when a token names
//! a key we do not know (but not more often than every ten seconds), kept for a bounded time when
//! the issuer is down.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use tokio::sync::Mutex;

/// Keys are fetched again after this time.
const TTL: Duration = Duration::from_secs(5 * 60);
/// Keys are used this long while the issuer cannot be reached.
const STALE: Duration = Duration::from_secs(60 * 60);
/// Unknown key ids cause at most one fetch in this time; so do failures.
const BETWEEN_MISSES: Duration = Duration::from_secs(10);
const LARGEST_SET: usize = 1024 * 1024;

/// Where an issuer publishes its keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySource {
    /// A URL.
    Url(String),
    /// The text of a key set that the configuration holds.
    Text(String),
}

/// Why keys could not be had. For the operator's log.
#[derive(Debug, thiserror::Error)]
pub enum KeysUnavailable {
    /// The issuer cannot be reached or answers with an error.
    #[error("the key set cannot be fetched")]
    Fetch(#[source] reqwest::Error),
    /// What came is no key set.
    #[error("what was fetched is no key set")]
    NotAKeySet,
}

/// A key that may verify tokens with one algorithm family.
pub(super) struct VerifyingKey {
    kid: Option<String>,
    pub(super) key: DecodingKey,
    algorithms: Vec<Algorithm>,
}

#[derive(Default)]
struct KeySet {
    keys: Vec<Arc<VerifyingKey>>,
    fetched: Option<Instant>,
}

/// The keys of one issuer.
pub struct KeyRing {
    source: KeySource,
    client: reqwest::Client,
    keys: ArcSwap<KeySet>,
    flight: Mutex<Flight>,
}

#[derive(Default)]
struct Flight {
    missed: Option<Instant>,
    failed: Option<Instant>,
}

impl KeyRing {
    /// A ring that will fetch from `source` when first asked.
    #[must_use]
    pub fn new(source: KeySource, client: reqwest::Client) -> Self {
        Self {
            source,
            client,
            keys: ArcSwap::default(),
            flight: Mutex::default(),
        }
    }

    /// Where the keys come from.
    #[must_use]
    pub fn source(&self) -> &KeySource {
        &self.source
    }

    /// The key for a token, refreshing the set where it is old or lacks the key.
    pub(super) async fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<Arc<VerifyingKey>> {
        let set = self.keys.load_full();
        if set.is_fresh(TTL)
            && let Some(key) = set.find(kid, algorithm)
        {
            return Some(key);
        }
        let set = self.refresh(&set).await;
        set.is_fresh(STALE).then(|| set.find(kid, algorithm)).flatten()
    }

    /// One flight at a time; whoever waited for another's flight uses what it brought.
    async fn refresh(&self, seen: &Arc<KeySet>) -> Arc<KeySet> {
        let mut flight = self.flight.lock().await;
        let current = self.keys.load_full();
        let recently = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < BETWEEN_MISSES);
        let is_miss = current.is_fresh(TTL);
        if !Arc::ptr_eq(seen, &current) || recently(flight.failed) || (is_miss && recently(flight.missed)) {
            return current;
        }
        if is_miss {
            flight.missed = Some(Instant::now());
        }
        match self.fetch().await {
            Ok(keys) => {
                flight.failed = None;
                self.keys.store(Arc::new(KeySet {
                    keys,
                    fetched: Some(Instant::now()),
                }));
            }
            Err(error) => {
                flight.failed = Some(Instant::now());
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "signing keys could not be refreshed"
                );
            }
        }
        self.keys.load_full()
    }

    async fn fetch(&self) -> Result<Vec<Arc<VerifyingKey>>, KeysUnavailable> {
        let bytes = match &self.source {
            KeySource::Text(text) => text.clone().into_bytes(),
            KeySource::Url(url) => self.download(url).await?,
        };
        let set: JwkSet = serde_json::from_slice(&bytes).map_err(|_| KeysUnavailable::NotAKeySet)?;
        Ok(set.keys.iter().filter_map(VerifyingKey::read).map(Arc::new).collect())
    }

    async fn download(&self, url: &str) -> Result<Vec<u8>, KeysUnavailable> {
        let sent = self.client.get(url).header("accept", "application/json").send().await;
        let mut response = sent
            .and_then(reqwest::Response::error_for_status)
            .map_err(KeysUnavailable::Fetch)?;
        if !response.status().is_success() {
            return Err(KeysUnavailable::NotAKeySet);
        }
        let mut bytes = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(KeysUnavailable::Fetch)? {
            if bytes.len() + piece.len() > LARGEST_SET {
                return Err(KeysUnavailable::NotAKeySet);
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

impl KeySet {
    fn is_fresh(&self, age: Duration) -> bool {
        self.fetched.is_some_and(|at| at.elapsed() < age)
    }

    /// By key id; a token without one is verified only where exactly one key fits.
    fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<Arc<VerifyingKey>> {
        let mut fitting = self
            .keys
            .iter()
            .filter(|key| key.algorithms.contains(&algorithm) && (kid.is_none() || key.kid.as_deref() == kid));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Some(key.clone()),
            (Some(key), Some(_)) if kid.is_some() => Some(key.clone()),
            _ => None,
        }
    }
}

impl VerifyingKey {
    /// A key that says nothing against verifying signatures; symmetric keys are none.
    fn read(jwk: &Jwk) -> Option<Self> {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "a key of any other type verifies nothing here"
        )]
        let by_type: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => &[
                Algorithm::RS256,
                Algorithm::RS384,
                Algorithm::RS512,
                Algorithm::PS256,
                Algorithm::PS384,
                Algorithm::PS512,
            ],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::ES256],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::ES384],
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
            _ => return None,
        };
        let signs = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
        let verifies = jwk
            .common
            .key_operations
            .as_ref()
            .is_none_or(|operations| operations.contains(&KeyOperations::Verify));
        let stated = jwk.common.key_algorithm.map(Algorithm::try_from);
        let fits = |algorithm: &&Algorithm| {
            stated
                .as_ref()
                .is_none_or(|stated| stated.as_ref().ok() == Some(*algorithm))
        };
        let algorithms: Vec<Algorithm> = by_type.iter().filter(fits).copied().collect();
        if !signs || !verifies || algorithms.is_empty() {
            return None;
        }
        Some(Self {
            kid: jwk.common.key_id.clone(),
            key: DecodingKey::from_jwk(jwk).ok()?,
            algorithms,
        })
    }
}
