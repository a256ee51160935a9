//! Tasks across eras: the client knows of none, so the call that spent the permit waits for its task
//! to end and brings back what the task ends with. It is still the one call: nothing here can be
//! done without a prepared call, and nothing here needs another permit. Whatever ends the call early
//! (time is up, the caller cancelled, the server sends what cannot be used) cancels the task.
//! ADR 0020: tasks across eras.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use mcp::compose::{self, ModernMeta, Outgoing, OutgoingMeta};
use mcp::headers::{Marks, Named};
use mcp::mrtr::{self, InputRequired, ResultType};
use mcp::server::{Nonsense, ServerMessage};
use mcp::task::{TaskState, TaskStatus};
use mcp::{Era, Version};
use vocabulary::TraceId;
use vocabulary::json::scanned::{self, Scanned, members_of};

use crate::call::answer::CallAnswer;
use crate::call::exchange::Exchange;
use crate::call::observer::{LONGEST_ASKING, NoObserver, Observer};
use crate::call::unanswered::Unanswered;
use crate::caps::Caps;
use crate::credentials::Behalf;
use crate::failure::Failure;
use crate::http::Post;
use crate::server::Server;
use crate::session::opened::Opened;

/// Who deals with a task that a call becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TaskMode {
    /// The client: it is handed what the server says.
    #[default]
    Client,
    /// The gateway: the client does not know the tasks of the server's era.
    Gateway,
}

/// A task that is under way.
pub(crate) struct RunningTask {
    origin: TaskOrigin,
    id: String,
    pause: Duration,
    stage: Stage,
    /// Keys of the inputs that were answered: a server may show them until it has read the answers.
    answered: HashSet<String>,
    /// Answers that the server has not been told yet.
    unsent: Option<Vec<u8>>,
}

/// The call that became a task.
#[derive(Clone)]
pub(crate) struct TaskOrigin {
    pub(crate) server: Arc<Server>,
    pub(crate) era: Era,
    /// The session or the process it belongs to; none with a modern server elsewhere.
    pub(crate) opened: Option<Opened>,
    pub(crate) behalf: Behalf,
    /// What a modern server is told of the client.
    pub(crate) capabilities: Bytes,
    pub(crate) trace: TraceId,
}

/// Whether the server still works on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Ended,
}

/// How often a task is polled between two of its requests for input.
const MOST_POLLS: u32 = 10_000;
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const USUAL_PAUSE: Duration = Duration::from_millis(500);
/// A server that wants to be left alone for longer would be asked when nobody waits any more.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// `task` of a call to a legacy server: it need not keep the task for longer than the call can take.
pub(crate) fn request_of(caps: &Caps) -> Vec<u8> {
    let ttl = caps.timeout.saturating_add(LONGEST_ASKING).as_millis();
    format!("{{\"ttl\":{ttl}}}").into_bytes()
}

/// The state of the task that a server answered with; `None` where the answer is no task.
pub(crate) fn begun(result: &Scanned, era: Era) -> Result<Option<TaskState>, Failure> {
    Ok(match era {
        Era::Legacy => TaskState::begun(result.bytes())?,
        Era::Modern if calls_itself_a_task(result) => Some(TaskState::read(result.bytes(), Era::Modern)?),
        Era::Modern => None,
    })
}

fn calls_itself_a_task(result: &Scanned) -> bool {
    match result.member("resultType") {
        scanned::Named::Once(raw) => mrtr::result_type_of(Some(raw)) == ResultType::Task,
        scanned::Named::Never | scanned::Named::Again => false,
    }
}

/// The call began, whatever failed then: nobody may say that nothing ran.
fn begun_already(failure: Failure) -> Failure {
    match (failure.executed(), failure) {
        (_, Failure::Blocked(blocked)) => Failure::BlockedLater(blocked),
        (Some(_), failure) => Failure::Broken(Box::new(failure)),
        (None, failure) => failure,
    }
}

impl RunningTask {
    pub(crate) fn new(origin: TaskOrigin, state: &TaskState) -> Self {
        Self {
            origin,
            id: state.id.clone(),
            pause: USUAL_PAUSE,
            stage: Stage::Open,
            answered: HashSet::new(),
            unsent: None,
        }
    }

