//! Approvals between the gateway that asks, the people who answer and the store that keeps both. Every step is on record before
//! it counts; steps are taken one at a time.
//! ADR 0140: what an approval is of. ADR 0141: how it ends.

mod key;
mod sweep;
mod webhook;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use control::ports::{ApprovalWord, ApprovalsPort, Later, NotDecided, PortError, Recorder, ShownArguments};
use gateway::{ApprovalAnswer, ApprovalLater, ApprovalQuestion};
use ledger::{ApprovalAction, ApprovalStep, Event, LedgerDown};
use policy::{
    Approval, ApprovalState, ApprovalStore as _, ApprovalVerdict, FourEyes, Plan, PolicySnapshot, Spending, StepUp,
};
use store::Store;
use tokio::sync::{Notify, mpsc};
use vocabulary::{Clock, ReasonCode, ReceiptId, Timestamp, lock, random_hex};

use self::key::Sealed;
use crate::config::Approvals as Settings;

/// See the module. Clones share everything.
#[derive(Clone)]
pub(crate) struct ApprovalDesk(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    recorder: Arc<dyn Recorder>,
    clock: Clock,
    settings: Mutex<Settings>,
    sealed: Sealed,
    /// What exists and which policies are in force, once that is known.
    in_force: OnceLock<InForce>,
    /// Whether something happened since that voids an approval.
    voided: OnceLock<Voided>,
    /// What begins to wait, for the webhook.
    told: OnceLock<mpsc::Sender<String>>,
    /// Held by whoever takes a step.
    turn: tokio::sync::Mutex<()>,
    /// Rung when something may have ended.
    bell: Notify,
}

type Voided = Box<dyn Fn(&Approval) -> bool + Send + Sync>;
type InForce = Box<dyn Fn() -> Option<Arc<PolicySnapshot>> + Send + Sync>;

/// A step that is not taken by a call or a person.
const BY_ITSELF: &str = "system";

impl ApprovalDesk {
    /// Approvals of a state directory; steps go to `recorder`.
    pub(crate) fn new(
        state: &Path,
        store: Arc<Store>,
        recorder: Arc<dyn Recorder>,
        (clock, settings): (Clock, Settings),
    ) -> Self {
        Self(Arc::new(Inner {
            store,
            recorder,
            clock,
            settings: Mutex::new(settings),
            sealed: Sealed::of(state),
            in_force: OnceLock::new(),
            voided: OnceLock::new(),
            told: OnceLock::new(),
            turn: tokio::sync::Mutex::default(),
            bell: Notify::new(),
        }))
    }

    /// What tells whether an approval is still about what there is.
    pub(crate) fn compare_with(&self, in_force: impl Fn() -> Option<Arc<PolicySnapshot>> + Send + Sync + 'static) {
        let _ = self.0.in_force.set(Box::new(in_force));
    }

    /// What tells whether an incident voids an approval.
    pub(crate) fn void_by(&self, voided: impl Fn(&Approval) -> bool + Send + Sync + 'static) {
        let _ = self.0.voided.set(Box::new(voided));
    }

    /// Other settings, from the next question on.
    pub(crate) fn follow(&self, settings: Settings) {
        *lock(&self.0.settings) = settings;
    }

    fn settings(&self) -> Settings {
        lock(&self.0.settings).clone()
    }

    /// Work on the store, off the event loop.
    async fn keep<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, PortError> + Send + 'static,
    ) -> Result<T, PortError> {
        let inner = self.0.clone();
        match tokio::task::spawn_blocking(move || work(&inner)).await {
            Ok(done) => done,
            Err(broken) => Err(PortError::new(broken)),
        }
    }

    async fn record(&self, approval: &Approval, action: ApprovalAction, by: By<'_>) -> Result<(), LedgerDown> {
        let step = step(approval, action, by);
        self.0.recorder.record(Event::Approval(Box::new(step))).await
    }

    /// Moves an approval to where nobody can use it.
    async fn end(&self, approval: &Approval, state: ApprovalState) -> Result<(), Trouble> {
        let action = match state {
            ApprovalState::Void => ApprovalAction::Void,
            ApprovalState::Pending
            | ApprovalState::Approved
            | ApprovalState::Denied
            | ApprovalState::Expired
            | ApprovalState::Used => ApprovalAction::Expired,
        };
        self.record(approval, action, By::ITSELF).await?;
        let (from, to) = (approval.state, approval.moved(state));
        self.keep(move |inner| inner.store.move_approval(from, &to).map_err(PortError::new))
            .await?;
        Ok(())
    }
}

