//! `[approvals]`: how long a question waits for a person, and who may answer it.

use std::time::Duration;

use ::policy::FourEyes;
use settings::{Complaint, Section};
use vocabulary::Secret;

use super::credential::secret;
use super::raw::Surroundings;
use super::servers::web_url;

/// How people are asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Approvals {
    /// How long a question, and then its answer, is good.
    pub ttl: Duration,
    /// How many questions of one principal may wait.
    pub max_pending: usize,
    /// Whether somebody else has to answer than asked.
    pub four_eyes: FourEyes,
    /// Who is told of what begins to wait.
    pub webhook: Option<Webhook>,
}

/// Who is told of what begins to wait.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Where: it may hold a secret of its own.
    pub url: String,
    /// What signs what is told.
    pub secret: Secret,
}

impl PartialEq for Webhook {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, self.secret.expose()) == (&other.url, other.secret.expose())
    }
}

impl Eq for Webhook {}

impl Webhook {
    fn check(mut section: Section<'_>, around: &Surroundings) -> Option<Self> {
        let url = section.read("url", |value| web_url(value.text()?).map(|url| url.to_string()));
        let secret = section.read("secret", |value| secret(value, around));
        section.finish();
        Some(Self {
            url: url?,
            secret: secret?,
        })
    }
}

/// A question that waits longer is forgotten by whoever asked, and its answer is about a world that has changed.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Approvals {
    pub(super) fn check(mut section: Section<'_>, around: &Surroundings) -> Option<Self> {
        let ttl = section.read("ttl", |value| {
            let ttl = value.duration()?;
            match (Duration::from_secs(1)..=LONGEST).contains(&ttl) {
                true => Ok(ttl),
                false => Err(Complaint::new("is from one second to one day").hint("write `15m`")),
            }
        });
        let max_pending = section.read("max_pending", |value| value.number(1..=1000));
        let four_eyes = section.read("four_eyes", |value| match value.boolean()? {
            true => Ok(FourEyes::Needed),
            false => {
                value.warn(Complaint::new("whoever asks for a call may approve it"));
                Ok(FourEyes::NotNeeded)
            }
        });
        let webhook = match section.has("webhook") {
            true => Some(Webhook::check(section.section("webhook"), around)),
            false => None,
        };
        section.finish();
        Some(Self {
            webhook: match webhook {
                Some(webhook) => Some(webhook?),
                None => None,
            },
            ttl: ttl?,
            max_pending: usize::try_from(max_pending?).unwrap_or(usize::MAX),
            four_eyes: four_eyes?,
        })
    }
}

impl Default for Approvals {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15 * 60),
            max_pending: 10,
            four_eyes: FourEyes::Needed,
            webhook: None,
        }
    }
}
