//! The life of a request, top to bottom: identify, read, parse, answer, record, reply. Whatever a
//! stage finds, the request ends with one record, and the answer leaves after it.

pub(crate) mod body;
pub(crate) mod detached;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use aws_lc_rs::hmac;
use bytes::{Buf, Bytes};
use http::request::Parts;
use http::{Method as Verb, Request as HttpRequest, Response, StatusCode};
use hyper::body::Incoming;
use ledger::{Arrival, Ending, Ledger};
use mcp::http::AnswerForm;
use mcp::{Malformed, Message, envelope};
use vocabulary::{Principal, ReasonCode};

use crate::call::rounds::park::ParkedCalls;
use crate::call::task::Tasks;
use crate::context::client::Client;
use crate::context::{Ended, RequestContext};
use crate::edge::Peer;
use crate::edge::authenticate::Identified;
use crate::edge::metadata;
use crate::edge::route::Route;
use crate::receive::body::{BodyFault, arrival, read_body};
use crate::receive::detached::Detached;
use crate::reply::stream::{ReplyBody, ResponseStream, Streams};
use crate::reply::{Answer, Prepared, release_composed};
use crate::screen::ScreeningPool;
use crate::session::{Session, Sessions};
use crate::snapshot::Snapshot;
use crate::state::changes::ChangeFeed;
use crate::state::seal::Seal;
use crate::state::truncated::Cache;

/// The gateway: the town as it is now, the open sessions, and the ledger.
pub struct Gateway {
    snapshot: ArcSwap<Snapshot>,
    pub(crate) sessions: Sessions,
    pub(crate) ledger: Ledger,
    pub(crate) cursor_key: hmac::Key,
    pub(crate) seal: Seal,
    pub(crate) changes: ChangeFeed,
    pub(crate) parked: ParkedCalls,
    pub(crate) tasks: Tasks,
    pub(crate) screening_pool: ScreeningPool,
    pub(crate) cache: Cache,
    at_work: Arc<AtomicUsize>,
    itself: Weak<Self>,
}

