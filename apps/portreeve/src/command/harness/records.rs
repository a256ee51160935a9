//! Records of runs: appended by the gateway that runs on the state directory, else by this command under the lock, which
//! is held for each append only.

use std::sync::Arc;

use anyhow::Context as _;
use harness::{Later, Recorder, Unavailable};
use ledger::{
    EgressAttempt, Event, HarnessAttempt, HarnessOutput, HarnessResult, HarnessUsage, HarnessWalls, Ledger, Note,
    Verdict,
};
use serde_json::{Value, json};
use store::{LockError, StateLock};
use vocabulary::Clock;

use crate::command::access::Access;
use crate::config::Local;
use crate::wire_up::ledger_settings;

/// See the module.
pub(super) struct Records {
    config: Arc<Local>,
    /// One append at a time: agents of a stage would only wait for each other's lock.
    turn: tokio::sync::Mutex<()>,
}

impl Records {
    pub(super) fn of(config: Arc<Local>) -> Self {
        Self {
            config,
            turn: tokio::sync::Mutex::default(),
        }
    }

    async fn append(&self, event: Event) -> anyhow::Result<()> {
        let _turn = self.turn.lock().await;
        match StateLock::take(&self.config.state.dir) {
            Ok(lock) => {
                let config = self.config.clone();
                return tokio::task::spawn_blocking(move || write(&config, event, lock)).await?;
            }
            Err(LockError::InUse(_)) => {}
            Err(error @ LockError::Disk { .. }) => return Err(error.into()),
        }
        // A gateway, or another command for a moment.
        let body = body(&event).context("the record is none of the harness's")?;
        let access = Access::open(&self.config).await?;
        let done = access.post("/harness/records", &body).await;
        access.close().await?;
        done.map(drop)
    }
}

/// Appends under the lock, which goes with this call. Blocks.
fn write(config: &Local, event: Event, lock: StateLock) -> anyhow::Result<()> {
    let audit = config
        .audit
        .as_ref()
        .context("`[audit]` has faults; `portreeve check` tells them")?;
    let (ledger, _) = Ledger::open(&config.state.dir, ledger_settings(audit, &Clock::system()))?;
    let written = ledger.append_event_blocking(event);
    ledger.shutdown();
    drop(lock);
    written?;
    Ok(())
}

impl Recorder for Records {
    fn record(&self, event: Event) -> Later<'_, Result<(), Unavailable>> {
        Box::pin(async move {
            let done = self.append(event).await;
            done.map_err(|error| Unavailable::new("the run cannot be recorded, so it does not go on", error))
        })
    }
}

/// An event of a run as the admin API takes it; `None` for events that are none of the harness's.
fn body(event: &Event) -> Option<Value> {
    match event {
        Event::HarnessAttempt(attempt) => Some(attempt_body(attempt)),
        Event::HarnessResult(result) => Some(result_body(result)),
        Event::Egress(attempt) => Some(egress_body(attempt)),
        Event::Admin(note) => Some(note_body(note)),
        Event::Approval(_) | Event::Incident(_) | Event::Inventory(_) | Event::Screening(_) => None,
    }
}

fn attempt_body(attempt: &HarnessAttempt) -> Value {
    json!({
        "type": "harness_attempt",
        "receipt_id": attempt.subject.receipt_id.to_string(),
        "run": attempt.subject.run,
        "pipeline": attempt.subject.pipeline,
        "agent": attempt.subject.agent,
        "attempt": attempt.attempt,
        "max_attempts": attempt.max_attempts,
        "class": attempt.class.as_str(),
        "guard": attempt.guard,
        "exit": attempt.exit,
        "duration_us": attempt.duration_us,
        "output": attempt.output.as_ref().map(output),
        "violations": attempt.violations,
        "violation_fingerprint": attempt.violation_fingerprint.map(|hash| hash.to_string()),
        "feedback_hash": attempt.feedback_hash.map(|hash| hash.to_string()),
        "findings": attempt.findings,
        "usage": attempt.usage.as_ref().map(usage),
        "sandbox": attempt.walls.as_ref().map(walls),
    })
}

fn result_body(result: &HarnessResult) -> Value {
    json!({
        "type": "harness_result",
        "receipt_id": result.subject.receipt_id.to_string(),
        "run": result.subject.run,
        "pipeline": result.subject.pipeline,
        "agent": result.subject.agent,
        "status": result.status.as_str(),
        "reason": result.reason.as_str(),
        "class": result.class.map(|class| class.as_str()),
        "attempts": result.attempts,
        "config_hash": result.config_hash.to_string(),
        "schema_hash": result.schema_hash.to_string(),
        "prompt_hash": result.prompt_hash.to_string(),
        "output": result.output.as_ref().map(output),
        "inputs": result.inputs.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "duration_us": result.duration_us,
        "usage": result.usage.as_ref().map(usage),
        "sandbox": result.walls.as_ref().map(walls),
    })
}

fn egress_body(attempt: &EgressAttempt) -> Value {
    json!({
        "type": "egress",
        "server_id": attempt.server_id,
        "instance": attempt.instance,
        "event": attempt.event,
        "result": attempt.result.as_str(),
        "host": attempt.host,
        "port": attempt.port,
        "reason": attempt.reason,
        "count": attempt.count,
        "run": attempt.run,
    })
}

fn note_body(note: &Note) -> Value {
    json!({
        "type": "admin",
        "action": note.action,
        "subject": note.subject,
        "result": match note.result {
            Verdict::Allow => "allow",
            Verdict::Deny | Verdict::RequireApproval => "deny",
        },
        "message": note.message,
    })
}

fn output(output: &HarnessOutput) -> Value {
    json!({ "bytes": output.bytes, "hash": output.hash.to_string() })
}

fn usage(usage: &HarnessUsage) -> Value {
    json!({
        "cost_usd_micros": usage.cost_usd_micros,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    })
}

fn walls(walls: &HarnessWalls) -> Value {
    json!({
        "fs_policy": walls.fs_policy,
        "instance": walls.instance,
        "layers": walls.layers,
        "net_policy": walls.net_policy,
        "policy_hash": walls.policy_hash,
        "tier": walls.tier,
    })
}
