//! The life of a request, top to bottom: identify, read, parse, answer, record, reply. Whatever a
//! stage finds, the request ends with one record, and the answer leaves after it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use aws_lc_rs::hmac;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, Method as Verb, Request as HttpRequest, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use ledger::{Arrival, DecisionFacts, Ending, Era, Ledger, MessageFacts, Verdict};
use mcp::envelope;
use mcp::http::{AnswerForm, PROTOCOL_VERSION, SESSION_ID};
use mcp::{Malformed, Message, Method, Notification, Request, Version, compose};
use vocabulary::json::{self, Value};
use vocabulary::{Digest, Principal, ReasonCode, ReceiptId, TraceId, canonical};

use crate::edge::Peer;
use crate::edge::authenticate::Identified;
use crate::edge::metadata;
use crate::reply::{Answer, DecisionNote, Prepared, ReplyBody, release_composed};
use crate::route::Route;
use crate::session::{Session, Sessions};
use crate::town::Town;

/// How long a client may take to send a body.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// The gateway: the town as it is now, the open sessions, and the ledger.
pub struct Gateway {
    town: ArcSwap<Town>,
    sessions: Sessions,
    pub(crate) ledger: Ledger,
    pub(crate) cursor_key: hmac::Key,
    at_work: Arc<AtomicUsize>,
}

/// How a request ended, and what its caller will be told once that is on record.
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    pub(crate) reply: Prepared,
}

/// An authenticated request whose message was read.
pub(crate) struct Asked {
    pub(crate) who: Arc<Principal>,
    pub(crate) route: Route,
    pub(crate) arrival: Arrival,
    pub(crate) address: IpAddr,
    method: Method,
    session: Option<Arc<Session>>,
    args: (Option<Digest>, Option<canonical::Spelling>),
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

    /// Answers one HTTP request. The work goes on when the caller hangs up, so that whatever it
    /// set off is recorded.
    pub async fn handle(self: Arc<Self>, request: HttpRequest<Incoming>, peer: Peer) -> Response<ReplyBody> {
        let at_work = AtWork::begin(&self.at_work);
        let work = tokio::spawn(async move {
            let _at_work = at_work;
            self.answer(request, &peer).await
        });
        work.await.unwrap_or_else(|_| Answer::broken()).into_response()
    }

