//! The life of a request, top to bottom: identify, read, parse, answer, record, reply. Whatever a
//! stage finds, the request ends with one record, and the answer leaves after it.

pub(crate) mod body;
pub(crate) mod detached;
pub(crate) mod attended;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method as Verb, Request as HttpRequest, Response, StatusCode, Version};
use hyper::body::Body;
use ledger::{Arrival, Ending};
use mcp::http::AnswerForm;
use mcp::{ErrorCode, Malformed, Message, Method, envelope};
use vocabulary::{ReasonCode, ServerId};

use crate::context::Ended;
use crate::context::incoming::IncomingRequest;
use crate::edge::authenticate::AuthenticatedHead;
use crate::edge::listen::LARGEST_HEAD;
use crate::edge::route::Route;
use crate::edge::{Peer, metadata};
use crate::era;
use crate::era::legacy;
use crate::gateway::Gateway;
use crate::message::error_data::ErrorData;
use crate::outcome::sentence;
use crate::receive::attended::Attended;
use crate::receive::body::{BodyFault, arrival, read_body};
use crate::receive::detached::Detached;
use crate::reply::body::ReplyBody;
use crate::reply::stream::ResponseStream;
use crate::reply::{Answer, Effect, Prepared, release_composed};
use crate::snapshot::Snapshot;

/// The most messages of one batch.
const LARGEST_BATCH: usize = 100;

/// Answers one HTTP request. The work begins at once and goes on when the caller hangs up, so
/// that every request is recorded, whether or not anybody waits for its answer.
pub fn handle<B>(
    gateway: Arc<Gateway>,
    request: HttpRequest<B>,
    peer: Peer,
) -> impl Future<Output = Response<ReplyBody>> + Send + 'static
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Send,
{
    let at_work = gateway.begin_work();
    let stream = if mcp::http::admits_events(request.headers()) {
        ResponseStream::taken(gateway.clone())
    } else {
        ResponseStream::refused()
    };
    let heard = stream.clone();
    let work = Detached::new(|| async move {
        let _at_work = at_work;
        answer(&gateway, request, &peer, &stream).await
    });
    Attended::new(work, heard)
}

/// Puts a request on record that HTTP itself answered, because it was none or its head was too large: nothing of it was
/// read, and its answer names no receipt.
pub fn record_unparsable(gateway: Arc<Gateway>, address: IpAddr) -> impl Future<Output = ()> + Send + 'static {
    let at_work = gateway.begin_work();
    async move {
        let _at_work = at_work;
        let arrival = arrival(&http::HeaderMap::new(), address);
        let ending = Ending::Unidentified {
            reason: ReasonCode::DenyMalformed,
        };
        if let Err(down) = gateway.ledger.append(&arrival, ending, 0).await {
            let error = &down as &dyn std::error::Error;
            tracing::error!(error, "a request that is none cannot be recorded");
        }
    }
}

/// What a request led to before its record is written.
enum Received {
    /// A notification or an answer was taken; there is nothing to say.
    Taken,
    Ended(Box<Ended>),
    /// Each member is on record and counted already.
    Batch(Vec<Answer>),
}

impl From<Ended> for Received {
    fn from(ended: Ended) -> Self {
        Self::Ended(Box::new(ended))
    }
}

impl From<Result<(), Box<Ended>>> for Received {
    fn from(taken: Result<(), Box<Ended>>) -> Self {
        match taken {
            Ok(()) => Self::Taken,
            Err(ended) => Self::Ended(ended),
        }
    }
}

async fn answer<B>(gateway: &Gateway, request: HttpRequest<B>, peer: &Peer, stream: &Arc<ResponseStream>) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
{
    let snapshot = gateway.in_force();
    let (head, body) = request.into_parts();
    let route = Route::of(head.uri.path());
    if let Some(answer) = open_route(gateway, &snapshot, &route, &head) {
        return answer;
    }
    let mut arrival = arrival(&head.headers, peer.address);
    let form = mcp::http::answer_form(&head.headers).unwrap_or(AnswerForm::Json);
    let bodiless = head.method == Verb::HEAD;
    let received = match identify(&snapshot, &route, head, peer).await {
        Ok(head) => {
            let incoming = IncomingRequest {
                head: Arc::new(head),
                route,
                arrival,
                stream: stream.clone(),
                snapshot,
            };
            receive(gateway, incoming, body, &mut arrival).await
        }
        Err(ended) => Received::Ended(ended),
    };
    match received {
        Received::Taken => Answer::acknowledged(),
        Received::Ended(mut ended) if bodiless => {
            ended.reply = ended.reply.without_body();
            conclude(gateway, &arrival, *ended, 0).await
        }
        Received::Ended(ended) if stream.is_stream() => {
            let answer = conclude(gateway, &arrival, *ended, stream.said()).await;
            if let Some((message, hold)) = answer.into_message() {
                stream.finish(&message, hold).await;
            }
            Answer::acknowledged()
        }
        Received::Ended(mut ended) => {
            ended.reply = ended.reply.in_form(form);
            conclude(gateway, &arrival, *ended, 0).await
        }
        Received::Batch(answers) => Answer::batch(answers, form),
    }
}

