//! What a client said it can, and whose processes that makes its own.

use std::sync::Arc;

use mcp::capabilities::Capabilities;
use upstream::{Owner, Relayed};
use vocabulary::{Capability, CapabilitySet, Era, Principal, PrincipalKey};

/// What a client said it can.
#[derive(Clone, Debug)]
pub(crate) struct ClientCapabilities {
    declared: Arc<Capabilities>,
    pub(crate) relayed: Relayed,
    /// What a server can ask this client.
    pub(crate) set: CapabilitySet,
}

impl ClientCapabilities {
    /// From the raw object of an `initialize` or of `_meta`; what cannot be read counts as none.
    pub(crate) fn read(raw: &[u8]) -> Self {
        let declared = Capabilities::read(raw).unwrap_or_default();
        let relayed = Relayed {
            legacy: declared.relayed_legacy().into(),
            modern: declared.relayed_modern().into(),
        };
        Self {
            set: set(&declared),
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

fn set(declared: &Capabilities) -> CapabilitySet {
    let has = |capability: &Capability| match capability {
        Capability::Elicitation => declared.has_form_elicitation() || declared.has_url_elicitation(),
        Capability::UrlElicitation => declared.has_url_elicitation(),
        Capability::Sampling => declared.has_sampling(),
        Capability::Roots => declared.has_roots(),
        Capability::Tasks => declared.has_tasks_extension(),
    };
    Capability::ALL.into_iter().filter(has).collect()
}

/// Whose a process of this principal is. A process speaks one era.
pub(crate) fn owner(who: &Principal, era: Era, capabilities: &ClientCapabilities) -> Owner {
    let principal = PrincipalKey::of(who);
    let client = [era.as_str().as_bytes(), capabilities.declared.key()];
    Owner {
        principal,
        process: principal.of_its_own(b"process", &client),
    }
}
