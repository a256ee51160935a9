//! Who is calling, as far as a verified credential says.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Digest, ServerId};

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

/// Who a principal is, wherever something is kept apart by that: the same subject of the same issuer and organisation,
/// with the same client, as the same kind of actor. There is no other way to say whose something is (ADR 0059).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PrincipalKey(Digest);

impl PrincipalKey {
    /// The key of a principal.
    #[must_use]
    pub fn of(who: &Principal) -> Self {
        let client = who.client_id.as_deref();
        let mut parts: Vec<&[u8]> = vec![
            who.issuer.as_bytes(),
            who.sub.as_bytes(),
            client.unwrap_or_default().as_bytes(),
            who.actor_type.as_str().as_bytes(),
            b"",
        ];
        // What most principals lack is told only where it is there: the workspaces of those without keep their names.
        parts.extend(who.org_id.iter().flat_map(|org| [b"org".as_slice(), org.as_bytes()]));
        parts.extend(client.filter(|client| client.is_empty()).map(|_| b"client".as_slice()));
        Self(framed(b"modern client", &parts))
    }

    /// The digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0
    }

    /// What is this principal's under a further name: `parts` of it, for one `purpose`.
    #[must_use]
    pub fn of_its_own(&self, purpose: &[u8], parts: &[&[u8]]) -> Digest {
        let all: Vec<&[u8]> = [self.0.as_bytes().as_slice()]
            .into_iter()
            .chain(parts.iter().copied())
            .collect();
        framed(purpose, &all)
    }
}

/// No two lists of parts have the same digest: each is told with its length.
fn framed(purpose: &[u8], parts: &[&[u8]]) -> Digest {
    let lengths: Vec<[u8; 8]> = parts.iter().map(|part| (part.len() as u64).to_be_bytes()).collect();
    let framed = lengths
        .iter()
        .zip(parts)
        .flat_map(|(length, part)| [length.as_slice(), part]);
    Digest::of_pieces([purpose].into_iter().chain(framed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Principal {
        Principal {
            sub: "ann".into(),
            actor_type: ActorType::User,
            client_id: Some("client".into()),
            org_id: None,
            issuer: "https://idp".into(),
            authn: Authn::Jwt,
            act: Vec::new(),
            run: None,
            groups: BTreeSet::new(),
            claims: BTreeMap::new(),
            servers: ServerScope::Every,
        }
    }

    #[test]
    fn whatever_tells_two_principals_apart_gives_them_keys_of_their_own() {
        let org = |org: &str| Some(org.to_owned());
        let others = [
            ann(),
            Principal {
                sub: "bob".into(),
                ..ann()
            },
            Principal {
                issuer: "https://other".into(),
                ..ann()
            },
            Principal {
                org_id: org("acme"),
                ..ann()
            },
            Principal {
                org_id: org("globex"),
                ..ann()
            },
            Principal {
                org_id: org(""),
                ..ann()
            },
            Principal {
                client_id: None,
                ..ann()
            },
            Principal {
                client_id: org(""),
                ..ann()
            },
            Principal {
                client_id: None,
                org_id: org("client"),
                ..ann()
            },
            Principal {
                actor_type: ActorType::Agent,
                ..ann()
            },
        ];
        let keys: BTreeSet<PrincipalKey> = others.iter().map(PrincipalKey::of).collect();
        assert_eq!(keys.len(), others.len());
        let groups = BTreeSet::from(["staff".to_owned()]);
        let promoted = Principal { groups, ..ann() };
        assert_eq!(
            PrincipalKey::of(&promoted),
            PrincipalKey::of(&ann()),
            "groups come and go"
        );
    }
}
