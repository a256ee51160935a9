//! Knows what exists and decides who may use it. Everything in here is pure: discoveries and
//! policy texts come in, entries, lists and decisions go out. A [`KnownTool`] is made only by
//! [`PolicySnapshot::resolve`], a [`KnownTarget`] only by [`PolicySnapshot::resolve_target`], a [`Permit`] only by
//! [`PolicySnapshot::decide`] and [`PolicySnapshot::decide_target`], or by [`Wanted::spend`] once a person allowed what they ask for.

mod access;
mod approval;
mod caller;
mod context;
mod decide;
mod entities;
mod explain;
mod incident;
mod inventory;
mod limits;
mod permit;
mod proof;
mod rules;
mod unseen;
mod visible;

pub use access::{KnownTarget, Target};
pub use approval::{
    Answered, Approval, ApprovalFault, ApprovalState, ApprovalStore, ApprovalVerdict, ApprovedCall, FourEyes, Plan,
    Spending, StepUp, Wanted,
};
pub use caller::Caller;
pub use context::CallFacts;
pub use decide::{Decision, Grounds, Verdict};
pub use explain::{Explanation, Finding, PolicyFinding};
pub use incident::{
    EndBy, Incident, IncidentEnd, IncidentEndFault, IncidentScope, IncidentStage, IncidentStanding, Incidents,
    NoSuchScope, Subject,
};
pub use inventory::beside::{ItemsSeen, LISTED_KINDS, RawList, StoredItem, fits_template, merge_items};
pub use inventory::diff::revealed::revealed;
pub use inventory::diff::{Changed, Difference, all_added, differences};
pub use inventory::entry::{
    Before, DefinitionFault, InputState, MAX_DEFINITION_BYTES, OutputState, QuarantineCause, Standing, ToolEntry,
};
pub use inventory::identity::{Bound, Pin, Replaced, ServerIdentity, meet};
pub use inventory::item::{ItemEntry, Listing};
pub use inventory::offered::Shown;
pub use inventory::pin::{
    ApproveFault, Change, Discovery, InventoryEvent, Merged, Presence, StoredInstructions, StoredServer, StoredTool,
    approve, approve_instructions, approve_listed, merge,
};
pub use inventory::snapshot::{KnownTool, NotKnown, PolicySnapshot};
pub use inventory::word::{ItemId, ItemKind, NoSuchItem, OperatorOrder, Said, Word, Words, heed};
pub use inventory::{Inventory, InventoryStore, RiskOf, SandboxTier, ServerEntry, ServerFacts, StoreError};
pub use limits::{
    CallLimits, Class, Due, Group, InFlight, KeptCount, Key, Kind, LimitRules, Methods, OverLimit, Per, PerSet,
    QuotaStore, Request, Rule, ToolLimits, Usage, Window,
};
pub use permit::{Permit, PermitFault, SpentPermit};
pub use rules::{Place, PolicyFault, PolicyFaultKind, PolicyFile, PolicyWarning, RuleEffect, Rules, Strength};

#[cfg(test)]
mod tests;
