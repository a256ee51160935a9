//! Calls of modern clients on servers with sessions: when the server asks something, the call
//! waits here, the client gets the questions as its answer, and its next request brings the call
//! what it waits for. Found by the seal, once, by nobody else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ledger::Status;
use mcp::{Content, Request, compose, mrtr, task};
use policy::InFlight;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use upstream::{Failure, Observer, OpenCall, PreparedCall, Reply, SeenConfinement, ServerEvent, Waiting};
use vocabulary::{Digest, random_hex};

use crate::call::forward::{Forwarded, arrived};
use crate::call::rounds::{LONGEST_PAUSE, Landing, unusable};
use crate::context::{Ended, RequestContext};
use crate::events::observer::{CallObserver, Consequence, EventBudget};
use crate::events::server_request::Allowed;
use crate::outcome::Case;
use crate::receive::Gateway;
use crate::reply::Prepared;
use crate::session::Owner;

/// A call that is under way, and what it waits for.
pub(crate) struct Parked {
    work: JoinHandle<Landing>,
    news: mpsc::Receiver<Posed>,
    open: Vec<(String, Posed)>,
    current: Current,
    asking: EventBudget,
    asked_so_far: usize,
    since: Instant,
    owner: Owner,
    walls: SeenConfinement,
    /// A call that waits counts as running.
    _seat: Option<InFlight>,
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// A question that may be put, and the way to answer it.
struct Posed {
    allowed: Allowed,
    reply: Reply,
}

/// The request that stands for the call now: where progress and logs go.
type Current = Arc<Mutex<(RequestContext, Option<Vec<u8>>)>>;

/// A server that has one question often has two.
const MORE_QUESTIONS: Duration = Duration::from_millis(50);

/// The calls that wait.
#[derive(Default)]
pub(crate) struct ParkedCalls(Mutex<HashMap<Digest, Parked>>);

const MOST_PARKED: usize = 1_000;
const MOST_PER_PRINCIPAL: usize = 32;

impl ParkedCalls {
    /// Takes a call out.
    pub(crate) fn take(&self, id: &Digest) -> Option<Parked> {
        lock(&self.0).remove(id)
    }

    /// Leaves a call; `None` if there is no room.
    fn leave(&self, parked: Parked) -> Option<Digest> {
        let id = Digest::of(random_hex(32).ok()?.as_bytes());
        let mut calls = lock(&self.0);
        calls.retain(|_, parked| parked.since.elapsed() < LONGEST_PAUSE);
        let own = calls.values().filter(|other| other.owner == parked.owner).count();
        if calls.len() >= MOST_PARKED || own >= MOST_PER_PRINCIPAL {
            return None;
        }
        calls.insert(id, parked);
        Some(id)
    }
}

impl Case<'_> {
    /// Sets a call under way that may have to wait for its client.
    pub(crate) async fn park(&self, request: &Request, forwarded: Forwarded, mut flight: Flight) -> Ended {
        let Some(gateway) = self.gateway.shared() else {
            return self.arrive(forwarded, Err(Failure::Cancelled)).await;
        };
        let (tell, news) = mpsc::channel(16);
        let token = request.params().meta("progressToken").map(<[u8]>::to_vec);
        let current: Current = Arc::new(Mutex::new((self.asked.clone(), token)));
        let asking = EventBudget::default();
        let companion = Attendant {
            gateway,
            current: current.clone(),
            server: forwarded.server.id().clone(),
            our_token: flight.id(),
            asking: asking.clone(),
            tool: forwarded.facts.tool_name.clone(),
            tell,
        };
        let work = tokio::spawn(async move {
            tokio::select! {
                biased;
                landed = flight.fly(&companion) => landed,
                () = companion.asking.exhausted() => {
                    let (asked, _) = lock(&companion.current).clone();
                    companion.gateway.record_exhausted_budget(&asked, &companion.server, Consequence::Ended).await;
                    Err(Failure::Clamour)
                }
            }
        });
        let parked = Parked {
            work,
            news,
            open: Vec::new(),
            current,
            asking,
            asked_so_far: 0,
            since: Instant::now(),
            owner: Owner::of(&self.asked.who),
            walls: forwarded.walls.clone(),
            _seat: None,
        };
        self.attend(forwarded, parked).await
    }

    /// The client is back with answers: those that are open are answered, the rest is asked again.
    pub(crate) async fn resume(
        &self,
        request: &Request,
        mut forwarded: Forwarded,
        mut parked: Parked,
        answers: Vec<(String, Bytes)>,
    ) -> Ended {
        forwarded.walls = parked.walls.clone();
        let token = request.params().meta("progressToken").map(<[u8]>::to_vec);
        *lock(&parked.current) = (self.asked.clone(), token);
        for (key, raw) in answers {
            let Some(place) = parked.open.iter().position(|(open, _)| *open == key) else {
                continue;
            };
            let (_, posed) = parked.open.swap_remove(place);
            // What was asked is on record; the answer is part of this request.
            let answer = match &posed.allowed.params {
                Some(question) => task::related_as(question.bytes(), &raw),
                None => raw,
            };
            posed
                .reply
                .send(&self.gateway.check_answer(Content::Result(answer)))
                .await;
            parked.asking.end();
        }
        if parked.open.is_empty() {
            self.attend(forwarded, parked).await
        } else {
            self.ask_client(forwarded, parked)
        }
    }

