//! The life of a request, top to bottom: identify, read, parse, answer, record, reply. Whatever a
//! stage finds, the request ends with one record, and the answer leaves after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use aws_lc_rs::hmac;
use http::request::Parts;
use http::{Method as Verb, Request as HttpRequest, Response, StatusCode};
use hyper::body::Incoming;
use ledger::{Arrival, Ending, Ledger};
use mcp::http::AnswerForm;
use mcp::{Malformed, Message, envelope};
use vocabulary::{Principal, ReasonCode};

use crate::asked::{Asked, Ended};
use crate::edge::Peer;
use crate::edge::authenticate::Identified;
use crate::edge::metadata;
use crate::intake::{BodyFault, arrival, read_body};
use crate::reply::{Answer, Prepared, ReplyBody, release_composed};
use crate::route::Route;
use crate::session::Sessions;
use crate::town::Town;
use crate::unstoppable::Unstoppable;

/// The gateway: the town as it is now, the open sessions, and the ledger.
pub struct Gateway {
    town: ArcSwap<Town>,
    pub(crate) sessions: Sessions,
    pub(crate) ledger: Ledger,
    pub(crate) cursor_key: hmac::Key,
    at_work: Arc<AtomicUsize>,
}

impl Gateway {
    /// A gateway before `town`.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn new(town: Town, ledger: Ledger) -> Result<Arc<Self>, aws_lc_rs::error::Unspecified> {
        let mut key = [0u8; 32];
        aws_lc_rs::rand::fill(&mut key)?;
        let gateway = Self {
            town: ArcSwap::from_pointee(town),
            sessions: Sessions::default(),
            ledger,
            cursor_key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            at_work: Arc::default(),
        };
        Ok(Arc::new(gateway))
    }

    /// The town in force.
    #[must_use]
    pub fn town(&self) -> Arc<Town> {
        self.town.load_full()
    }

    /// Puts another town in force, for live sessions too.
    pub fn move_to(&self, town: Town) {
        self.town.store(Arc::new(town));
    }

    /// Answers one HTTP request. The work begins at once and goes on when the caller hangs up, so
    /// that every request is recorded, whether or not anybody waits for its answer.
    pub fn handle(
        self: Arc<Self>,
        request: HttpRequest<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<ReplyBody>> + Send + 'static {
        let at_work = AtWork::begin(&self.at_work);
        Unstoppable::new(async move {
            let _at_work = at_work;
            self.answer(request, &peer).await.into_response()
        })
    }

    /// How many requests are at work, those whose callers hung up included.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.at_work.load(Ordering::SeqCst)
    }

    async fn answer(&self, request: HttpRequest<Incoming>, peer: &Peer) -> Answer {
        let route = Route::of(request.uri().path());
        if let Some(answer) = self.open_route(&route, &request) {
            return answer;
        }
        let mut arrival = arrival(request.headers(), peer.address);
        let form = mcp::http::answer_form(request.headers());
        let bodiless = request.method() == Verb::HEAD;
        match self.walk(&mut arrival, route, request, peer).await {
            Walked::Acknowledged => Answer::acknowledged(),
            Walked::Ended(ended) if bodiless => {
                let (ending, reply) = (ended.ending, ended.reply.without_body());
                self.conclude(&arrival, Ended { ending, reply }, AnswerForm::Json).await
            }
            Walked::Ended(ended) => self.conclude(&arrival, *ended, form.unwrap_or(AnswerForm::Json)).await,
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
                let town = self.town();
                let issuers = town.identity.issuer_names();
                town.doorplate
                    .admits(request.uri(), request.headers())
                    .then(|| Answer::document(metadata::document(&town.public_url, path, &issuers)))
            }
            Route::Federated | Route::Server(_) | Route::Nowhere => None,
        }
    }

    /// The stages before the method is known.
    async fn walk(&self, arrival: &mut Arrival, route: Route, request: HttpRequest<Incoming>, peer: &Peer) -> Walked {
        let (head, body) = request.into_parts();
        let who = match self.identify(&route, &head, peer).await {
            Ok(who) => who.principal().clone(),
            Err(ended) => return Walked::Ended(ended),
        };
        let unreadable = |status, message: &str, code| Walked::from(unreadable(&who, &route, status, message, code));
        if !matches!(route, Route::Federated | Route::Server(_)) {
            return unreadable(
                StatusCode::NOT_FOUND,
                "there is nothing at this address; use /mcp",
                ReasonCode::DenyMalformed,
            );
        }
        match head.method {
            Verb::POST => {}
            Verb::DELETE => return self.end_session(*arrival, &who, route, &head).into(),
            _ => return unreadable(StatusCode::METHOD_NOT_ALLOWED, "use POST", ReasonCode::DenyMalformed),
        }
        if !mcp::http::is_plain_json(&head.headers) {
            let message = "the body must be application/json, not encoded";
            return unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, message, ReasonCode::DenyMalformed);
        }
        if mcp::http::answer_form(&head.headers).is_none() {
            let message = "Accept must admit application/json or text/event-stream";
            return unreadable(StatusCode::NOT_ACCEPTABLE, message, ReasonCode::DenyMalformed);
        }
        let limits = self.town().limits;
        let body = match read_body(body, limits.request_bytes, arrival).await {
            Ok(body) => body,
            Err(BodyFault::TooLarge) => {
                let message = "the body is larger than the limit";
                return unreadable(StatusCode::PAYLOAD_TOO_LARGE, message, ReasonCode::DenyPayloadTooLarge);
            }
            Err(BodyFault::Unfinished) => {
                let message = "the body did not arrive whole and in time";
                return unreadable(StatusCode::REQUEST_TIMEOUT, message, ReasonCode::DenyMalformed);
            }
        };
        match envelope::parse(&body, limits.request_depth) {
            Ok(Message::Request(request)) => {
                let asked = Asked::new(who, route, *arrival, &request);
                self.serve(asked, &head, &request).await.into()
            }
            Ok(Message::Notification(notification)) => self.take(&who, &route, &head, &notification),
            Ok(Message::Response) => unreadable(
                StatusCode::BAD_REQUEST,
                "nothing was asked that this could answer",
                ReasonCode::DenyMalformed,
            ),
            Err(fault) => malformed(&who, &route, fault).into(),
        }
    }

    /// Host and origin first, then the credential; no byte of the body is read before.
    async fn identify(&self, route: &Route, head: &Parts, peer: &Peer) -> Result<Identified, Box<Ended>> {
        let town = self.town();
        if !town.doorplate.admits(&head.uri, &head.headers) {
            let reason = ReasonCode::DenyOrigin;
            let message = "the Host or Origin header is not one this gateway serves";
            let reply = Prepared::status(StatusCode::FORBIDDEN, None, message, reason);
            return Err(unidentified(reason, reply));
        }
        let server = route.server().map(vocabulary::ServerId::as_str);
        town.identity
            .identify(&head.uri, &head.headers, peer, server)
            .await
            .map_err(|reason| {
                let error = (reason != ReasonCode::DenyNoAuthn).then_some("invalid_token");
                let challenge = metadata::challenge(&town.public_url, &route.resource_path(), error);
                let remedy = reason.remedy();
                let message = format!("{}; {}", remedy.meaning, remedy.next);
                let reply =
                    Prepared::status(StatusCode::UNAUTHORIZED, None, &message, reason).with_challenge(challenge);
                unidentified(reason, reply)
            })
    }

    /// Writes the record, then lets the answer go.
    async fn conclude(&self, arrival: &Arrival, ended: Ended, form: AnswerForm) -> Answer {
        let reply = ended.reply.in_form(form);
        let body = reply.body(arrival.receipt_id);
        let (id, status) = (reply.request_id().cloned(), reply.http_status());
        match self.ledger.append(arrival, ended.ending, body.len() as u64).await {
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
        Malformed::NotUtf8 | Malformed::NotJson => (-32700, ReasonCode::DenyMalformed),
        Malformed::DuplicateKey => (-32600, ReasonCode::DenyDuplicateKey),
        Malformed::TooDeep | Malformed::Batch | Malformed::NotAMessage => (-32600, ReasonCode::DenyMalformed),
    };
    let ended = unreadable(who, route, StatusCode::BAD_REQUEST, &fault.to_string(), reason);
    Ended {
        reply: ended.reply.with_code(code),
        ..ended
    }
}
