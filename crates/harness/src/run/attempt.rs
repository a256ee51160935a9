//! One attempt: start the runtime, see it dead, take its output, judge it, look whether the harness is still what it was,
//! and write all of that down.

use std::path::PathBuf;
use std::time::Instant;

use ledger::{AttemptClass, Event, HarnessAttempt, HarnessOutput, HarnessUsage, HarnessWalls};
use screening::utterance::last_lines;
use vocabulary::{Clock, Digest, ReceiptId};

use super::agent_run::AgentRun;
use super::context::RunError;
use crate::config::Source;
use crate::contract::{Findings, Validated};
use crate::feedback::Feedback;
use crate::intake::{OutputPlace, RawOutput};
use crate::launch::{Captured, EgressLog, End, Extent, Launch, Ran, launch};
use crate::ports::Step;
use crate::refusal::{Guard, Refusal};
use crate::removal;
use crate::report::AttemptNote;
use crate::run_directory::Owner;
use crate::runtime::{AttemptPlace, Provided, Tools};
use crate::usage;

/// An agent whose runtime may start: its directories are open to it, its tools at hand, its inputs sealed.
pub(super) struct Ready<'s, 'a> {
    pub(super) run: &'s AgentRun<'a>,
    pub(super) provided: &'s Provided,
    pub(super) owner: Owner,
    pub(super) tools: &'s Tools,
}

/// What came of an attempt.
pub(super) enum Attempted {
    Valid(Validated, Made),
    Refused(Refused, Made),
    /// A file of the harness is not what it was.
    Changed(PathBuf, Made),
    /// The sandbox could not be built.
    NotStarted(String),
    /// Nobody wants the output any more.
    Stopped(Made),
}

/// An output that goes no further.
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    output: Option<Digest>,
}

impl Refused {
    /// Whether both attempts gave the same bytes.
    pub(super) fn is_same_output(&self, other: &Self) -> bool {
        other.output.is_some() && self.output == other.output
    }
}

/// An attempt that is on record.
pub(super) struct Made {
    pub(super) note: AttemptNote,
    /// What stood around the runtime, if it ran.
    pub(super) confinement: Option<HarnessWalls>,
}

/// An attempt while it goes on.
struct Attempt<'f> {
    number: u32,
    began: Instant,
    feedback: Option<&'f Feedback>,
}

/// What was seen of a runtime that ran.
struct Observed {
    end: End,
    output: Option<HarnessOutput>,
    findings: Findings,
    usage: Option<HarnessUsage>,
    confinement: HarnessWalls,
    last_words: Vec<String>,
}

/// What the record of an attempt says of its output.
#[derive(Clone, Copy)]
enum Judgement<'r> {
    Valid,
    Refused(&'r Refusal),
    /// Whatever the output is, the harness was changed.
    Changed,
    /// It was not looked at: nobody wanted it any more.
    Stopped,
}

impl<'r> Judgement<'r> {
    fn class(self) -> AttemptClass {
        match self {
            Self::Valid => AttemptClass::Ok,
            Self::Refused(refusal) => refusal.class,
            Self::Changed => AttemptClass::Integrity,
            Self::Stopped => AttemptClass::Stopped,
        }
    }

    fn refusal(self) -> Option<&'r Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Valid | Self::Changed | Self::Stopped => None,
        }
    }
}

impl Ready<'_, '_> {
    /// Makes attempt `number`.
    pub(super) async fn attempt(&self, number: u32, feedback: Option<&Feedback>) -> Result<Attempted, RunError> {
        let attempt = Attempt {
            number,
            began: Instant::now(),
            feedback,
        };
        self.run.tell(Step::Attempt {
            agent: self.run.agent.name.to_string(),
            number,
            most: self.most(),
        });
        let watched = &self.run.context.watched;
        let before = watched.before();
        if let Some(path) = watched.changed(&before) {
            let made = self.record(&attempt, Judgement::Changed, None).await?;
            return Ok(Attempted::Changed(path, made));
        }
        let (place, output) = self.make_place(&attempt)?;
        let ran = match self.start(&place, feedback).await {
            Ok(ran) if ran.end == End::Stopped => return self.stopped(&attempt, ran, &output).await,
            Ok(ran) => ran,
            Err(told) => return Ok(Attempted::NotStarted(told)),
        };
        self.keep_words(number, &ran);
        let (verdict, observed) = self.judge(number, ran, &output);
        let _ = removal::remove(&place.output);
        if let Some(path) = watched.changed(&before) {
            let made = self.record(&attempt, Judgement::Changed, Some(observed)).await?;
            return Ok(Attempted::Changed(path, made));
        }
        match verdict {
            Ok(validated) => {
                let made = self.record(&attempt, Judgement::Valid, Some(observed)).await?;
                Ok(Attempted::Valid(validated, made))
            }
            Err(refusal) => {
                let output = observed.output.map(|output| output.hash);
                let judgement = Judgement::Refused(&refusal);
                let made = self.record(&attempt, judgement, Some(observed)).await?;
                Ok(Attempted::Refused(Refused { refusal, output }, made))
            }
        }
    }

