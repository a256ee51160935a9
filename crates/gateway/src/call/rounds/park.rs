//! Calls of modern clients on servers with sessions: when the server asks something, the call waits, the client gets the
//! questions as its answer, and its next request brings the call what it waits for.
//! ADR 0017: calls that wait for their client.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp::mrtr::InputMethod;
use mcp::{Content, ErrorCode, Request, compose, task};
use tokio::sync::mpsc;
use upstream::{Failure, Observer, OpenCall, PreparedCall, RawServerRequest, ServerEvent, Waiting};
use vocabulary::{ServerId, lock};

use crate::call::answer::arrive;
use crate::call::forwarded::{Forwarded, unusable};
use crate::call::rounds::state::seal_parked;
use crate::call::send::unwanted;
use crate::context::Ended;
use crate::events::observer::{CallObserver, Consequence, record_exhausted_budget};
use crate::events::server_request::{allow, no_longer_allowed, record, within_limits};
use crate::gateway::Gateway;
use crate::message::adapted::ProgressToken;
use crate::message::{Adapted, OwnResult};
use crate::outcome::CallOutcome;
use crate::reply::Prepared;
use crate::session::owner::Owner;
use crate::stages::Stages;
use crate::state::event_budget::{EventBudget, PassedOn};
use crate::state::parked::{CurrentRequest, OpenRequest, ParkedCall};

/// A server that has one question often has two.
const MORE_QUESTIONS: Duration = Duration::from_millis(50);

/// Sets a call under way that may have to wait for its client.
pub(crate) async fn park(
    stages: &Stages<'_>,
    request: &Request,
    forwarded: Forwarded,
    mut prepared: PreparedCall,
) -> Ended {
    let Some(gateway) = stages.gateway.shared() else {
        return forwarded.fail(stages, &Failure::Cancelled);
    };
    let (tell, news) = mpsc::channel(16);
    let current = Arc::new(Mutex::new(CurrentRequest {
        context: stages.context.clone(),
        token: ProgressToken::of(request.params()),
        about: forwarded.about(),
    }));
    let budget = EventBudget::default();
    let observer = ParkedObserver {
        gateway,
        current: current.clone(),
        server: forwarded.server.id().clone(),
        our_token: prepared.id(),
        budget: budget.clone(),
        tool: forwarded.name().map(str::to_owned),
        tell,
    };
    let work = tokio::spawn(async move {
        tokio::select! {
            biased;
            dispatched = prepared.send(&observer) => dispatched,
            () = observer.budget.exhausted() => {
                let context = lock(&observer.current).context.clone();
                record_exhausted_budget(&observer.gateway, &context, &observer.server, Consequence::Ended).await;
                Err(Failure::TooManyEvents)
            }
        }
    });
    let parked = ParkedCall {
        work,
        news,
        open: Vec::new(),
        current,
        budget,
        asked_so_far: 0,
        since: Instant::now(),
        owner: Owner::of(&stages.context.who),
        confinement: forwarded.confinement.clone(),
        slot: None,
    };
    attend(stages, forwarded, parked).await
}

/// The client is back with answers: those that are open are answered, the rest is asked again.
pub(crate) async fn resume(
    stages: &Stages<'_>,
    request: &Request,
    mut forwarded: Forwarded,
    mut parked: ParkedCall,
    answers: Vec<(String, Bytes)>,
) -> Ended {
    forwarded.confinement = parked.confinement.clone();
    *lock(&parked.current) = CurrentRequest {
        context: stages.context.clone(),
        token: ProgressToken::of(request.params()),
        about: forwarded.about(),
    };
    for (key, raw) in answers {
        let Some(place) = parked.open.iter().position(|(open, _)| *open == key) else {
            continue;
        };
        let (_, OpenRequest { allowed, reply }) = parked.open.swap_remove(place);
        // What was asked is on record; the answer is part of this request, and was looked through with it.
        let answer = match &allowed.params {
            Some(question) => task::related_as(question.bytes(), &raw),
            None => raw,
        };
        let answer = if allowed.is_allowed_now(&stages.gateway.in_force(), stages.context) {
            within_limits(stages.gateway, Content::Result(answer))
        } else {
            no_longer_allowed()
        };
        reply.send(&answer).await;
        parked.budget.end();
    }
    if parked.open.is_empty() {
        attend(stages, forwarded, parked).await
    } else {
        ask_client(stages, forwarded, parked)
    }
}

