//! Spends a permit on one request: what was checked and hashed is what is sent, and what comes
//! back is raw until the chokepoint has seen it.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use mcp::compose::{self, ModernMeta, Outgoing, OutgoingMeta, Progress};
use mcp::headers::{Marks, Named};
use mcp::server::ServerMessage;
use mcp::splice::Splice;
use mcp::task::{wants_extension, with_extension};
use mcp::{Era, Method, Version};
use policy::{Permit, SpentPermit, Target};
use screening::arguments::Checked;
use vocabulary::{Digest, TraceId, lock};

use crate::call::answer::{CallAnswer, Dispatched, dispatched};
use crate::call::confinement::SeenConfinement;
use crate::call::exchange::{Answered, Exchange};
use crate::call::observer::{LONGEST_ASKING, NoObserver, Observer};
use crate::call::task::{self, RunningTask, TaskMode, TaskOrigin};
use crate::call::unanswered::Unanswered;
use crate::credentials::UpstreamCredential;
use crate::failure::Failure;
use crate::http::Post;
use crate::server::Server;
use crate::session::guest::Guest;
use crate::session::open;
use crate::session::opened::Opened;

/// A request that is complete but for its permit.
pub struct OutgoingRequest<'a> {
    /// The server.
    pub server: &'a Arc<Server>,
    /// The era it speaks.
    pub era: Era,
    /// For whom.
    pub guest: Guest,
    /// The server's own credential.
    pub credential: UpstreamCredential,
    /// What was checked: a tool's arguments, or the params of another method.
    pub checked: &'a dyn Checked,
    /// Members of it that stay here.
    pub left_out: &'static [&'static str],
    /// The server's own id of the task that the request is about, as the literal it sent.
    pub task_id: Option<Vec<u8>>,
    /// What the client brings along from the round before.
    pub round: RoundInput,
    /// Whether the client wants progress.
    pub progress: Progress,
    /// The log level the client wants.
    pub log_level: Option<&'static str>,
    /// What a modern server wants mirrored in headers.
    pub marks: &'a Marks,
    /// The trace this request belongs to.
    pub trace: TraceId,
    /// The epoch in force now; a permit of another one is void.
    pub epoch: u64,
    /// Who deals with a task that the call becomes.
    pub tasks: TaskMode,
    /// How long it may take; `None`: as long as the server may.
    pub timeout: Option<Duration>,
}

/// What a client brings along where a server needed something of it first; for servers of the modern era.
#[derive(Clone, Debug, Default)]
pub struct RoundInput {
    /// The client's answers, raw.
    pub responses: Option<Bytes>,
    /// The server's own state, as the literal it sent.
    pub state: Option<Bytes>,
}

/// Permits a further round of a request, in the epoch in force now.
pub struct RoundPermit {
    /// What was decided.
    pub permit: Permit,
    /// The epoch in force now.
    pub epoch: u64,
}

/// A permitted request, ready to be sent. Holds nothing of the client's request.
pub struct PreparedCall {
    stage: Stage,
    server: Arc<Server>,
    era: Era,
    guest: Guest,
    credential: UpstreamCredential,
    id: u64,
    /// Of what was checked: a further round is permitted for the same.
    checked: Digest,
    body: Bytes,
    headers: HeaderMap,
    log_level: Option<&'static str>,
    trace: TraceId,
    tasks: TaskMode,
    task: Option<RunningTask>,
    confinement: SeenConfinement,
    timeout: Duration,
}

/// A permit is for one request: what was sent is not sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Ready,
    Sent,
}

/// How long a server may be silent before whoever waits is told so.
const QUIET: Duration = Duration::from_secs(15);

