//! JWTs of configured issuers: signature, issuer, times and audience, with the algorithms fixed by
//! the operator. What a verified token says becomes a principal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use vocabulary::{ActorType, Authn, ClaimValue, Digest, Principal, PrincipalKey, ServerScope, Timestamp};

use super::jwks::KeyRing;

/// Clocks may differ by this many seconds.
const LEEWAY_SECONDS: u64 = 10;
/// Longer than any token in use; nothing longer is decoded.
const LONGEST_TOKEN: usize = 16 * 1024;
/// What `typ` in the header may say, in any case: anything else was made for another purpose (RFC 8725 §3.11).
const ACCESS_TOKEN_TYPES: [&str; 4] = ["jwt", "application/jwt", "at+jwt", "application/at+jwt"];
/// Claims that only tokens of another purpose have: ID tokens, and events such as a logout.
const FOREIGN_CLAIMS: [&str; 5] = ["nonce", "at_hash", "c_hash", "s_hash", "events"];
/// What identity providers write into a claim `typ` of tokens that are no access tokens, in any case.
const FOREIGN_TYPES: [&str; 4] = ["id", "refresh", "offline", "logout"];
/// The longest `sub` there is (OpenID Connect Core §2).
const LONGEST_SUB: usize = 255;

/// An issuer whose tokens we take.
pub struct Issuer {
    /// The exact `iss`.
    pub issuer: String,
    /// What `aud` must hold; on a server's own route, one of these + `/server`.
    pub audiences: Vec<String>,
    /// The algorithms the operator allows; never symmetric.
    pub algorithms: Vec<Algorithm>,
    /// Which claim tells what.
    pub claims: ClaimNames,
    /// Its keys.
    pub keys: Arc<KeyRing>,
}

/// The algorithm of this name (RFC 7518); symmetric ones are none.
#[must_use]
pub fn algorithm(name: &str) -> Option<Algorithm> {
    let symmetric = [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
    name.parse().ok().filter(|algorithm| !symmetric.contains(algorithm))
}

/// The names of the claims a principal is made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimNames {
    /// The organisation.
    pub org: String,
    /// The groups.
    pub groups: String,
    /// The client.
    pub client: String,
    /// Further claims for policies: name there, name in the token.
    pub further: BTreeMap<String, String>,
}

/// A token that verified, but for the route it is used on.
#[derive(Clone, Debug)]
pub(super) struct Verified {
    pub(super) principal: Arc<Principal>,
    pub(super) expires: Timestamp,
    audiences: Arc<[String]>,
    accepted: Arc<[String]>,
    /// Of everything it says but when it was made and how long it lasts.
    extent: Digest,
}

impl Verified {
    /// When it is no longer good: a token within the leeway of clocks ends with that.
    pub(super) fn ends(&self, now: Timestamp) -> Timestamp {
        if self.expires > now {
            self.expires
        } else {
            self.expires.plus(std::time::Duration::from_secs(LEEWAY_SECONDS))
        }
    }

    /// What tells apart what may be had for it: the principal, and what the token is good for.
    pub(super) fn whose(&self) -> Digest {
        let principal = PrincipalKey::of(&self.principal).digest();
        Digest::of_pieces([principal.as_bytes().as_slice(), self.extent.as_bytes().as_slice()])
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> u32 {
        const EMPTY: usize = 1024;
        let who = &*self.principal;
        let claim = |value: &ClaimValue| match value {
            ClaimValue::Text(text) => text.len(),
            ClaimValue::List(list) => list.iter().map(|text| text.len() + 32).sum(),
            ClaimValue::Integer(_) | ClaimValue::Boolean(_) => 8,
        };
        let texts = [&who.sub, &who.issuer]
            .into_iter()
            .chain(&who.client_id)
            .chain(&who.org_id);
        let lists = who.act.iter().chain(&who.groups).chain(self.audiences.iter());
        let held: usize = texts.chain(lists).map(|text| text.len() + 32).sum();
        let claims: usize = who
            .claims
            .iter()
            .map(|(name, value)| name.len() + claim(value) + 64)
            .sum();
        u32::try_from(EMPTY + held + claims).unwrap_or(u32::MAX)
    }

    /// Whether the token is meant for us, on the route of `server` if there is one.
    pub(super) fn is_for(&self, server: Option<&str>) -> bool {
        self.audiences.iter().any(|audience| {
            self.accepted.iter().any(|accepted| {
                let tail = audience.strip_prefix(accepted.as_str());
                tail.is_some_and(|tail| tail.is_empty() || (server.is_some() && tail.strip_prefix('/') == server))
            })
        })
    }
}

/// Verifies a token with the issuer it names; `None` for any reason at all.
pub(super) async fn verify(issuers: &[Issuer], token: &str, now: Timestamp) -> Option<Verified> {
    if token.len() > LONGEST_TOKEN {
        return None;
    }
    let header = decode_header(token).ok()?;
    if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
        return None;
    }
    if header
        .typ
        .as_deref()
        .is_some_and(|typ| !is_one_of(&ACCESS_TOKEN_TYPES, typ))
    {
        return None;
    }
    let issuer = named_issuer(issuers, token)?;
    if !issuer.algorithms.contains(&header.alg) {
        return None;
    }
    let key = issuer.keys.find(header.kid.as_deref(), header.alg).await?;
    let mut rules = Validation::new(header.alg);
    rules.leeway = LEEWAY_SECONDS;
    rules.validate_nbf = true;
    rules.validate_aud = false; // judged per route by `Verified::is_for`; presence is required below
    rules.set_issuer(&[&issuer.issuer]);
    rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let claims = decode::<Claims>(token, &key.key, &rules).ok()?.claims.0;
    if !was_issued_by(&claims, now) {
        return None;
    }
    issuer.read(&claims)
}