    /// An attempt that was ended was made: it may have cost money, and it has reached what it has reached.
    async fn stopped(&self, attempt: &Attempt<'_>, ran: Ran, place: &OutputPlace) -> Result<Attempted, RunError> {
        self.keep_words(attempt.number, &ran);
        let observed = Observed {
            end: ran.end,
            output: None,
            findings: Findings::new(),
            usage: usage::read(place),
            confinement: ran.confinement,
            last_words: Vec::new(),
        };
        let made = self.record(attempt, Judgement::Stopped, Some(observed)).await?;
        Ok(Attempted::Stopped(made))
    }

    /// How many attempts there may be.
    fn most(&self) -> u32 {
        self.run.agent.retry.max_retries + 1
    }

    fn make_place(&self, attempt: &Attempt<'_>) -> Result<(AttemptPlace, OutputPlace), RunError> {
        let (directory, disk) = (&self.provided.directory, RunError::disk);
        let output = directory
            .output(attempt.number, self.owner)
            .map_err(disk("making room for the output"))?;
        let held = OutputPlace::hold(&output).map_err(disk("taking hold of the output's place"))?;
        let feedback = attempt
            .feedback
            .map(|feedback| directory.give(&format!("feedback-{}.json", attempt.number), feedback.file()))
            .transpose()
            .map_err(disk("writing feedback"))?;
        let left = self.attempt_ends().saturating_duration_since(Instant::now());
        let place = AttemptPlace {
            number: attempt.number,
            most: self.most(),
            deadline: Clock::system().now().plus(left),
            output,
            feedback,
        };
        Ok((place, held))
    }

    fn attempt_ends(&self) -> Instant {
        (Instant::now() + self.run.agent.limits.timeout).min(self.run.deadline)
    }

