//! Attempts, one after the other, each told what was wrong with the one before.

use std::time::Instant;

use ledger::{AttemptClass, RunReason};
use schema::Violation;

use super::attempt::{Attempted, Made, Ready, Refused};
use super::context::RunError;
use crate::config::Source;
use crate::contract::Validated;
use crate::feedback::{Feedback, FeedbackLimits};

/// What an agent's run comes to.
pub(super) enum Verdict {
    Valid(Validated),
    Failed {
        reason: RunReason,
        /// What was wrong with the last output.
        violations: Vec<Violation>,
        /// A sentence more, for people.
        told: Option<String>,
    },
    Skipped,
}

impl Verdict {
    pub(super) fn failed(reason: RunReason) -> Self {
        Self::Failed {
            reason,
            violations: Vec::new(),
            told: None,
        }
    }

    pub(super) fn told(reason: RunReason, told: String) -> Self {
        Self::Failed {
            reason,
            violations: Vec::new(),
            told: Some(told),
        }
    }

    /// With what is wrong with the last output, if one was refused.
    fn after(self, previous: Option<Refused>) -> Self {
        match (self, previous) {
            (Self::Failed { reason, told, .. }, Some(previous)) => Self::Failed {
                reason,
                violations: previous.refusal.violations,
                told,
            },
            (verdict, _) => verdict,
        }
    }
}

/// A verdict and the attempts that led to it.
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) attempts: Vec<Made>,
}

impl Outcome {
    pub(super) fn without_attempts(verdict: Verdict) -> Self {
        Self {
            verdict,
            attempts: Vec::new(),
        }
    }
}

impl Ready<'_, '_> {
    /// Tries until an output is valid or there is no reason to go on.
    pub(super) async fn attempts(self) -> Result<Outcome, RunError> {
        let retry = &self.run.agent.retry;
        let most = retry.max_retries + 1;
        let mut attempts = Vec::new();
        let mut previous: Option<Refused> = None;
        for number in 1..=most {
            if let Some(reason) = self.nothing_left() {
                let verdict = Verdict::failed(reason).after(previous);
                return Ok(Outcome { verdict, attempts });
            }
            let feedback = previous.as_ref().map(|previous| self.feedback(previous, number));
            let (ended, made) = match self.attempt(number, feedback.as_ref()).await? {
                Attempted::Refused(refused, made) => {
                    let same = previous.is_some_and(|previous| previous.is_same_output(&refused));
                    let ended = self.stops_at(&refused, number, same).map(Verdict::failed);
                    previous = Some(refused);
                    (ended, Some(made))
                }
                Attempted::Valid(validated, made) => (Some(Verdict::Valid(validated)), Some(made)),
                Attempted::Stopped(made) => (Some(Verdict::failed(RunReason::Stopped)), Some(made)),
                Attempted::NotStarted(told) => (Some(Verdict::told(RunReason::Sandbox, told)), None),
                Attempted::Changed(path, made) => {
                    let told = format!(
                        "`{}` changed while the runtime ran; look at who can write it",
                        path.display()
                    );
                    (Some(Verdict::told(RunReason::Integrity, told)), Some(made))
                }
            };
            attempts.extend(made);
            if let Some(verdict) = ended {
                let verdict = verdict.after(previous);
                return Ok(Outcome { verdict, attempts });
            }
        }
        let verdict = Verdict::failed(RunReason::Exhausted).after(previous);
        Ok(Outcome { verdict, attempts })
    }

    /// Why no further attempt begins: time or attempts are spent.
    fn nothing_left(&self) -> Option<RunReason> {
        if Instant::now() >= self.run.deadline {
            return Some(self.run.out_of_time());
        }
        (!self.run.context.budget.take()).then_some(RunReason::Budget)
    }

    /// Why there is no attempt after this one.
    fn stops_at(&self, refused: &Refused, number: u32, same_output: bool) -> Option<RunReason> {
        let (class, retry) = (refused.refusal.class, &self.run.agent.retry);
        if class == AttemptClass::Timeout && Instant::now() >= self.run.deadline {
            return Some(self.run.out_of_time());
        }
        if number > retry.max_retries || !retry.on.contains(&class) {
            // A runtime that failed was not judged, and nothing of its was used up.
            return Some(match class == AttemptClass::RuntimeExit {
                true => RunReason::RuntimeExit,
                false => RunReason::Exhausted,
            });
        }
        same_output.then_some(RunReason::SameOutput)
    }

    /// What attempt `number` is told.
    fn feedback(&self, previous: &Refused, number: u32) -> Feedback {
        let agent = self.run.agent;
        let limits = FeedbackLimits {
            max_bytes: agent.retry.max_bytes,
            max_items: agent.retry.max_items,
        };
        let target = match &agent.output.from {
            Source::Stdout => "standard output".to_owned(),
            Source::File(name) => {
                let output = self.provided.directory.output_path(number);
                let path = output.join(name).display().to_string();
                // A path that would have to be changed to be told is better named.
                match path.is_ascii() && path.len() <= 150 {
                    true => path,
                    false => "the file that HARNESS_OUTPUT_FILE names".to_owned(),
                }
            }
        };
        Feedback::of(&previous.refusal, &target, &self.run.context.marker, limits)
    }
}