impl Gateway {
    /// A gateway before `town`.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn new(snapshot: Snapshot, ledger: Ledger) -> Result<Arc<Self>, aws_lc_rs::error::Unspecified> {
        let mut key = [0u8; 32];
        aws_lc_rs::rand::fill(&mut key)?;
        let seal = Seal::new()?;
        Ok(Arc::new_cyclic(|itself| Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            sessions: Sessions::default(),
            ledger,
            cursor_key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            seal,
            changes: ChangeFeed::default(),
            parked: ParkedCalls::default(),
            tasks: Tasks::default(),
            screening_pool: ScreeningPool::default(),
            cache: Cache::default(),
            at_work: Arc::default(),
            itself: itself.clone(),
        }))
    }

    /// Another hold on this gateway, for work that outlives the request it began with.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.itself.upgrade()
    }

    /// The town in force.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Puts another town in force, for live sessions too.
    pub fn replace_snapshot(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
        self.changes.snapshot_replaced();
    }

    /// Ends the streams that have no end of their own, so that whoever listens shows a credential
    /// again: one was taken back.
    pub fn recheck_streams(&self) {
        self.changes.recheck();
    }

    /// Ends the streams that have no end of their own: the gateway stops.
    pub fn end_streams(&self) {
        self.changes.stop();
    }

    /// Answers one HTTP request. The work begins at once and goes on when the caller hangs up, so
    /// that every request is recorded, whether or not anybody waits for its answer.
    pub fn handle(
        self: Arc<Self>,
        request: HttpRequest<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<ReplyBody>> + Send + 'static {
        let at_work = AtWork::begin(&self.at_work);
        let stream = ResponseStream::new(streams(&request));
        let heard = stream.clone();
        let work = Detached::new(|| async move {
            let _at_work = at_work;
            self.answer(request, &peer, &stream).await
        });
        Attended {
            work: Some(work),
            stream: heard,
        }
    }

    /// How many requests are at work, those whose callers hung up included.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.at_work.load(Ordering::SeqCst)
    }

    async fn answer(&self, request: HttpRequest<Incoming>, peer: &Peer, stream: &Arc<ResponseStream>) -> Answer {
        let route = Route::of(request.uri().path());
        if let Some(answer) = self.open_route(&route, &request) {
            return answer;
        }
        let mut arrival = arrival(request.headers(), peer.address);
        let form = mcp::http::answer_form(request.headers());
        let bodiless = request.method() == Verb::HEAD;
        let form = form.unwrap_or(AnswerForm::Json);
        match self.walk(&mut arrival, route, request, (peer, stream)).await {
            Walked::Acknowledged => Answer::acknowledged(),
            Walked::Ended(ended) if bodiless => {
                let (ending, reply) = (ended.ending, ended.reply.without_body());
                self.conclude(&arrival, Ended { ending, reply }, AnswerForm::Json, 0)
                    .await
            }
            Walked::Ended(ended) if stream.is_stream() => {
                let answer = self.conclude(&arrival, *ended, AnswerForm::Json, stream.said()).await;
                answer.into_last_event(stream).await
            }
            Walked::Ended(ended) => self.conclude(&arrival, *ended, form, 0).await,
            Walked::Batch(members) => Box::pin(self.conclude_batch(members, form)).await,
        }
    }

    /// Probes and public documents: the only answers without a credential, and without a record.
    fn open_route(&self, route: &Route, request: &HttpRequest<Incoming>) -> Option<Answer> {
        if request.method() != Verb::GET {
            return None;
        }
        match route {
            Route::Health => Some(Answer::probe(StatusCode::OK, "ok")),
            Route::Ready if self.ledger.is_healthy() => Some(Answer::probe(StatusCode::OK, "ready")),
            Route::Ready => Some(Answer::probe(StatusCode::SERVICE_UNAVAILABLE, "not ready")),
            Route::Metadata(path) => {
                let snapshot = self.snapshot();
                let issuers = snapshot.identity.issuer_names();
                snapshot
                    .allowed_hosts
                    .admits(request.uri(), request.headers())
                    .then(|| Answer::document(metadata::document(&snapshot.public_url, path, &issuers)))
            }
            Route::Federated | Route::Server(_) | Route::Nowhere => None,
        }
    }

    /// The stages before the method is known.
    async fn walk(
        &self,
        arrival: &mut Arrival,
        route: Route,
        request: HttpRequest<Incoming>,
        (peer, stream): (&Peer, &Arc<ResponseStream>),
    ) -> Walked {
        let (head, body) = request.into_parts();
        let who = match self.identify(&route, &head, peer).await {
            Ok(who) => who.principal().clone(),
            Err(ended) => return Walked::Ended(ended),
        };
        let mut letter = AuthenticatedHead {
            who,
            route,
            arrival: *arrival,
            head,
            stream: stream.clone(),
        };
        if !matches!(letter.route, Route::Federated | Route::Server(_)) {
            let message = "there is nothing at this address; use /mcp";
            return letter.unreadable(StatusCode::NOT_FOUND, message).into();
        }
        match letter.head.method {
            Verb::POST => {}
            Verb::GET => return Box::pin(self.open_stream(letter)).await.into(),
            Verb::DELETE => return self.end_session(letter).into(),
            _ => return letter.unreadable(StatusCode::METHOD_NOT_ALLOWED, "use POST").into(),
        }
        let read = self.read(&mut letter, body).await;
        *arrival = letter.arrival;
        match read {
            Ok(body) => self.open_letter(letter, &body).await,
            Err(ended) => Walked::Ended(ended),
        }
    }

    /// The body, if its head admits reading it.
    async fn read(&self, letter: &mut AuthenticatedHead, body: Incoming) -> Result<Bytes, Box<Ended>> {
        if !mcp::http::is_plain_json(&letter.head.headers) {
            let message = "the body must be application/json, not encoded";
            return Err(Box::new(letter.unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)));
        }
        if mcp::http::answer_form(&letter.head.headers).is_none() {
            let message = "Accept must admit application/json or text/event-stream";
            return Err(Box::new(letter.unreadable(StatusCode::NOT_ACCEPTABLE, message)));
        }
        let limit = self.snapshot().limits.request_bytes;
        let read = read_body(body, limit, &mut letter.arrival).await;
        read.map_err(|fault| match fault {
            BodyFault::TooLarge => {
                let (status, code) = (StatusCode::PAYLOAD_TOO_LARGE, ReasonCode::DenyPayloadTooLarge);
                let message = "the body is larger than the limit";
                Box::new(unreadable(&letter.who, &letter.route, status, message, code))
            }
            BodyFault::Unfinished => {
                let message = "the body did not arrive whole and in time";
                Box::new(letter.unreadable(StatusCode::REQUEST_TIMEOUT, message))
            }
        })
    }

    /// One message, or a batch where the session's version still has them.
    async fn open_letter(&self, letter: AuthenticatedHead, body: &Bytes) -> Walked {
        let depth = self.snapshot().limits.request_depth;
        match envelope::parse(body, depth) {
            Err(Malformed::Batch) if self.session_takes_batches(&letter.who, &letter.head) => {
                match envelope::split_batch(body, depth, LARGEST_BATCH) {
                    Ok(members) => Box::pin(self.open_batch(letter, members, depth)).await,
                    Err(fault) => malformed(&letter.who, &letter.route, fault).into(),
                }
            }
            Ok(message) => self.take_message(&letter, message).await,
            Err(fault) => malformed(&letter.who, &letter.route, fault).into(),
        }
    }

    /// Each member of a batch walks by itself and has a record of its own.
    async fn open_batch(&self, letter: AuthenticatedHead, members: Vec<Bytes>, depth: usize) -> Walked {
        let mut ended = Vec::new();
        for member in members {
            let arrival = Arrival {
                size_bytes_in: member.len() as u64,
                ..arrival(&letter.head.headers, letter.arrival.address)
            };
            // A stream is of one request.
            let stream = ResponseStream::new(Streams::Refused);
            let letter = AuthenticatedHead {
                arrival,
                stream,
                ..letter.clone()
            };
            let walked = match envelope::parse(&member, depth) {
                Ok(Message::Request(request)) if *request.method() == mcp::Method::Initialize => {
                    let message = "`initialize` must not be part of a batch";
                    let (who, route) = (letter.who.clone(), letter.route.clone());
                    let asked = RequestContext::new(who, route, arrival, &request, letter.stream.clone());
                    asked
                        .refused_by_status(StatusCode::BAD_REQUEST, &request, message)
                        .into()
                }
                Ok(message) => Box::pin(self.take_message(&letter, message)).await,
                Err(fault) => malformed(&letter.who, &letter.route, fault).into(),
            };
            match walked {
                Walked::Acknowledged | Walked::Batch(_) => {}
                Walked::Ended(one) => ended.push((arrival, *one)),
            }
        }
        Walked::Batch(ended)
    }

    async fn take_message(&self, letter: &AuthenticatedHead, message: Message) -> Walked {
        match message {
            Message::Request(request) => {
                let (who, route) = (letter.who.clone(), letter.route.clone());
                let asked = RequestContext::new(who, route, letter.arrival, &request, letter.stream.clone());
                self.serve(asked, &letter.head, &request).await.into()
            }
            Message::Notification(notification) => self.take(&letter.who, &letter.route, &letter.head, &notification),
            Message::Response(response) => self.take_response(&letter.who, &letter.route, &letter.head, response),
        }
    }

    /// Host and origin first, then the credential; no byte of the body is read before.
    async fn identify(&self, route: &Route, head: &Parts, peer: &Peer) -> Result<Identified, Box<Ended>> {
        let snapshot = self.snapshot();
        if !snapshot.allowed_hosts.admits(&head.uri, &head.headers) {
            let reason = ReasonCode::DenyOrigin;
            let message = "the Host or Origin header is not one this gateway serves";
            let reply = Prepared::status(StatusCode::FORBIDDEN, None, message, reason);
            return Err(unidentified(reason, reply));
        }
        let server = route.server().map(vocabulary::ServerId::as_str);
        snapshot
            .identity
            .identify(&head.uri, &head.headers, peer, server)
            .await
            .map_err(|reason| {
                let error = (reason != ReasonCode::DenyNoAuthn).then_some("invalid_token");
                let challenge = metadata::challenge(&snapshot.public_url, &route.resource_path(), error);
                let remedy = reason.remedy();
                let message = format!("{}; {}", remedy.meaning, remedy.next);
                let reply =
                    Prepared::status(StatusCode::UNAUTHORIZED, None, &message, reason).with_challenge(challenge);
                unidentified(reason, reply)
            })
    }

    /// Every member of a batch is recorded; the answers leave together.
    async fn conclude_batch(&self, members: Vec<(Arrival, Ended)>, form: AnswerForm) -> Answer {
        let mut answers = Vec::with_capacity(members.len());
        for (arrival, ended) in members {
            answers.push(self.conclude(&arrival, ended, AnswerForm::Json, 0).await);
        }
        Answer::batch(answers, form)
    }

    /// Writes the record, then lets the answer go. `said` bytes went before it, on the same stream.
    async fn conclude(&self, arrival: &Arrival, ended: Ended, form: AnswerForm, said: u64) -> Answer {
        let reply = ended.reply.in_form(form);
        let body = reply.body(arrival.receipt_id);
        let (id, status) = (reply.request_id().cloned(), reply.http_status());
        let size = said + body.remaining() as u64;
        match self.ledger.append(arrival, ended.ending, size).await {
            Ok(receipt) => release_composed(reply, body, arrival.receipt_id, receipt),
            Err(down) => {
                tracing::error!(
                    error = &down as &dyn std::error::Error,
                    "an answer is withheld: it cannot be recorded"
                );
                Answer::withheld_by_ledger(down, status, id.as_ref())
            }
        }
    }
}