/// Spends `permit` on the request it was given for.
///
/// # Errors
/// When the permit does not fit.
pub fn prepare(permit: Permit, outgoing: OutgoingRequest<'_>) -> Result<PreparedCall, Failure> {
    let spent = permit
        .spend(outgoing.checked.digest(), outgoing.epoch)
        .map_err(|_| Failure::Permit)?;
    let id = outgoing.server.link.next_id();
    let guest = outgoing.server.admitted(&outgoing.guest);
    let (name, members) = members(&spent, &outgoing);
    let modern = (outgoing.era == Era::Modern).then_some(ModernMeta {
        capabilities: &guest.capabilities.modern,
        log_level: outgoing.log_level,
    });
    let request = Outgoing {
        method: spent.action(),
        members,
        meta: OutgoingMeta {
            passed: outgoing.checked.meta().to_vec(),
            progress: outgoing.progress,
            modern,
        },
    };
    let mut headers = HeaderMap::new();
    if outgoing.era == Era::Modern {
        let named = Named {
            version: Version::MODERN.as_str(),
            method: spent.action(),
            name: name.as_deref(),
        };
        mcp::headers::write(&mut headers, &named, outgoing.marks, outgoing.checked.arguments());
    }
    let body = request.write(id);
    Ok(PreparedCall {
        stage: Stage::Ready,
        server: outgoing.server.clone(),
        era: outgoing.era,
        credential: outgoing.credential,
        id,
        checked: outgoing.checked.digest(),
        body,
        headers,
        log_level: outgoing.log_level,
        trace: outgoing.trace,
        confinement: SeenConfinement::of(outgoing.server),
        guest,
        tasks: outgoing.tasks,
        task: None,
        timeout: outgoing.timeout.unwrap_or(outgoing.server.caps.timeout),
    })
}

/// Names and raw values.
type RawMembers<'a> = Vec<(&'a str, Cow<'a, [u8]>)>;

/// The members of `params`: what the permit is for, then what was checked, with the names that its server knows, then what
/// belongs to this round.
fn members<'a>(spent: &'a SpentPermit, outgoing: &'a OutgoingRequest<'_>) -> (Option<Cow<'a, str>>, RawMembers<'a>) {
    let (checked, left_out) = (outgoing.checked, outgoing.left_out);
    let anchor = match (spent.action(), spent.target()) {
        ("tools/call", Target::Tool(entry)) => Some(("name", entry.id.name.as_str())),
        ("prompts/get", Target::Prompt { name, .. }) => Some(("name", &**name)),
        ("resources/read" | "resources/subscribe" | "resources/unsubscribe", Target::Resource { uri, .. }) => {
            Some(("uri", &**uri))
        }
        _ => None,
    };
    let mut members: Vec<(&str, Cow<'_, [u8]>)> = Vec::with_capacity(checked.members().len() + 2);
    members.extend(anchor.map(|(member, name)| (member, Cow::Owned(compose::literal(name)))));
    members.extend(checked.arguments().map(|raw| ("arguments", Cow::Borrowed(raw))));
    for (name, raw) in checked.members() {
        let known = members.iter().any(|(known, _)| known == name);
        if *name != "_meta" && !known && !left_out.contains(name) {
            members.push((name, as_its_server_knows_it(name, raw, spent, outgoing)));
        }
    }
    let task = || members.iter().find(|(name, _)| *name == "taskId");
    let name = match anchor {
        Some((_, name)) => Some(Cow::Borrowed(name)),
        None => task().and_then(|(_, raw)| Some(Cow::Owned(mcp::envelope::text_of(raw)?.into_owned()))),
    };
    if outgoing.era == Era::Modern {
        let RoundInput { responses, state } = &outgoing.round;
        let round = [("inputResponses", responses), ("requestState", state)];
        members.extend(
            round
                .into_iter()
                .filter_map(|(name, raw)| Some((name, Cow::Borrowed(raw.as_deref()?)))),
        );
    }
    if (outgoing.tasks, outgoing.era) == (TaskMode::Gateway, Era::Legacy) {
        members.push(("task", Cow::Owned(task::request_of(&outgoing.server.caps))));
    }
    (name, members)
}

/// A client knows tasks by ids of ours, and prompts by names of the federated route; their server has its own.
fn as_its_server_knows_it<'a>(
    name: &str,
    raw: &'a [u8],
    spent: &SpentPermit,
    outgoing: &'a OutgoingRequest<'_>,
) -> Cow<'a, [u8]> {
    match (name, spent.target(), &outgoing.task_id) {
        ("taskId", _, Some(theirs)) => Cow::Borrowed(theirs),
        ("ref", Target::Prompt { name, .. }, _) if spent.action() == Method::Complete.as_str() => {
            let reference = Bytes::copy_from_slice(raw);
            let Ok(mut splice) = Splice::new(&reference) else {
                return Cow::Borrowed(raw);
            };
            splice.replace_or_insert("name", compose::literal(name));
            Cow::Owned(splice.finish().to_vec())
        }
        _ => Cow::Borrowed(raw),
    }
}

