//! A principal as one snapshot sees it: its entity, the rules whose scope it is in, and what was
//! worked out for each tool so far.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use cedar_policy::{
    ActionConstraint, Context, Entity, EntityTypeName, EntityUid, PrincipalConstraint, ResourceConstraint,
};
use vocabulary::{Principal, lock};

use crate::access::reach::Reaches;
use crate::context;
use crate::entities::{CALL, Likeness, ToolUids, group_uids, principal_entity, principal_uid, tool_type};
use crate::rules::{ResourceUse, Rule, Rules};
use crate::visible::{Foresight, Standpoint};

/// A principal prepared for decisions under one snapshot.
pub struct Caller {
    principal: Arc<Principal>,
    uid: EntityUid,
    /// `None` if the entity could not be built; every rule then fails.
    pub(crate) entity: Option<Entity>,
    pub(crate) any_call: Option<Context>,
    slices: Slices,
    foreseen: Mutex<HashMap<(usize, Option<Likeness>), Foresight>>,
    pub(crate) standpoints: Box<[OnceLock<Arc<Standpoint>>]>,
    pub(crate) reaches: Reaches,
    pub(crate) snapshot: Arc<()>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

impl Caller {
    pub(crate) fn new(principal: &Arc<Principal>, rules: &Rules, tools: usize, snapshot: Arc<()>) -> Self {
        let uid = principal_uid(principal);
        let slices = Slices::new(rules, &uid, &group_uids(principal), &CALL, tool_type());
        Self {
            principal: principal.clone(),
            entity: principal_entity(principal),
            any_call: context::of_any_call(principal.authn),
            slices,
            foreseen: Mutex::default(),
            standpoints: (0..tools).map(|_| OnceLock::new()).collect(),
            reaches: Reaches::default(),
            snapshot,
            uid,
        }
    }

    /// Who calls.
    #[must_use]
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    pub(crate) fn uid(&self) -> &EntityUid {
        &self.uid
    }

    /// What a rule in scope will say, worked out once for all tools that are alike to it and all rules that ask the
    /// same.
    pub(crate) fn foresee(&self, rule: &Rule, likeness: Likeness, work_out: impl FnOnce() -> Foresight) -> Foresight {
        let key = match rule.resource_use {
            ResourceUse::Nothing => (rule.alike, None),
            ResourceUse::Attributes => (rule.alike, Some(likeness)),
            ResourceUse::Identity => return work_out(),
        };
        let known = lock(&self.foreseen).get(&key).copied();
        known.unwrap_or_else(|| {
            let foresight = work_out();
            lock(&self.foreseen).insert(key, foresight);
            foresight
        })
    }

    /// The rules whose whole scope fits a call of this tool by this caller, in order of id.
    pub(crate) fn slice(&self, tool: &ToolUids) -> Vec<usize> {
        self.slices.fitting(tool.both())
    }
}

/// The rules that fit a principal, an action and a kind of resource, by what the resource has to be
/// or be in.
#[derive(Default)]
pub(crate) struct Slices {
    anywhere: Vec<usize>,
    below: HashMap<EntityUid, Vec<usize>>,
}

impl Slices {
    pub(crate) fn new(
        rules: &Rules,
        who: &EntityUid,
        groups: &HashSet<EntityUid>,
        action: &EntityUid,
        wanted: &EntityTypeName,
    ) -> Self {
        let mut slices = Self::default();
        for (index, rule) in rules
            .iter()
            .filter(|(_, rule)| concerns_action(rule, action) && concerns(rule, who, groups))
        {
            match &rule.resource {
                ResourceConstraint::Any => slices.anywhere.push(index),
                ResourceConstraint::Is(kind) if kind == wanted => slices.anywhere.push(index),
                ResourceConstraint::Eq(uid) if uid.type_name() == wanted => slices.put_below(uid, index),
                ResourceConstraint::IsIn(kind, uid) if kind == wanted => slices.put_below(uid, index),
                ResourceConstraint::In(uid) => slices.put_below(uid, index),
                // The scope asks for something of another kind.
                ResourceConstraint::Is(_) | ResourceConstraint::Eq(_) | ResourceConstraint::IsIn(..) => {}
            }
        }
        slices
    }

