//! `policy explain`: what every policy in scope says of one call, and what that comes to.

use std::sync::Arc;

use cedar_policy::Context;
use vocabulary::{Authn, Principal, Risk, ServerId};

use crate::access::Target;
use crate::context::{self, CallFacts};
use crate::decide::{AUTHORIZER, Findings, Grounds, RuleOutcome, Scene, Verdict};
use crate::inventory::snapshot::{NotKnown, PolicySnapshot};
use crate::rules::{Condition, Reads, Rule, RuleEffect};

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
            return self.account(visibility, &[], None, call);
        };
        let standpoint = self.standpoint(&caller, place);
        let risk = self
            .inventory()
            .tools()
            .get(place)
            .map_or(Risk::Critical, |tool| tool.risk);
        let scenes = Scenes::of(call, risk, who.authn, |context| {
            self.scene(&caller, &standpoint, place, context)
        });
        self.account(visibility, &caller.slice(uids), scenes.as_ref(), call)
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
            return self.account(visibility, &[], None, call);
        };
        let case = self.case(&caller, action, &target);
        let scenes = Scenes::of(call, target.risk(), who.authn, |context| {
            self.scene_of(&caller, &case, &target, context)
        });
        self.account(visibility, &case.slice(), scenes.as_ref(), call)
    }

    fn account(
        &self,
        visibility: Result<(), NotKnown>,
        slice: &[usize],
        scenes: Option<&Scenes>,
        call: &CallFacts<'_>,
    ) -> Explanation {
        let mut findings = Findings::default();
        let mut policies = Vec::new();
        for index in slice.iter().copied() {
            let Some(rule) = self.rules().rule(index) else { continue };
            let unseen = rule.unseen(call.arguments);
            let outcome = match (&rule.condition, scenes) {
                (Condition::None, _) => RuleOutcome::Satisfied,
                (_, Some(scenes)) if unseen.is_some() => scenes.any_call.whatever_is_hidden(rule),
                (Condition::ContextFree | Condition::Contextual(_), Some(scenes)) => scenes.call.evaluate(rule),
                (Condition::ContextFree | Condition::Contextual(_), None) => RuleOutcome::Failed,
            };
            findings.note(index, rule.effect, outcome);
            let finding = match outcome {
                RuleOutcome::Satisfied => Finding::Satisfied,
                RuleOutcome::NotSatisfied => Finding::NotSatisfied,
                RuleOutcome::Failed => Finding::Failed(match unseen {
                    Some(place) => format!("it looks at `{place}` in the arguments, a value that policies cannot see"),
                    None => scenes.map_or_else(String::new, |scenes| errors(&scenes.call, rule)),
                }),
            };
            policies.push(PolicyFinding {
                policy_id: rule.id.clone(),
                effect: rule.effect,
                finding,
            });
        }
        let (verdict, grounds) = findings.verdict_on(self.rules(), call);
        Explanation {
            verdict,
            grounds,
            visibility,
            policies,
        }
    }
}

/// What a call is explained in: itself, and any call at all.
struct Scenes {
    call: Scene,
    any_call: Scene,
}

impl Scenes {
    fn of(call: &CallFacts<'_>, risk: Risk, authn: Authn, scene: impl Fn(Context) -> Option<Scene>) -> Option<Self> {
        Some(Self {
            call: scene(context::of_call(call, risk, authn, &Reads::everything())?)?,
            any_call: scene(context::of_any_call(authn)?)?,
        })
    }
}

/// Why a rule could not be evaluated, in the engine's words.
fn errors(scene: &Scene, rule: &Rule) -> String {
    let response = AUTHORIZER.is_authorized(&scene.request, &rule.set, &scene.entities);
    let errors: Vec<String> = response.diagnostics().errors().map(ToString::to_string).collect();
    errors.join("; ")
}