impl PreparedCall {
    /// The id of the request: what it uses as its progress token.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How the process is confined that it goes to.
    #[must_use]
    pub fn confinement(&self) -> SeenConfinement {
        self.confinement.clone()
    }

    /// Sends the request and waits for the answer. The observer is told what else the server says.
    ///
    /// # Errors
    /// When the server fails.
    pub async fn send(&mut self, observer: &dyn Observer) -> Result<Dispatched, Failure> {
        if std::mem::replace(&mut self.stage, Stage::Sent) == Stage::Sent {
            return Err(Failure::Permit);
        }
        let began = Instant::now();
        let timeout = self.timeout;
        let mut running = pin!(self.run(observer));
        let mut alarm = pin!(tokio::time::sleep(QUIET.min(timeout)));
        loop {
            tokio::select! {
                biased;
                answer = &mut running => return dispatched(answer?),
                () = &mut alarm => {
                    let asked = observer.last_asked().unwrap_or(began).min(began + LONGEST_ASKING);
                    let deadline = asked.max(began) + timeout;
                    let now = Instant::now();
                    if now >= deadline {
                        return Err(Failure::TimedOut);
                    }
                    observer.quiet().await;
                    alarm.as_mut().reset((deadline.min(now + QUIET)).into());
                }
            }
        }
    }

    /// The same request again with what the server asked for, where it asked for something. It is decided again: the
    /// permit of the round before was spent.
    ///
    /// # Errors
    /// When the permit does not fit.
    pub fn next_round(&mut self, permit: RoundPermit, responses: &[u8], state: Option<&[u8]>) -> Result<(), Failure> {
        self.spend(permit)?;
        self.rewrite(|splice, id| {
            splice.replace_or_insert("inputResponses", responses.to_vec());
            match state {
                Some(state) => splice.replace_or_insert("requestState", state.to_vec()),
                None => splice.remove("requestState"),
            }
            if splice.meta_member("progressToken").is_some() {
                splice.meta_replace_or_insert("progressToken", id.to_string().into_bytes());
            }
        });
        self.ready_again();
        Ok(())
    }

    fn spend(&self, RoundPermit { permit, epoch }: RoundPermit) -> Result<(), Failure> {
        permit.spend(self.checked, epoch).map(drop).map_err(|_| Failure::Permit)
    }

    /// What its task asked for; the call goes on with it, decided again.
    ///
    /// # Errors
    /// When the permit does not fit.
    pub fn answer_task(&mut self, permit: RoundPermit, responses: &[(String, Bytes)]) -> Result<(), Failure> {
        self.spend(permit)?;
        if let Some(task) = &mut self.task {
            task.answer(responses);
            self.ready_again();
        }
        Ok(())
    }

    /// Whether something its task asks for was answered before.
    #[must_use]
    pub fn has_answered(&self, key: &str) -> bool {
        self.task.as_ref().is_some_and(|task| task.has_answered(key))
    }

