//! `policy explain`: what every policy in scope says of one call, and what that comes to.

use std::sync::Arc;

use vocabulary::{Principal, ServerId};

use crate::access::Target;
use crate::context::{self, CallFacts};
use crate::decide::{AUTHORIZER, Findings, Grounds, RuleOutcome, Scene, Verdict};
use crate::inventory::snapshot::{NotKnown, PolicySnapshot};
use crate::rules::{Condition, Reads, RuleEffect};

/// Why a call would be decided the way it would.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// What would be decided.
    pub verdict: Verdict,
    /// Why.
    pub grounds: Grounds,
    /// Whether the principal can see the tool or target; if not, the answer is that of an unknown one.
    pub visibility: Result<(), NotKnown>,
    /// The policies whose scope fits the call, in order of id.
    pub policies: Vec<PolicyFinding>,
}

/// What one policy says of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyFinding {
    /// The policy.
    pub policy_id: Arc<str>,
    /// What it does when satisfied.
    pub effect: RuleEffect,
    /// Whether it is.
    pub finding: Finding,
}

/// Whether a policy is satisfied by a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// It is.
    Satisfied,
    /// It is not.
    NotSatisfied,
    /// It cannot be evaluated, which denies the call; the text says why.
    Failed(String),
}

impl PolicySnapshot {
    /// Explains a call without permitting it.
    #[must_use]
    pub fn explain(&self, who: &Arc<Principal>, server: &ServerId, tool: &str, call: &CallFacts<'_>) -> Explanation {
        let caller = self.caller(who);
        let place = self.inventory().place(server, tool);
        let visibility = self.resolve_at(&caller, server, place).map(drop);
        let Some((place, uids)) = place.and_then(|place| Some((place, self.cast().uids(place)?))) else {
            return self.account(visibility, &[], None);
        };
        let standpoint = self.standpoint(&caller, place);
        let scene = context::of_call(call, who.authn, &Reads::everything())
            .and_then(|context| self.scene(&caller, &standpoint, place, context));
        self.account(visibility, &caller.slice(uids), scene.as_ref())
    }

    /// Explains any other request without permitting it.
    #[must_use]
    pub fn explain_target(
        &self,
        who: &Arc<Principal>,
        action: &str,
        target: &Target,
        call: &CallFacts<'_>,
    ) -> Explanation {
        let caller = self.caller(who);
        let visibility = self.resolve_target(&caller, action, target).map(drop);
        let Some(target) = self.locate(target).ok().filter(|target| target.suits(action)) else {
            return self.account(visibility, &[], None);
        };
        let case = self.case(&caller, action, &target);
        let scene = context::of_call(call, who.authn, &Reads::everything())
            .and_then(|context| self.scene_of(&caller, &case, &target, context));
        self.account(visibility, &case.slice(), scene.as_ref())
    }

    fn account(&self, visibility: Result<(), NotKnown>, slice: &[usize], scene: Option<&Scene>) -> Explanation {
        let mut findings = Findings::default();
        let mut policies = Vec::new();
        for index in slice.iter().copied() {
            let Some(rule) = self.rules().rule(index) else { continue };
            let outcome = match (&rule.condition, scene) {
                (Condition::None, _) => RuleOutcome::Satisfied,
                (Condition::ContextFree | Condition::Contextual(_), Some(scene)) => scene.evaluate(rule),
                (Condition::ContextFree | Condition::Contextual(_), None) => RuleOutcome::Failed,
            };
            findings.note(index, rule.effect, outcome);
            let finding = match outcome {
                RuleOutcome::Satisfied => Finding::Satisfied,
                RuleOutcome::NotSatisfied => Finding::NotSatisfied,
                RuleOutcome::Failed => Finding::Failed(scene.map_or_else(String::new, |scene| {
                    let response = AUTHORIZER.is_authorized(&scene.request, &rule.set, &scene.entities);
                    response
                        .diagnostics()
                        .errors()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join("; ")
                })),
            };
            policies.push(PolicyFinding {
                policy_id: rule.id.clone(),
                effect: rule.effect,
                finding,
            });
        }
        let (verdict, grounds) = findings.verdict(self.rules());
        Explanation {
            verdict,
            grounds,
            visibility,
            policies,
        }
    }
}
