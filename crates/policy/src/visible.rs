//! Who sees what: the same rules, put to a call nobody has made yet. A tool is seen exactly when
//! some call of it could be allowed or approved, as far as partial evaluation can tell.

use std::cell::OnceCell;
use std::sync::{Arc, OnceLock};

use cedar_policy::{Context, Entities, Entity, EntityUid};
use vocabulary::{Face, Risk, ServerId, ToolName};

use crate::caller::Caller;
use crate::decide::{AUTHORIZER, Findings, Grounds, RuleOutcome, Scene, guarded};
use crate::entities::{Likeness, ToolUids, tool_type};
use crate::inventory::Inventory;
use crate::inventory::entry::{Standing, ToolEntry};
use crate::inventory::snapshot::PolicySnapshot;
use crate::rules::{Condition, Reads, Rule, RuleEffect};

mod prospect;

use prospect::Prospect;

/// What is known of one caller and one tool before any call.
pub(crate) struct Standpoint {
    /// What the rules say that read nothing of the call.
    pub(crate) settled: Findings,
    /// The rules that read the call, in order of id.
    pub(crate) open: Box<[usize]>,
    /// What those read of it.
    pub(crate) reads: Reads,
    /// Servers and tools that rules name, beside the tool itself.
    pub(crate) named: Box<[Entity]>,
    /// All entities a rule is evaluated against; built by the first that needs them.
    pub(crate) cast: OnceLock<Option<Arc<Entities>>>,
    /// Whether the caller may know of the tool.
    pub(crate) view: View,
}

/// Whether a caller may know of a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum View {
    Visible,
    Hidden(Grounds),
}

impl Standpoint {
    fn of_nothing() -> Self {
        Self {
            settled: Findings::default(),
            open: Box::default(),
            reads: Reads::default(),
            named: Box::default(),
            cast: OnceLock::new(),
            view: View::Visible,
        }
    }
}

impl PolicySnapshot {
    /// The tools this caller may know of and its client can use, in order of id: all of them, or those of one server.
    #[must_use]
    pub fn visible(&self, caller: &Caller, server: Option<&ServerId>, client: Face) -> Vec<Arc<ToolEntry>> {
        let caller = self.adopt(caller);
        let tools = self.inventory().tools();
        let mut place = 0;
        let mut seen = Vec::new();
        for definitions in tools.chunk_by(|one, other| one.id == other.id) {
            let first = place;
            place += definitions.len();
            let includes = |tool: &Arc<ToolEntry>| tool.audience.includes(client);
            let Some(chosen) = definitions.iter().position(includes) else {
                continue;
            };
            if let Some(tool) = tools.get(first + chosen)
                && self.is_seen(&caller, server, tool, first + chosen)
            {
                seen.push(tool.clone());
            }
        }
        seen
    }

    /// Whether this caller may know of any tool of a server, whatever its client can.
    #[must_use]
    pub fn sees_a_tool(&self, caller: &Caller, server: &ServerId) -> bool {
        let caller = self.adopt(caller);
        let mut tools = self.inventory().tools().iter().enumerate();
        tools.any(|(place, tool)| self.is_seen(&caller, Some(server), tool, place))
    }

    fn is_seen(&self, caller: &Caller, server: Option<&ServerId>, tool: &ToolEntry, place: usize) -> bool {
        server.is_none_or(|server| tool.id.server == *server)
            && caller.principal().servers.covers(&tool.id.server)
            && tool.standing == Standing::Approved
            && self.standpoint(caller, place).view == View::Visible
    }

    /// Whether the caller could use some tool of a server, of which none may be known yet: the rules
    /// are asked about imaginary tools, one of each risk, under every name that a rule gives.
    #[must_use]
    pub fn could_use(&self, caller: &Caller, server: &ServerId) -> bool {
        let Some(entry) = self.inventory().server(server) else {
            return false;
        };
        let prefix = format!("{server}/");
        let rules = (0..).map_while(|index| self.rules().rule(index));
        let named = rules
            .flat_map(|rule| &rule.named)
            .filter(|uid| uid.type_name() == tool_type());
        let named = named.filter_map(|uid| ToolName::parse(uid.id().unescaped().strip_prefix(&prefix)?).ok());
        let mut names: Vec<ToolName> = named.chain(ToolName::parse("some-tool").ok()).collect();
        names.sort();
        names.dedup();
        Risk::ALL.into_iter().any(|risk| {
            let world = Self::build(
                Inventory::imagined(entry, &names, risk),
                self.shared_rules(),
                self.epoch(),
            );
            world.sees_a_tool(&world.caller(caller.principal()), server)
        })
    }

    /// What is known of caller and tool; worked out once per snapshot.
    pub(crate) fn standpoint(&self, caller: &Caller, place: usize) -> Arc<Standpoint> {
        match caller.standpoints.get(place) {
            Some(cell) => cell.get_or_init(|| Arc::new(self.work_out(caller, place))).clone(),
            None => Arc::new(self.work_out(caller, place)),
        }
    }

