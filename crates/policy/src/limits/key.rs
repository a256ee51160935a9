//! What calls are counted by, and the short name of one such thing.

use std::fmt;

use vocabulary::{Digest, Principal, ServerId, ToolId};

vocabulary::words! {
    /// What calls are counted by.
    #[derive(PartialOrd, Ord)]
    pub enum Per {
        /// The subject of a credential, whichever client it was issued to.
        Principal = "principal",
        /// The client that a credential was issued to, over all principals; the principal, where it names none.
        Client = "client",
        /// A client's session; the principal, where there is none.
        Session = "session",
        /// A server, over all callers. What is about several counts as one more.
        Server = "server",
        /// A tool, over all callers. What is about none is not counted.
        Tool = "tool",
    }
}

/// One or several of them: what is counted apart is each combination.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PerSet(Vec<Per>);

impl PerSet {
    /// These, each once; `None` if there is none.
    #[must_use]
    pub fn new(mut per: Vec<Per>) -> Option<Self> {
        per.sort_unstable();
        per.dedup();
        (!per.is_empty()).then_some(Self(per))
    }

    /// The same, and this too.
    #[must_use]
    pub fn and(&self, further: Per) -> Self {
        let mut per = self.0.clone();
        per.push(further);
        per.sort_unstable();
        per.dedup();
        Self(per)
    }

    /// In one order, whichever they were written in.
    pub fn iter(&self) -> impl Iterator<Item = Per> {
        self.0.iter().copied()
    }
}

impl From<Per> for PerSet {
    fn from(per: Per) -> Self {
        Self(vec![per])
    }
}

impl fmt::Display for PerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, per) in self.0.iter().enumerate() {
            write!(f, "{}{per}", if place == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

/// Half a SHA-256 digest: two that meet by chance share a count, which lets nobody call more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key([u8; 16]);

impl Key {
    /// A key that was kept.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The count that this key shares with others, where there is no room for one of its own.
    pub(super) fn shared(&self) -> Self {
        let mut bytes = SHARED;
        if let (Some([high, low]), [.., one, other]) = (self.0.first_chunk::<2>(), &mut bytes) {
            (*one, *other) = (*high & 0x0f, *low);
        }
        Self(bytes)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.0.first_chunk::<14>() == SHARED.first_chunk::<14>()
    }

    /// Of named parts, each told with its length.
    fn of<const PARTS: usize>(purpose: &[u8], parts: [&[u8]; PARTS]) -> Self {
        let lengths = parts.map(|part| (part.len() as u64).to_be_bytes());
        let framed = lengths
            .iter()
            .zip(parts)
            .flat_map(|(length, part)| [length.as_slice(), part]);
        Self::half(Digest::of_pieces([purpose].into_iter().chain(framed)))
    }

    fn half(digest: Digest) -> Self {
        Self(digest.as_bytes().first_chunk::<16>().copied().unwrap_or_default())
    }
}

const SHARED: [u8; 16] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0,
];

/// A request, as far as it is counted by something.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who calls.
    pub who: &'a Principal,
    /// The session it belongs to, as the gateway knows it: never what a header says.
    pub session: Option<Digest>,
    /// The server it is about; `None` where that is more than one.
    pub server: Option<&'a ServerId>,
    /// The tool it calls.
    pub tool: Option<&'a ToolId>,
    /// What kind of request it is.
    pub class: Class,
}

vocabulary::words! {
    /// What kind of request is counted.
    pub enum Class {
        /// Does something: calls of tools, reading resources, getting prompts, tasks, extensions.
        Call = "calls",
        /// Asks what there is: lists, subscriptions, completions, and what the gateway answers by itself.
        List = "lists",
    }
}

/// The keys of one request; each is worked out when the first rule asks for it.
pub(super) struct Keys<'a> {
    request: &'a Request<'a>,
    made: [Option<Key>; Per::ALL.len()],
}

