//! One turn of a session: start the runtime, see it dead, take its output, judge it, look whether the harness is still
//! what it was, and write all of that down.

use std::path::PathBuf;
use std::time::Instant;

use ledger::{AttemptClass, Event, HarnessAttempt, HarnessOutput, HarnessUsage, HarnessWalls};
use vocabulary::{Clock, Digest, ReceiptId};

use super::RunError;
use super::session::Session;
use crate::attempt::{Captured, EgressLog, End, Extent, Launch, Ran, launch};
use crate::config::Source;
use crate::contract::{Findings, Guard, Refusal, Validated};
use crate::feedback::Feedback;
use crate::intake::{OutputPlace, RawOutput, too_large};
use crate::ports::Step;
use crate::removal;
use crate::report::AttemptNote;
use crate::runtime::Turn;
use crate::usage;

/// What came of a turn.
pub(super) enum Turned {
    Valid(Validated),
    Refused {
        class: AttemptClass,
        refusal: Option<Refusal>,
        output: Option<Digest>,
    },
    /// A file of the harness is not what it was.
    Changed(PathBuf),
    /// The sandbox could not be built.
    NotStarted(String),
    /// Nobody wants the output any more.
    Stopped,
}

/// What is known of an attempt when it is recorded.
struct Facts {
    class: AttemptClass,
    exit: Option<u64>,
    output: Option<HarnessOutput>,
    refusal: Option<Refusal>,
    findings: Findings,
    usage: Option<HarnessUsage>,
    confinement: Option<HarnessWalls>,
}

impl Facts {
    fn nothing(class: AttemptClass) -> Self {
        Self {
            class,
            exit: None,
            output: None,
            refusal: None,
            findings: Findings::new(),
            usage: None,
            confinement: None,
        }
    }
}