    /// How many requests are at work, those whose callers hung up included.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.at_work.load(Ordering::SeqCst)
    }

    async fn answer(&self, request: HttpRequest<Incoming>, peer: &Peer) -> Answer {
        let (head, body) = request.into_parts();
        let route = Route::of(head.uri.path());
        if let Some(answer) = self.open_route(&route, &head) {
            return answer;
        }
        let mut arrival = arrival(&head.headers, peer.address);
        let form = mcp::http::answer_form(&head.headers);
        match self.walk(&mut arrival, route, &head, body, peer).await {
            Walked::Acknowledged => Answer::acknowledged(),
            Walked::Ended(ended) => self.conclude(&arrival, *ended, form.unwrap_or(AnswerForm::Json)).await,
        }
    }

    /// Probes and public documents: the only answers without a credential, and without a record.
    fn open_route(&self, route: &Route, head: &Parts) -> Option<Answer> {
        if head.method != Verb::GET {
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
                    .admits(&head.uri, &head.headers)
                    .then(|| Answer::document(metadata::document(&town.public_url, path, &issuers)))
            }
            Route::Federated | Route::Server(_) | Route::Nowhere => None,
        }
    }

    /// The stages before the method is known.
    async fn walk(&self, arrival: &mut Arrival, route: Route, head: &Parts, body: Incoming, peer: &Peer) -> Walked {
        let who = match self.identify(&route, head, peer).await {
            Ok(who) => who.principal().clone(),
            Err(ended) => return ended.into(),
        };
        let unreadable = |status, message: &str, code| Walked::from(unreadable(&who, &route, status, message, code));
        if route == Route::Nowhere {
            return unreadable(
                StatusCode::NOT_FOUND,
                "there is nothing at this address; use /mcp",
                ReasonCode::DenyMalformed,
            );
        }
        match head.method {
            Verb::POST => {}
            Verb::DELETE => return self.end_session(*arrival, &who, route, head, peer.address).into(),
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
                let asked = Asked::new(who, route, *arrival, peer.address, &request);
                self.serve(asked, head, &request).await.into()
            }
            Ok(Message::Notification(notification)) => self.take(&who, &route, head, &notification),
            Ok(Message::Response) => unreadable(
                StatusCode::BAD_REQUEST,
                "nothing was asked that this could answer",
                ReasonCode::DenyMalformed,
            ),
            Err(fault) => malformed(&who, &route, fault).into(),
        }
    }

    /// Host and origin first, then the credential; no byte of the body is read before.
    async fn identify(&self, route: &Route, head: &Parts, peer: &Peer) -> Result<Identified, Ended> {
        let town = self.town();
        if !town.doorplate.admits(&head.uri, &head.headers) {
            let reason = ReasonCode::DenyOrigin;
            let message = "the Host or Origin header is not one this gateway serves";
            let reply = Prepared::status(StatusCode::FORBIDDEN, None, message, reason);
            return Err(Ended {
                ending: Ending::Unidentified { reason },
                reply,
            });
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
                Ended {
                    ending: Ending::Unidentified { reason },
                    reply,
                }
            })
    }

    /// One request, its method known.
    async fn serve(&self, mut asked: Asked, head: &Parts, request: &Request) -> Ended {
        if request
            .params()
            .meta("io.modelcontextprotocol/protocolVersion")
            .is_some()
            || names_no_known_version(head)
        {
            let message = "this protocol version is not spoken here; start with `initialize`";
            return asked.refused_by_status(StatusCode::BAD_REQUEST, request, message);
        }
        if *request.method() == Method::Initialize {
            return self.initialize(&mut asked, request);
        }
        let session = match self.session_of(&asked.who, head) {
            Ok(session) => session,
            Err((status, message)) => return asked.refused_by_status(status, request, message),
        };
        asked.session = Some(session.clone());
        match request.method() {
            Method::Ping => self.answered(&asked, request, Bytes::from_static(b"{}")),
            Method::ToolsList => self.list(&asked, request).await,
            Method::ToolsCall => match session.begin(request.id().as_raw()) {
                Some(open) => self.call(&asked, request, &open).await,
                None => {
                    let message = "a request with this id is still being answered";
                    asked.refused_by_status(StatusCode::BAD_REQUEST, request, message)
                }
            },
            Method::Initialize | Method::Cancelled | Method::Other(_) => {
                let note = DecisionNote::denied(ReasonCode::DenyMalformed);
                let message = "this method is not offered here".to_owned();
                let reply = Prepared::refusal(Some(request.id().clone()), -32601, message, note);
                asked.refused(ReasonCode::DenyMalformed, reply)
            }
        }
    }

    /// A notification gets no answer and no record, unless it is refused.
    fn take(&self, who: &Arc<Principal>, route: &Route, head: &Parts, notification: &Notification) -> Walked {
        match self.session_of(who, head) {
            Ok(session) => {
                if *notification.method() == Method::Cancelled
                    && let Some(id) = notification.params().raw("requestId")
                {
                    session.cancel(id);
                }
                Walked::Acknowledged
            }
            Err((status, message)) => {
                let code = ReasonCode::DenyMalformed;
                let facts = MessageFacts {
                    method: notification.method().as_str().to_owned(),
                    server_id: route.server().map(ToString::to_string),
                    era: Some(Era::Legacy),
                    ..MessageFacts::default()
                };
                let decision = builtin(Verdict::Deny, code, self.town().policy.epoch());
                let ending = Ending::Refused {
                    who: who.clone(),
                    message: facts,
                    decision,
                };
                Ended {
                    ending,
                    reply: Prepared::status(status, None, message, code),
                }
                .into()
            }
        }
    }

    fn initialize(&self, asked: &mut Asked, request: &Request) -> Ended {
        let requested = request.params().text("protocolVersion").unwrap_or_default();
        let version = Version::negotiate(&requested);
        let Some((id, session)) = self.sessions.open(&asked.who, version) else {
            let message = "no further session can be opened now; end one first";
            return asked.refused_by_status(StatusCode::SERVICE_UNAVAILABLE, request, message);
        };
        asked.session = Some(session);
        let town = self.town();
        let instructions = asked
            .route
            .server()
            .and_then(|id| town.policy.inventory().server(id)?.instructions.clone());
        let ended = self.answered(asked, request, initialize_result(version, instructions.as_deref()));
        Ended {
            reply: ended.reply.with_session(id),
            ..ended
        }
    }

    /// `DELETE` with a session id ends that session.
    fn end_session(
        &self,
        arrival: Arrival,
        who: &Arc<Principal>,
        route: Route,
        head: &Parts,
        address: IpAddr,
    ) -> Ended {
        let session = match self.session_of(who, head) {
            Ok(session) => session,
            Err((StatusCode::BAD_REQUEST, _)) => {
                let message = "DELETE ends a session and needs its id";
                return unreadable(
                    who,
                    &route,
                    StatusCode::METHOD_NOT_ALLOWED,
                    message,
                    ReasonCode::DenyMalformed,
                );
            }
            Err((status, message)) => return unreadable(who, &route, status, message, ReasonCode::DenyMalformed),
        };
        self.sessions.close(&session);
        let town = self.town();
        let key = upstream::SessionKey::Client(session.digest);
        town.servers().for_each(|server| server.forget(&key));
        let method = Method::Other(String::new());
        let asked = Asked {
            who: who.clone(),
            route,
            arrival,
            address,
            method,
            session: Some(session),
            args: (None, None),
        };
        let (who, message, decision) = (asked.who.clone(), asked.facts(), asked.answered_here(&town));
        Ended {
            ending: Ending::Answered {
                who,
                message,
                decision,
                catalog: None,
            },
            reply: Prepared::empty(StatusCode::NO_CONTENT),
        }
    }

    /// The session a request names: missing is 400, anything but the principal's own is 404.
    fn session_of(&self, who: &Principal, head: &Parts) -> Result<Arc<Session>, (StatusCode, &'static str)> {
        let mut ids = head.headers.get_all(SESSION_ID).iter();
        let id = match (ids.next(), ids.next()) {
            (Some(id), None) => id,
            _ => {
                return Err((
                    StatusCode::BAD_REQUEST,
                    "one Mcp-Session-Id header is needed; start with `initialize`",
                ));
            }
        };
        let found = id.to_str().ok().and_then(|id| self.sessions.find(id, who));
        let session = found.ok_or((
            StatusCode::NOT_FOUND,
            "there is no such session; start again with `initialize`",
        ))?;
        let version = head.headers.get(PROTOCOL_VERSION);
        if version.is_some_and(|version| version != session.version.as_str()) {
            return Err((
                StatusCode::BAD_REQUEST,
                "MCP-Protocol-Version is not the version this session negotiated",
            ));
        }
        Ok(session)
    }

    fn answered(&self, asked: &Asked, request: &Request, result: Bytes) -> Ended {
        let decision = asked.answered_here(&self.town());
        Ended {
            ending: Ending::Answered {
                who: asked.who.clone(),
                message: asked.facts(),
                decision,
                catalog: None,
            },
            reply: Prepared::own(request.id().clone(), result),
        }
    }

    /// Writes the record, then lets the answer go.
    async fn conclude(&self, arrival: &Arrival, ended: Ended, form: AnswerForm) -> Answer {
        let reply = ended.reply.in_form(form);
        let body = reply.body(arrival.receipt_id);
        let id = reply.request_id().cloned();
        match self.ledger.append(arrival, ended.ending, body.len() as u64).await {
            Ok(receipt) => release_composed(reply, body, arrival.receipt_id, receipt),
            Err(down) => {
                tracing::error!(
                    error = &down as &dyn std::error::Error,
                    "an answer is withheld: it cannot be recorded"
                );
                Answer::withheld_by_ledger(down, id.as_ref())
            }
        }
    }
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
enum Walked {
    Acknowledged,
    Ended(Box<Ended>),
}