    /// Waits for its end. A server may be done when it says that there is a task.
    pub(crate) async fn begin(&mut self, state: &TaskState, observer: &dyn Observer) -> Result<CallAnswer, Failure> {
        self.follow(state, observer).await.map_err(begun_already)
    }

    /// Waits on, with what it asked for.
    pub(crate) async fn resume(&mut self, observer: &dyn Observer) -> Result<CallAnswer, Failure> {
        self.poll(observer).await.map_err(begun_already)
    }

    /// What it asked for; told when it is resumed.
    pub(crate) fn answer(&mut self, responses: &[(String, Bytes)]) {
        self.unsent = Some(mrtr::compose_input_responses(responses));
        self.answered.extend(responses.iter().map(|(key, _)| key.clone()));
    }

    /// Whether something it asks for was answered before.
    pub(crate) fn has_answered(&self, key: &str) -> bool {
        self.answered.contains(key)
    }

    async fn follow(&mut self, state: &TaskState, observer: &dyn Observer) -> Result<CallAnswer, Failure> {
        self.pause = pause(state.poll_after.unwrap_or(self.pause), self.origin.server.caps.timeout);
        match (self.origin.era, state.status) {
            (_, TaskStatus::Working) | (Era::Modern, _) => self.poll(observer).await,
            (
                Era::Legacy,
                TaskStatus::InputRequired | TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled,
            ) => self.fetch(observer).await,
        }
    }

    /// Polls the task until it ends or asks for input.
    async fn poll(&mut self, observer: &dyn Observer) -> Result<CallAnswer, Failure> {
        if let Some(responses) = self.unsent.take() {
            self.ask("tasks/update", Some(("inputResponses", &responses)), observer)
                .await?;
        }
        for _ in 0..MOST_POLLS {
            tokio::time::sleep(self.pause).await;
            let told = self.ask("tasks/get", None, observer).await?;
            let state = TaskState::read(told.bytes(), self.origin.era)?;
            if state.id != self.id {
                return Err(Failure::Task("the server answered for another one"));
            }
            self.pause = pause(state.poll_after.unwrap_or(self.pause), self.origin.server.caps.timeout);
            match (self.origin.era, state.status) {
                (_, TaskStatus::Working) => {}
                // Requests of a session's task come while its result is waited for.
                (Era::Legacy, _) => return self.fetch(observer).await,
                (Era::Modern, TaskStatus::InputRequired) if self.asks_anew(&told)? => {
                    return Ok(CallAnswer::TaskAsks(told));
                }
                (Era::Modern, TaskStatus::InputRequired) => {}
                (Era::Modern, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled) => {
                    self.stage = Stage::Ended;
                    return ending(&told, state.status, self.origin.server.caps.max_depth);
                }
            }
        }
        Err(Failure::Task("it does not end"))
    }

    /// What a session's task ended with: a result or an error, as the call itself would have had it.
    async fn fetch(&mut self, observer: &dyn Observer) -> Result<CallAnswer, Failure> {
        let answer = self.request("tasks/result", None, observer).await?;
        self.stage = Stage::Ended;
        Ok(CallAnswer::Message(answer))
    }

    /// Whether a task asks something that was not answered yet.
    fn asks_anew(&self, told: &Scanned) -> Result<bool, Failure> {
        let wanted = InputRequired::read(told.bytes()).map_err(|_| Nonsense::Incomplete)?;
        let mut keys = wanted.requests.iter().map(|request| &request.key);
        Ok(keys.any(|key| !self.answered.contains(key)))
    }

