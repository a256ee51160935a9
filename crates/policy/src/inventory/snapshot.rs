//! Inventory and rules as they stand at one moment. A call sees one snapshot from end to end.

use std::fmt;
use std::sync::Arc;

use vocabulary::{Digest, Face, Principal, ReasonCode, ServerId};

use super::Inventory;
use super::entry::{Standing, ToolEntry};
use crate::caller::{Caller, Callers};
use crate::decide::{DEFAULT_DENY, Grounds};
use crate::entities::Cast;
use crate::rules::Rules;
use crate::visible::View;

/// What exists and who may use it, unchanging.
pub struct PolicySnapshot {
    inventory: Inventory,
    rules: Arc<Rules>,
    epoch: u64,
    cast: Cast,
    callers: Callers,
    /// Tells callers and tools of this snapshot from those of another.
    mark: Arc<()>,
}

impl fmt::Debug for PolicySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools = self.inventory.tools().len();
        let mut shown = f.debug_struct("Snapshot");
        shown
            .field("epoch", &self.epoch)
            .field("rules", &self.rules)
            .field("tools", &tools)
            .finish_non_exhaustive()
    }
}

/// A tool that exists, is approved, and that this caller may know of.
///
/// Only [`PolicySnapshot::resolve`] makes one.
#[derive(Debug)]
pub struct KnownTool {
    entry: Arc<ToolEntry>,
    place: usize,
    provenance: Provenance,
}

/// For whom and by which snapshot something was found.
#[derive(Debug)]
pub(crate) struct Provenance {
    principal: Arc<Principal>,
    snapshot: Arc<()>,
}

impl KnownTool {
    /// The tool.
    #[must_use]
    pub fn entry(&self) -> &Arc<ToolEntry> {
        &self.entry
    }

    pub(crate) fn place(&self) -> usize {
        self.place
    }

    pub(crate) fn provenance(&self) -> &Provenance {
        &self.provenance
    }
}

/// Why a tool or another target is not there for a caller. The caller gets one answer for all of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotKnown {
    /// The true reason, for the receipt alone.
    pub code: ReasonCode,
    /// The policy that hides it, or `builtin:default-deny`.
    pub policy_id: Arc<str>,
    /// The tool, if it is one and exists; for the receipt alone.
    pub entry: Option<Arc<ToolEntry>>,
}

impl PolicySnapshot {
    /// Joins inventory and rules.
    #[must_use]
    pub fn build(inventory: Inventory, rules: Arc<Rules>, epoch: u64) -> Self {
        let cast = Cast::new(&inventory, &rules);
        Self {
            inventory,
            rules,
            epoch,
            cast,
            callers: Callers::default(),
            mark: Arc::new(()),
        }
    }

    /// The principal, prepared for decisions under this snapshot.
    #[must_use]
    pub fn caller(&self, who: &Arc<Principal>) -> Arc<Caller> {
        let make = || Caller::new(who, &self.rules, self.inventory.tools().len(), self.mark.clone());
        self.callers.find_or_add(who, make)
    }

    /// Finds a tool for a caller, as its client gets it.
    ///
    /// # Errors
    /// When it does not exist for such a client, is quarantined, outside the caller's credential, or hidden by policy.
    pub fn resolve(&self, caller: &Caller, server: &ServerId, tool: &str, client: Face) -> Result<KnownTool, NotKnown> {
        let place = self.inventory.place_for(server, tool, client);
        self.resolve_at(caller, server, place)
    }

    pub(crate) fn resolve_at(
        &self,
        caller: &Caller,
        server: &ServerId,
        place: Option<usize>,
    ) -> Result<KnownTool, NotKnown> {
        let caller = self.adopt(caller);
        let unknown = || builtin(ReasonCode::DenyToolNotFound, None);
        let place = place.ok_or_else(unknown)?;
        let entry = self.inventory.tools().get(place).ok_or_else(unknown)?;
        if !caller.principal().servers.covers(server) {
            return Err(builtin(ReasonCode::DenyNoPermission, Some(entry)));
        }
        match &entry.standing {
            Standing::Quarantined(_) => return Err(builtin(ReasonCode::DenyToolQuarantined, Some(entry))),
            Standing::Disabled => return Err(builtin(ReasonCode::DenyToolDisabled, Some(entry))),
            Standing::Approved => {}
        }
        match &self.standpoint(&caller, place).view {
            View::Visible => Ok(KnownTool {
                entry: entry.clone(),
                place,
                provenance: self.provenance(&caller),
            }),
            View::Hidden(Grounds { policy_id, code, .. }) => Err(NotKnown {
                code: *code,
                policy_id: policy_id.clone(),
                entry: Some(entry.clone()),
            }),
        }
    }

    /// The epoch in which permits of this snapshot are good.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn shared_rules(&self) -> Arc<Rules> {
        self.rules.clone()
    }

    /// The digest of the rules, `policy_set` in receipts.
    #[must_use]
    pub fn policy_set(&self) -> Digest {
        self.rules.hash()
    }

    /// What exists.
    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn cast(&self) -> &Cast {
        &self.cast
    }

    /// The caller as this snapshot sees it: one of another snapshot is prepared anew.
    pub(crate) fn adopt<'c>(&self, caller: &'c Caller) -> Adopted<'c> {
        if Arc::ptr_eq(&caller.snapshot, &self.mark) {
            Adopted::Own(caller)
        } else {
            Adopted::Anew(self.caller(caller.principal()))
        }
    }

    pub(crate) fn provenance(&self, caller: &Caller) -> Provenance {
        Provenance {
            principal: caller.principal().clone(),
            snapshot: self.mark.clone(),
        }
    }

    /// The caller, if what this is the provenance of was found here and for them.
    pub(crate) fn own<'c>(&self, caller: &'c Caller, found: &Provenance) -> Result<Adopted<'c>, Grounds> {
        if Arc::ptr_eq(&found.snapshot, &self.mark) && found.principal == *caller.principal() {
            Ok(self.adopt(caller))
        } else {
            Err(Grounds::new(DEFAULT_DENY.clone(), ReasonCode::DenyToolNotFound))
        }
    }
}

/// A caller of this snapshot, borrowed or made for the occasion.
pub(crate) enum Adopted<'c> {
    Own(&'c Caller),
    Anew(Arc<Caller>),
}

impl std::ops::Deref for Adopted<'_> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        match self {
            Self::Own(caller) => caller,
            Self::Anew(caller) => caller,
        }
    }
}

pub(crate) fn builtin(code: ReasonCode, entry: Option<&Arc<ToolEntry>>) -> NotKnown {
    NotKnown {
        code,
        policy_id: DEFAULT_DENY.clone(),
        entry: entry.cloned(),
    }
}