/// Probes and public documents: the only answers without a credential, and without a record.
fn open_route(gateway: &Gateway, snapshot: &Snapshot, route: &Route, head: &Parts) -> Option<Answer> {
    if head.method != Verb::GET {
        return None;
    }
    match route {
        Route::Health => Some(Answer::probe(StatusCode::OK, "ok")),
        Route::Ready if !gateway.ledger.is_healthy() => {
            Some(Answer::probe(StatusCode::SERVICE_UNAVAILABLE, "not ready"))
        }
        // Calls are served; the log is larger than it may be, and nothing more of it may go.
        Route::Ready if gateway.ledger.is_pressed() => Some(Answer::probe(StatusCode::OK, "ready, disk pressure")),
        Route::Ready => Some(Answer::probe(StatusCode::OK, "ready")),
        Route::Metadata(path) => {
            let issuers = snapshot.identity.issuer_names();
            snapshot.allowed_hosts.admits(&head.uri, &head.headers).then(|| {
                let url = snapshot.public_url.named_by(&head.uri, &head.headers);
                Answer::document(metadata::document(&url, path, &issuers))
            })
        }
        Route::Federated | Route::Server(_) | Route::Nowhere => None,
    }
}

/// Host and origin first, then the credential; no byte of the body is read before.
async fn identify(
    snapshot: &Snapshot,
    route: &Route,
    head: Parts,
    peer: &Peer,
) -> Result<AuthenticatedHead, Box<Ended>> {
    if is_too_large(&head) {
        let (status, reason) = (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, ReasonCode::DenyMalformed);
        let reply = Prepared::status(status, None, "the head of the request is larger than 64 KiB", reason);
        return Err(unidentified(reason, reply));
    }
    if !snapshot.allowed_hosts.admits(&head.uri, &head.headers) {
        let reason = ReasonCode::DenyOrigin;
        let message = "the Host or Origin header is not one this gateway serves";
        let reply = Prepared::status(StatusCode::FORBIDDEN, None, message, reason);
        return Err(unidentified(reason, reply));
    }
    let server = route.server().map(ServerId::as_str);
    let url = snapshot.public_url.named_by(&head.uri, &head.headers).into_owned();
    snapshot.identity.identify(head, peer, server).await.map_err(|reason| {
        let error = (reason != ReasonCode::DenyNoAuthn).then_some("invalid_token");
        let challenge = metadata::challenge(&url, &route.resource_path(), error);
        let reply = Prepared::status(StatusCode::UNAUTHORIZED, None, &sentence(reason), reason);
        unidentified(reason, reply.with_challenge(challenge))
    })
}

/// Whether a head is larger than HTTP/1.1 lets one become; in HTTP/2 nobody else looks.
fn is_too_large(head: &Parts) -> bool {
    head.version == Version::HTTP_2 && {
        let fields = head.headers.iter();
        let size: usize = fields.map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        size + head.uri.path().len() > LARGEST_HEAD
    }
}

fn unidentified(reason: ReasonCode, reply: Prepared) -> Box<Ended> {
    let ending = Ending::Unidentified { reason };
    Box::new(Ended { ending, reply })
}

/// A request of a known principal: by its HTTP method, then by its message.
async fn receive<B>(gateway: &Gateway, mut incoming: IncomingRequest, body: B, arrival: &mut Arrival) -> Received
where
    B: Body<Data = Bytes> + Unpin,
{
    if !matches!(incoming.route, Route::Federated | Route::Server(_)) {
        let message = "there is nothing at this address; use /mcp";
        return incoming.unreadable(StatusCode::NOT_FOUND, message).into();
    }
    match *incoming.head.verb() {
        Verb::POST => {}
        Verb::GET => return Box::pin(legacy::open_stream(gateway, incoming)).await.into(),
        Verb::DELETE => return legacy::end_session(gateway, incoming).into(),
        _ => return incoming.unreadable(StatusCode::METHOD_NOT_ALLOWED, "use POST").into(),
    }
    let read = read(&mut incoming, body).await;
    *arrival = incoming.arrival;
    // A body may take its time, and the rules may have changed meanwhile.
    incoming.snapshot = gateway.in_force();
    match read {
        Ok(body) => take_body(gateway, incoming, &body).await,
        Err(ended) => Received::Ended(ended),
    }
}

/// The body, if its head admits reading it.
async fn read<B>(incoming: &mut IncomingRequest, body: B) -> Result<Bytes, Box<Ended>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let headers = incoming.head.headers();
    if !mcp::http::is_plain_json(headers) {
        let message = "the body must be application/json, not encoded";
        return Err(Box::new(
            incoming.unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, message),
        ));
    }
    if mcp::http::answer_form(headers).is_none() {
        let message = "Accept must admit application/json or text/event-stream";
        return Err(Box::new(incoming.unreadable(StatusCode::NOT_ACCEPTABLE, message)));
    }
    let limit = incoming.snapshot.limits.request_bytes;
    let read = read_body(body, limit, &mut incoming.arrival).await;
    read.map_err(|fault| {
        Box::new(match fault {
            BodyFault::TooLarge => {
                let (status, code) = (StatusCode::PAYLOAD_TOO_LARGE, ReasonCode::DenyPayloadTooLarge);
                incoming.unreadable_because(status, "the body is larger than the limit", code)
            }
            BodyFault::Unfinished => {
                let message = "the body did not arrive whole and in time";
                incoming.unreadable(StatusCode::REQUEST_TIMEOUT, message)
            }
        })
    })
}