/// Why a step could not be taken.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the store failed")]
    Store(#[from] PortError),
    #[error("the log failed")]
    Log(#[from] LedgerDown),
}

/// Who takes a step, and what is known of it.
#[derive(Clone, Copy)]
struct By<'a> {
    actor: &'a str,
    receipt_id: Option<ReceiptId>,
}

impl By<'_> {
    const ITSELF: By<'static> = By {
        actor: BY_ITSELF,
        receipt_id: None,
    };
}

fn step(approval: &Approval, action: ApprovalAction, by: By<'_>) -> ApprovalStep {
    let Approval { plan, .. } = approval;
    let verdict = approval.verdict.as_ref();
    ApprovalStep {
        action,
        actor: by.actor.to_owned(),
        id: approval.id.clone(),
        plan_hash: approval.plan_hash(),
        step_up: match verdict.map(|verdict| verdict.step_up) {
            Some(StepUp::Mfa) => ledger::StepUp::Mfa,
            Some(StepUp::None) | None => ledger::StepUp::None,
        },
        reason: verdict.and_then(|verdict| verdict.reason.clone()),
        sub: plan.sub.clone(),
        issuer: plan.issuer.clone(),
        client_id: plan.client_id.clone(),
        org_id: plan.org_id.clone(),
        server_id: plan.server.to_string(),
        tool_name: plan.tool.to_string(),
        definition_hash: plan.definition_hash,
        args_hash: plan.args_hash,
        risk: plan.risk,
        policy_id: plan.policy_id.to_string(),
        policy_set: plan.policy_set,
        expires: approval.expires,
        receipt_id: by.receipt_id,
    }
}

impl gateway::Approvals for ApprovalDesk {
    fn settle(&self, question: ApprovalQuestion) -> ApprovalLater<'_> {
        let desk = self.clone();
        Box::pin(async move {
            // On its own: a caller who hangs up leaves no step half taken.
            let settled = tokio::spawn(async move { desk.settled(question).await }).await;
            match settled {
                Ok(Ok(answer)) => answer,
                Ok(Err(trouble)) => {
                    tracing::error!(
                        error = &trouble as &dyn std::error::Error,
                        "an approval could not be settled"
                    );
                    ApprovalAnswer::Unavailable
                }
                Err(_) => ApprovalAnswer::Unavailable,
            }
        })
    }
}

impl ApprovalDesk {
    async fn settled(&self, question: ApprovalQuestion) -> Result<ApprovalAnswer, Trouble> {
        let _turn = self.0.turn.lock().await;
        let now = self.0.clock.now();
        let ApprovalQuestion {
            wanted,
            arguments,
            receipt_id,
        } = question;
        if let Some(key) = wanted.plan().map(|plan| plan.key()) {
            let read = move |inner: &Inner| inner.store.approval_of(&key).map_err(PortError::new);
            let known = self.keep(read).await?;
            if let Some(known) = known.filter(|known| self.overtaken(known, now) == Some(ApprovalState::Void)) {
                self.end(&known, ApprovalState::Void).await?;
            }
        }
        let spent = self
            .keep(move |inner| wanted.spend(inner.store.as_ref(), now).map_err(PortError::new))
            .await?;
        let wanted = match spent {
            Spending::Granted(permit, call) => {
                let approval = call.approval();
                let by = By {
                    actor: &approval.plan.sub,
                    receipt_id: Some(receipt_id),
                };
                self.record(approval, ApprovalAction::Used, by).await?;
                return Ok(ApprovalAnswer::Granted(permit, call));
            }
            Spending::Nothing(wanted) => wanted,
        };
        let Some(plan) = wanted.plan() else {
            return Ok(ApprovalAnswer::NotAsked);
        };
        self.ask(plan, arguments, (receipt_id, now)).await
    }