impl From<Ended> for Walked {
    fn from(ended: Ended) -> Self {
        Self::Ended(Box::new(ended))
    }
}

impl Asked {
    fn new(who: Arc<Principal>, route: Route, arrival: Arrival, address: IpAddr, request: &Request) -> Self {
        let args = match request.method() {
            Method::ToolsCall => (None, None),
            _ => params_hash(request.params().whole()),
        };
        Self {
            who,
            route,
            arrival,
            address,
            method: request.method().clone(),
            session: None,
            args,
        }
    }

    /// What is known of the message so far.
    pub(crate) fn facts(&self) -> MessageFacts {
        let federated = (self.method == Method::ToolsList).then(|| "*".to_owned());
        MessageFacts {
            method: self.method.as_str().to_owned(),
            server_id: self.route.server().map(ToString::to_string).or(federated),
            era: Some(Era::Legacy),
            session: self.session.as_ref().map(|session| session.digest),
            args_hash: self.args.0,
            args_canon: self.args.1,
            ..MessageFacts::default()
        }
    }

    pub(crate) fn session_digest(&self) -> Digest {
        self.session
            .as_ref()
            .map_or_else(|| Digest::of(b""), |session| session.digest)
    }

    /// Allowed, because the gateway answers this by itself.
    pub(crate) fn answered_here(&self, town: &Town) -> DecisionFacts {
        builtin(Verdict::Allow, ReasonCode::AllowBuiltin, town.policy.epoch())
    }