impl<'a> Keys<'a> {
    pub(super) fn new(request: &'a Request<'a>) -> Self {
        Self {
            request,
            made: [None; Per::ALL.len()],
        }
    }

    /// The key of this request for a rule; `None` if the rule does not count it.
    pub(super) fn get(&mut self, per: &PerSet) -> Option<Key> {
        match per.0.as_slice() {
            [one] => self.part(*one),
            several => {
                let mut bytes = [0; 16 * Per::ALL.len()];
                let mut slots = bytes.chunks_exact_mut(16);
                for (per, slot) in several.iter().zip(&mut slots) {
                    slot.copy_from_slice(&self.part(*per)?.0);
                }
                // Which parts they are belongs to the rule, not to the key.
                Some(Key::half(Digest::of(&bytes)))
            }
        }
    }

    /// The key of the principal.
    pub(super) fn principal(&mut self) -> Key {
        let who = self.request.who;
        self.part(Per::Principal).unwrap_or_else(|| subject(who))
    }

    /// The same for people: the names that the key is made of.
    pub(super) fn names(&self, per: &PerSet) -> String {
        let name = |per: Per| cut(&self.name(per)).replace(BETWEEN, " ");
        per.iter().map(name).collect::<Vec<_>>().join(BETWEEN)
    }

    fn name(&self, per: Per) -> String {
        let Request { who, session, .. } = self.request;
        match per {
            Per::Principal => who.sub.clone(),
            Per::Client => who.client_id.clone().unwrap_or_else(|| who.sub.clone()),
            Per::Session => session.map_or_else(|| who.sub.clone(), |digest| digest.to_string()),
            Per::Server => self
                .request
                .server
                .map_or_else(|| EVERY_SERVER.to_owned(), ToString::to_string),
            Per::Tool => self.request.tool.map(ToString::to_string).unwrap_or_default(),
        }
    }

    fn part(&mut self, per: Per) -> Option<Key> {
        let place = Per::ALL.iter().position(|known| *known == per)?;
        if let Some(Some(key)) = self.made.get(place) {
            return Some(*key);
        }
        let Request { who, session, .. } = self.request;
        let key = match (per, &who.client_id, session) {
            (Per::Principal, _, _) => subject(who),
            (Per::Client, Some(client), _) => Key::of(b"client", [who.issuer.as_bytes(), client.as_bytes()]),
            (Per::Session, _, Some(session)) => Key::of(b"session", [session.as_bytes()]),
            (Per::Client, None, _) | (Per::Session, _, None) => self.part(Per::Principal)?,
            (Per::Server, _, _) => {
                let id = self.request.server.map_or(EVERY_SERVER, ServerId::as_str);
                Key::of(b"server", [id.as_bytes()])
            }
            (Per::Tool, _, _) => {
                let ToolId { server, name } = self.request.tool?;
                Key::of(b"tool", [server.as_str().as_bytes(), name.as_str().as_bytes()])
            }
        };
        if let Some(slot) = self.made.get_mut(place) {
            *slot = Some(key);
        }
        Some(key)
    }
}

/// The subject of a credential: issuer, organisation and name. Not the client, nor the kind of actor: whoever has two clients
/// has one allowance (ADR 0073).
fn subject(who: &Principal) -> Key {
    let (has_org, org) = match &who.org_id {
        Some(org) => (b"org".as_slice(), org.as_bytes()),
        None => (b"".as_slice(), b"".as_slice()),
    };
    Key::of(b"principal", [who.issuer.as_bytes(), who.sub.as_bytes(), has_org, org])
}

/// Names of a key, one by one.
pub(super) fn split(names: &str) -> impl Iterator<Item = &str> {
    names.split(BETWEEN)
}

/// A name as far as it is kept: some issuers put whole documents there.
fn cut(name: &str) -> String {
    let end = name.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = end.take_while(|end| *end <= LONGEST_NAME).last().unwrap_or(0);
    name.get(..end).unwrap_or_default().to_owned()
}

