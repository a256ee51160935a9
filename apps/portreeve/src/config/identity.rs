//! `[identity]`: whose word is taken for who calls.

use std::collections::BTreeMap;
use std::path::PathBuf;

use settings::{Complaint, Entry, Section, quoted};

use super::raw::Surroundings;
use super::servers::web_url;
use super::{Listen, Tls};

/// Whose word is taken for who calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Issuers of JWTs; every `issuer` once.
    pub jwt: Vec<JwtIssuer>,
    /// Whether agent tokens are accepted.
    pub tokens_enabled: bool,
    /// Whether client certificates identify; then `listen.client_ca` is set.
    pub mtls_enabled: bool,
}

/// An issuer of JWTs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JwtIssuer {
    /// The exact `iss`.
    pub issuer: String,
    /// What `aud` must hold.
    pub audience: Audience,
    /// Where its keys are.
    pub keys: KeySource,
    /// Signature algorithms that are accepted; at least one.
    pub algorithms: Vec<SigningAlgorithm>,
    /// Which claims say what.
    pub claims: ClaimNames,
}

/// What the `aud` of a token must hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    /// `public_url` + `/mcp`, once the public URL is known.
    PublicUrl,
    /// One of these.
    OneOf(Vec<String>),
}

/// Where an issuer's keys are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySource {
    /// Fetched from here.
    Url(String),
    /// Read from a file.
    File {
        /// The file.
        path: PathBuf,
        /// The key set in it: a JSON object with `keys`.
        text: String,
    },
}

/// Which claims of a token say what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimNames {
    /// The organisation.
    pub org: String,
    /// The groups.
    pub groups: String,
    /// The client.
    pub client: String,
    /// Further claims: name in policies, name in the token.
    pub further: BTreeMap<String, String>,
}

vocabulary::words! {
    /// An asymmetric signature algorithm, by its name in the `alg` header (RFC 7518).
    pub enum SigningAlgorithm {
        /// RSASSA-PKCS1-v1_5 with SHA-256
        Rs256 = "RS256",
        /// RSASSA-PKCS1-v1_5 with SHA-384
        Rs384 = "RS384",
        /// RSASSA-PKCS1-v1_5 with SHA-512
        Rs512 = "RS512",
        /// RSASSA-PSS with SHA-256
        Ps256 = "PS256",
        /// RSASSA-PSS with SHA-384
        Ps384 = "PS384",
        /// RSASSA-PSS with SHA-512
        Ps512 = "PS512",
        /// ECDSA on P-256
        Es256 = "ES256",
        /// ECDSA on P-384
        Es384 = "ES384",
        /// Ed25519
        EdDsa = "EdDSA",
    }
}

impl Identity {
    pub(super) fn check(mut section: Section<'_>, listen: Option<&Listen>, around: &Surroundings) -> Option<Self> {
        let jwt = section
            .entry("jwt")
            .map_or_else(|| Some(Vec::new()), |entry| issuers(&entry, around));
        let mut tokens = section.section("tokens");
        let tokens_enabled = tokens.read("enabled", Entry::boolean);
        tokens.finish();
        let mut mtls = section.section("mtls");
        let mtls_enabled = mtls.read("enabled", |value| {
            let enabled = value.boolean()?;
            let asked = listen.is_none_or(|listen| listen.client_ca.is_some() && !matches!(listen.tls, Tls::Off));
            match enabled && !asked {
                true => Err(Complaint::new("needs `listen.tls.client_ca`, and TLS")),
                false => Ok(enabled),
            }
        });
        mtls.finish();
        let nobody =
            jwt.as_ref().is_some_and(Vec::is_empty) && tokens_enabled == Some(false) && mtls_enabled == Some(false);
        if nobody {
            section.warn(
                "tokens",
                Complaint::new("nobody can identify: no issuer, no agent tokens, no certificates"),
            );
        }
        section.finish();
        Some(Self {
            jwt: jwt?,
            tokens_enabled: tokens_enabled?,
            mtls_enabled: mtls_enabled?,
        })
    }
}