impl Session<'_> {
    /// Does one turn.
    pub(super) async fn turn(
        &mut self,
        (number, most): (u32, u32),
        feedback: Option<&Feedback>,
    ) -> Result<Turned, RunError> {
        let began = Instant::now();
        let name = self.agent.name.to_string();
        let told = (number, began, feedback);
        self.context.setting.progress.tell(Step::Attempt {
            agent: name,
            number,
            most,
        });
        let watched = self.context.watched.clone();
        let before = watched.before();
        if let Some(path) = watched.changed(&before) {
            self.write_down(told, Facts::nothing(AttemptClass::Integrity)).await?;
            return Ok(Turned::Changed(path));
        }
        let (turn, place) = self.prepare((number, most), feedback)?;
        let ran = match self.start(&turn, feedback).await {
            Ok(ran) => ran,
            Err(told) => return Ok(Turned::NotStarted(told)),
        };
        if ran.end == End::Stopped {
            return Ok(Turned::Stopped);
        }
        self.confinement = Some(ran.confinement.clone());
        self.keep_words(number, &ran);
        let (judged, facts) = self.judge(&ran, &place);
        let output = facts.output.map(|output| output.hash);
        let _ = removal::remove(&turn.output);
        if let Some(path) = watched.changed(&before) {
            let facts = Facts {
                class: AttemptClass::Integrity,
                refusal: None,
                ..facts
            };
            self.write_down(told, facts).await?;
            return Ok(Turned::Changed(path));
        }
        let (class, refusal) = (facts.class, facts.refusal.clone());
        self.write_down(told, facts).await?;
        Ok(match judged {
            Some(validated) => Turned::Valid(validated),
            None => Turned::Refused { class, refusal, output },
        })
    }

    fn prepare(
        &self,
        (number, most): (u32, u32),
        feedback: Option<&Feedback>,
    ) -> Result<(Turn, OutputPlace), RunError> {
        let disk = RunError::disk;
        let output = self
            .agent_directory
            .output(number, self.owner.map(|(uid, _)| uid))
            .map_err(disk("making room for the output"))?;
        let place = OutputPlace::hold(&output).map_err(disk("taking hold of the output's place"))?;
        let feedback = feedback
            .map(|feedback| {
                self.agent_directory
                    .give(&format!("feedback-{number}.json"), feedback.file())
            })
            .transpose()
            .map_err(disk("writing feedback"))?;
        let left = self.attempt_ends().saturating_duration_since(Instant::now());
        let turn = Turn {
            number,
            most,
            deadline: Clock::system().now().plus(left),
            output,
            feedback,
        };
        Ok((turn, place))
    }

    fn attempt_ends(&self) -> Instant {
        (Instant::now() + self.agent.limits.timeout).min(self.deadline)
    }

    async fn start(&mut self, turn: &Turn, feedback: Option<&Feedback>) -> Result<Ran, String> {
        let plan = self.stage().plan(turn).map_err(|faults| faults.join("; "))?;
        let mut prompt = self.agent.prompt.bytes.clone();
        prompt.extend_from_slice(feedback.map(Feedback::block).unwrap_or_default().as_bytes());
        let log = EgressLog {
            recorder: self.context.setting.recorder.clone(),
            agent: self.agent.name.to_string(),
            run: self.context.run.clone(),
        };
        let keep = match self.agent.output.from {
            Source::Stdout => self.agent.output.contract.max_bytes(),
            Source::File(_) => KEPT,
        };
        let order = Launch {
            launcher: &self.context.setting.launcher,
            plan: &plan,
            prompt,
            deadline: self.attempt_ends(),
            keep,
            gateway: self.token.as_ref().map(|token| token.address),
        };
        let ran = launch(order, &log, &mut self.stop).await;
        ran.map_err(|failure| {
            let cause = std::error::Error::source(&failure).map(ToString::to_string);
            [Some(failure.to_string()), cause]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(": ")
        })
    }

    /// Takes the output and judges it. Only now: nothing of the runtime is alive.
    fn judge(&self, ran: &Ran, place: &OutputPlace) -> (Option<Validated>, Facts) {
        let contract = &self.agent.output.contract;
        let taken = match &self.agent.output.from {
            Source::File(name) => place.take(name, contract.max_bytes()),
            Source::Stdout => from_stream(&ran.stdout),
        };
        let mut facts = Facts {
            output: taken.as_ref().ok().map(|raw| HarnessOutput {
                bytes: raw.bytes().len() as u64,
                hash: raw.hash(),
            }),
            usage: usage::read(place),
            confinement: Some(ran.confinement.clone()),
            ..Facts::nothing(AttemptClass::Ok)
        };
        let verdict = match ran.end {
            End::Exited(0) => match &taken {
                Ok(raw) => {
                    let (verdict, findings) = contract.validate(raw);
                    facts.findings = findings;
                    verdict
                }
                Err(refusal) => Err(refusal.clone()),
            },
            End::Exited(_) => Err(bare(AttemptClass::RuntimeExit)),
            End::TimedOut | End::Stopped => Err(bare(AttemptClass::Timeout)),
        };
        facts.exit = match ran.end {
            End::Exited(code) => Some(code),
            End::TimedOut | End::Stopped => None,
        };
        let validated = match verdict {
            Ok(validated) => Some(validated),
            Err(refusal) => {
                facts.class = refusal.class;
                facts.refusal = Some(refusal);
                None
            }
        };
        if let (None, Ok(raw)) = (&validated, &taken) {
            let number = self.notes.len() + 1;
            // For whoever looks into the failure; a full disk is found by the record.
            let _ = self
                .context
                .directory
                .quarantine(&format!("{}-{number}.raw", self.agent.name), raw.bytes());
        }
        (validated, facts)
    }

    /// Keeps what the runtime said, where nobody stumbles over it.
    fn keep_words(&self, number: u32, ran: &Ran) {
        let mut streams = vec![("stderr", &ran.stderr)];
        if matches!(self.agent.output.from, Source::File(_)) {
            streams.push(("stdout", &ran.stdout));
        }
        for (name, stream) in streams.iter().filter(|(_, stream)| !stream.bytes.is_empty()) {
            let file = format!("{}-{number}.{name}", self.agent.name);
            let _ = self.context.directory.quarantine(&file, &stream.bytes);
        }
    }

    async fn write_down(
        &mut self,
        (number, began, feedback): (u32, Instant, Option<&Feedback>),
        facts: Facts,
    ) -> Result<(), RunError> {
        let took = began.elapsed();
        let refusal = facts.refusal.as_ref();
        let record = HarnessAttempt {
            subject: self.context.subject(&self.agent.name, ReceiptId::mint()),
            attempt: number,
            max_attempts: self.agent.retry.max_retries + 1,
            class: facts.class,
            guard: refusal
                .and_then(|refusal| refusal.guard)
                .map(|guard| guard.as_str().to_owned()),
            exit: facts.exit,
            duration_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            output: facts.output,
            violations: refusal.map_or(0, |refusal| refusal.violations.len() as u64),
            violation_fingerprint: refusal.map(Refusal::fingerprint),
            feedback_hash: feedback.map(Feedback::hash),
            findings: facts
                .findings
                .iter()
                .map(|(category, count)| ((*category).to_owned(), *count))
                .collect(),
            usage: facts.usage,
            walls: facts.confinement,
        };
        let recorder = &self.context.setting.recorder;
        recorder.record(Event::HarnessAttempt(Box::new(record))).await?;
        self.notes.push(AttemptNote {
            number,
            class: facts.class,
            took,
            usage: facts.usage,
        });
        self.context.setting.progress.tell(Step::Judged {
            agent: self.agent.name.to_string(),
            number,
            class: facts.class,
            took,
        });
        Ok(())
    }
}

/// What a runtime printed, under the same cap as a file.
fn from_stream(stdout: &Captured) -> Result<RawOutput, Refusal> {
    match stdout.extent {
        Extent::Cut => Err(too_large()),
        Extent::Unfinished => Err(Refusal::guard(Guard::Unfinished, "standard output was still held open")),
        Extent::Whole if stdout.bytes.is_empty() => Err(Refusal::no_output()),
        Extent::Whole => Ok(RawOutput::new(stdout.bytes.clone())),
    }
}

fn bare(class: AttemptClass) -> Refusal {
    Refusal {
        class,
        guard: None,
        violations: Vec::new(),
    }
}

/// How much is kept of what a runtime prints beside its output.
const KEPT: usize = 64 << 10;