    /// A request about the task that must have a result: an error of it is none of the call's own.
    async fn ask(
        &self,
        method: &'static str,
        more: Option<(&'static str, &[u8])>,
        observer: &dyn Observer,
    ) -> Result<Scanned, Failure> {
        match self.request(method, more, observer).await? {
            ServerMessage::Result { result, .. } => Ok(result),
            ServerMessage::Error { .. } | ServerMessage::Notification(_) | ServerMessage::Request(_) => {
                Err(Failure::Task("the server no longer answers for it"))
            }
        }
    }

    async fn request(
        &self,
        method: &'static str,
        more: Option<(&'static str, &[u8])>,
        observer: &dyn Observer,
    ) -> Result<ServerMessage, Failure> {
        let id = self.origin.server.link.next_id();
        let (body, headers) = self.compose(id, method, more);
        let credential = self.origin.server.credential_for(&self.origin.behalf).await?;
        let post = match (self.origin.era, &self.origin.opened) {
            (Era::Legacy, Some(opened)) => Post::legacy(body, opened, &credential),
            (Era::Legacy, None) | (Era::Modern, _) => {
                Post::modern(body, &headers, &credential).through(self.origin.opened.as_ref())
            }
        };
        let waiting = Unanswered::new(
            &self.origin.server,
            self.origin.opened.as_ref(),
            &self.origin.behalf,
            id,
        );
        let exchange = Exchange {
            server: &self.origin.server,
            id,
            session: self.origin.opened.as_ref(),
            behalf: &self.origin.behalf,
            observer,
        };
        let answered = exchange.run(post.traced(&self.origin.trace)).await;
        waiting.end();
        Ok(answered?.message)
    }

    fn compose(&self, id: u64, method: &'static str, more: Option<(&'static str, &[u8])>) -> (Bytes, HeaderMap) {
        let task = ("taskId", Cow::Owned(compose::literal(&self.id)));
        let more = more.map(|(name, raw)| (name, Cow::Borrowed(raw)));
        let modern = (self.origin.era == Era::Modern).then_some(ModernMeta {
            capabilities: &self.origin.capabilities,
            log_level: None,
        });
        let request = Outgoing {
            method,
            members: [task].into_iter().chain(more).collect(),
            meta: OutgoingMeta {
                modern,
                ..OutgoingMeta::default()
            },
        };
        let mut headers = HeaderMap::new();
        let named = Named {
            version: Version::MODERN.as_str(),
            method,
            name: Some(&self.id),
        };
        mcp::headers::write(&mut headers, &named, &Marks::default(), None);
        (request.write(id), headers)
    }
}

/// How long a server is left alone that wants to be for so long. However long a call may take, the polls last for it.
fn pause(wanted: Duration, timeout: Duration) -> Duration {
    wanted.min(LONGEST_PAUSE).max(SHORTEST_PAUSE).max(timeout / MOST_POLLS)
}

/// What a modern task ended with: a part of its state.
fn ending(told: &Scanned, status: TaskStatus, max_depth: usize) -> Result<CallAnswer, Failure> {
    let ended = members_of(told.bytes(), max_depth, ["result", "error"]);
    let [result, error] = ended.map_err(|_| Nonsense::Incomplete)?;
    let id = Bytes::new();
    match (status, result, error) {
        (TaskStatus::Completed, Some(result), _) => Ok(CallAnswer::Message(ServerMessage::Result { id, result })),
        (TaskStatus::Failed, _, Some(error)) => {
            let error = error.into_bytes();
            Ok(CallAnswer::Message(ServerMessage::Error { id, error }))
        }
        (TaskStatus::Cancelled, ..) => Err(Failure::Task("it was cancelled there")),
        _ => Err(Nonsense::Incomplete.into()),
    }
}

/// A task that nobody waits for any more is cancelled. Whether the server said that it can cancel
/// tasks does not matter: the worst it can do is refuse.
impl Drop for RunningTask {
    fn drop(&mut self) {
        if self.stage == Stage::Ended {
            return;
        }
        let left = Self {
            origin: self.origin.clone(),
            id: std::mem::take(&mut self.id),
            pause: self.pause,
            stage: Stage::Ended,
            answered: HashSet::new(),
            unsent: None,
        };
        tokio::spawn(async move {
            let cancelled = left.request("tasks/cancel", None, &NoObserver);
            let _ = tokio::time::timeout(left.origin.server.caps.timeout, cancelled).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_neither_all_the_time_nor_too_late() {
        let (ms, minute) = (Duration::from_millis, Duration::from_secs(60));
        assert_eq!(pause(ms(0), minute), SHORTEST_PAUSE);
        assert_eq!(pause(ms(1500), minute), ms(1500));
        assert_eq!(pause(Duration::MAX, minute), LONGEST_PAUSE);
        let day = minute * 60 * 24;
        for wanted in [ms(0), ms(1500), Duration::MAX] {
            assert!(pause(wanted, day) * MOST_POLLS >= day, "{wanted:?}");
        }
    }
}
