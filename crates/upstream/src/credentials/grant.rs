//! Tokens that an authorisation server grants for one server: exchanged for what the caller showed (RFC 8693), or for the gateway's
//! own word (client credentials, RFC 6749 §4.4). ADR 0131: what is checked of a granted token.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, header};
use vocabulary::{Clock, Digest};

use crate::credentials::answer::{Granted, Kind, Wanted, judge};
use crate::credentials::kept::{CredentialEpoch, Kept};
use crate::credentials::token_endpoint::{NoAnswer, TokenAnswer, TokenClient, TokenEndpoint, TokenForm};
use crate::credentials::unavailable::Unavailable;
use crate::credentials::{Behalf, Made, Origin, OriginKind};

/// A server's settings for tokens that are granted for it.
pub struct GrantSettings {
    /// Who grants them.
    pub endpoint: TokenEndpoint,
    /// Whom they are for, by the authorisation server's name for it.
    pub audience: Option<String>,
    /// Whom they are for, by its address.
    pub resource: Option<String>,
    /// What they may be good for at most.
    pub scopes: Vec<String>,
    /// What voids them.
    pub epoch: CredentialEpoch,
    /// The time.
    pub clock: Clock,
}

/// See the module.
pub struct Grant {
    settings: GrantSettings,
    way: Way,
    form: TokenForm,
    kept: Kept,
}

enum Way {
    Exchange,
    Own(Arc<dyn TokenClient>),
}

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

impl Grant {
    /// Tokens for what the caller showed.
    #[must_use]
    pub fn exchange(settings: GrantSettings) -> Self {
        let form = vec![
            ("grant_type", EXCHANGE.to_owned()),
            ("subject_token_type", ACCESS_TOKEN.to_owned()),
            ("requested_token_type", ACCESS_TOKEN.to_owned()),
        ];
        Self::new(settings, Way::Exchange, form)
    }

    /// Tokens for the gateway's own word.
    #[must_use]
    pub fn client_credentials(settings: GrantSettings, client: Arc<dyn TokenClient>) -> Self {
        let form = vec![("grant_type", "client_credentials".to_owned())];
        Self::new(settings, Way::Own(client), form)
    }

    fn new(settings: GrantSettings, way: Way, mut form: TokenForm) -> Self {
        let named = [("audience", &settings.audience), ("resource", &settings.resource)];
        form.extend(
            named
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.clone()?))),
        );
        if !settings.scopes.is_empty() {
            form.push(("scope", settings.scopes.join(" ")));
        }
        Self {
            kept: Kept::new(settings.epoch.clone()),
            settings,
            way,
            form,
        }
    }

    /// Whether each principal has tokens of its own.
    pub(super) fn is_per_principal(&self) -> bool {
        match self.way {
            Way::Exchange => true,
            Way::Own(_) => false,
        }
    }

    pub(super) fn kind(&self) -> OriginKind {
        match self.way {
            Way::Exchange => OriginKind::Exchange,
            Way::Own(_) => OriginKind::ClientCredentials,
        }
    }

    /// A token for what is sent on this behalf.
    pub(super) async fn made_for(&self, behalf: &Behalf) -> Result<Arc<Made>, Unavailable> {
        let key = match (&self.way, behalf.inbound()) {
            (Way::Exchange, Some(inbound)) => inbound.whose(),
            (Way::Exchange, None) => return Err(Unavailable::NotExchangeable),
            (Way::Own(_), _) => Digest::of(b""),
        };
        self.kept.or_ask(key, || self.ask(behalf)).await
    }

    async fn ask(&self, behalf: &Behalf) -> Result<(Made, Option<Duration>), Unavailable> {
        let endpoint = &self.settings.endpoint;
        let (asking, kind) = match (&self.way, behalf.inbound()) {
            (Way::Exchange, Some(inbound)) => (inbound.exchange(endpoint, &self.form), Kind::Exchange),
            (Way::Exchange, None) => (None, Kind::Exchange),
            (Way::Own(client), _) => (Some(client.ask(endpoint, &self.form)), Kind::ClientCredentials),
        };
        let answer = asking.ok_or(Unavailable::NotExchangeable)?.await.map_err(no_answer)?;
        let granted = self.judge(&answer, kind)?;
        if behalf.is_in_credential(granted.token.expose().as_bytes()) {
            return Err(Unavailable::Unchanged);
        }
        let lifetime = granted.lifetime;
        Ok((self.made(granted)?, lifetime))
    }

    fn judge(&self, answer: &TokenAnswer, grant: Kind) -> Result<Granted, Unavailable> {
        let named = self.settings.audience.iter().chain(&self.settings.resource);
        let audiences: Vec<&str> = named.map(String::as_str).collect();
        let wanted = Wanted {
            audiences: &audiences,
            scopes: &self.settings.scopes,
            grant,
        };
        judge(answer, &wanted, self.settings.clock.now())
    }

    fn made(&self, granted: Granted) -> Result<Made, Unavailable> {
        let text = format!("Bearer {}", granted.token.expose());
        let mut value = HeaderValue::try_from(text).map_err(|_| Unavailable::Malformed)?;
        value.set_sensitive(true);
        let asked = || {
            self.settings
                .audience
                .clone()
                .or_else(|| self.settings.resource.clone())
        };
        let origin = Origin {
            kind: self.kind(),
            audience_verified: Some(granted.audience.is_some()),
            audience: granted.audience.or_else(asked),
        };
        Ok(Made {
            header: Some((header::AUTHORIZATION, value)),
            origin: Arc::new(origin),
        })
    }
}

fn no_answer(why: NoAnswer) -> Unavailable {
    match why {
        NoAnswer::Unreachable => Unavailable::Unreachable,
        NoAnswer::TimedOut => Unavailable::TimedOut,
        NoAnswer::TooLarge => Unavailable::TooLarge,
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grant({:?}, {})", self.kind(), self.settings.endpoint.url)
    }
}
