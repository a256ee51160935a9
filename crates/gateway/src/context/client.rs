//! The client behind a request: what it said it can, and how its requests belong together.

use std::sync::Arc;

use mcp::translate::LogLevel;
use upstream::{Behalf, Guest, OwnStream, Relayed, SessionKey};
use vocabulary::{CapabilitySet, Digest, Era, Face, Principal};

use crate::session::Session;
use crate::session::capabilities::{ClientCapabilities, owner};

/// Who speaks, and in which era.
#[derive(Clone)]
pub(crate) enum Client {
    /// Not known yet: `initialize`, or a request that is refused before.
    Unknown,
    /// With a session.
    Legacy(Arc<Session>),
    /// Without.
    Modern(ModernClient),
}

/// What a modern request says of its client.
#[derive(Clone)]
pub(crate) struct ModernClient {
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) log_level: Option<LogLevel>,
}

impl Client {
    pub(crate) fn era(&self) -> Era {
        match self {
            Self::Unknown | Self::Legacy(_) => Era::Legacy,
            Self::Modern(_) => Era::Modern,
        }
    }

    /// The client as servers see it.
    pub(crate) fn face(&self) -> Face {
        Face {
            era: self.era(),
            can: self
                .capabilities()
                .map_or(CapabilitySet::NONE, |capabilities| capabilities.set),
        }
    }

    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Legacy(session) => Some(session),
            Self::Unknown | Self::Modern(_) => None,
        }
    }

    pub(crate) fn capabilities(&self) -> Option<&ClientCapabilities> {
        match self {
            Self::Unknown => None,
            Self::Legacy(session) => Some(&session.capabilities),
            Self::Modern(client) => Some(&client.capabilities),
        }
    }

    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        match self {
            Self::Unknown => None,
            Self::Legacy(session) => session.level(),
            Self::Modern(client) => client.log_level,
        }
    }

    /// For whom a server does something: one client session, or one principal with one set of
    /// capabilities. Never anybody else's.
    pub(crate) fn guest(&self, who: &Principal, behalf: Behalf) -> Guest {
        let (key, owner, capabilities, stream) = match self {
            Self::Unknown => {
                return Guest {
                    key: SessionKey::Client(Digest::of(b"")),
                    era: self.era(),
                    capabilities: Relayed::nothing(),
                    stream: OwnStream::Client,
                    owner: None,
                    behalf,
                };
            }
            Self::Legacy(session) => (
                session.digest,
                session.processes,
                &session.capabilities,
                OwnStream::Client,
            ),
            Self::Modern(client) => {
                let owner = owner(who, Era::Modern, &client.capabilities);
                (owner.process, owner, &client.capabilities, OwnStream::Gateway)
            }
        };
        Guest {
            key: SessionKey::Client(key),
            era: self.era(),
            capabilities: capabilities.relayed.clone(),
            stream,
            owner: Some(owner),
            behalf,
        }
    }
}