fn is_one_of(words: &[&str], word: &str) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// A token from the future was made by a clock that nobody should trust; where it says nothing there is nothing to doubt.
fn was_issued_by(claims: &Map<String, Value>, now: Timestamp) -> bool {
    let latest = now.as_micros() as f64 / 1e6 + LEEWAY_SECONDS as f64;
    claims.get("iat").is_none_or(|iat| {
        let seconds = iat.as_f64();
        seconds.is_some_and(|seconds| seconds <= latest)
    })
}

/// Claims in which no member stands twice: of two readers of such a token each may believe another one.
#[derive(Clone, Debug)]
struct Claims(Map<String, Value>);

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueMembers).map(Self)
    }
}

struct UniqueMembers;

impl<'de> Visitor<'de> for UniqueMembers {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("claims, each once")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut claims = Map::new();
        while let Some((name, value)) = members.next_entry::<String, Value>()? {
            if claims.insert(name, value).is_some() {
                return Err(serde::de::Error::custom("a claim stands twice"));
            }
        }
        Ok(claims)
    }
}

/// The issuer that the token claims to be from, before anything is verified: only chooses the key.
fn named_issuer<'a>(issuers: &'a [Issuer], token: &str) -> Option<&'a Issuer> {
    let Claims(claims) = jsonwebtoken::dangerous::insecure_decode_claims(token).ok()?;
    let named = claims.get("iss")?.as_str()?;
    issuers.iter().find(|issuer| issuer.issuer == named)
}

impl Issuer {
    fn read(&self, claims: &Map<String, Value>) -> Option<Verified> {
        if has_another_purpose(claims) || !self.has_the_types_it_should(claims) {
            return None;
        }
        let sub = text(claims, "sub").filter(|sub| !sub.is_empty() && sub.chars().count() <= LONGEST_SUB)?;
        let expires = Timestamp::from_micros(claims.get("exp")?.as_f64().map(|seconds| (seconds * 1e6) as i64)?);
        let act = actors(claims);
        let groups: BTreeSet<String> = list(claims.get(&self.claims.groups)).into_iter().collect();
        let principal = Principal {
            sub,
            actor_type: if act.is_empty() {
                ActorType::User
            } else {
                ActorType::Agent
            },
            client_id: text(claims, &self.claims.client),
            org_id: text(claims, &self.claims.org),
            issuer: self.issuer.clone(),
            authn: Authn::Jwt,
            act,
            run: None,
            claims: self.mapped(claims, &groups),
            groups,
            servers: ServerScope::Every,
        };
        if !is_presentable(&principal) {
            return None;
        }
        Some(Verified {
            principal: Arc::new(principal),
            expires,
            audiences: list(claims.get("aud")).into(),
            accepted: self.audiences.clone().into(),
            extent: extent(claims),
        })
    }

    /// Whether what makes the principal is of the type it should be: a claim that was left out would make two of one.
    fn has_the_types_it_should(&self, claims: &Map<String, Value>) -> bool {
        let said = |name: &str| claims.get(name).filter(|claim| !claim.is_null());
        let is_text = |name: &str| said(name).is_none_or(Value::is_string);
        let groups = said(&self.claims.groups);
        let are_groups = groups.is_none_or(|groups| match groups {
            Value::String(_) => true,
            Value::Array(many) => many.iter().all(Value::is_string),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
        });
        is_text(&self.claims.org) && is_text(&self.claims.client) && are_groups && are_actors(said("act"))
    }

    fn mapped(&self, claims: &Map<String, Value>, groups: &BTreeSet<String>) -> BTreeMap<String, ClaimValue> {
        let names = [("org", &self.claims.org), ("client", &self.claims.client)];
        let further = self.claims.further.iter().map(|(ours, theirs)| (ours.as_str(), theirs));
        let mut mapped: BTreeMap<String, ClaimValue> = names
            .into_iter()
            .chain(further)
            .filter_map(|(ours, theirs)| Some((ours.to_owned(), claim(claims.get(theirs)?)?)))
            .collect();
        if !groups.is_empty() {
            mapped.insert("groups".to_owned(), ClaimValue::List(groups.iter().cloned().collect()));
        }
        mapped
    }
}

