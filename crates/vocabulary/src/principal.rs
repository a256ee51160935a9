//! Who is calling, as far as a verified credential says.

use std::collections::{BTreeMap, BTreeSet};

use crate::ServerId;

crate::words! {
    /// What kind of actor a principal is.
    pub enum ActorType {
        /// A person.
        User = "user",
        /// A program that acts for somebody.
        Agent = "agent",
        /// A machine identity.
        System = "system",
    }
}

crate::words! {
    /// How a principal proved who it is.
    pub enum Authn {
        /// A JWT of a configured issuer.
        Jwt = "jwt",
        /// An agent token of ours.
        Token = "token",
        /// A client certificate.
        Mtls = "mtls",
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
