//! One attempt: a runtime in its confinement, the prompt on its standard input, and nothing of it left alive when this
//! returns. What it wrote is not looked at here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::{EgressAttempt, EgressResult, Event, HarnessWalls};
use sandbox::{
    Attempt, Egress, Ending, Gate, HostResolver, Instance, LaunchFailure, Launcher, Plan, Report, Verdict, Witness,
};
use screening::recorded::without_secrets;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use vocabulary::Masks;

use crate::ports::{Recorder, Stop};

/// What is to be started.
pub(crate) struct Launch<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) plan: &'a Plan,
    pub(crate) prompt: Vec<u8>,
    pub(crate) deadline: Instant,
    /// How much of standard output is kept.
    pub(crate) keep: usize,
    /// Where the gateway listens, for agents with tools.
    pub(crate) gateway: Option<SocketAddr>,
}

/// How a runtime ended. It and all it started are dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// By itself, with this code; 128 and more may stand for a signal.
    Exited(u64),
    /// Its time was over.
    TimedOut,
    /// Nobody wanted its output any more.
    Stopped,
}

impl End {
    /// The code it ended with, if it ended by itself.
    pub(crate) fn code(self) -> Option<u64> {
        match self {
            Self::Exited(code) => Some(code),
            Self::TimedOut | Self::Stopped => None,
        }
    }
}

/// What is left of a runtime.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) end: End,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    pub(crate) confinement: HarnessWalls,
    /// Secrets it was given, which are in nothing that is kept of what it said.
    pub(crate) masks: Masks,
}

/// The beginning of a stream, of standard error the end.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    pub(crate) bytes: Vec<u8>,
    pub(crate) extent: Extent,
}

/// Whether that is all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// There was more.
    Cut,
    /// Nobody knows: somebody still held it open.
    #[default]
    Unfinished,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartFailure {
    /// The confinement could not be built.
    #[error("the sandbox could not be built")]
    Confinement(#[from] LaunchFailure),
    /// Its doors could not be attended.
    #[error("the sandbox's doors could not be attended")]
    Doors(#[source] std::io::Error),
    /// There is no way from inside to the gateway.
    #[error("this host gives sandboxes without a network of their own, from which the gateway cannot be reached")]
    NoGate,
}

/// Starts a runtime and waits until nothing of it is left.
pub(crate) async fn launch(
    order: Launch<'_>,
    log: &EgressLog,
    stop: &mut watch::Receiver<Stop>,
) -> Result<Ran, StartFailure> {
    let mut starting = order.launcher.start(order.plan).await?;
    let confinement = confinement(starting.report());
    let mut doors = starting.take_doors();
    let gate = match (order.gateway, doors.as_mut().map(|doors| doors.gate.take())) {
        (Some(gateway), Some(Some(listener))) => Some(Gate::serve(listener, gateway).map_err(StartFailure::Doors)?),
        (Some(_), None) if order.plan.net() == sandbox::NetPolicy::Unconfined => None,
        (Some(_), _) => return Err(StartFailure::NoGate),
        (None, _) => None,
    };
    let (witness, told) = log.attend(&confinement.instance);
    let egress = doors
        .map(|doors| {
            Egress::serve(
                doors,
                order.plan.allowlist().clone(),
                Arc::new(HostResolver),
                Arc::new(witness),
            )
        })
        .transpose()
        .map_err(StartFailure::Doors)?;
    let mut instance = starting.go().await?;
    let streams = instance.take_streams();
    let (stdout, stderr) = match streams {
        Some(streams) => {
            let sandbox::Streams {
                mut stdin,
                stdout,
                stderr,
            } = streams;
            let prompt = order.prompt;
            tokio::spawn(async move {
                // A runtime that does not read its prompt ends as it likes.
                let _ = stdin.write_all(&prompt).await;
            });
            (
                Some(tokio::spawn(capture(stdout, order.keep))),
                Some(tokio::spawn(capture_end(stderr, KEPT))),
            )
        }
        None => (None, None),
    };
    let end = until_dead(&instance, order.deadline, stop).await;
    drop(gate);
    if let Some(egress) = egress {
        egress.shut();
    }
    told.finish().await;
    Ok(Ran {
        end,
        stdout: collected(stdout).await,
        stderr: collected(stderr).await,
        confinement,
        masks: order.plan.masks().clone(),
    })
}

/// Waits for the runtime's end or makes it; in any case everything inside is dead afterwards.
async fn until_dead(instance: &Instance, deadline: Instant, stop: &mut watch::Receiver<Stop>) -> End {
    let end = tokio::select! {
        ending = instance.wait() => Some(ending),
        () = tokio::time::sleep_until(deadline.into()) => None,
        () = Stop::from(Stop::Beside, stop) => {
            instance.kill();
            instance.wait().await;
            return End::Stopped;
        }
    };
    // Also after an orderly end: a control group may hold what a namespace does not.
    instance.kill();
    match end {
        Some(Ending::Exited(code)) => End::Exited(u64::try_from(code).unwrap_or(255)),
        Some(Ending::Signalled(signal)) => End::Exited(128 + u64::from(signal.unsigned_abs())),
        // It was killed for it.
        Some(Ending::Passed(_)) => End::Exited(128 + 9),
        None => {
            instance.wait().await;
            End::TimedOut
        }
    }
}

async fn collected(stream: Option<JoinHandle<Captured>>) -> Captured {
    let Some(mut stream) = stream else {
        return Captured::default();
    };
    // Everybody who could write is dead; only a descriptor that was handed out of the sandbox could still be open.
    match timeout(LINGER, &mut stream).await {
        Ok(captured) => captured.unwrap_or_default(),
        Err(_) => {
            stream.abort();
            Captured::default()
        }
    }
}

/// Reads to the end, keeps the beginning.
async fn capture(mut stream: impl AsyncRead + Unpin, keep: usize) -> Captured {
    let mut captured = Captured {
        bytes: Vec::new(),
        extent: Extent::Whole,
    };
    let mut piece = vec![0u8; 16 << 10];
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        let room = keep.saturating_sub(captured.bytes.len()).min(read);
        captured.bytes.extend_from_slice(piece.get(..room).unwrap_or_default());
        if room < read {
            captured.extent = Extent::Cut;
        }
    }
    captured
}

/// Reads to the end, keeps the end: there stands why somebody gave up.
async fn capture_end(mut stream: impl AsyncRead + Unpin, keep: usize) -> Captured {
    let mut captured = Captured {
        bytes: Vec::new(),
        extent: Extent::Whole,
    };
    let mut piece = vec![0u8; 16 << 10];
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        captured.bytes.extend_from_slice(piece.get(..read).unwrap_or_default());
        let surplus = captured.bytes.len().saturating_sub(keep);
        if surplus > 0 {
            captured.bytes.drain(..surplus);
            captured.extent = Extent::Cut;
        }
    }
    captured
}