    /// Gives the request other params and a new id.
    fn rewrite(&mut self, edit: impl FnOnce(&mut Splice<'_>, u64)) {
        let method = mcp::server::text_member(&self.body, "method").unwrap_or_default();
        let params = mcp::server::member_span(&self.body, "params").map(|span| self.body.slice(span));
        let params = params.unwrap_or_else(|| Bytes::from_static(b"{}"));
        let Ok(mut splice) = Splice::new(&params) else { return };
        let id = self.server.link.next_id();
        edit(&mut splice, id);
        let params = splice.finish();
        self.body = compose::request(id.to_string().as_bytes(), &method, Some(&params));
        self.id = id;
    }

    fn ready_again(&mut self) {
        self.stage = Stage::Ready;
    }

    async fn run(&mut self, observer: &dyn Observer) -> Result<CallAnswer, Failure> {
        if let Some(task) = &mut self.task {
            return Box::pin(task.resume(observer)).await;
        }
        let (answered, opened) = match self.era {
            Era::Modern => {
                let process = open::for_request(&self.server, &self.guest, self.era).await?;
                (self.exchange(process.as_ref(), observer).await?, process)
            }
            Era::Legacy => {
                let (answered, opened) = self.exchange_in_session(observer).await?;
                (answered, Some(opened))
            }
        };
        match self.tasks {
            TaskMode::Client => Ok(CallAnswer::Message(answered.message)),
            // The rarer way is boxed: the common one stays small.
            TaskMode::Gateway => Box::pin(self.await_task(answered.message, opened, observer)).await,
        }
    }

    /// A session the server has forgotten proves that nothing ran: it is opened again and the
    /// request sent once more. Nothing else is ever retried.
    async fn exchange_in_session(&self, observer: &dyn Observer) -> Result<(Answered, Opened), Failure> {
        let opened = open::session(&self.server, &self.guest).await?;
        self.set_level(&opened).await;
        match self.exchange(Some(&opened), observer).await {
            Err(Failure::SessionGone) => {
                let opened = Box::pin(open::reopen(&self.server, &self.guest, &opened)).await?;
                self.set_level(&opened).await;
                Ok((Box::pin(self.exchange(Some(&opened), observer)).await?, opened))
            }
            sent => Ok((sent?, opened)),
        }
    }

    async fn exchange(&self, session: Option<&Opened>, observer: &dyn Observer) -> Result<Answered, Failure> {
        let post = match (self.era, session) {
            (Era::Legacy, Some(opened)) => Post::legacy(self.body.clone(), opened, &self.credential),
            (Era::Legacy, None) | (Era::Modern, _) => {
                Post::modern(self.body.clone(), &self.headers, &self.credential).through(session)
            }
        };
        if let Some(session) = session {
            self.confinement.see(session);
        }
        let waiting = Unanswered::new(&self.server, session, &self.guest.behalf, self.id);
        let exchange = Exchange {
            server: &self.server,
            id: self.id,
            session,
            behalf: &self.guest.behalf,
            observer,
        };
        let answered = exchange.run(post.traced(&self.trace)).await;
        waiting.end();
        answered
    }

    /// Takes what a server answered to a call: a task is waited for, all else is the answer.
    async fn await_task(
        &mut self,
        answer: ServerMessage,
        opened: Option<Opened>,
        observer: &dyn Observer,
    ) -> Result<CallAnswer, Failure> {
        let answer = match &answer {
            ServerMessage::Error { error, .. } if self.era == Era::Modern && self.lacks_extension(error) => {
                // The server says that it did nothing and why: it is told what it wants to hear, once.
                self.declare_tasks();
                self.exchange(opened.as_ref(), observer).await?.message
            }
            ServerMessage::Result { .. }
            | ServerMessage::Error { .. }
            | ServerMessage::Notification(_)
            | ServerMessage::Request(_) => answer,
        };
        let ServerMessage::Result { result, .. } = &answer else {
            return Ok(CallAnswer::Message(answer));
        };
        let Some(state) = task::begun(result, self.era)? else {
            return Ok(CallAnswer::Message(answer));
        };
        let origin = TaskOrigin {
            server: self.server.clone(),
            era: self.era,
            opened,
            behalf: self.guest.behalf.clone(),
            capabilities: with_extension(&self.guest.capabilities.modern),
            trace: self.trace,
        };
        let task = self.task.insert(RunningTask::new(origin, &state));
        task.begin(&state, observer).await
    }

    /// Whether a server refused the call because it was not told that tasks are taken.
    fn lacks_extension(&self, error: &[u8]) -> bool {
        let told = &self.guest.capabilities.modern;
        wants_extension(error) && with_extension(told) != *told
    }

    /// The same call from a client that takes tasks. The progress token stays what it was.
    fn declare_tasks(&mut self) {
        let capabilities = with_extension(&self.guest.capabilities.modern);
        self.rewrite(|splice, _| {
            splice.meta_replace_or_insert("io.modelcontextprotocol/clientCapabilities", capabilities.to_vec());
        });
    }

    /// A legacy server keeps one log level per session.
    async fn set_level(&self, opened: &Opened) {
        let Some(level) = self.log_level else { return };
        let set = |level| std::mem::replace(&mut *lock(&opened.level), level);
        let logs = mcp::server::member_span(&self.server.introduction(self.era).capabilities, "logging").is_some();
        if !logs || set(Some(level)) == Some(level) {
            return;
        }
        let id = self.server.link.next_id();
        let request = Outgoing {
            method: "logging/setLevel",
            members: vec![("level", Cow::Owned(compose::literal(level)))],
            meta: OutgoingMeta::default(),
        };
        let exchange = Exchange {
            server: &self.server,
            id,
            session: Some(opened),
            behalf: &self.guest.behalf,
            observer: &NoObserver,
        };
        let setting = exchange.run(Post::legacy(request.write(id), opened, &self.credential));
        if Box::pin(setting).await.is_err() {
            set(None);
        }
    }
}
