//! Who is calling, as far as a verified credential says.

use std::collections::{BTreeMap, BTreeSet};

use crate::ServerId;

/// What kind of actor a principal is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ActorType {
    /// A person.
    User,
    /// A program that acts for somebody.
    Agent,
    /// A machine identity.
    System,
}

impl ActorType {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::User, Self::Agent, Self::System];

    /// The name in records and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::System => "system",
        }
    }

    /// Reads a kind by its name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// How a principal proved who it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Authn {
    /// A JWT of a configured issuer.
    Jwt,
    /// An agent token of ours.
    Token,
    /// A client certificate.
    Mtls,
}

impl Authn {
    /// The name in records and in `context.source.authn`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jwt => "jwt",
            Self::Token => "token",
            Self::Mtls => "mtls",
        }
    }
}

/// A claim that policies may read as `principal.claims.<name>`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ClaimValue {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A truth value.
    Boolean(bool),
    /// A list of strings.
    List(Vec<String>),
}

/// Which servers a credential is good for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ServerScope {
    /// Every server that policy allows.
    Every,
    /// These and no others.
    Only(BTreeSet<ServerId>),
}

impl ServerScope {
    /// Whether the credential may be used for `server`.
    #[must_use]
    pub fn covers(&self, server: &ServerId) -> bool {
        match self {
            Self::Every => true,
            Self::Only(servers) => servers.contains(server),
        }
    }
}

/// A caller whose credential was verified.
///
/// This is the noun; the evidence that a *request* was authenticated is `gateway`'s `Identified`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Principal {
    /// The subject of the credential.
    pub sub: String,
    /// User, agent or system.
    pub actor_type: ActorType,
    /// The client the credential was issued to; never what the client says of itself.
    pub client_id: Option<String>,
    /// The organisation, if the credential names one.
    pub org_id: Option<String>,
    /// Who vouches: the JWT issuer, `portreeve` for agent tokens, the CA's name for certificates.
    pub issuer: String,
    /// How it was proven.
    pub authn: Authn,
    /// Delegation: the subjects of nested `act` claims, outermost first.
    pub act: Vec<String>,
    /// The harness run whose token this is.
    pub run: Option<String>,
    /// Groups, as policies see them.
    pub groups: BTreeSet<String>,
    /// Mapped claims, as policies see them.
    pub claims: BTreeMap<String, ClaimValue>,
    /// The servers this credential is good for.
    pub servers: ServerScope,
}
