//! `[approvals]`: how long a question waits for a person, and who may answer it.

use std::time::Duration;

use ::policy::FourEyes;
use settings::{Complaint, Section};

/// How people are asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Approvals {
    /// How long a question, and then its answer, is good.
    pub ttl: Duration,
    /// How many questions of one principal may wait.
    pub max_pending: usize,
    /// Whether somebody else has to answer than asked.
    pub four_eyes: FourEyes,
}

/// A question that waits longer is forgotten by whoever asked, and its answer is about a world that has changed.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Approvals {
    pub(super) fn check(mut section: Section<'_>) -> Option<Self> {
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
        section.finish();
        Some(Self {
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
        }
    }
}