/// The most messages of one batch.
const LARGEST_BATCH: usize = 100;

/// A request of a known principal, its body not read yet.
#[derive(Clone)]
pub(crate) struct AuthenticatedHead {
    pub(crate) who: Arc<Principal>,
    pub(crate) route: Route,
    pub(crate) arrival: Arrival,
    pub(crate) head: Parts,
    pub(crate) stream: Arc<ResponseStream>,
}

impl AuthenticatedHead {
    /// Refused by its head alone.
    pub(crate) fn unreadable(&self, status: StatusCode, message: &str) -> Ended {
        unreadable(&self.who, &self.route, status, message, ReasonCode::DenyMalformed)
    }

    /// As a request that carries no message, in this session.
    pub(crate) fn into_asked(self, session: Arc<Session>) -> RequestContext {
        RequestContext {
            who: self.who,
            route: self.route,
            arrival: self.arrival,
            method: mcp::Method::Other(String::new()),
            client: Client::Legacy(session),
            args: (None, None),
            stream: self.stream,
        }
    }
}

/// Whether the client takes a stream for an answer.
fn streams(request: &HttpRequest<Incoming>) -> Streams {
    if mcp::http::admits_events(request.headers()) {
        Streams::Taken
    } else {
        Streams::Refused
    }
}

