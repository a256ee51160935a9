//! Whose something is that the gateway keeps between two requests: a session, a task, a text that was cut.

use vocabulary::{Principal, PrincipalKey, ServerScope};

/// Who something belongs to: the same principal, with a credential that reaches as far.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    key: PrincipalKey,
    servers: ServerScope,
}

impl Owner {
    pub(crate) fn of(who: &Principal) -> Self {
        Self {
            key: PrincipalKey::of(who),
            servers: who.servers.clone(),
        }
    }

    pub(crate) fn is(&self, who: &Principal) -> bool {
        self.servers == who.servers && self.key == PrincipalKey::of(who)
    }
}
