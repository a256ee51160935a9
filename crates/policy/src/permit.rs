//! The evidence that a call was permitted, spent when the call is made.

use std::sync::Arc;

use vocabulary::{Digest, Principal};

use crate::inventory::entry::ToolEntry;

/// One call that policy allowed: this principal, this tool, these arguments, in this epoch.
///
/// Only [`crate::Snapshot::decide`] makes one; it cannot be copied, and spending it takes it away.
#[derive(Debug)]
#[must_use = "a permit that is not spent allows nothing"]
pub struct Permit {
    principal: Arc<Principal>,
    tool: Arc<ToolEntry>,
    arguments: Digest,
    epoch: u64,
}

/// A permit that was spent on the call it was made for.
#[derive(Debug)]
pub struct SpentPermit {
    principal: Arc<Principal>,
    tool: Arc<ToolEntry>,
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
    /// INVARIANT: called by `decide` alone, after the rules allowed exactly this call.
    pub(crate) fn grant(principal: Arc<Principal>, tool: Arc<ToolEntry>, arguments: Digest, epoch: u64) -> Self {
        Self {
            principal,
            tool,
            arguments,
            epoch,
        }
    }

    /// Spends the permit on a call with these arguments, now.
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
            tool: self.tool,
        })
    }

    /// Who may call.
    #[must_use]
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// What may be called.
    #[must_use]
    pub fn tool(&self) -> &Arc<ToolEntry> {
        &self.tool
    }
}

impl SpentPermit {
    /// Who calls.
    #[must_use]
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// What is called.
    #[must_use]
    pub fn tool(&self) -> &Arc<ToolEntry> {
        &self.tool
    }
}