/// Waits for the answer, or for questions.
async fn attend(stages: &Stages<'_>, forwarded: Forwarded, mut parked: ParkedCall) -> Ended {
    loop {
        let more = async {
            match parked.open.is_empty() {
                true => std::future::pending().await,
                false => tokio::time::sleep(MORE_QUESTIONS).await,
            }
        };
        tokio::select! {
            biased;
            dispatched = &mut parked.work => {
                let dispatched = dispatched.unwrap_or(Err(Failure::Cancelled));
                return arrive(stages, forwarded, dispatched).await;
            }
            Some(open) = parked.news.recv() => {
                parked.asked_so_far += 1;
                let key = format!("question-{}", parked.asked_so_far);
                parked.open.push((key, open));
            }
            () = more => return ask_client(stages, forwarded, parked),
            () = stages.gateway.changes.stopped() => return forwarded.fail(stages, &Failure::Cancelled),
            () = unwanted(stages, None) => return forwarded.fail(stages, &Failure::Cancelled),
        }
    }
}

/// The open questions, as the answer to this request.
fn ask_client(stages: &Stages<'_>, mut forwarded: Forwarded, mut parked: ParkedCall) -> Ended {
    parked.since = Instant::now();
    parked.slot = forwarded.slot.take();
    let questions: Vec<(String, InputMethod, Option<Adapted>)> = parked
        .open
        .iter()
        .map(|(key, open)| {
            let params = open.allowed.params.as_ref().and_then(Adapted::unrelated);
            (key.clone(), open.allowed.method, params)
        })
        .collect();
    let id = stages.gateway.parked.leave(parked);
    let sealed = id.and_then(|id| seal_parked(stages.gateway, &forwarded.binding, &id));
    let Some(sealed) = sealed else {
        return forwarded.withhold(stages, &unusable());
    };
    let result = OwnResult::input_required(&questions, &sealed);
    let reply = Prepared::own(stages.id.clone(), result);
    forwarded.end(stages, CallOutcome::under_way(reply))
}

/// Hears what a server says to a call that may be parked.
struct ParkedObserver {
    gateway: Arc<Gateway>,
    current: Arc<Mutex<CurrentRequest>>,
    server: ServerId,
    our_token: u64,
    budget: EventBudget,
    tool: Option<String>,
    tell: mpsc::Sender<OpenRequest>,
}

impl Observer for ParkedObserver {
    fn observe(&self, event: ServerEvent) -> Waiting<'_> {
        Box::pin(async move {
            let CurrentRequest { context, token, about } = lock(&self.current).clone();
            match event {
                ServerEvent::Notification(_) => {
                    let observer = CallObserver {
                        gateway: &self.gateway,
                        context: &context,
                        server: &self.server,
                        token,
                        our_token: self.our_token,
                        budget: self.budget.clone(),
                        tool: None,
                        about,
                    };
                    observer.observe(event).await;
                }
                ServerEvent::Request(question) => self.put(question).await,
            }
        })
    }

    fn quiet(&self) -> Waiting<'_> {
        Box::pin(async move {
            let CurrentRequest { context, about, .. } = lock(&self.current).clone();
            context.stream.open(context.opener(about)).await;
        })
    }

    fn last_asked(&self) -> Option<Instant> {
        self.budget.last_open()
    }

    fn open_call(&self) -> Option<OpenCall> {
        Some(OpenCall {
            tool: self.tool.clone(),
            ..lock(&self.current).context.open_call()
        })
    }
}

impl ParkedObserver {
    /// Keeps a question for the client's next answer.
    async fn put(&self, question: RawServerRequest) {
        let context = lock(&self.current).context.clone();
        let (method, params, reply) = question.split();
        if self.budget.is_exhausted() {
            return;
        }
        let allowed = match allow(&self.gateway, &context, &self.server, &method, params).await {
            Ok(allowed) => allowed,
            Err(refused) => {
                self.budget.count_request(PassedOn::Troublesome);
                return reply.send(&refused).await;
            }
        };
        self.budget.count_request(allowed.passed_on());
        if self.budget.begin().is_none() {
            let refused = compose::error_content(ErrorCode::InternalError, "too many questions are open");
            return reply.send(&refused).await;
        }
        if !record(&self.gateway, &context, &allowed, None).await {
            self.budget.end();
            let refused = compose::error_content(ErrorCode::InternalError, "the gateway cannot record the question");
            return reply.send(&refused).await;
        }
        if self.tell.send(OpenRequest { allowed, reply }).await.is_err() {
            self.budget.end();
        }
    }
}
