//! Proves who is calling, before a byte of the body is read. The token itself stays in this file.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Method, Uri, header};
use moka::sync::Cache;
use percent_encoding::percent_decode_str;
use vocabulary::{Clock, Digest, Principal, ReasonCode, Timestamp};

use super::Peer;
use super::inbound::InboundToken;
use super::jwt::{self, Issuer, Verified};
use super::shown::{CredentialKind, ShownCredential};
use super::token_clients::TokenClients;
use super::tokens::{ADMIN_PREFIX, AGENT_PREFIX, TokenStanding, TokenTable};

/// Evidence that this request's caller is known, with what is left of its head: the credential was read and taken out, so
/// that nothing behind the edge can hold it. Only [`Identity::identify`] makes one, from the whole head by value.
///
/// ```compile_fail,E0451
/// fn forge(who: std::sync::Arc<vocabulary::Principal>, head: http::request::Parts) -> portreeve_gateway::AuthenticatedHead {
///     portreeve_gateway::AuthenticatedHead { who, verb: head.method, headers: head.headers, shown: loop {} }
/// }
/// ```
///
/// The head that held the credential is gone with it:
///
/// ```compile_fail,E0382
/// use portreeve_gateway::edge::{Peer, authenticate::Identity};
/// async fn keep(identity: &Identity, head: http::request::Parts, peer: &Peer) -> Option<http::HeaderMap> {
///     identity.identify(head, peer, None).await.ok()?;
///     Some(head.headers)
/// }
/// ```
///
/// ```
/// use portreeve_gateway::edge::{Peer, authenticate::Identity};
/// async fn keep(identity: &Identity, head: http::request::Parts, peer: &Peer) -> Option<http::HeaderMap> {
///     let head = identity.identify(head, peer, None).await.ok()?;
///     Some(head.headers().clone())
/// }
/// ```
#[derive(Debug)]
pub struct AuthenticatedHead {
    who: Arc<Principal>,
    shown: ShownCredential,
    verb: Method,
    headers: HeaderMap,
}

/// Headers that may hold a credential; none of them is read behind the edge.
const CREDENTIAL_HEADERS: [header::HeaderName; 3] =
    [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];

impl AuthenticatedHead {
    fn new((who, shown): (Arc<Principal>, ShownCredential), head: Parts) -> Self {
        let mut headers = head.headers;
        for name in CREDENTIAL_HEADERS {
            headers.remove(name);
        }
        Self {
            who,
            shown,
            verb: head.method,
            headers,
        }
    }

    /// The caller.
    #[must_use]
    pub fn who(&self) -> &Arc<Principal> {
        &self.who
    }

    /// What the caller showed.
    #[must_use]
    pub fn shown(&self) -> &ShownCredential {
        &self.shown
    }

    /// The HTTP method.
    #[must_use]
    pub fn verb(&self) -> &Method {
        &self.verb
    }

    /// The headers, without any that holds a credential.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

/// The ways of proving who one is.
pub struct Identity {
    issuers: Vec<Issuer>,
    tokens: Option<Arc<TokenTable>>,
    certificates: CertificateUse,
    verified: Cache<Digest, Verified>,
    /// What callers showed lately.
    inbound: Cache<Digest, Arc<InboundToken>>,
    /// For those who show what cannot be passed on.
    nothing: Arc<InboundToken>,
    clients: Arc<TokenClients>,
    clock: Clock,
}

/// Whether client certificates identify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CertificateUse {
    /// A verified certificate names a system.
    Identifies,
    /// They are not asked for.
    Ignored,
}

/// Verified tokens are verified again after this time.
const REMEMBERED: Duration = Duration::from_secs(60);
/// What is remembered of them, in bytes.
const MOST_REMEMBERED: u64 = 16 << 20;
/// What is remembered to look for credentials with, in bytes: some 30 times the length of each.
const MOST_INBOUND: u64 = 64 << 20;

/// What a client sent to prove who it is. Private: no other room, and no other file, can name it.
struct ClientToken<'a>(&'a str);