/// What is about several servers.
const EVERY_SERVER: &str = "*";
const BETWEEN: &str = "\u{1f}";
const LONGEST_NAME: usize = 96;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tests::{agent, server};

    fn key(request: &Request<'_>, per: &[Per]) -> Option<Key> {
        Keys::new(request).get(&PerSet::new(per.to_vec()).expect("one"))
    }

    fn of(who: &Principal) -> Request<'_> {
        Request {
            who,
            session: None,
            server: None,
            tool: None,
            class: Class::Call,
        }
    }

    #[test]
    fn no_client_organisation_or_issuer_is_taken_for_another() {
        let with = |issuer: &str, client: Option<&str>, org: Option<&str>| Principal {
            issuer: issuer.into(),
            client_id: client.map(Into::into),
            org_id: org.map(Into::into),
            ..agent("ann")
        };
        let all = [
            with("a", None, None),
            with("b", None, None),
            with("a", None, Some("")),
            with("a", None, Some("x")),
            with("a", None, Some("org")),
        ];
        let keys: BTreeSet<_> = all.iter().map(|who| key(&of(who), &[Per::Principal])).collect();
        assert_eq!(keys.len(), all.len());
        let clients = [
            with("a", Some("x"), None),
            with("b", Some("x"), None),
            with("a", Some(""), None),
        ];
        let keys: BTreeSet<_> = clients.iter().map(|who| key(&of(who), &[Per::Client])).collect();
        assert_eq!(keys.len(), clients.len());
    }

    #[test]
    fn another_client_is_the_same_principal() {
        let one = agent("ann");
        let other = Principal {
            client_id: Some("other".into()),
            actor_type: vocabulary::ActorType::User,
            ..one.clone()
        };
        assert_eq!(key(&of(&one), &[Per::Principal]), key(&of(&other), &[Per::Principal]));
        assert_ne!(key(&of(&one), &[Per::Client]), key(&of(&other), &[Per::Client]));
    }

    #[test]
    fn whoever_has_no_client_or_session_counts_under_its_principal() {
        let who = Principal {
            client_id: None,
            ..agent("ann")
        };
        let principal = key(&of(&who), &[Per::Principal]);
        assert!(principal.is_some());
        assert_eq!(key(&of(&who), &[Per::Client]), principal);
        assert_eq!(key(&of(&who), &[Per::Session]), principal);
        let session = Request {
            session: Some(Digest::of(b"one")),
            ..of(&who)
        };
        assert_ne!(key(&session, &[Per::Session]), principal);
    }

    #[test]
    fn pairs_are_their_own_keys_in_either_order_and_need_both() {
        let (who, files) = (agent("ann"), server("files"));
        let request = Request {
            server: Some(&files),
            ..of(&who)
        };
        let pair = key(&request, &[Per::Server, Per::Principal]);
        assert_eq!(pair, key(&request, &[Per::Principal, Per::Server]));
        assert!(pair.is_some() && pair != key(&request, &[Per::Server]));
        assert_eq!(key(&request, &[Per::Principal, Per::Tool]), None);
        assert_eq!(
            Keys::new(&request).names(&PerSet::new(vec![Per::Server, Per::Principal]).expect("two")),
            "ann\u{1f}files"
        );
    }

    #[test]
    fn names_are_cut_between_characters_and_cannot_pretend_to_be_two() {
        assert_eq!(cut(&"ä".repeat(100)).chars().count(), 48);
        let who = agent("ann\u{1f}root");
        assert_eq!(Keys::new(&of(&who)).names(&Per::Principal.into()), "ann root");
    }

    #[test]
    fn shared_keys_are_few_and_known() {
        let keys: BTreeSet<Key> = (0..100_000u32)
            .map(|number| Key::of(b"", [&number.to_be_bytes()]).shared())
            .collect();
        assert_eq!(keys.len(), 4096);
        assert!(keys.iter().all(Key::is_shared) && !Key::of(b"", []).is_shared());
    }
}
