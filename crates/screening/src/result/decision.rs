//! What screening came to: its decisions go out to be recorded, and the message is given out against their records.
//! ADR 0053: screening takes the ledger's proof.

use std::sync::Arc;

use ledger::{Event, Fact, Judgement, Recorded, ScreeningAct, ScreeningDecision, ScreeningSubject};
use vocabulary::ReasonCode;

use super::{ScreenedResult, Withheld};

/// One decision about one message; it leaves one record.
///
/// Only [`screen`](super::screen) makes one, for the [`Screening`] it belongs to. It cannot be built elsewhere:
///
/// ```compile_fail,E0451
/// use ledger::Judgement;
/// use portreeve_screening::result::Decision;
/// fn forge(judgement: Judgement) -> Decision {
///     Decision { judgement, screening: std::sync::Arc::new(()) }
/// }
/// ```
///
/// nor copied:
///
/// ```compile_fail,E0599
/// use portreeve_screening::result::Decision;
/// fn twice(decision: Decision) -> [Decision; 2] {
///     [decision.clone(), decision]
/// }
/// ```
///
/// while what was decided can be read:
///
/// ```
/// use ledger::Judgement;
/// use portreeve_screening::result::Decision;
/// fn read(decision: &Decision) -> Judgement {
///     decision.judgement().clone()
/// }
/// ```
#[derive(Debug)]
pub struct Decision {
    judgement: Judgement,
    /// Which screening it belongs to: the same allocation, not an equal value.
    screening: Arc<()>,
}

impl Decision {
    /// What was decided.
    #[must_use]
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }
}

impl Fact for Decision {
    type Subject = ScreeningSubject;

    fn event(&self, subject: ScreeningSubject) -> Event {
        Event::Screening(Box::new(ScreeningDecision::about(subject, self.judgement.clone())))
    }
}

/// What screening came to. The message itself is given out against the record of every decision about it.
///
/// Nothing else releases it:
///
/// ```compile_fail,E0308
/// use portreeve_screening::result::{ScreenedResult, Screening, Withheld};
/// fn release(screening: Screening) -> Result<ScreenedResult, Withheld> {
///     screening.release(vec![(); 1])
/// }
/// ```
///
/// but the ledger's own proof:
///
/// ```
/// use ledger::Recorded;
/// use portreeve_screening::result::{Decision, ScreenedResult, Screening, Withheld};
/// fn release(screening: Screening, recorded: Recorded<Decision>) -> Result<ScreenedResult, Withheld> {
///     screening.release(vec![recorded])
/// }
/// ```
#[must_use]
#[derive(Debug)]
pub struct Screening {
    outcome: Result<ScreenedResult, Withheld>,
    decisions: Vec<Decision>,
    /// `None` where nothing was decided: most messages are clean, and cost nothing here.
    expected: Option<Expected>,
}

/// The records a screening waits for.
#[derive(Debug)]
struct Expected {
    screening: Arc<()>,
    count: usize,
}

impl Screening {
    pub(super) fn new(outcome: Result<ScreenedResult, Withheld>, judgements: Vec<Judgement>) -> Self {
        if judgements.is_empty() {
            return Self {
                outcome,
                decisions: Vec::new(),
                expected: None,
            };
        }
        let screening = Arc::new(());
        let decide = |judgement| Decision {
            judgement,
            screening: Arc::clone(&screening),
        };
        let decisions: Vec<Decision> = judgements.into_iter().map(decide).collect();
        let count = decisions.len();
        Self {
            outcome,
            decisions,
            expected: Some(Expected { screening, count }),
        }
    }

    /// Nothing of it is let through, for this one reason.
    pub(crate) fn withheld(judgement: Judgement) -> Self {
        let withheld = Withheld {
            code: ReasonCode::WithheldSanitisation,
            message: judgement.message.clone(),
        };
        Self::new(Err(withheld), vec![judgement])
    }

    /// Whether nothing was decided, so that nothing is to be recorded.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.expected.is_none()
    }

    /// What is to be recorded first. It is given out once.
    #[must_use]
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// The bytes as they would be released, to be looked at. They prove nothing: only [`Screening::release`] makes a
    /// [`ScreenedResult`].
    ///
    /// # Errors
    /// When the message is withheld.
    pub fn preview(&self) -> Result<&[u8], &Withheld> {
        self.outcome.as_ref().map(|result| result.bytes().as_ref())
    }

    /// The message, once exactly the decisions about it are on record.
    ///
    /// # Errors
    /// When it is withheld, when a record is missing, and when one belongs to another message.
    pub fn release(self, recorded: Vec<Recorded<Decision>>) -> Result<ScreenedResult, Withheld> {
        if !self.is_accounted_for(&recorded) {
            return Err(Withheld {
                code: ReasonCode::DenyReceiptUnavailable,
                message: "the gateway cannot record what it decided about the result, so nothing is released"
                    .to_owned(),
            });
        }
        self.outcome.map(|result| ScreenedResult {
            acts: acts(&recorded),
            ..result
        })
    }

    /// INVARIANT: a decision is made once, given out once and cannot be copied; so as many of ours as there are, and
    /// nobody else's, are all of them.
    fn is_accounted_for(&self, recorded: &[Recorded<Decision>]) -> bool {
        match &self.expected {
            None => recorded.is_empty(),
            Some(expected) => {
                let ours = |one: &Recorded<Decision>| Arc::ptr_eq(&one.fact().screening, &expected.screening);
                recorded.len() == expected.count && recorded.iter().all(ours)
            }
        }
    }
}

fn acts(recorded: &[Recorded<Decision>]) -> Vec<ScreeningAct> {
    let mut acts: Vec<ScreeningAct> = recorded.iter().map(|one| one.fact().judgement.act).collect();
    acts.sort_unstable();
    acts.dedup();
    acts
}

#[cfg(test)]
pub(super) mod tests;
