//! By what a server is known again, and as whom it was known when each of its things was approved. Another server under the same
//! name does not inherit what somebody said of the first.
//! ADR 0081: an approval is of one server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use vocabulary::{Digest, Trust};

use super::ServerFacts;
use super::entry::{QuarantineCause, Standing};
use super::pin::{Change, InventoryEvent, Presence, StoredServer};
use super::word::ItemKind;

/// By what a server is known again: its package, its address, or its command. Two are the same if their digests are.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    shown: Arc<str>,
    digest: Digest,
}

impl ServerIdentity {
    /// An identity that has this digest; `shown` is what people and records see of it, so it holds no secret.
    #[must_use]
    pub fn new(shown: impl Into<Arc<str>>, digest: Digest) -> Self {
        let shown = shown.into();
        Self { shown, digest }
    }

    /// What people see of it.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The digest of all of it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl PartialEq for ServerIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for ServerIdentity {}

impl fmt::Display for ServerIdentity {
    /// What is seen of two may be alike, so the beginning of the digest stands beside it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = self.digest.to_string();
        write!(f, "{} [{}]", self.shown, digest.get(..19).unwrap_or(&digest))
    }
}

/// A server that took the place of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replaced {
    /// Whom something was approved of.
    pub approved: ServerIdentity,
    /// Who offers it now.
    pub now: ServerIdentity,
}

/// As whom a server was known when each definition was approved.
pub type Bound = BTreeMap<Pin, ServerIdentity>;

/// An approved definition: its kind, its name, its digest.
pub type Pin = (ItemKind, Arc<str>, Digest);

impl StoredServer {
    /// How something stands whose pin alone gives it `standing`: an approval is of one server, unless the operator vouches for
    /// whoever has the name.
    pub(super) fn as_this_server(
        &self,
        facts: &ServerFacts,
        (kind, name, seen): (ItemKind, &str, Digest),
        standing: Standing,
    ) -> Standing {
        if standing != Standing::Approved || is_vouched_for(facts.trust) {
            return standing;
        }
        match self.bound.get(&(kind, Arc::from(name), seen)) {
            Some(approved) if *approved != facts.identity => {
                let (approved, now) = (approved.clone(), facts.identity.clone());
                Standing::Quarantined(QuarantineCause::IdentityChanged(Box::new(Replaced { approved, now })))
            }
            Some(_) | None => standing,
        }
    }

    /// Notes that a definition is approved of the server as it is configured.
    pub fn bind(&mut self, (kind, name, seen): (ItemKind, &str, Digest), identity: &ServerIdentity) {
        self.bound.insert((kind, Arc::from(name), seen), identity.clone());
    }

    /// Notes as whom the server is known of all that was approved since; forgets what is not pinned any more.
    pub(super) fn bind_approved(&mut self, identity: &ServerIdentity) {
        let pinned: BTreeSet<Pin> = self.pins().map(|(pin, _)| pin).collect();
        self.bound.retain(|key, _| pinned.contains(key));
        for key in pinned {
            self.bound.entry(key).or_insert_with(|| identity.clone());
        }
    }

    /// Every definition that was approved, and whether something is offered under its name.
    fn pins(&self) -> impl Iterator<Item = (Pin, Presence)> {
        let tools = self.tools.iter().filter_map(|tool| {
            let name = Arc::from(tool.name.as_str());
            Some(((ItemKind::Tool, name, tool.approved?), tool.presence))
        });
        let presence = match self.instructions.seen {
            Some(_) => Presence::Offered,
            None => Presence::Vanished,
        };
        let instructions = self.instructions.approved;
        let items = self.items.iter().filter_map(|item| {
            let pin = (item.kind, item.name.clone(), item.approved?);
            Some((pin, item.presence))
        });
        let tools = tools.chain(items);
        tools.chain(instructions.map(|digest| ((ItemKind::Instructions, "".into(), digest), presence)))
    }

    /// Of whom what is offered now was approved, where that is another server and the operator vouches for neither.
    pub(super) fn approved_as(&self, facts: &ServerFacts) -> Option<&ServerIdentity> {
        if is_vouched_for(facts.trust) {
            return None;
        }
        let offered = self.pins().filter(|(_, presence)| *presence == Presence::Offered);
        let mut bound = offered.filter_map(|(pin, _)| self.bound.get(&pin));
        bound.find(|bound| **bound != facts.identity)
    }
}

/// Whether the operator vouches for whoever has a server's name.
pub(super) fn is_vouched_for(trust: Trust) -> bool {
    match trust {
        Trust::Internal | Trust::Verified => true,
        Trust::Community | Trust::Unknown => false,
    }
}

/// Meets a server as it is configured now. If it is another than the one that was met last, that is an event: what was approved of
/// the other waits, or goes on if the operator vouches for both.
pub fn meet(stored: &mut StoredServer, facts: &ServerFacts) -> Option<InventoryEvent> {
    let before = stored.identity.replace(facts.identity.clone());
    // A store of a release that kept no identities: what is there now is what was approved.
    stored.bind_approved(before.as_ref().unwrap_or(&facts.identity));
    let before = before.filter(|before| *before != facts.identity)?;
    let stays = is_vouched_for(facts.trust);
    if stays {
        let vouched = stored.bound.values_mut();
        vouched.for_each(|bound| *bound = facts.identity.clone());
    }
    let waiting = stored.bound.values().filter(|bound| **bound != facts.identity);
    Some(InventoryEvent {
        server: stored.id.clone(),
        change: Change::IdentityChanged {
            before,
            now: facts.identity.clone(),
            waiting: waiting.count(),
        },
    })
}

#[cfg(test)]
mod tests;