fn confinement(report: &Report) -> HarnessWalls {
    HarnessWalls {
        fs_policy: report.fs_policy.as_str().to_owned(),
        instance: report.instance.clone(),
        layers: report.layers.iter().map(|layer| layer.as_str().to_owned()).collect(),
        net_policy: report.net_policy.as_str().to_owned(),
        policy_hash: report.policy_hash.clone(),
        tier: report.tier.as_str().to_owned(),
    }
}

/// Records what a runtime tries to reach.
#[derive(Clone)]
pub(crate) struct EgressLog {
    pub(crate) recorder: Arc<dyn Recorder>,
    pub(crate) agent: String,
    pub(crate) run: String,
}

struct Ear(mpsc::UnboundedSender<Attempt>);

impl Witness for Ear {
    fn saw(&self, attempt: Attempt) {
        // Repeats are folded before they come here, so that this does not grow with a runtime's zeal.
        let _ = self.0.send(attempt);
    }
}

/// What is still being recorded.
struct Told(JoinHandle<()>);

impl Told {
    /// Gives the last records a moment.
    async fn finish(mut self) {
        if timeout(LINGER, &mut self.0).await.is_err() {
            self.0.abort();
        }
    }
}

impl EgressLog {
    fn attend(&self, instance: &str) -> (Ear, Told) {
        let (ear, mut heard) = mpsc::unbounded_channel::<Attempt>();
        let (log, instance) = (self.clone(), instance.to_owned());
        let told = tokio::spawn(async move {
            while let Some(attempt) = heard.recv().await {
                // A log that cannot be written is found by the attempt's own record.
                let _ = log.recorder.record(log.event(attempt, &instance)).await;
            }
        });
        (Ear(ear), Told(told))
    }

    fn event(&self, attempt: Attempt, instance: &str) -> Event {
        Event::Egress(Box::new(EgressAttempt {
            server_id: self.agent.clone(),
            instance: instance.to_owned(),
            event: attempt.event.as_str().into(),
            result: match attempt.verdict {
                Verdict::Allowed => EgressResult::Allowed,
                Verdict::Blocked => EgressResult::Blocked,
            },
            host: without_secrets(&attempt.host).into_owned(),
            port: attempt.port,
            reason: attempt.reason.as_str().into(),
            count: attempt.count,
            run: Some(self.run.clone()),
            open: Vec::new(),
        }))
    }
}

/// How much of standard error is kept.
const KEPT: usize = 64 << 10;
const LINGER: Duration = Duration::from_secs(2);
