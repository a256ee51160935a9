//! Judges what a token endpoint answered: a token is taken only if it is exactly what was asked for.

use std::time::Duration;

use serde::Deserialize;
use vocabulary::{Secret, Timestamp};

use crate::credentials::token_endpoint::TokenAnswer;
use crate::credentials::unavailable::Unavailable;

/// What a token must be.
pub(super) struct Wanted<'a> {
    /// The audiences of which a JWT must have exactly one.
    pub(super) audiences: &'a [&'a str],
    /// What it may be good for at most; empty where nothing was named.
    pub(super) scopes: &'a [String],
    pub(super) grant: Kind,
}

/// How a token was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// RFC 8693: the answer must say what was issued.
    Exchange,
    /// RFC 6749 §4.4.
    ClientCredentials,
}

/// A token that is what was asked for.
pub(super) struct Granted {
    pub(super) token: Secret,
    /// How long it is good; nothing is known of some.
    pub(super) lifetime: Option<Duration>,
    /// The audience that it names itself; an opaque one names none.
    pub(super) audience: Option<String>,
}

/// RFC 6749 §5.1, RFC 8693 §2.2.1. A member that stands twice is refused.
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    issued_token_type: Option<String>,
    expires_in: Option<f64>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// What we read of a JWT that we are not the audience of: whoever is verifies it.
#[derive(Deserialize)]
struct Claims {
    aud: Option<Audience>,
    exp: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
/// Codes of RFC 6749 §5.2 and RFC 8693 §2.2.2: nothing else that an endpoint says is repeated.
const REFUSALS: [&str; 7] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "invalid_target",
];
const LONGEST_TOKEN: usize = 16 * 1024;
/// A token that is good for longer is none that was made for a call.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The token, if it is what was asked for.
pub(super) fn judge(answer: &TokenAnswer, wanted: &Wanted<'_>, now: Timestamp) -> Result<Granted, Unavailable> {
    if answer.status != 200 {
        return Err(refused(answer));
    }
    if !answer.is_json {
        return Err(Unavailable::NotJson);
    }
    let read: Answer = serde_json::from_slice(&answer.body).map_err(|_| Unavailable::Malformed)?;
    if !is_token(&read.access_token) {
        return Err(Unavailable::Malformed);
    }
    if !read.token_type.eq_ignore_ascii_case("bearer") {
        return Err(Unavailable::TokenType);
    }
    let issued = read.issued_token_type.as_deref();
    let issued_fits = match wanted.grant {
        Kind::Exchange => matches!(issued, Some(ACCESS_TOKEN | JWT)),
        Kind::ClientCredentials => matches!(issued, None | Some(ACCESS_TOKEN | JWT)),
    };
    if !issued_fits {
        return Err(Unavailable::IssuedTokenType);
    }
    let scope = read.scope.unwrap_or_default();
    let is_wider = |scope: &str| !wanted.scopes.iter().any(|wanted| wanted == scope);
    if !wanted.scopes.is_empty() && scope.split_ascii_whitespace().any(is_wider) {
        return Err(Unavailable::Scope);
    }
    let stated = read.expires_in.map(lifetime).transpose()?;
    let claims = claims_of(&read.access_token)?;
    let (audience, left) = match claims {
        Some(claims) => (claims.audience(wanted.audiences)?, Some(claims.lifetime(now)?)),
        None => (None, None),
    };
    Ok(Granted {
        token: Secret::new(read.access_token),
        lifetime: stated.into_iter().chain(left).min(),
        audience,
    })
}

fn refused(answer: &TokenAnswer) -> Unavailable {
    let said: Option<Refusal> = serde_json::from_slice(&answer.body).ok().filter(|_| answer.is_json);
    let known = said.and_then(|said| REFUSALS.into_iter().find(|known| *known == said.error));
    known.map_or(Unavailable::Status(answer.status), Unavailable::Refused)
}

/// What can stand in an `Authorization` header (RFC 6750 §2.1).
fn is_token(text: &str) -> bool {
    let bare = text.trim_end_matches('=');
    !bare.is_empty()
        && text.len() <= LONGEST_TOKEN
        && bare
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

fn lifetime(seconds: f64) -> Result<Duration, Unavailable> {
    if seconds.is_nan() || seconds <= 0.0 {
        return Err(Unavailable::Expired);
    }
    let lifetime = Duration::try_from_secs_f64(seconds).map_err(|_| Unavailable::Lifetime)?;
    if lifetime > LONGEST_LIFE {
        return Err(Unavailable::Lifetime);
    }
    Ok(lifetime)
}

/// The claims of a JWT; none of what is no JWT. What looks like one and cannot be read is neither.
fn claims_of(token: &str) -> Result<Option<Claims>, Unavailable> {
    let segments: Vec<&str> = token.split('.').collect();
    let [header, claims, _] = segments.as_slice() else {
        return Ok(None);
    };
    let json = |segment: &str| decode_base64url(segment).filter(|bytes| bytes.first() == Some(&b'{'));
    match (json(header), json(claims)) {
        (Some(_), Some(claims)) => serde_json::from_slice(&claims)
            .map(Some)
            .map_err(|_| Unavailable::Malformed),
        (Some(_), None) => Err(Unavailable::Malformed),
        (None, _) => Ok(None),
    }
}

impl Claims {
    /// Exactly the one it was asked for, where it was asked for one.
    fn audience(&self, wanted: &[&str]) -> Result<Option<String>, Unavailable> {
        if wanted.is_empty() {
            return Ok(None);
        }
        let named = match &self.aud {
            Some(Audience::One(one)) => one,
            Some(Audience::Several(several)) => match several.as_slice() {
                [one] => one,
                _ => return Err(Unavailable::Audience),
            },
            None => return Err(Unavailable::Audience),
        };
        match wanted.contains(&named.as_str()) {
            true => Ok(Some(named.clone())),
            false => Err(Unavailable::Audience),
        }
    }

    fn lifetime(&self, now: Timestamp) -> Result<Duration, Unavailable> {
        let ends = self.exp.ok_or(Unavailable::Lifetime)?;
        lifetime(ends - now.as_micros() as f64 / 1e6)
    }
}

fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    let six = |byte: u8| {
        Some(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        })
    };
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for byte in group {
            bits = bits << 6 | u32::from(six(*byte)?);
        }
        bits <<= 6 * (4 - group.len());
        let [_, first, second, third] = bits.to_be_bytes();
        out.extend([first, second, third].into_iter().take(group.len() * 6 / 8));
    }
    Some(out)
}

#[cfg(test)]
mod tests;