/// A request being answered: driven by its connection until something is to be said, then by a
/// task of its own, with the stream in the connection's hands.
struct Attended<F: Future<Output = Answer> + Send + 'static> {
    work: Option<Detached<F>>,
    stream: Arc<ResponseStream>,
}

impl<F: Future<Output = Answer> + Send + 'static> Future for Attended<F> {
    type Output = Response<ReplyBody>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let worked = Pin::new(work).poll(context);
        if let Poll::Ready(body) = self.stream.poll_body(context) {
            // Letting go of the work gives it a task of its own. If it is done, its answer is in the stream.
            self.work = None;
            return Poll::Ready(Answer::stream(body).into_response());
        }
        worked.map(|answer| {
            self.work = None;
            answer.into_response()
        })
    }
}

impl<F: Future<Output = Answer> + Send + 'static> Drop for Attended<F> {
    fn drop(&mut self) {
        if self.work.is_some() {
            self.stream.hang_up();
        }
    }
}

fn unidentified(reason: ReasonCode, reply: Prepared) -> Box<Ended> {
    let ending = Ending::Unidentified { reason };
    Box::new(Ended { ending, reply })
}

/// Counts a request for as long as it is at work.
struct AtWork(Arc<AtomicUsize>);

impl AtWork {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Where the stages before the method led.
pub(crate) enum Walked {
    Acknowledged,
    Ended(Box<Ended>),
    Batch(Vec<(Arrival, Ended)>),
}

impl From<Ended> for Walked {
    fn from(ended: Ended) -> Self {
        Self::Ended(Box::new(ended))
    }
}

pub(crate) fn unreadable(
    who: &Arc<Principal>,
    route: &Route,
    status: StatusCode,
    message: &str,
    reason: ReasonCode,
) -> Ended {
    let server_id = route.server().map(ToString::to_string);
    Ended {
        ending: Ending::Unreadable {
            who: who.clone(),
            reason,
            server_id,
        },
        reply: Prepared::status(status, None, message, reason),
    }
}

fn malformed(who: &Arc<Principal>, route: &Route, fault: Malformed) -> Ended {
    let (code, reason) = match fault {
        Malformed::NotUtf8 | Malformed::NotJson => (mcp::ErrorCode::ParseError, ReasonCode::DenyMalformed),
        Malformed::DuplicateKey => (mcp::ErrorCode::InvalidRequest, ReasonCode::DenyDuplicateKey),
        Malformed::TooDeep | Malformed::Batch | Malformed::NotAMessage => {
            (mcp::ErrorCode::InvalidRequest, ReasonCode::DenyMalformed)
        }
    };
    let ended = unreadable(who, route, StatusCode::BAD_REQUEST, &fault.to_string(), reason);
    Ended {
        reply: ended.reply.with_code(code),
        ..ended
    }
}