    async fn start(&self, place: &AttemptPlace, feedback: Option<&Feedback>) -> Result<Ran, String> {
        let (context, agent) = (self.run.context, self.run.agent);
        let plan = self.run.surroundings(self.provided, self.tools).plan(place);
        let plan = plan.map_err(|faults| faults.join("; "))?;
        let mut prompt = agent.prompt.bytes.clone();
        prompt.extend_from_slice(feedback.map(Feedback::block).unwrap_or_default().as_bytes());
        let log = EgressLog {
            recorder: context.setting.recorder.clone(),
            agent: agent.name.to_string(),
            run: context.run.clone(),
        };
        let order = Launch {
            launcher: &context.setting.launcher,
            plan: &plan,
            prompt,
            deadline: self.attempt_ends(),
            keep: match agent.output.from {
                Source::Stdout => agent.output.contract.max_bytes(),
                Source::File(_) => KEPT,
            },
            gateway: match self.tools {
                Tools::None => None,
                Tools::Gateway { lease, .. } => Some(lease.token().address),
            },
        };
        let ran = launch(order, &log, &mut self.run.stop.clone()).await;
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
    fn judge(&self, number: u32, ran: Ran, place: &OutputPlace) -> (Result<Validated, Refusal>, Observed) {
        let (agent, contract) = (self.run.agent, &self.run.agent.output.contract);
        let taken = match &agent.output.from {
            Source::File(name) => place.take(name, contract.max_bytes()),
            Source::Stdout => from_stream(&ran.stdout),
        };
        let (verdict, findings) = match (ran.end, &taken) {
            (End::Exited(0), Ok(raw)) => contract.validate(raw),
            (End::Exited(0), Err(refusal)) => (Err(refusal.clone()), Findings::new()),
            (End::Exited(_), _) => (Err(Refusal::bare(AttemptClass::RuntimeExit)), Findings::new()),
            (End::TimedOut | End::Stopped, _) => (Err(Refusal::bare(AttemptClass::Timeout)), Findings::new()),
        };
        if let (Err(_), Ok(raw)) = (&verdict, &taken) {
            // For whoever looks into the failure; a full disk is found by the record.
            let name = format!("{}-{number}.raw", agent.name);
            let _ = self.run.context.directory.quarantine(&name, raw.bytes());
        }
        let observed = Observed {
            end: ran.end,
            output: taken.ok().map(|raw| HarnessOutput {
                bytes: raw.bytes().len() as u64,
                hash: raw.hash(),
            }),
            findings,
            usage: usage::read(place),
            confinement: ran.confinement,
            last_words: last_lines(&ran.masks.hide(&String::from_utf8_lossy(&ran.stderr.bytes)), None),
        };
        (verdict, observed)
    }

    /// Keeps what the runtime said, where nobody stumbles over it.
    fn keep_words(&self, number: u32, ran: &Ran) {
        let agent = self.run.agent;
        let mut streams = vec![("stderr", &ran.stderr)];
        if matches!(agent.output.from, Source::File(_)) {
            streams.push(("stdout", &ran.stdout));
        }
        for (name, stream) in streams.iter().filter(|(_, stream)| !stream.bytes.is_empty()) {
            let file = format!("{}-{number}.{name}", agent.name);
            let kept = ran.masks.hide_in(&stream.bytes);
            let _ = self.run.context.directory.quarantine(&file, &kept);
        }
    }

    /// Puts the attempt on record; `observed` is what was seen of the runtime, if it ran.
    async fn record(
        &self,
        attempt: &Attempt<'_>,
        judgement: Judgement<'_>,
        observed: Option<Observed>,
    ) -> Result<Made, RunError> {
        let (context, agent) = (self.run.context, self.run.agent);
        let refusal = judgement.refusal();
        let has_failed = matches!(judgement.class(), AttemptClass::RuntimeExit | AttemptClass::Timeout);
        let failed = observed.as_ref().filter(|_| has_failed);
        let note = AttemptNote {
            number: attempt.number,
            class: judgement.class(),
            took: attempt.began.elapsed(),
            usage: observed.as_ref().and_then(|observed| observed.usage),
            exit: failed.and_then(|failed| failed.end.code()),
            last_words: failed.map(|failed| failed.last_words.clone()).unwrap_or_default(),
        };
        let record = HarnessAttempt {
            subject: context.subject(&agent.name, ReceiptId::mint()),
            attempt: note.number,
            max_attempts: self.most(),
            class: note.class,
            guard: refusal
                .and_then(|refusal| refusal.guard)
                .map(|guard| guard.as_str().to_owned()),
            exit: observed.as_ref().and_then(|observed| observed.end.code()),
            duration_us: u64::try_from(note.took.as_micros()).unwrap_or(u64::MAX),
            output: observed.as_ref().and_then(|observed| observed.output),
            violations: refusal.map_or(0, |refusal| refusal.violations.len() as u64),
            violation_fingerprint: refusal.map(Refusal::fingerprint),
            feedback_hash: attempt.feedback.map(Feedback::hash),
            findings: observed.as_ref().map_or_else(Default::default, |observed| {
                let counts = observed.findings.iter();
                counts
                    .map(|(category, count)| ((*category).to_owned(), *count))
                    .collect()
            }),
            usage: note.usage,
            walls: observed.as_ref().map(|observed| observed.confinement.clone()),
        };
        let recorder = &context.setting.recorder;
        recorder.record(Event::HarnessAttempt(Box::new(record))).await?;
        self.run.tell(Step::Judged {
            agent: agent.name.to_string(),
            number: note.number,
            class: note.class,
            took: note.took,
        });
        Ok(Made {
            note,
            confinement: observed.map(|observed| observed.confinement),
        })
    }
}

/// What a runtime printed, under the same cap as a file.
fn from_stream(stdout: &Captured) -> Result<RawOutput, Refusal> {
    match stdout.extent {
        Extent::Cut => Err(Refusal::too_large()),
        Extent::Unfinished => Err(Refusal::guard(Guard::Unfinished, "standard output was still held open")),
        Extent::Whole if stdout.bytes.is_empty() => Err(Refusal::no_output()),
        Extent::Whole => Ok(RawOutput::new(stdout.bytes.clone())),
    }
}

/// How much is kept of what a runtime prints beside its output.
const KEPT: usize = 64 << 10;