    fn work_out(&self, caller: &Caller, place: usize) -> Standpoint {
        let tool = self
            .inventory()
            .tools()
            .get(place)
            .and_then(|tool| Some((tool, self.cast().uids(place)?)));
        let Some((tool, uids)) = tool else {
            return Standpoint::of_nothing();
        };
        let slice = caller
            .slice(uids)
            .into_iter()
            .filter_map(|index| Some((index, self.rules().rule(index)?)));
        let slice: Vec<(usize, &Rule)> = slice.collect();
        let mut standpoint = Standpoint {
            named: self.named(&slice, uids),
            ..Standpoint::of_nothing()
        };
        let likeness = Likeness::of(tool);
        let whole = self.is_whole(caller, uids);
        let any_call = OnceCell::new();
        let (mut open, mut foreseen, mut hope) = (Vec::new(), Findings::default(), false);
        for (index, rule) in slice {
            let scene = || {
                let scene = || self.scene(caller, &standpoint, place, caller.any_call.clone()?);
                any_call.get_or_init(scene).as_ref()
            };
            let failed = Foresight::Certain(RuleOutcome::Failed);
            let foresight = match &rule.condition {
                Condition::None => Foresight::Certain(RuleOutcome::Satisfied),
                // What is not whole makes every rule fail, whatever is known of others that are alike.
                Condition::ContextFree | Condition::Contextual(_) if !whole => failed,
                Condition::ContextFree => caller.foresee(rule, likeness, || {
                    scene().map_or(failed, |scene| Foresight::Certain(scene.evaluate(rule)))
                }),
                Condition::Contextual(_) => {
                    caller.foresee(rule, likeness, || scene().map_or(failed, |scene| scene.foresee(rule)))
                }
            };
            // A rule that reads the call is evaluated in full when there is one: what is foreseen of
            // it shows or hides the tool and decides nothing.
            match (&rule.condition, foresight) {
                (Condition::Contextual(reads), _) => {
                    standpoint.reads.include(reads);
                    open.push(index);
                }
                (Condition::None | Condition::ContextFree, Foresight::Certain(outcome)) => {
                    standpoint.settled.note(index, rule.effect, outcome);
                }
                (Condition::None | Condition::ContextFree, Foresight::Depends) => {}
            }
            match foresight {
                Foresight::Certain(outcome) => foreseen.note(index, rule.effect, outcome),
                Foresight::Depends => hope |= rule.effect != RuleEffect::Forbid,
            }
        }
        let possible = foreseen.permit.is_some() || foreseen.approval.is_some() || hope;
        if foreseen.failed.is_some() || foreseen.forbid.is_some() || !possible {
            standpoint.view = View::Hidden(foreseen.verdict(self.rules()).1);
        }
        standpoint.open = open.into();
        standpoint
    }

    /// Whether all that rules are evaluated against could be made.
    fn is_whole(&self, caller: &Caller, tool: &ToolUids) -> bool {
        caller.any_call.is_some()
            && caller.entity.is_some()
            && tool.both().into_iter().all(|uid| self.cast().entity(uid).is_some())
    }

    /// The entities that rules of the slice name, as far as they exist.
    fn named(&self, slice: &[(usize, &Rule)], own: &ToolUids) -> Box<[Entity]> {
        let mut uids: Vec<&EntityUid> = slice.iter().flat_map(|(_, rule)| &rule.named).collect();
        uids.sort();
        uids.dedup();
        uids.retain(|uid| !own.both().contains(uid));
        uids.into_iter()
            .filter_map(|uid| self.cast().entity(uid))
            .cloned()
            .collect()
    }

    pub(crate) fn scene(
        &self,
        caller: &Caller,
        standpoint: &Standpoint,
        place: usize,
        context: Context,
    ) -> Option<Scene> {
        let uids = self.cast().uids(place)?;
        let entities = standpoint
            .cast
            .get_or_init(|| self.entities(caller, standpoint, uids))
            .clone()?;
        Scene::new(caller, uids.tool.clone(), context, entities)
    }

    /// The caller, the tool, its server, and whatever else the rules name.
    fn entities(&self, caller: &Caller, standpoint: &Standpoint, uids: &ToolUids) -> Option<Arc<Entities>> {
        let [tool, server] = uids.both().map(|uid| self.cast().entity(uid));
        let cast = [tool?, server?, caller.entity.as_ref()?]
            .into_iter()
            .chain(&standpoint.named)
            .cloned();
        Entities::from_entities(cast, None).ok().map(Arc::new)
    }
}

/// What a rule will say of a call that is not known yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Foresight {
    Certain(RuleOutcome),
    Depends,
}

impl Scene {
    pub(crate) fn foresee(&self, rule: &Rule) -> Foresight {
        let mut depends = false;
        let outcome = guarded(|| {
            let response = AUTHORIZER.is_authorized_partial(&self.request, &rule.set, &self.entities);
            if response.definitely_errored().next().is_some() {
                return RuleOutcome::Failed;
            }
            let Some(residual) = response.nontrivial_residuals().next() else {
                let satisfied = response.definitely_satisfied().next().is_some();
                return if satisfied {
                    RuleOutcome::Satisfied
                } else {
                    RuleOutcome::NotSatisfied
                };
            };
            match (Prospect::of_residual(&residual), rule.effect) {
                // A forbid that is never false is true or fails: no call gets past it.
                (Prospect { no: false, .. }, RuleEffect::Forbid) => return RuleOutcome::Satisfied,
                (Prospect { yes: false, .. }, _) => {}
                (Prospect { .. }, _) => depends = true,
            }
            RuleOutcome::NotSatisfied
        });
        if depends && outcome == RuleOutcome::NotSatisfied {
            Foresight::Depends
        } else {
            Foresight::Certain(outcome)
        }
    }
}

#[cfg(test)]
mod tests;