    /// Refused by the protocol.
    pub(crate) fn refused(&self, code: ReasonCode, reply: Prepared) -> Ended {
        let decision = builtin(Verdict::Deny, code, 0);
        Ended {
            ending: Ending::Refused {
                who: self.who.clone(),
                message: self.facts(),
                decision,
            },
            reply,
        }
    }

    fn refused_by_status(&self, status: StatusCode, request: &Request, message: &str) -> Ended {
        let code = ReasonCode::DenyMalformed;
        self.refused(
            code,
            Prepared::status(status, Some(request.id().clone()), message, code),
        )
    }
}

fn builtin(result: Verdict, code: ReasonCode, epoch: u64) -> DecisionFacts {
    DecisionFacts {
        result,
        policy_id: "builtin:protocol".into(),
        reason_codes: vec![code],
        policy_set: None,
        epoch,
    }
}

fn unreadable(who: &Arc<Principal>, route: &Route, status: StatusCode, message: &str, reason: ReasonCode) -> Ended {
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
        Malformed::TooDeep => (-32600, ReasonCode::DenyPayloadTooLarge),
        Malformed::Batch | Malformed::NotAMessage => (-32600, ReasonCode::DenyMalformed),
    };
    let ended = unreadable(who, route, StatusCode::BAD_REQUEST, &fault.to_string(), reason);
    Ended {
        reply: ended.reply.with_code(code),
        ..ended
    }
}

/// A version header that names no version with sessions.
fn names_no_known_version(head: &Parts) -> bool {
    let mut versions = head.headers.get_all(PROTOCOL_VERSION).iter();
    let named = versions
        .next()
        .map(|version| version.to_str().ok().and_then(Version::parse).is_some());
    named == Some(false) || versions.next().is_some()
}

fn arrival(headers: &HeaderMap, address: IpAddr) -> Arrival {
    let traced = headers
        .get("traceparent")
        .and_then(|value| TraceId::from_traceparent(value.to_str().ok()?));
    Arrival {
        receipt_id: ReceiptId::mint(),
        trace_id: traced.unwrap_or_else(TraceId::mint),
        address,
        size_bytes_in: 0,
        began: Instant::now(),
    }
}

enum BodyFault {
    TooLarge,
    Unfinished,
}

/// Reads a body under the cap and the deadline; the arrival learns its size.
async fn read_body(mut body: Incoming, max_bytes: usize, arrival: &mut Arrival) -> Result<Bytes, BodyFault> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > max_bytes {
        return Err(BodyFault::TooLarge);
    }
    let read = async {
        let mut whole = BytesMut::new();
        let mut only = None;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyFault::Unfinished)?.into_data() else {
                continue;
            };
            arrival.size_bytes_in += data.len() as u64;
            if arrival.size_bytes_in > max_bytes as u64 {
                return Err(BodyFault::TooLarge);
            }
            match only.take() {
                None if whole.is_empty() => only = Some(data),
                earlier => {
                    whole.extend_from_slice(&earlier.unwrap_or_default());
                    whole.extend_from_slice(&data);
                }
            }
        }
        Ok(only.unwrap_or_else(|| whole.freeze()))
    };
    tokio::time::timeout(BODY_DEADLINE, read)
        .await
        .unwrap_or(Err(BodyFault::Unfinished))
}

/// The digest of `params` without `_meta`; nothing where they cannot be read without doubt.
fn params_hash(params: Option<&[u8]>) -> (Option<Digest>, Option<canonical::Spelling>) {
    const READING: json::Limits = json::Limits {
        max_bytes: 1 << 26,
        max_depth: 512,
        max_string: 1 << 26,
        max_items: 1 << 20,
    };
    let Ok(mut tree) = Value::parse(params.unwrap_or(b"{}"), &READING) else {
        return (None, None);
    };
    if let Value::Object(members) = &mut tree {
        members.retain(|(name, _)| name != "_meta");
    }
    let (digest, spelling) = canonical::digest(&tree);
    (Some(digest), Some(spelling))
}

fn initialize_result(version: Version, instructions: Option<&str>) -> Bytes {
    let mut out = format!(
        "{{\"protocolVersion\":\"{}\",\"capabilities\":{{\"tools\":{{}}}},\"serverInfo\":{{\"name\":\"portreeve\",\"title\":\"Portreeve\",\"version\":\"{}\"}}",
        version.as_str(),
        env!("CARGO_PKG_VERSION"),
    )
    .into_bytes();
    if let Some(text) = instructions {
        out.extend_from_slice(b",\"instructions\":");
        compose::string(text, &mut out);
    }
    out.push(b'}');
    out.into()
}
