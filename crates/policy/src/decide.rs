//! The decision: deny by default, forbid wins, approval before plain permission, and a rule that
//! cannot be evaluated denies. Only here is a [`Permit`] granted.
//! ADR 0004: approval wins over a plain permit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cedar_policy::{Authorizer, Context, Entities, EntityUid, Request};
use vocabulary::{ReasonCode, Risk};

use crate::access::Target;
use crate::approval::{Wanted, WantedParts};
use crate::caller::Caller;
use crate::context::{self, CallFacts};
use crate::entities::{CALL, CALL_METHOD};
use crate::inventory::snapshot::{KnownTool, PolicySnapshot};
use crate::permit::Permit;
use crate::rules::{Reads, Rule, RuleEffect, Rules};
use crate::unseen;
use crate::visible::{Foresight, Standpoint};

/// The answer to one request.
#[derive(Debug)]
pub enum Decision {
    /// It may be made, once.
    Allow(Permit, Grounds),
    /// A person has to allow it first.
    RequireApproval(Box<Wanted>, Grounds),
    /// It may not be made.
    Deny(Grounds),
}

impl Decision {
    /// Why.
    #[must_use]
    pub fn grounds(&self) -> &Grounds {
        match self {
            Self::Allow(_, grounds) | Self::RequireApproval(_, grounds) | Self::Deny(grounds) => grounds,
        }
    }
}

/// Why a decision is what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grounds {
    /// The deciding policy; of several the first in order of id.
    pub policy_id: Arc<str>,
    /// The reason code.
    pub code: ReasonCode,
    /// The place in the arguments that the policy looks at and cannot see, a pointer of names that the policies use.
    pub unseen: Option<Arc<str>>,
}

impl Grounds {
    /// Of a policy and a reason, without particulars.
    #[must_use]
    pub fn new(policy_id: Arc<str>, code: ReasonCode) -> Self {
        Self {
            policy_id,
            code,
            unseen: None,
        }
    }
}

vocabulary::words! {
    /// A decision without its permit: for explaining and comparing.
    pub enum Verdict {
        /// Allowed.
        Allow = "allow",
        /// Allowed once a person agrees.
        RequireApproval = "require_approval",
        /// Refused.
        Deny = "deny",
    }
}

impl PolicySnapshot {
    /// Decides one call.
    #[must_use]
    pub fn decide(&self, caller: &Caller, tool: KnownTool, call: &CallFacts<'_>) -> Decision {
        // A tool that was resolved elsewhere or for somebody else proves nothing here.
        let caller = match self.own(caller, tool.provenance()) {
            Ok(caller) => caller,
            Err(grounds) => return Decision::Deny(grounds),
        };
        let standpoint = self.standpoint(&caller, tool.place());
        let findings = self.judge(&caller, &standpoint, tool.place(), call);
        let (verdict, grounds) = findings.verdict_on(self.rules(), call);
        match verdict {
            Verdict::Allow => {
                let (who, target) = (caller.principal().clone(), Target::Tool(tool.entry().clone()));
                let permit = Permit::grant(who, CALL_METHOD.into(), target, call.args_hash, self.epoch());
                Decision::Allow(permit, grounds)
            }
            Verdict::RequireApproval => {
                let wanted = self.wanted(&caller, CALL_METHOD.into(), Target::Tool(tool.entry().clone()), call);
                Decision::RequireApproval(Wanted::new(wanted, &grounds), grounds)
            }
            Verdict::Deny => Decision::Deny(grounds),
        }
    }

    /// What a person has to allow.
    pub(crate) fn wanted(
        &self,
        caller: &Caller,
        action: Arc<str>,
        target: Target,
        call: &CallFacts<'_>,
    ) -> WantedParts {
        let risk = target.risk();
        WantedParts {
            principal: caller.principal().clone(),
            action,
            risk: call.found.map_or(risk, |found| found.max(risk)),
            target,
            arguments: call.args_hash,
            epoch: self.epoch(),
            policy_set: self.policy_set(),
        }
    }

    /// Evaluates what the call itself decides, on top of what was settled before it.
    pub(crate) fn judge(
        &self,
        caller: &Caller,
        standpoint: &Standpoint,
        place: usize,
        call: &CallFacts<'_>,
    ) -> Findings {
        let open = Open {
            settled: standpoint.settled,
            rules: &standpoint.open,
            reads: &standpoint.reads,
            risk: self
                .inventory()
                .tools()
                .get(place)
                .map_or(Risk::Critical, |tool| tool.risk),
        };
        self.judge_open(caller, &open, call, |context| {
            self.scene(caller, standpoint, place, context)
        })
    }

    /// Evaluates the open rules in the scene that the request's context gives; without one they fail.
    pub(crate) fn judge_open(
        &self,
        caller: &Caller,
        open: &Open<'_>,
        call: &CallFacts<'_>,
        scene: impl Fn(Context) -> Option<Scene>,
    ) -> Findings {
        let mut findings = open.settled;
        if open.rules.is_empty() {
            return findings;
        }
        let authn = caller.principal().authn;
        // Made only where the call hides something from a rule.
        let hides = unseen::first(call.arguments, open.reads).is_some();
        let of_any = hides.then(|| context::of_any_call(authn)).flatten().and_then(&scene);
        let scene = context::of_call(call, open.risk, authn, open.reads).and_then(scene);
        let rules = open.rules.iter();
        for (index, rule) in rules.filter_map(|index| Some((*index, self.rules().rule(*index)?))) {
            let outcome = match &scene {
                Some(_) if hides && rule.unseen(call.arguments).is_some() => of_any
                    .as_ref()
                    .map_or(RuleOutcome::Failed, |any| any.whatever_is_hidden(rule)),
                Some(scene) => scene.evaluate(rule),
                None => RuleOutcome::Failed,
            };
            findings.note(index, rule.effect, outcome);
        }
        findings
    }
}