    /// Waits for the answer, or for questions.
    async fn attend(&self, forwarded: Forwarded, mut parked: Parked) -> Ended {
        loop {
            let more = async {
                match parked.open.is_empty() {
                    true => std::future::pending().await,
                    false => tokio::time::sleep(MORE_QUESTIONS).await,
                }
            };
            tokio::select! {
                biased;
                landed = &mut parked.work => {
                    let landed = landed.unwrap_or(Err(Failure::Cancelled));
                    return self.arrive(forwarded, landed).await;
                }
                Some(posed) = parked.news.recv() => {
                    parked.asked_so_far += 1;
                    let key = format!("question-{}", parked.asked_so_far);
                    parked.open.push((key, posed));
                }
                () = more => return self.ask_client(forwarded, parked),
                () = self.gateway.changes.stopped() => return self.arrive(forwarded, Err(Failure::Cancelled)).await,
                () = self.unwanted(None) => return self.arrive(forwarded, Err(Failure::Cancelled)).await,
            }
        }
    }

    /// The open questions, as the answer to this request.
    fn ask_client(&self, mut forwarded: Forwarded, mut parked: Parked) -> Ended {
        parked.since = Instant::now();
        parked._seat = forwarded.seat.take();
        let questions: Vec<(String, String, Option<Bytes>)> = parked
            .open
            .iter()
            .map(|(key, posed)| {
                let params = posed
                    .allowed
                    .params
                    .as_ref()
                    .map(|params| task::unrelated(params.bytes()));
                (key.clone(), posed.allowed.method.clone(), params)
            })
            .collect();
        let ticket = self.gateway.parked.leave(parked);
        let ticket = ticket.and_then(|id| self.parking_ticket(&forwarded.binding, &id));
        let Some(ticket) = ticket else {
            return self.conclude(forwarded, self.kept_back(&unusable()));
        };
        let inputs: Vec<(String, &str, Option<&[u8]>)> = questions
            .iter()
            .map(|(key, method, params)| (key.clone(), method.as_str(), params.as_deref()))
            .collect();
        let result = mrtr::compose_input_required(&inputs, &ticket);
        let reply = Prepared::own(self.id.clone(), result);
        let (facts, source) = (
            arrived(forwarded.facts, &forwarded.walls),
            forwarded.server.credential(),
        );
        self.ended_called(facts, forwarded.decision, Some(source), (Status::Success, None, reply))
    }
}

/// Accompanies a call that may be parked.
struct Attendant {
    gateway: Arc<Gateway>,
    current: Current,
    server: vocabulary::ServerId,
    our_token: u64,
    asking: EventBudget,
    tool: Option<String>,
    tell: mpsc::Sender<Posed>,
}

impl Observer for Attendant {
    fn observe(&self, aside: ServerEvent) -> Waiting<'_> {
        Box::pin(async move {
            let (asked, token) = lock(&self.current).clone();
            let question = match aside {
                Aside::Notification(_) => {
                    let observer = CallObserver {
                        gateway: &self.gateway,
                        asked: &asked,
                        server: &self.server,
                        token: token.as_deref(),
                        our_token: self.our_token,
                        asking: self.asking.clone(),
                        tool: None,
                    };
                    return observer.hear(aside).await;
                }
                ServerEvent::Request(question) => question,
            };
            let (method, params, reply) = question.split();
            if self.asking.is_tired() {
                return;
            }
            let allowed = self.gateway.allow_question(&asked, &self.server, (method, params));
            match self.asking.note_question(allowed.await) {
                Ok(allowed) if self.asking.begin().is_some() => {
                    if !self.gateway.record_question(&asked, &allowed, None).await {
                        self.asking.end();
                        let refused = compose::error_content(
                            mcp::ErrorCode::InternalError,
                            "the gateway cannot record the question",
                        );
                        return reply.send(&refused).await;
                    }
                    if self.tell.send(Posed { allowed, reply }).await.is_err() {
                        self.asking.end();
                    }
                }
                Ok(_) => {
                    reply
                        .send(&compose::error_content(
                            mcp::ErrorCode::InternalError,
                            "too many questions are open",
                        ))
                        .await
                }
                Err(refused) => reply.send(&refused).await,
            }
        })
    }

    fn quiet(&self) -> Waiting<'_> {
        Box::pin(async move {
            let (asked, _) = lock(&self.current).clone();
            asked.stream.open(None).await;
        })
    }

    fn last_asked(&self) -> Option<Instant> {
        self.asking.last()
    }

    fn open_call(&self) -> Option<OpenCall> {
        Some(OpenCall {
            tool: self.tool.clone(),
            ..lock(&self.current).0.open_case()
        })
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
