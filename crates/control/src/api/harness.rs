//! Records of harness runs: the harness of this machine hands them in, so that they stand in the same log as the calls
//! its agents made. Every word is bounded and of a known shape before it is written.

use ledger::{
    AttemptClass, EgressAttempt, EgressResult, Event, HarnessAttempt, HarnessOutput, HarnessResult, HarnessSubject,
    HarnessUsage, HarnessWalls, Note, RunReason, RunStatus, Verdict,
};
use serde::Deserialize;
use serde_json::json;
use vocabulary::{Digest, ReceiptId};

use super::call::Call;
use crate::answer::{Answer, Refusal};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum NewRecord {
    HarnessAttempt(Box<Attempt>),
    HarnessResult(Box<RunOutcome>),
    Egress(Egress),
    Admin(Remark),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    receipt_id: String,
    run: String,
    pipeline: Option<String>,
    agent: String,
    attempt: u32,
    max_attempts: u32,
    class: String,
    guard: Option<String>,
    exit: Option<u64>,
    duration_us: u64,
    output: Option<Output>,
    violations: u64,
    violation_fingerprint: Option<String>,
    feedback_hash: Option<String>,
    findings: Vec<(String, u64)>,
    usage: Option<Usage>,
    sandbox: Option<Walls>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunOutcome {
    receipt_id: String,
    run: String,
    pipeline: Option<String>,
    agent: String,
    status: String,
    reason: String,
    class: Option<String>,
    attempts: u32,
    config_hash: String,
    schema_hash: String,
    prompt_hash: String,
    output: Option<Output>,
    inputs: Vec<String>,
    duration_us: u64,
    usage: Option<Usage>,
    sandbox: Option<Walls>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Egress {
    server_id: String,
    instance: String,
    event: String,
    result: String,
    host: String,
    port: u16,
    reason: String,
    count: u64,
    run: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Remark {
    action: String,
    subject: Option<String>,
    result: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    bytes: u64,
    hash: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Usage {
    cost_usd_micros: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Walls {
    fs_policy: String,
    instance: String,
    layers: Vec<String>,
    net_policy: String,
    policy_hash: String,
    tier: String,
}

pub(super) async fn record(call: Call) -> Result<Answer, Refusal> {
    let event = match call.body::<NewRecord>()? {
        NewRecord::HarnessAttempt(attempt) => Event::HarnessAttempt(Box::new(attempt.check()?)),
        NewRecord::HarnessResult(outcome) => Event::HarnessResult(Box::new(outcome.check()?)),
        NewRecord::Egress(egress) => Event::Egress(Box::new(egress.check()?)),
        NewRecord::Admin(remark) => Event::Admin(remark.check(call.operator.name())?),
    };
    call.plane.record_event(event).await?;
    Ok(Answer::json(&json!({ "recorded": true })))
}

impl Attempt {
    fn check(self) -> Result<HarnessAttempt, Refusal> {
        let subject = subject(self.receipt_id, self.run, self.pipeline, self.agent)?;
        Ok(HarnessAttempt {
            subject,
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            class: AttemptClass::parse(&self.class).ok_or_else(|| wrong("class"))?,
            guard: self.guard.map(|guard| plain("guard", guard)).transpose()?,
            exit: self.exit,
            duration_us: self.duration_us,
            output: output(self.output)?,
            violations: self.violations,
            violation_fingerprint: optional("violation_fingerprint", self.violation_fingerprint)?,
            feedback_hash: optional("feedback_hash", self.feedback_hash)?,
            findings: findings(self.findings)?,
            usage: self.usage.map(usage),
            walls: self.sandbox.map(walls).transpose()?,
        })
    }
}

impl RunOutcome {
    fn check(self) -> Result<HarnessResult, Refusal> {
        let subject = subject(self.receipt_id, self.run, self.pipeline, self.agent)?;
        let class = self
            .class
            .map(|class| AttemptClass::parse(&class).ok_or_else(|| wrong("class")));
        let inputs = self.inputs.iter().take(MOST_INPUTS);
        Ok(HarnessResult {
            subject,
            status: RunStatus::parse(&self.status).ok_or_else(|| wrong("status"))?,
            reason: RunReason::parse(&self.reason).ok_or_else(|| wrong("reason"))?,
            class: class.transpose()?,
            attempts: self.attempts,
            config_hash: digest("config_hash", &self.config_hash)?,
            schema_hash: digest("schema_hash", &self.schema_hash)?,
            prompt_hash: digest("prompt_hash", &self.prompt_hash)?,
            output: output(self.output)?,
            inputs: inputs
                .map(|id| ReceiptId::parse(id).ok_or_else(|| wrong("inputs")))
                .collect::<Result<_, _>>()?,
            duration_us: self.duration_us,
            usage: self.usage.map(usage),
            walls: self.sandbox.map(walls).transpose()?,
        })
    }
}

impl Egress {
    fn check(self) -> Result<EgressAttempt, Refusal> {
        Ok(EgressAttempt {
            server_id: plain("server_id", self.server_id)?,
            instance: plain("instance", self.instance)?,
            event: plain("event", self.event)?.into(),
            result: EgressResult::parse(&self.result).ok_or_else(|| wrong("result"))?,
            host: plain("host", self.host)?,
            port: self.port,
            reason: plain("reason", self.reason)?.into(),
            count: self.count,
            run: Some(plain("run", self.run)?),
            open: Vec::new(),
        })
    }
}

impl Remark {
    /// Only what the harness does; who did it is whoever asks.
    fn check(self, operator: &str) -> Result<Note, Refusal> {
        let action = plain("action", self.action)?;
        if !action.starts_with("harness.") {
            return Err(wrong("action"));
        }
        let subject = self.subject.map(|subject| plain("subject", subject)).transpose()?;
        let message = plain("message", self.message)?;
        let mut note = Note::done(&action, operator, subject.as_deref(), &message);
        note.result = match self.result.as_str() {
            "allow" => Verdict::Allow,
            "deny" => Verdict::Deny,
            _ => return Err(wrong("result")),
        };
        Ok(note)
    }
}

fn subject(
    receipt_id: String,
    run: String,
    pipeline: Option<String>,
    agent: String,
) -> Result<HarnessSubject, Refusal> {
    Ok(HarnessSubject {
        receipt_id: ReceiptId::parse(&receipt_id).ok_or_else(|| wrong("receipt_id"))?,
        run: plain("run", run)?,
        pipeline: pipeline.map(|pipeline| plain("pipeline", pipeline)).transpose()?,
        agent: plain("agent", agent)?,
    })
}

fn output(output: Option<Output>) -> Result<Option<HarnessOutput>, Refusal> {
    let read = |output: Output| {
        Ok(HarnessOutput {
            bytes: output.bytes,
            hash: digest("output.hash", &output.hash)?,
        })
    };
    output.map(read).transpose()
}

fn usage(usage: Usage) -> HarnessUsage {
    HarnessUsage {
        cost_usd_micros: usage.cost_usd_micros,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
    }
}

fn walls(walls: Walls) -> Result<HarnessWalls, Refusal> {
    let layers = walls.layers.into_iter().take(MOST_LAYERS);
    Ok(HarnessWalls {
        fs_policy: plain("fs_policy", walls.fs_policy)?,
        instance: plain("instance", walls.instance)?,
        layers: layers.map(|layer| plain("layers", layer)).collect::<Result<_, _>>()?,
        net_policy: plain("net_policy", walls.net_policy)?,
        policy_hash: plain("policy_hash", walls.policy_hash)?,
        tier: plain("tier", walls.tier)?,
    })
}

/// In the order of their names, as records need them.
fn findings(found: Vec<(String, u64)>) -> Result<Vec<(String, u64)>, Refusal> {
    let mut read = Vec::new();
    for (category, count) in found.into_iter().take(MOST_FINDINGS) {
        read.push((plain("findings", category)?, count));
    }
    read.sort();
    read.dedup_by(|one, other| one.0 == other.0);
    Ok(read)
}

fn digest(member: &str, text: &str) -> Result<Digest, Refusal> {
    Digest::parse(text).ok_or_else(|| wrong(member))
}

fn optional(member: &str, text: Option<String>) -> Result<Option<Digest>, Refusal> {
    text.map(|text| digest(member, &text)).transpose()
}

fn plain(member: &str, text: String) -> Result<String, Refusal> {
    let fits = text.len() <= 512 && !text.chars().any(char::is_control);
    fits.then_some(text).ok_or_else(|| wrong(member))
}

fn wrong(member: &str) -> Refusal {
    Refusal::bad_request(format!("`{member}` does not fit a record"))
}

const MOST_INPUTS: usize = 1_000;
const MOST_LAYERS: usize = 64;
const MOST_FINDINGS: usize = 64;