/// What is left to decide when the request is known.
pub(crate) struct Open<'a> {
    pub(crate) settled: Findings,
    pub(crate) rules: &'a [usize],
    pub(crate) reads: &'a Reads,
    /// How dangerous what is asked for is, whatever it is told.
    pub(crate) risk: Risk,
}

/// What evaluating one rule came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RuleOutcome {
    Satisfied,
    NotSatisfied,
    Failed,
}

/// Everything a rule is evaluated against.
pub(crate) struct Scene {
    pub(crate) request: Request,
    pub(crate) entities: Arc<Entities>,
}

impl Scene {
    pub(crate) fn new(caller: &Caller, resource: EntityUid, context: Context, cast: Arc<Entities>) -> Option<Self> {
        Self::of_action(caller, CALL.clone(), resource, context, cast)
    }

    pub(crate) fn of_action(
        caller: &Caller,
        action: EntityUid,
        resource: EntityUid,
        context: Context,
        cast: Arc<Entities>,
    ) -> Option<Self> {
        let request = Request::new(caller.uid().clone(), action, resource, context, None).ok()?;
        Some(Self {
            request,
            entities: cast,
        })
    }

    /// What a rule comes to that cannot see all it looks at, in the scene of a call nobody has made: what is certain whatever the
    /// arguments are, or a failure.
    pub(crate) fn whatever_is_hidden(&self, rule: &Rule) -> RuleOutcome {
        match self.foresee(rule) {
            Foresight::Certain(outcome) => outcome,
            Foresight::Depends => RuleOutcome::Failed,
        }
    }

    /// Evaluates a rule alone; a crash of the engine is a failure of the rule.
    pub(crate) fn evaluate(&self, rule: &Rule) -> RuleOutcome {
        guarded(|| {
            let response = AUTHORIZER.is_authorized(&self.request, &rule.set, &self.entities);
            let diagnostics = response.diagnostics();
            match (diagnostics.errors().next(), diagnostics.reason().next()) {
                (Some(_), _) => RuleOutcome::Failed,
                (None, Some(_)) => RuleOutcome::Satisfied,
                (None, None) => RuleOutcome::NotSatisfied,
            }
        })
    }
}

pub(crate) fn guarded(evaluate: impl FnOnce() -> RuleOutcome) -> RuleOutcome {
    catch_unwind(AssertUnwindSafe(evaluate)).unwrap_or(RuleOutcome::Failed)
}

/// The first rule of each kind that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) failed: Option<usize>,
    pub(crate) forbid: Option<usize>,
    pub(crate) approval: Option<usize>,
    pub(crate) permit: Option<usize>,
}

impl Findings {
    pub(crate) fn note(&mut self, index: usize, effect: RuleEffect, outcome: RuleOutcome) {
        let first = match (outcome, effect) {
            (RuleOutcome::NotSatisfied, _) => return,
            (RuleOutcome::Failed, _) => &mut self.failed,
            (RuleOutcome::Satisfied, RuleEffect::Forbid) => &mut self.forbid,
            (RuleOutcome::Satisfied, RuleEffect::PermitWithApproval) => &mut self.approval,
            (RuleOutcome::Satisfied, RuleEffect::Permit) => &mut self.permit,
        };
        *first = Some(first.map_or(index, |known| known.min(index)));
    }

    /// The same, with the place that a failed rule cannot see.
    pub(crate) fn verdict_on(&self, rules: &Rules, call: &CallFacts<'_>) -> (Verdict, Grounds) {
        let (verdict, mut grounds) = self.verdict(rules);
        let failed = self.failed.and_then(|index| rules.rule(index));
        grounds.unseen = failed.and_then(|rule| rule.unseen(call.arguments)).map(Into::into);
        (verdict, grounds)
    }

    pub(crate) fn verdict(&self, rules: &Rules) -> (Verdict, Grounds) {
        let grounds = |index: usize, code| {
            let policy_id = rules
                .rule(index)
                .map_or_else(|| DEFAULT_DENY.clone(), |rule| rule.id.clone());
            Grounds::new(policy_id, code)
        };
        match *self {
            Self {
                failed: Some(index), ..
            } => (Verdict::Deny, grounds(index, ReasonCode::DenyPolicyError)),
            Self {
                forbid: Some(index), ..
            } => (Verdict::Deny, grounds(index, ReasonCode::DenyNoPermission)),
            Self {
                approval: Some(index), ..
            } => (Verdict::RequireApproval, grounds(index, ReasonCode::RequireApproval)),
            Self {
                permit: Some(index), ..
            } => (Verdict::Allow, grounds(index, ReasonCode::AllowPolicyMatch)),
            Self {
                failed: None,
                forbid: None,
                approval: None,
                permit: None,
            } => {
                let grounds = Grounds::new(DEFAULT_DENY.clone(), ReasonCode::DenyNoMatchingRule);
                (Verdict::Deny, grounds)
            }
        }
    }
}

/// `policy_id` where no policy decided.
pub(crate) static DEFAULT_DENY: LazyLock<Arc<str>> = LazyLock::new(|| "builtin:default-deny".into());

pub(crate) static AUTHORIZER: LazyLock<Authorizer> = LazyLock::new(Authorizer::new);

#[cfg(test)]
mod tests;
