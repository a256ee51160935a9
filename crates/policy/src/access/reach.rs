//! What a caller can reach by one method: the rules in scope, and what those say that cannot tell
//! one target of a server from another, worked out once for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cedar_policy::EntityUid;
use vocabulary::{Principal, ServerId, lock};

use super::methods::{TargetKind, listed};
use crate::caller::Slices;
use crate::decide::Findings;
use crate::entities::{Likeness, action_uid, group_uids, kind_type, principal_uid};
use crate::rules::{Condition, Reads, Rule, RuleEffect, Rules};
use crate::visible::{Foresight, View};

/// The rules in scope for one caller, one method and one kind of target.
pub(crate) struct RulesInScope {
    pub(crate) action: EntityUid,
    pub(crate) slices: Slices,
    grounds: Mutex<HashMap<Alike, Arc<Ground>>>,
}

impl RulesInScope {
    fn new(who: &Principal, rules: &Rules, method: &str, kind: TargetKind) -> Self {
        let action = action_uid(method);
        Self {
            slices: Slices::new(rules, &principal_uid(who), &group_uids(who), &action, kind_type(kind)),
            action,
            grounds: Mutex::default(),
        }
    }

    pub(crate) fn ground(&self, alike: &Alike, work_out: impl FnOnce() -> Ground) -> Arc<Ground> {
        if let Some(known) = lock(&self.grounds).get(alike) {
            return known.clone();
        }
        // Worked out beside the lock: two at once come to the same.
        let ground = Arc::new(work_out());
        lock(&self.grounds).insert(alike.clone(), ground.clone());
        ground
    }
}

/// What a caller was found to reach so far. As large as the table of methods and the inventory.
#[derive(Default)]
pub(crate) struct Reaches(Mutex<HashMap<(&'static str, TargetKind), Arc<RulesInScope>>>);

impl Reaches {
    pub(crate) fn find_or_add(
        &self,
        who: &Principal,
        rules: &Rules,
        method: &str,
        kind: TargetKind,
    ) -> Arc<RulesInScope> {
        let make = || Arc::new(RulesInScope::new(who, rules, method, kind));
        // A name that we do not know is a name that somebody made up, and is not kept.
        let Some(method) = listed(method) else { return make() };
        let known = lock(&self.0).get(&(method, kind)).cloned();
        known.unwrap_or_else(|| lock(&self.0).entry((method, kind)).or_insert_with(make).clone())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

/// Targets that differ in their names alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Alike {
    pub(crate) server: ServerId,
    pub(crate) tool: Option<Likeness>,
}

/// What holds for all targets that are alike.
#[derive(Default)]
pub(crate) struct Ground {
    pub(crate) outlook: Arc<Outlook>,
    /// All rules whose scope fits every one of them.
    pub(crate) common: Box<[usize]>,
    /// Those of the rules in common that look at which target it is.
    pub(crate) singular: Box<[usize]>,
    /// What the rules in common name.
    pub(crate) named: Box<[EntityUid]>,
}

/// What is foreseen of requests that nobody has made yet.
#[derive(Clone, Default)]
pub(crate) struct Outlook {
    /// What the rules say that read nothing of the request.
    pub(crate) settled: Findings,
    /// The rules that read the request.
    pub(crate) open: Vec<usize>,
    /// What those read of it.
    pub(crate) reads: Reads,
    foreseen: Findings,
    /// Whether a permit depends on the request.
    hope: bool,
}

impl Outlook {
    pub(crate) fn note(&mut self, index: usize, rule: &Rule, foresight: Foresight) {
        // A rule that reads the request is evaluated in full when there is one: what is foreseen of
        // it shows or hides the target and decides nothing.
        match (&rule.condition, foresight) {
            (Condition::Contextual(reads), _) => {
                self.reads.include(reads);
                self.open.push(index);
            }
            (Condition::None | Condition::ContextFree, Foresight::Certain(outcome)) => {
                self.settled.note(index, rule.effect, outcome);
            }
            (Condition::None | Condition::ContextFree, Foresight::Depends) => {}
        }
        match foresight {
            Foresight::Certain(outcome) => self.foreseen.note(index, rule.effect, outcome),
            Foresight::Depends => self.hope |= rule.effect != RuleEffect::Forbid,
        }
    }

    /// Whether some request could be allowed or approved.
    pub(crate) fn view(&self, rules: &Rules) -> View {
        let foreseen = self.foreseen;
        let possible = foreseen.permit.is_some() || foreseen.approval.is_some() || self.hope;
        if foreseen.failed.is_some() || foreseen.forbid.is_some() || !possible {
            View::Hidden(foreseen.verdict(rules).1)
        } else {
            View::Visible
        }
    }
}