    /// Asks a person, unless one was asked already.
    async fn ask(
        &self,
        plan: Plan,
        arguments: Vec<u8>,
        (receipt_id, now): (ReceiptId, Timestamp),
    ) -> Result<ApprovalAnswer, Trouble> {
        let key = plan.key();
        let read = move |inner: &Inner| Ok((inner.store.approval_of(&key)?, inner.store.open_approvals()?));
        let (known, open) = self
            .keep(move |inner| read(inner).map_err(|fault: policy::StoreError| PortError::new(fault)))
            .await?;
        let mut why = ReasonCode::AmendmentViiNoPlan;
        if let Some(known) = known.filter(|known| known.plan == plan) {
            match known.state_at(now) {
                ApprovalState::Pending => {
                    return Ok(ApprovalAnswer::Asked {
                        approval: Box::new(known),
                        why: ReasonCode::AmendmentViiNoGuardianVerdict,
                    });
                }
                ApprovalState::Denied if known.expires > now => return Ok(ApprovalAnswer::Refused(Box::new(known))),
                ApprovalState::Expired if known.state.is_open() => {
                    if known.state == ApprovalState::Approved {
                        why = ReasonCode::DenyApprovalExpired;
                    }
                    self.end(&known, ApprovalState::Expired).await?;
                }
                ApprovalState::Approved
                | ApprovalState::Denied
                | ApprovalState::Expired
                | ApprovalState::Used
                | ApprovalState::Void => {}
            }
        }
        let open = || open.iter().filter(|other| other.state_at(now).is_open());
        let waiting = open().filter(|other| other.state == ApprovalState::Pending);
        let settings = self.settings();
        if waiting
            .filter(|other| other.plan.is_of_the_same_principal(&plan))
            .count()
            >= settings.max_pending
        {
            return Ok(ApprovalAnswer::TooMany);
        }
        if why == ReasonCode::AmendmentViiNoPlan && open().any(|other| other.plan.is_about_the_same(&plan)) {
            why = ReasonCode::AmendmentViiScopeMismatch;
        }
        let random = random_hex(12).map_err(|_| PortError::new("no random bytes"))?;
        let approval = Approval::ask(format!("apr_{random}"), plan, now, settings.ttl);
        self.open(&approval, arguments, receipt_id).await?;
        Ok(ApprovalAnswer::Asked {
            approval: Box::new(approval),
            why,
        })
    }

    /// Keeps a new question, then puts it on record; one that is not on record is not kept.
    async fn open(&self, approval: &Approval, arguments: Vec<u8>, receipt_id: ReceiptId) -> Result<(), Trouble> {
        let kept = approval.clone();
        self.keep(move |inner| {
            let sealed = inner.sealed.close(&kept.id, &arguments)?;
            inner.store.add_approval(&kept, &sealed).map_err(PortError::new)
        })
        .await?;
        let by = By {
            actor: &approval.plan.sub,
            receipt_id: Some(receipt_id),
        };
        if let Err(down) = self.record(approval, ApprovalAction::Requested, by).await {
            let id = approval.id.clone();
            self.keep(move |inner| inner.store.withdraw_approval(&id).map_err(PortError::new))
                .await?;
            return Err(down.into());
        }
        self.0.bell.notify_one();
        self.announce(&approval.id);
        Ok(())
    }

