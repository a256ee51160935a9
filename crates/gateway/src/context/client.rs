//! The client behind a request: what it said it can, and how its requests belong together.

use std::sync::Arc;

use ledger::Era;
use mcp::capabilities::Capabilities;
use mcp::translate::LogLevel;
use upstream::{Guest, OwnStream, Owner, Relayed, SessionKey};
use vocabulary::{Digest, Principal};

use crate::session::Session;

/// What a client said it can.
#[derive(Clone, Debug)]
pub(crate) struct Abilities {
    declared: Arc<Capabilities>,
    relayed: Relayed,
}

impl Abilities {
    /// From the raw object of an `initialize` or of `_meta`; what cannot be read counts as none.
    pub(crate) fn read(raw: &[u8]) -> Self {
        let declared = Capabilities::read(raw).unwrap_or_default();
        let relayed = Relayed {
            legacy: declared.relayed_legacy().into(),
            modern: declared.relayed_modern().into(),
        };
        Self {
            declared: Arc::new(declared),
            relayed,
        }
    }

    pub(crate) fn none() -> Self {
        Self::read(b"{}")
    }

    pub(crate) fn declared(&self) -> &Capabilities {
        &self.declared
    }
}

/// Who speaks, and in which era.
#[derive(Clone)]
pub(crate) enum Client {
    /// Not known yet: `initialize`, or a request that is refused before.
    Unmet,
    /// With a session.
    Legacy(Arc<Session>),
    /// Without.
    Modern(ModernClient),
}

/// What a modern request says of its client.
#[derive(Clone)]
pub(crate) struct ModernClient {
    pub(crate) abilities: Abilities,
    pub(crate) log_level: Option<LogLevel>,
}

impl Client {
    pub(crate) fn era(&self) -> Era {
        match self {
            Self::Unmet | Self::Legacy(_) => Era::Legacy,
            Self::Modern(_) => Era::Modern,
        }
    }

    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Legacy(session) => Some(session),
            Self::Unmet | Self::Modern(_) => None,
        }
    }

    pub(crate) fn abilities(&self) -> Option<&Abilities> {
        match self {
            Self::Unmet => None,
            Self::Legacy(session) => Some(&session.abilities),
            Self::Modern(client) => Some(&client.abilities),
        }
    }

    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        match self {
            Self::Unmet => None,
            Self::Legacy(session) => session.level(),
            Self::Modern(client) => client.log_level,
        }
    }

    /// For whom a server does something: one client session, or one principal with one set of
    /// capabilities. Never anybody else's.
    pub(crate) fn guest(&self, who: &Principal) -> Guest {
        let (key, owner, abilities, stream) = match self {
            Self::Unmet => {
                return Guest {
                    key: SessionKey::Client(Digest::of(b"")),
                    capabilities: Relayed::nothing(),
                    stream: OwnStream::Client,
                    owner: None,
                };
            }
            Self::Legacy(session) => (session.digest, session.processes, &session.abilities, OwnStream::Client),
            Self::Modern(client) => {
                let owner = owner(who, &client.abilities);
                (owner.process, owner, &client.abilities, OwnStream::Gateway)
            }
        };
        Guest {
            key: SessionKey::Client(key),
            capabilities: abilities.relayed.clone(),
            stream,
            owner: Some(owner),
        }
    }
}

/// Whose a process of this principal is.
pub(crate) fn owner(who: &Principal, abilities: &Abilities) -> Owner {
    Owner {
        principal: principal_key(who, b""),
        process: principal_key(who, abilities.declared.key()),
    }
}

fn principal_key(who: &Principal, abilities: &[u8]) -> Digest {
    let client = who.client_id.as_deref().unwrap_or_default();
    let parts: [&[u8]; 5] = [
        who.issuer.as_bytes(),
        who.sub.as_bytes(),
        client.as_bytes(),
        who.actor_type.as_str().as_bytes(),
        abilities,
    ];
    let lengths = parts.map(|part| (part.len() as u64).to_be_bytes());
    let framed = lengths
        .iter()
        .zip(parts)
        .flat_map(|(length, part)| [length.as_slice(), part]);
    Digest::of_pieces([b"modern client".as_slice()].into_iter().chain(framed))
}
