//! For whom a request is made: whose session or process it uses, and what that client can be asked.

use bytes::Bytes;
use mcp::capabilities::TASKS_EXTENSION;
use vocabulary::{Capability, CapabilitySet, Digest, Era, Face, PrincipalKey};

use crate::credentials::Behalf;

/// Whose session it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SessionKey {
    /// The gateway's own, for the inventory: in place of such a client.
    Discovery(Face),
    /// Everybody's of one era, where the server keeps no state per user.
    Shared(Era),
    /// That of one client, by the digest of its session, or of principal and capabilities.
    Client(Digest),
}

impl SessionKey {
    /// Whether it is the one that the gateway discovers with, and not one it sees what others are shown with.
    pub(crate) fn is_gateways(&self) -> bool {
        matches!(self, Self::Discovery(client) if client.can.is_empty())
    }
}

/// For whom a request is made, and what the client behind it can.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Whose session to use.
    pub key: SessionKey,
    /// The era of the client: a server of both is spoken to in it.
    pub era: Era,
    /// What servers are told of the client's capabilities.
    pub capabilities: Relayed,
    /// Who opens the session's own stream.
    pub stream: OwnStream,
    /// Whose process it is; none for the gateway itself.
    pub owner: Option<Owner>,
    /// On whose behalf it is.
    pub behalf: Behalf,
}

/// Whose a process is: never shared between principals, nor between clients that can be asked different things.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The principal alone.
    pub principal: PrincipalKey,
    /// The principal and what its client can be asked.
    pub process: Digest,
}

/// Who opens the stream of a session on which a server says what answers no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnStream {
    /// The client, when it likes to.
    Client,
    /// The gateway: the client cannot, and a server may send its requests there.
    Gateway,
}

/// The capabilities of a client that we relay, as raw objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relayed {
    /// For `initialize`.
    pub legacy: Bytes,
    /// For `_meta`.
    pub modern: Bytes,
}

impl Relayed {
    /// Whether the client can be asked anything.
    pub(crate) fn is_nothing(&self) -> bool {
        self.legacy.as_ref() == b"{}"
    }

    /// What a client says that can all of these.
    fn of(can: CapabilitySet) -> Self {
        let part = |capability, text: &'static str| can.has(capability).then_some(text);
        let object = |members: &[Option<&str>]| {
            let said: Vec<&str> = members.iter().copied().flatten().collect();
            format!("{{{}}}", said.join(","))
        };
        let modes = object(&[
            part(Capability::Elicitation, r#""form":{}"#),
            part(Capability::UrlElicitation, r#""url":{}"#),
        ]);
        let elicitation = (modes != "{}").then(|| format!(r#""elicitation":{modes}"#));
        let sampling = part(Capability::Sampling, r#""sampling":{"tools":{},"context":{}}"#);
        let roots = part(Capability::Roots, r#""roots":{"listChanged":true}"#);
        let extension = format!(r#""extensions":{{"{TASKS_EXTENSION}":{{}}}}"#);
        let tasks = can.has(Capability::Tasks).then_some(extension.as_str());
        Self {
            legacy: object(&[elicitation.as_deref(), sampling, roots]).into(),
            modern: object(&[elicitation.as_deref(), sampling, roots, tasks]).into(),
        }
    }

    /// None.
    #[must_use]
    pub fn nothing() -> Self {
        let none = Bytes::from_static(b"{}");
        Self {
            legacy: none.clone(),
            modern: none,
        }
    }
}

impl Guest {
    /// The gateway itself, which can be asked nothing.
    #[must_use]
    pub fn gateway() -> Self {
        Self::in_place_of(Face {
            era: Era::Modern,
            can: CapabilitySet::NONE,
        })
    }

    /// The gateway in place of such a client, to see what it would be shown. It answers no question.
    pub(crate) fn in_place_of(client: Face) -> Self {
        Self {
            key: SessionKey::Discovery(client),
            era: client.era,
            capabilities: Relayed::of(client.can),
            stream: OwnStream::Client,
            owner: None,
            behalf: Behalf::gateway(),
        }
    }
}
