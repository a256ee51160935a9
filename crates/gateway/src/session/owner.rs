//! Whose something is that the gateway keeps between two requests: a session, a task, a text that was cut.

use vocabulary::{ActorType, Principal, ServerScope};

/// Who something belongs to: the same subject and kind of actor, of the same issuer and organisation, with the same
/// client, and with a credential that reaches as far.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    issuer: String,
    sub: String,
    client_id: Option<String>,
    org_id: Option<String>,
    actor_type: ActorType,
    servers: ServerScope,
}

impl Owner {
    pub(crate) fn of(who: &Principal) -> Self {
        Self {
            issuer: who.issuer.clone(),
            sub: who.sub.clone(),
            client_id: who.client_id.clone(),
            org_id: who.org_id.clone(),
            actor_type: who.actor_type,
            servers: who.servers.clone(),
        }
    }

    pub(crate) fn is(&self, who: &Principal) -> bool {
        self.sub == who.sub
            && self.issuer == who.issuer
            && self.client_id == who.client_id
            && self.org_id == who.org_id
            && self.actor_type == who.actor_type
            && self.servers == who.servers
    }
}