    /// Takes a person's word.
    async fn decided(&self, id: String, word: ApprovalWord) -> Result<Result<Approval, NotDecided>, PortError> {
        let _turn = self.0.turn.lock().await;
        let wanted = id.clone();
        let found = self
            .keep(move |inner| inner.store.approval(&wanted).map_err(PortError::new))
            .await?;
        let Some(known) = found else {
            return Ok(Err(NotDecided::Unknown));
        };
        let now = self.0.clock.now();
        if let Some(ended) = self.overtaken(&known, now) {
            if let Err(trouble) = self.end(&known, ended).await {
                tracing::error!(
                    error = &trouble as &dyn std::error::Error,
                    "an approval could not be ended"
                );
            }
            return Ok(Err(NotDecided::Fault(policy::ApprovalFault::NotPending(ended))));
        }
        let verdict = ApprovalVerdict {
            by: word.by,
            at: now,
            reason: word.reason,
            step_up: StepUp::None,
        };
        let eyes: FourEyes = self.settings().four_eyes;
        let decided = match known.decided(word.answer, verdict, eyes) {
            Ok(decided) => decided,
            Err(fault) => return Ok(Err(NotDecided::Fault(fault))),
        };
        let action = match word.answer {
            policy::Answered::Yes => ApprovalAction::Approved,
            policy::Answered::No => ApprovalAction::Denied,
        };
        let by = By {
            actor: decided.verdict.as_ref().map_or(BY_ITSELF, |verdict| &verdict.by),
            receipt_id: None,
        };
        if let Err(down) = self.record(&decided, action, by).await {
            return Ok(Err(NotDecided::Unrecorded(down)));
        }
        let moved = decided.clone();
        let is_moved = self.keep(move |inner| inner.settle_word(&moved, now)).await?;
        Ok(match is_moved {
            true => Ok(decided),
            false => Err(NotDecided::Unknown),
        })
    }
}

impl Inner {
    /// Keeps a word; what was allowed is remembered for the next time somebody asks for alike.
    fn settle_word(&self, decided: &Approval, now: Timestamp) -> Result<bool, PortError> {
        if decided.state == ApprovalState::Approved
            && let Some(arguments) = self.arguments(&decided.id)?
        {
            let sealed = self.sealed.close(&last_of(&decided.plan), &arguments)?;
            self.store
                .keep_approved(&decided.plan, &sealed, now)
                .map_err(PortError::new)?;
        }
        let moved = self.store.move_approval(ApprovalState::Pending, decided);
        moved.map_err(PortError::new)
    }

    fn arguments(&self, id: &str) -> Result<Option<Vec<u8>>, PortError> {
        let sealed = self.store.approval_arguments(id).map_err(PortError::new)?;
        sealed.map_or(Ok(None), |sealed| self.sealed.open(id, &sealed))
    }
}

/// What the last approved arguments are sealed for.
fn last_of(plan: &Plan) -> String {
    format!("last of {} {}/{}", plan.owner(), plan.server, plan.tool)
}

impl ApprovalsPort for ApprovalDesk {
    fn list(&self) -> Result<Vec<Approval>, PortError> {
        let now = self.0.clock.now();
        let all = self.0.store.approvals().map_err(PortError::new)?;
        Ok(all
            .iter()
            .map(|approval| approval.moved(approval.state_at(now)))
            .collect())
    }

    fn find(&self, id: &str) -> Result<Option<Approval>, PortError> {
        let now = self.0.clock.now();
        let found = self.0.store.approval(id).map_err(PortError::new)?;
        Ok(found.map(|approval| approval.moved(approval.state_at(now))))
    }

    fn arguments(&self, approval: &Approval) -> Result<Option<ShownArguments>, PortError> {
        if approval.state != ApprovalState::Pending {
            return Ok(None);
        }
        let Some(arguments) = self.0.arguments(&approval.id)? else {
            return Ok(None);
        };
        let last = match self.0.store.last_approved(&approval.plan).map_err(PortError::new)? {
            Some((sealed, at)) => {
                let opened = self.0.sealed.open(&last_of(&approval.plan), &sealed)?;
                opened.map(|arguments| (arguments, at))
            }
            None => None,
        };
        Ok(Some(ShownArguments { arguments, last }))
    }

    fn decide(&self, id: &str, word: ApprovalWord) -> Later<'_, Result<Result<Approval, NotDecided>, PortError>> {
        let (desk, id) = (self.clone(), id.to_owned());
        Box::pin(async move {
            let decided = tokio::spawn(async move { desk.decided(id, word).await }).await;
            decided.unwrap_or_else(|broken| Err(PortError::new(broken)))
        })
    }
}
