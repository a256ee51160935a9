//! The evidence that a request was permitted, spent when the request is made.

use std::sync::Arc;

use vocabulary::{Digest, Principal, Risk};

use crate::access::Target;
use crate::approval::{Wanted, WantedParts};
use crate::decide::Grounds;
use crate::inventory::entry::ToolEntry;

/// One request that policy allowed: this principal, this method, this target, these arguments, in this
/// epoch.
///
/// Only [`crate::PolicySnapshot::decide`] and [`crate::PolicySnapshot::decide_target`] make one; it cannot be
/// copied, and spending it takes it away.
#[derive(Debug)]
#[must_use = "a permit that is not spent allows nothing"]
pub struct Permit {
    principal: Arc<Principal>,
    action: Arc<str>,
    target: Target,
    arguments: Digest,
    epoch: u64,
}

/// A permit that was spent. What may be sent is its method to its target, and nothing else.
#[derive(Debug)]
pub struct SpentPermit {
    principal: Arc<Principal>,
    action: Arc<str>,
    target: Target,
}

/// Why a permit was not honoured. It is gone all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PermitFault {
    /// The arguments are not those that were decided on.
    #[error("the arguments are not those the permit was given for")]
    OtherArguments,
    /// Rights were revoked since.
    #[error("the permit is from an earlier epoch")]
    Stale,
}

impl Permit {
    /// INVARIANT: called by `decide` and `decide_target` alone, after the rules allowed exactly this request.
    pub(crate) fn grant(
        principal: Arc<Principal>,
        action: Arc<str>,
        target: Target,
        arguments: Digest,
        epoch: u64,
    ) -> Self {
        Self {
            principal,
            action,
            target,
            arguments,
            epoch,
        }
    }

    /// Spends the permit on a request with these arguments, now.
    ///
    /// # Errors
    /// When the arguments differ from those decided on, or the epoch has moved on.
    pub fn spend(self, arguments: Digest, epoch: u64) -> Result<SpentPermit, PermitFault> {
        if self.epoch != epoch {
            return Err(PermitFault::Stale);
        }
        if self.arguments != arguments {
            return Err(PermitFault::OtherArguments);
        }
        Ok(SpentPermit {
            principal: self.principal,
            action: self.action,
            target: self.target,
        })
    }

    /// What was permitted needs a person all the same: the permit is gone, and what a person would have to allow is there
    /// instead.
    #[must_use]
    pub fn until_a_person_agrees(self, risk: Risk, policy_set: Digest, grounds: &Grounds) -> Box<Wanted> {
        let parts = WantedParts {
            principal: self.principal,
            action: self.action,
            target: self.target,
            arguments: self.arguments,
            epoch: self.epoch,
            risk,
            policy_set,
        };
        Wanted::new(parts, grounds)
    }

    /// Whether it is of this epoch: one of another is void.
    #[must_use]
    pub fn is_of(&self, epoch: u64) -> bool {
        self.epoch == epoch
    }

    /// Who may ask.
    #[must_use]
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// The method that may be used.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.action
    }

    /// What it may be used on.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The tool, where the target is one, whatever the method.
    #[must_use]
    pub fn tool(&self) -> Option<&Arc<ToolEntry>> {
        self.target.entry()
    }
}

impl SpentPermit {
    /// Who asks.
    #[must_use]
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// The method that is used.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.action
    }

    /// What it is used on.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The tool, where the target is one, whatever the method.
    #[must_use]
    pub fn tool(&self) -> Option<&Arc<ToolEntry>> {
        self.target.entry()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decision;
    use crate::tests::{ANYBODY, agent, call, server, snapshot, tree};

    fn permit() -> (Permit, Digest) {
        let snapshot = snapshot("permit(principal, action, resource);");
        let caller = snapshot.caller(&Arc::new(agent("ann")));
        let tool = snapshot
            .resolve(&caller, &server("files"), "read", ANYBODY)
            .expect("known");
        let arguments = tree(r#"{"path":"/a"}"#);
        let call = call(&arguments);
        match snapshot.decide(&caller, tool, &call) {
            Decision::Allow(permit, _) => (permit, call.args_hash),
            other @ (Decision::RequireApproval(..) | Decision::Deny(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_permit_says_what_it_is_for_before_and_after_it_is_spent() {
        let (permit, arguments) = permit();
        let name = |tool: Option<&Arc<ToolEntry>>| tool.map(|tool| tool.id.to_string());
        assert_eq!(
            (permit.principal().sub.as_str(), permit.action()),
            ("ann", "tools/call")
        );
        assert_eq!(name(permit.tool()).as_deref(), Some("files/read"));
        assert_eq!(name(permit.target().entry()).as_deref(), Some("files/read"));
        let spent = permit.spend(arguments, 1).expect("of this epoch");
        assert_eq!((spent.principal().sub.as_str(), spent.action()), ("ann", "tools/call"));
        assert_eq!(name(spent.tool()).as_deref(), Some("files/read"));
        assert_eq!(name(spent.target().entry()).as_deref(), Some("files/read"));
    }

    #[test]
    fn a_permit_is_of_one_epoch_and_for_one_set_of_arguments() {
        let (permit, arguments) = permit();
        assert!(permit.is_of(1) && !permit.is_of(2) && !permit.is_of(0));
        assert_eq!(permit.spend(arguments, 2).err(), Some(PermitFault::Stale));
        let other = Digest::of(b"other");
        assert_eq!(
            self::permit().0.spend(other, 1).err(),
            Some(PermitFault::OtherArguments)
        );
    }
}