impl Identity {
    /// The ways the operator configured; `tokens` is `None` where agent tokens are switched off.
    #[must_use]
    pub fn new(
        issuers: Vec<Issuer>,
        tokens: Option<Arc<TokenTable>>,
        certificates: CertificateUse,
        clock: Clock,
    ) -> Self {
        let verified = Cache::builder()
            .max_capacity(MOST_REMEMBERED)
            .weigher(|_, verified: &Verified| verified.weight())
            .time_to_live(REMEMBERED)
            .build();
        Self {
            issuers,
            tokens,
            certificates,
            verified,
            inbound: inbound(),
            nothing: Arc::new(InboundToken::nothing()),
            clients: Arc::default(),
            clock,
        }
    }

    /// The issuers' names, for RFC 9728.
    #[must_use]
    pub fn issuer_names(&self) -> Vec<String> {
        self.issuers.iter().map(|issuer| issuer.issuer.clone()).collect()
    }

    /// The issuers, so that a reload can keep the keys of those that stay.
    #[must_use]
    pub fn issuers(&self) -> &[Issuer] {
        &self.issuers
    }

    /// Identifies the caller of a request on the gateway's route, or on that of `server`, and takes the credential out
    /// of its head.
    ///
    /// # Errors
    /// The reason, which is all the caller learns.
    pub async fn identify(
        &self,
        head: Parts,
        peer: &Peer,
        server: Option<&str>,
    ) -> Result<AuthenticatedHead, ReasonCode> {
        if carries_token_elsewhere(&head.uri, &head.headers) {
            return Err(ReasonCode::DenyInvalidToken);
        }
        let now = self.clock.now();
        let identified = match bearer(&head.headers)? {
            Some(ClientToken(text)) if text.starts_with(AGENT_PREFIX) => self.by_agent_token(text, now)?,
            Some(ClientToken(text)) if text.starts_with(ADMIN_PREFIX) => return Err(ReasonCode::DenyInvalidToken),
            Some(ClientToken(text)) => self.by_jwt(text, server, now).await?,
            None => self.by_certificate(peer, now)?,
        };
        Ok(AuthenticatedHead::new(identified, head))
    }

    /// Whether what somebody showed before would still be taken: it has not ended, was not taken back, and such
    /// credentials are still accepted.
    pub(crate) fn still_takes(&self, who: &Principal, shown: &ShownCredential) -> bool {
        let now = self.clock.now();
        !shown.has_ended(now)
            && match &shown.kind {
                CredentialKind::Token(digest) => {
                    let token = self.tokens.as_ref().and_then(|tokens| tokens.look_up(digest));
                    token.is_some_and(|token| token.standing == TokenStanding::Live && token.expires > now)
                }
                CredentialKind::Jwt => self.issuers.iter().any(|issuer| issuer.issuer == who.issuer),
                CredentialKind::Certificate => self.certificates == CertificateUse::Identifies,
            }
    }

    /// How long it is until what somebody showed ends.
    pub(crate) fn time_left(&self, shown: &ShownCredential) -> Duration {
        let left = shown.ends.as_micros().saturating_sub(self.clock.now().as_micros());
        Duration::from_micros(u64::try_from(left).unwrap_or_default())
    }

    fn by_agent_token(&self, text: &str, now: Timestamp) -> Result<(Arc<Principal>, ShownCredential), ReasonCode> {
        let tokens = self.tokens.as_ref().ok_or(ReasonCode::DenyInvalidToken)?;
        let digest = Digest::of(text.as_bytes());
        let token = tokens.look_up(&digest).ok_or(ReasonCode::DenyInvalidToken)?;
        let shown = || ShownCredential {
            kind: CredentialKind::Token(digest),
            inbound: self.remembered(&digest, || InboundToken::own(text)),
            ends: token.expires,
        };
        match token.standing {
            TokenStanding::Revoked => Err(ReasonCode::DenyTokenRevoked),
            TokenStanding::Live if token.expires <= now => Err(ReasonCode::DenyInvalidToken),
            TokenStanding::Live => Ok((token.principal.clone(), shown())),
        }
    }

