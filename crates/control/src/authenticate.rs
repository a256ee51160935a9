//! Who steers. Admin tokens alone: 256 random bits, known by their SHA-256, in the `Authorization` header.

use std::fmt;

use http::{HeaderMap, header};
use vocabulary::{Digest, ReasonCode, Role, Secret, Timestamp, random_hex};

use crate::ports::{PortError, TokenKind, Tokens};

/// The name of whoever holds the state directory's lock.
const LOCAL: &str = "local";

/// Names that records use for others than people: no admin has one of them.
pub(crate) const RESERVED: [&str; 5] = [LOCAL, FIRST_ADMIN, "system", "unauthenticated", "operator"];

/// Whom the token of the first start stands for.
pub const FIRST_ADMIN: &str = "first-start";

/// What every agent token begins with; none of them is good here.
pub const AGENT_PREFIX: &str = "ptr_agt_";
/// What every admin token begins with.
pub const ADMIN_PREFIX: &str = "ptr_adm_";

/// A person whose credential was verified: the name that records show, and what that person may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operator {
    name: String,
    role: Role,
    /// The token in use.
    token: Option<String>,
}

impl Operator {
    /// Whoever holds the state directory's lock on this machine: the commands, while no gateway runs.
    #[must_use]
    pub fn at_the_machine() -> Self {
        Self {
            name: LOCAL.to_owned(),
            role: Role::Operator,
            token: None,
        }
    }

    /// The name in records.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What this person may do.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether this is the token in use.
    pub(crate) fn uses(&self, token: &str) -> bool {
        self.token.as_deref() == Some(token)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A new token: its text, to be shown once, and what is kept of it.
pub struct MintedToken {
    /// The name under which operators see it.
    pub id: String,
    /// The token itself.
    pub text: Secret,
    /// What is kept.
    pub digest: Digest,
}

/// Makes an admin token.
///
/// # Errors
/// When the system gives no random bytes.
pub fn mint_admin_token() -> Result<MintedToken, PortError> {
    mint(ADMIN_PREFIX)
}

/// Makes an agent token.
///
/// # Errors
/// When the system gives no random bytes.
pub fn mint_agent_token() -> Result<MintedToken, PortError> {
    mint(AGENT_PREFIX)
}

fn mint(prefix: &str) -> Result<MintedToken, PortError> {
    let random = |bytes| random_hex(bytes).map_err(|_| PortError::new("no random bytes"));
    let text = format!("{prefix}{}", random(32)?);
    let digest = Digest::of(text.as_bytes());
    Ok(MintedToken {
        id: format!("tok_{}", random(8)?),
        text: Secret::new(text),
        digest,
    })
}

/// Why nobody was identified.
#[derive(Debug)]
pub(crate) enum Unidentified {
    /// The caller's fault.
    Refused(ReasonCode),
    /// Ours.
    Failed(PortError),
}

/// Identifies the operator by headers alone; the body is not looked at.
pub(crate) fn identify(headers: &HeaderMap, tokens: &dyn Tokens, now: Timestamp) -> Result<Operator, Unidentified> {
    let refused = |code| Err(Unidentified::Refused(code));
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (given.next(), given.next()) {
        (Some(value), None) => value,
        (None, _) => return refused(ReasonCode::DenyNoAuthn),
        (Some(_), Some(_)) => return refused(ReasonCode::DenyInvalidToken),
    };
    let Some(token) = value
        .to_str()
        .ok()
        .and_then(bearer)
        .filter(|token| token.starts_with(ADMIN_PREFIX))
    else {
        return refused(ReasonCode::DenyInvalidToken);
    };
    // Looked up by digest: how long the look-up takes says nothing about the token.
    let known = tokens
        .admin_token(&Digest::of(token.as_bytes()))
        .map_err(Unidentified::Failed)?;
    match known {
        Some(token) if token.revoked.is_some() => refused(ReasonCode::DenyTokenRevoked),
        Some(token) if token.expires > now => match token.kind {
            TokenKind::Admin(role) => Ok(Operator {
                name: token.sub,
                role,
                token: Some(token.id),
            }),
            TokenKind::Agent => refused(ReasonCode::DenyInvalidToken),
        },
        Some(_) | None => refused(ReasonCode::DenyInvalidToken),
    }
}

/// The token of `Bearer TOKEN`; the scheme's case does not matter (RFC 9110).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.contains(' ')).then_some(token)
}