    /// The rules whose scope fits a resource that is or is in all of these, in order of id.
    pub(crate) fn fitting<'u>(&self, uids: impl IntoIterator<Item = &'u EntityUid>) -> Vec<usize> {
        let named = uids.into_iter().flat_map(|uid| self.naming(uid));
        let mut slice: Vec<usize> = self.anywhere.iter().chain(named).copied().collect();
        slice.sort_unstable();
        slice
    }

    /// The rules that ask for this one resource, or for what is in it.
    pub(crate) fn naming(&self, uid: &EntityUid) -> &[usize] {
        self.below.get(uid).map_or(&[], Vec::as_slice)
    }

    fn put_below(&mut self, uid: &EntityUid, index: usize) {
        self.below.entry(uid.clone()).or_default().push(index);
    }
}

fn concerns_action(rule: &Rule, action: &EntityUid) -> bool {
    match &rule.action {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(uid) => uid == action,
        ActionConstraint::In(uids) => uids.contains(action),
    }
}

fn concerns(rule: &Rule, who: &EntityUid, groups: &HashSet<EntityUid>) -> bool {
    let within = |uid: &EntityUid| uid == who || groups.contains(uid);
    match &rule.principal {
        PrincipalConstraint::Any => true,
        PrincipalConstraint::Eq(uid) => uid == who,
        PrincipalConstraint::In(uid) => within(uid),
        PrincipalConstraint::Is(kind) => kind == who.type_name(),
        PrincipalConstraint::IsIn(kind, uid) => kind == who.type_name() && within(uid),
    }
}

/// Callers seen lately. Two generations: when the younger is full, the older is forgotten.
#[derive(Default)]
pub(crate) struct Callers(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<Arc<Principal>, Arc<Caller>>,
    old: HashMap<Arc<Principal>, Arc<Caller>>,
}

impl Callers {
    pub(crate) fn find_or_add(&self, who: &Arc<Principal>, make: impl FnOnce() -> Caller) -> Arc<Caller> {
        if let Some(known) = self.find(who) {
            return known;
        }
        // Made outside the lock: two makers at once make two equal callers, one of which is kept.
        let caller = Arc::new(make());
        lock(&self.0).keep(who, &caller);
        caller
    }

    fn find(&self, who: &Arc<Principal>) -> Option<Arc<Caller>> {
        let mut generations = lock(&self.0);
        if let Some(caller) = generations.young.get(who) {
            return Some(caller.clone());
        }
        let caller = generations.old.get(who)?.clone();
        generations.keep(who, &caller);
        Some(caller)
    }
}

impl Generations {
    fn keep(&mut self, who: &Arc<Principal>, caller: &Arc<Caller>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(who.clone(), caller.clone());
    }
}

/// Callers per generation.
const GENERATION: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;
    use crate::tests::{agent, rules};

    fn caller(name: &str, rules: &Rules) -> Caller {
        Caller::new(&Arc::new(agent(name)), rules, 0, Arc::new(()))
    }

    #[test]
    fn the_cache_of_callers_is_bounded_and_keeps_those_in_use() {
        let rules = rules("");
        let callers = Callers::default();
        let busy = Arc::new(agent("busy"));
        let first = callers.find_or_add(&busy, || caller("busy", &rules));
        for number in 0..GENERATION * 5 {
            let who = Arc::new(agent(&format!("agent-{number}")));
            let _ = callers.find_or_add(&who, || Caller::new(&who, &rules, 0, Arc::new(())));
            let again = callers.find_or_add(&busy, || caller("busy", &rules));
            assert!(Arc::ptr_eq(&first, &again), "forgotten after {number} others");
        }
        let generations = lock(&callers.0);
        assert!(generations.young.len() <= GENERATION && generations.old.len() <= GENERATION);
    }
}