    async fn by_jwt(
        &self,
        text: &str,
        server: Option<&str>,
        now: Timestamp,
    ) -> Result<(Arc<Principal>, ShownCredential), ReasonCode> {
        let digest = Digest::of(text.as_bytes());
        let verified = match self.verified.get(&digest).filter(|verified| verified.expires > now) {
            Some(verified) => verified,
            None => {
                let verified = jwt::verify(&self.issuers, text, self.clock.now())
                    .await
                    .ok_or(ReasonCode::DenyInvalidToken)?;
                self.verified.insert(digest, verified.clone());
                verified
            }
        };
        if verified.is_for(server) {
            let shown = ShownCredential {
                kind: CredentialKind::Jwt,
                inbound: self.remembered(&digest, || {
                    InboundToken::issued(text, verified.whose(), self.clients.clone())
                }),
                ends: verified.ends(now),
            };
            Ok((verified.principal, shown))
        } else {
            Err(ReasonCode::DenyInvalidToken)
        }
    }

    /// Made once for a credential, not for a request.
    fn remembered(&self, digest: &Digest, make: impl FnOnce() -> InboundToken) -> Arc<InboundToken> {
        self.inbound.get_with_by_ref(digest, || Arc::new(make()))
    }

    fn by_certificate(&self, peer: &Peer, now: Timestamp) -> Result<(Arc<Principal>, ShownCredential), ReasonCode> {
        match (self.certificates, &peer.certificate) {
            (CertificateUse::Identifies, Some(certified)) => {
                let who = certified.principal_at(now).ok_or(ReasonCode::DenyInvalidToken)?;
                let shown = ShownCredential {
                    kind: CredentialKind::Certificate,
                    inbound: self.nothing.clone(),
                    ends: certified.ends(),
                };
                Ok((who.clone(), shown))
            }
            (CertificateUse::Identifies | CertificateUse::Ignored, _) => Err(ReasonCode::DenyNoAuthn),
        }
    }
}

fn inbound() -> Cache<Digest, Arc<InboundToken>> {
    Cache::builder()
        .max_capacity(MOST_INBOUND)
        .weigher(|_, inbound: &Arc<InboundToken>| inbound.weight())
        .time_to_idle(REMEMBERED)
        .build()
}

/// The bearer token; `None` where no `Authorization` header was sent.
fn bearer(headers: &HeaderMap) -> Result<Option<ClientToken<'_>>, ReasonCode> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.to_str().map_err(|_| ReasonCode::DenyInvalidToken)?,
        (Some(_), Some(_)) => return Err(ReasonCode::DenyInvalidToken),
    };
    let (scheme, token) = value.split_once(' ').ok_or(ReasonCode::DenyInvalidToken)?;
    let token = token.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() {
        Ok(Some(ClientToken(token)))
    } else {
        Err(ReasonCode::DenyInvalidToken)
    }
}

/// A credential in the query or in a cookie is refused even beside a good one: it ends up in logs.
fn carries_token_elsewhere(uri: &Uri, headers: &HeaderMap) -> bool {
    const NAMES: [&str; 8] = [
        "access_token",
        "token",
        "api_key",
        "apikey",
        "authorization",
        "auth",
        "key",
        "bearer",
    ];
    // `%5f` is an underscore to whoever reads the query after us.
    let decoded = |query| percent_decode_str(query).decode_utf8_lossy();
    let looks_like_one =
        |text: &str| text.contains(AGENT_PREFIX) || text.contains(ADMIN_PREFIX) || text.contains("eyJ");
    let in_query = uri.query().map(decoded).is_some_and(|query| {
        let named =
            |pair: &str| NAMES.contains(&pair.split('=').next().unwrap_or_default().to_ascii_lowercase().as_str());
        looks_like_one(&query) || query.split('&').any(named)
    });
    in_query
        || headers
            .get_all(header::COOKIE)
            .iter()
            .any(|cookie| cookie.to_str().map_or(true, looks_like_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_header_that_may_hold_a_credential_is_left_behind_the_edge() {
        let request = http::Request::get("/mcp")
            .header("authorization", "Bearer ptr_agt_secret")
            .header("proxy-authorization", "Basic c2VjcmV0")
            .header("cookie", "session=secret")
            .header("mcp-session-id", "kept");
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let who = Arc::new(crate::session::principal("ann"));
        let head = AuthenticatedHead::new((who, ShownCredential::sample()), head);
        let left: Vec<_> = head.headers().keys().map(header::HeaderName::as_str).collect();
        assert_eq!(left, ["mcp-session-id"]);
        assert!(!format!("{head:?}").contains("secret"));
    }
}