/// One message, or a batch where the session's version still has them.
async fn take_body(gateway: &Gateway, incoming: IncomingRequest, body: &Bytes) -> Received {
    let depth = incoming.snapshot.limits.request_depth;
    match envelope::parse(body, depth) {
        Err(Malformed::Batch) if legacy::takes_batches(gateway, &incoming) => {
            match envelope::split_batch(body, depth, LARGEST_BATCH) {
                Ok(members) => Box::pin(take_batch(gateway, incoming, members, depth)).await,
                Err(fault) => malformed(&incoming, fault).into(),
            }
        }
        Ok(message) => take_message(gateway, &incoming, message).await,
        Err(fault) => malformed(&incoming, fault).into(),
    }
}

async fn take_message(gateway: &Gateway, incoming: &IncomingRequest, message: Message) -> Received {
    match message {
        Message::Request(request) => era::serve(gateway, incoming, &request).await.into(),
        Message::Notification(notification) => legacy::take(gateway, incoming, &notification).into(),
        Message::Response(response) => legacy::take_response(gateway, incoming, response).into(),
    }
}

/// Each member of a batch walks by itself and has a record of its own, and its answer counts while the others are waited for.
/// They walk one after the other, so one seat does for all of them.
async fn take_batch(gateway: &Gateway, incoming: IncomingRequest, members: Vec<Bytes>, depth: usize) -> Received {
    let mut answers: Vec<Answer> = Vec::new();
    for member in members {
        if let Some(before) = answers.last_mut() {
            before.free_seat();
        }
        let arrival = Arrival {
            size_bytes_in: member.len() as u64,
            ..arrival(incoming.head.headers(), incoming.arrival.address)
        };
        let incoming = IncomingRequest {
            arrival,
            // A stream is of one request, and those before it may have taken their time.
            stream: ResponseStream::refused(),
            snapshot: gateway.in_force(),
            ..incoming.clone()
        };
        let received = match envelope::parse(&member, depth) {
            Ok(Message::Request(request)) if *request.method() == Method::Initialize => {
                let message = "`initialize` must not be part of a batch";
                let context = incoming.with_message(&request);
                context
                    .refused_by_status(StatusCode::BAD_REQUEST, &request, message)
                    .into()
            }
            Ok(message) => Box::pin(take_message(gateway, &incoming, message)).await,
            Err(fault) => malformed(&incoming, fault).into(),
        };
        match received {
            Received::Taken | Received::Batch(_) => {}
            Received::Ended(one) => answers.push(conclude(gateway, &arrival, *one, 0).await),
        }
    }
    Received::Batch(answers)
}

fn malformed(incoming: &IncomingRequest, fault: Malformed) -> Ended {
    let (code, reason) = match fault {
        Malformed::NotUtf8 | Malformed::NotJson => (ErrorCode::ParseError, ReasonCode::DenyMalformed),
        Malformed::DuplicateKey => (ErrorCode::InvalidRequest, ReasonCode::DenyDuplicateKey),
        Malformed::TooDeep | Malformed::Batch | Malformed::NotAMessage => {
            (ErrorCode::InvalidRequest, ReasonCode::DenyMalformed)
        }
    };
    let status = StatusCode::BAD_REQUEST;
    let data = ErrorData::denied(code, fault.to_string(), reason);
    Ended {
        reply: Prepared::refusal(None, data).with_status(status),
        ..incoming.unreadable_because(status, "", reason)
    }
}

/// Writes the record, then lets the answer go. `said` bytes went before it, on the same stream.
async fn conclude(gateway: &Gateway, arrival: &Arrival, ended: Ended, said: u64) -> Answer {
    let Ended { ending, mut reply } = ended;
    let composed = reply.compose(arrival.receipt_id);
    let size = said + composed.len() as u64;
    let (who, slot) = (ending.who().cloned(), reply.take_slot());
    let recorded = gateway
        .ledger
        .append_answer(arrival, ending, size, || composed.to_bytes())
        .await;
    match (reply.take_effect(), recorded.is_ok()) {
        (Some(Effect::Ends(session)), true) | (Some(Effect::Opened(session)), false) => {
            gateway.end_session(&session);
        }
        (Some(Effect::Ends(_) | Effect::Opened(_)) | None, _) => {}
    }
    match recorded {
        Ok(receipt) => {
            let bytes = composed.len();
            let hold = who.and_then(|who| gateway.unread.hold(&who, bytes, slot));
            release_composed(reply, composed, arrival.receipt_id, receipt).counted(hold)
        }
        Err(down) => {
            tracing::error!(
                error = &down as &dyn std::error::Error,
                "an answer is withheld: it cannot be recorded"
            );
            reply.withheld_by_ledger(down)
        }
    }
}