fn issuers(entry: &Entry<'_>, around: &Surroundings) -> Option<Vec<JwtIssuer>> {
    if !entry.is_list() {
        entry.fault(Complaint::new("is a list of issuers").hint("write `[[identity.jwt]]`"));
        return None;
    }
    let mut issuers: Vec<JwtIssuer> = Vec::new();
    for item in entry.items().ok()? {
        let Some(mut section) = item.into_section() else {
            continue;
        };
        let name = section.require("issuer", |value| match non_empty(value)? {
            name if issuers.iter().any(|known| known.issuer == name) => {
                Err(Complaint::new("this issuer stands here twice"))
            }
            name => Ok(name),
        });
        issuers.extend(JwtIssuer::check(section, name, around));
    }
    let tells_itself = |issuer: &&JwtIssuer| issuer.claims.further.values().any(|claim| claim == "iss");
    if issuers.len() > 1 && issuers.iter().filter(tells_itself).count() < issuers.len() {
        let message = "several issuers can name one principal: policies know a principal by its `sub` alone";
        let hint =
            "trust one issuer, or map the issuer (`claims = { iss = \"iss\" }`) and ask for `principal.claims.iss`";
        entry.warn(Complaint::new(message).hint(hint));
    }
    Some(issuers)
}

impl JwtIssuer {
    fn check(mut section: Section<'_>, issuer: Option<String>, around: &Surroundings) -> Option<Self> {
        let audience = match section.has("audience") {
            false => Some(Audience::PublicUrl),
            true => section.read("audience", audience),
        };
        let keys = match (section.has("jwks"), section.has("jwks_file")) {
            (true, false) => section.read("jwks", |value| {
                let url = value.text()?;
                web_url(url).map(|_| KeySource::Url(url.to_owned()))
            }),
            (false, true) => section.read("jwks_file", |value| key_file(value, around)),
            (given, _) => {
                let message = if given {
                    "stands beside `jwks_file`: one of the two"
                } else {
                    "is missing"
                };
                section.fault(
                    "jwks",
                    Complaint::new(message).hint("`jwks = \"https://…\"` or `jwks_file = \"…\"`"),
                );
                let _ = (section.entry("jwks"), section.entry("jwks_file"));
                None
            }
        };
        let algorithms = section.read("algorithms", |value| match value.distinct(algorithm)? {
            _ if value.items()?.is_empty() => Err(Complaint::new("is empty, so no token would be accepted")),
            algorithms => Ok(algorithms),
        });
        let claims = ClaimNames::check(section.section("claims"));
        section.finish();
        Some(Self {
            issuer: issuer?,
            audience: audience?,
            keys: keys?,
            algorithms: algorithms?,
            claims: claims?,
        })
    }
}

impl ClaimNames {
    fn check(mut section: Section<'_>) -> Option<Self> {
        let org = section.read("org", non_empty);
        let groups = section.read("groups", non_empty);
        let client = section.read("client", non_empty);
        let mut further = BTreeMap::new();
        for (name, entry) in section.remaining() {
            further.extend(entry.accept(non_empty(&entry)).map(|claim| (name, claim)));
        }
        Some(Self {
            org: org?,
            groups: groups?,
            client: client?,
            further,
        })
    }
}

fn audience(value: &Entry<'_>) -> Result<Audience, Complaint> {
    if !value.is_list() {
        return Ok(Audience::OneOf(vec![non_empty(value)?]));
    }
    match value.distinct(non_empty)? {
        _ if value.items()?.is_empty() => Err(Complaint::new("is empty, so no token would be accepted")),
        audiences => Ok(Audience::OneOf(audiences)),
    }
}

fn key_file(value: &Entry<'_>, around: &Surroundings) -> Result<KeySource, Complaint> {
    let path = around.resolve(value.text()?);
    let text = around.text(&path)?;
    let document: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let has_keys = document.is_some_and(|document| document.get("keys").is_some_and(serde_json::Value::is_array));
    match has_keys {
        true => Ok(KeySource::File { path, text }),
        false => Err(Complaint::new("is not a key set: a JSON object with `keys`")),
    }
}

fn algorithm(value: &Entry<'_>) -> Result<SigningAlgorithm, Complaint> {
    let name = value.text()?;
    if name.eq_ignore_ascii_case("none") || name.starts_with("HS") {
        let message = format!("{} is not accepted: only the issuer may be able to sign", quoted(name));
        return Err(Complaint::new(message).hint("asymmetric algorithms only, such as `RS256`, `ES256` or `EdDSA`"));
    }
    value.word(SigningAlgorithm::ALL, SigningAlgorithm::as_str)
}

fn non_empty(value: &Entry<'_>) -> Result<String, Complaint> {
    match value.text()? {
        "" => Err(Complaint::new("is empty")),
        text => Ok(text.to_owned()),
    }
}