/// An ID token tells a client who signed in, a logout token who is gone; neither is a licence to call anything.
fn has_another_purpose(claims: &Map<String, Value>) -> bool {
    FOREIGN_CLAIMS.iter().any(|name| claims.contains_key(*name))
        || claims.get("token_use").is_some_and(|value| value == "id")
        || text(claims, "typ").is_some_and(|typ| is_one_of(&FOREIGN_TYPES, &typ))
}

/// What identifies a principal stands in records, logs and policies: nothing in it may act on a terminal or end a line.
fn is_presentable(principal: &Principal) -> bool {
    let named = [
        Some(&principal.sub),
        principal.client_id.as_ref(),
        principal.org_id.as_ref(),
    ];
    let mapped = principal.claims.values().flat_map(|claim| match claim {
        ClaimValue::Text(text) => std::slice::from_ref(text),
        ClaimValue::List(texts) => texts.as_slice(),
        ClaimValue::Boolean(_) | ClaimValue::Integer(_) => &[],
    });
    let mut texts = named.into_iter().flatten().chain(&principal.act).chain(mapped);
    texts.all(|text| !text.chars().any(|letter| letter.is_control() || is_invisible(letter)))
}

/// What nobody sees, or what turns the direction of what follows: two names could look the same.
fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// Whether actors are objects with a subject, all the way down.
fn are_actors(act: Option<&Value>) -> bool {
    let Some(act) = act else { return true };
    let has_sub = |actor: &Map<String, Value>| actor.get("sub").is_some_and(Value::is_string);
    act.as_object()
        .is_some_and(|actor| has_sub(actor) && are_actors(actor.get("act")))
}

/// The digest of all claims but those in which any two tokens differ: what was had for one token is good for another only where
/// both say the same.
fn extent(claims: &Map<String, Value>) -> Digest {
    const OF_EACH_TOKEN: [&str; 4] = ["iat", "nbf", "exp", "jti"];
    let said: Vec<(&String, &Value)> = claims
        .iter()
        .filter(|(name, _)| !OF_EACH_TOKEN.contains(&name.as_str()))
        .collect();
    Digest::of(serde_json::to_string(&said).unwrap_or_default().as_bytes())
}

/// The subjects of the nested `act` claims, outermost first.
fn actors(claims: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = claims.get("act").and_then(Value::as_object);
    while let Some(actor) = next
        && found.len() < 8
    {
        found.push(actor.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned());
        next = actor.get("act").and_then(Value::as_object);
    }
    found
}

fn text(claims: &Map<String, Value>, name: &str) -> Option<String> {
    claims.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// A string, or an array of strings.
fn list(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn claim(value: &Value) -> Option<ClaimValue> {
    match value {
        Value::String(text) => Some(ClaimValue::Text(text.clone())),
        Value::Bool(truth) => Some(ClaimValue::Boolean(*truth)),
        Value::Number(number) => number.as_i64().map(ClaimValue::Integer),
        Value::Array(_) => Some(ClaimValue::List(list(Some(value)))),
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(audiences: &[&str]) -> Verified {
        let claims = serde_json::json!({"iss": "i", "sub": "s", "exp": 1e9, "aud": audiences, "act": {"sub": "bot"}});
        let issuer = Issuer {
            issuer: "i".into(),
            audiences: vec!["https://gw/mcp".into()],
            algorithms: vec![Algorithm::ES256],
            claims: ClaimNames {
                org: "org_id".into(),
                groups: "groups".into(),
                client: "azp".into(),
                further: BTreeMap::new(),
            },
            keys: Arc::new(KeyRing::new(
                super::super::jwks::KeySource::Text(String::new()),
                reqwest::Client::new(),
            )),
        };
        issuer.read(claims.as_object().expect("an object")).expect("readable")
    }

    #[test]
    fn a_token_is_for_the_gateway_or_for_the_one_server_it_names() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let whole = verified(&["x", "https://gw/mcp"]);
        assert!(whole.is_for(None) && whole.is_for(Some("files")));
        let one = verified(&["https://gw/mcp/files"]);
        assert!(one.is_for(Some("files")));
        assert!(!one.is_for(None) && !one.is_for(Some("other")));
        assert!(!verified(&["https://gw/mcpx"]).is_for(None));
        assert!(!verified(&[]).is_for(None));
    }

    // R167
    #[test]
    fn a_token_with_an_act_claim_is_an_agents() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let principal = verified(&["https://gw/mcp"]).principal;
        assert_eq!(
            (principal.actor_type, principal.act.as_slice()),
            (ActorType::Agent, ["bot".to_owned()].as_slice())
        );
    }

    #[test]
    fn a_token_with_much_in_it_weighs_as_much() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (small, long) = (verified(&["https://gw/mcp"]), "x".repeat(10_000));
        let large = verified(&["https://gw/mcp", &long]);
        assert!(small.weight() > 1_000 && large.weight() > small.weight() + 9_000);
    }
}
