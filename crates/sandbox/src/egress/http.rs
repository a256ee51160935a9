//! Plain HTTP, one request per connection. The request that goes out is built anew: the `Host` is the one that was
//! allowed, whatever the sandbox wrote, and headers that belong to one hop stay behind.

use std::convert::Infallible;
use std::io::Cursor;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{
    CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt;

use crate::egress::Guest;
use crate::egress::allow::AllowedDestination;
use crate::egress::dial::{Passage, STEP};
use crate::egress::head::{LONGEST_HEAD, read_head, refusal, refuse};
use crate::egress::host::Asked;
use crate::egress::record::{Event, Reason, Target};
use crate::egress::tunnel::{Caller, IDLE, Lively};

/// How a request names its host.
pub(crate) enum Form {
    /// By its URL, as to a proxy: this authority, which was checked. A different `Host` is corrected.
    Absolute(Vec<u8>),
    /// By the connection; a different `Host` is refused.
    Origin,
}

/// Forwards the one request of a caller.
pub(crate) async fn relay(guest: &Guest, mut caller: Caller, passage: Passage, form: Form) {
    if let Err(reason) = read_head(&mut caller.stream, &mut caller.said).await {
        guest.room.recorder.blocked(caller.event, caller.target, reason);
        return refuse(caller.stream, reason).await;
    }
    let Ok((sender, driver)) = handshake(TokioIo::new(passage.stream)).await else {
        let reason = Reason::UpstreamConnectFailed;
        guest.room.recorder.blocked(caller.event, caller.target, reason);
        return refuse(caller.stream, reason).await;
    };
    let exchange = Exchange {
        guest,
        form,
        event: caller.event,
        target: caller.target,
        destination: passage.destination,
        reason: passage.reason,
        sender: Mutex::new(Some(sender)),
        decided: AtomicBool::new(false),
    };
    let (near, pulse) = Lively::new(caller.stream);
    let (read, write) = tokio::io::split(near);
    let near = tokio::io::join(Cursor::new(caller.said).chain(read), write);
    let mut builder = http1::Builder::new();
    builder
        .keep_alive(false)
        .half_close(true)
        .max_buf_size(2 * LONGEST_HEAD);
    builder.timer(TokioTimer::new()).header_read_timeout(STEP);
    let service = service_fn(|request| exchange.answer(request));
    let served = async {
        let mut server = std::pin::pin!(builder.serve_connection(TokioIo::new(near), service));
        tokio::select! {
            _ = &mut server => {}
            _ = driver => { let _ = server.await; }
        }
    };
    tokio::select! {
        () = served => {}
        () = pulse.stopped(IDLE) => {}
    }
    if !exchange.decided.load(Ordering::Relaxed) {
        exchange.blocked(Reason::NotAProxyRequest);
    }
}

type Body = Either<Incoming, Full<Bytes>>;

/// One request on its way, with the only connection it may take.
struct Exchange<'a> {
    guest: &'a Guest,
    form: Form,
    event: Event,
    target: Target,
    destination: AllowedDestination,
    reason: Reason,
    sender: Mutex<Option<SendRequest<Incoming>>>,
    decided: AtomicBool,
}

impl Exchange<'_> {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let sender = vocabulary::lock(&self.sender).take();
        let Some(mut sender) = sender else {
            return Ok(refused(Reason::NotAProxyRequest));
        };
        let reason = match self.check(&request) {
            Ok(reason) => reason,
            Err(reason) => {
                self.blocked(reason);
                return Ok(refused(reason));
            }
        };
        let Some(request) = self.rebuilt(request) else {
            self.blocked(Reason::NotAProxyRequest);
            return Ok(refused(Reason::NotAProxyRequest));
        };
        self.decided.store(true, Ordering::Relaxed);
        self.guest
            .room
            .recorder
            .allowed(self.event, self.target.clone(), reason);
        Ok(match sender.send_request(request).await {
            Ok(response) if response.status() != StatusCode::SWITCHING_PROTOCOLS => returned(response),
            Ok(_) | Err(_) => refused(Reason::UpstreamConnectFailed),
        })
    }

    /// The last check: everything in the request that names a host names the allowed one.
    fn check(&self, request: &Request<Incoming>) -> Result<Reason, Reason> {
        if request.method() == Method::CONNECT {
            return Err(Reason::NotAProxyRequest);
        }
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let hosts: Vec<_> = request.headers().get_all(HOST).iter().collect();
        let same = hosts.iter().all(|host| self.is_destination(host.as_bytes())) && hosts.len() <= 1;
        match &self.form {
            // INVARIANT: `proxy` read this authority from the same line, and it is the one on the list.
            Form::Absolute(checked) if authority != Some(checked) => Err(Reason::NotAProxyRequest),
            Form::Absolute(_) if same => Ok(self.reason),
            Form::Absolute(_) => Ok(Reason::HostHeaderMismatch),
            Form::Origin if same && authority.is_none_or(|authority| self.is_destination(authority)) => Ok(self.reason),
            Form::Origin => Err(Reason::HostHeaderMismatch),
        }
    }

    fn is_destination(&self, authority: &[u8]) -> bool {
        is_destination(authority, &self.destination)
    }

    fn rebuilt(&self, request: Request<Incoming>) -> Option<Request<Incoming>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut rebuilt = Request::new(body);
        *rebuilt.method_mut() = parts.method;
        *rebuilt.uri_mut() = path.parse::<Uri>().ok()?;
        *rebuilt.version_mut() = Version::HTTP_11;
        *rebuilt.headers_mut() = end_to_end(parts.headers);
        rebuilt.headers_mut().remove(EXPECT);
        let host = match self.destination.port() {
            80 => self.destination.host().to_string(),
            port => format!("{}:{port}", self.destination.host()),
        };
        rebuilt.headers_mut().insert(HOST, HeaderValue::from_str(&host).ok()?);
        Some(rebuilt)
    }

    fn blocked(&self, reason: Reason) {
        self.decided.store(true, Ordering::Relaxed);
        self.guest
            .room
            .recorder
            .blocked(self.event, self.target.clone(), reason);
    }
}

/// Whether a `Host`, or the authority of a URL, names this destination.
pub(crate) fn is_destination(authority: &[u8], destination: &AllowedDestination) -> bool {
    let asked = Asked::parse(authority, Some(80));
    let host = crate::egress::host::Host::parse(&asked.host);
    host.as_ref() == Some(destination.host()) && asked.port == destination.port()
}

fn returned(response: Response<Incoming>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    parts.headers = end_to_end(parts.headers);
    parts.version = Version::HTTP_11;
    Response::from_parts(parts, Either::Left(body))
}

fn refused(reason: Reason) -> Response<Body> {
    let (status, text) = refusal(reason);
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(text))));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
    response
}

/// Without the headers that are meant for one hop, and those that `Connection` names.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        // The length of the body is not the sandbox's to hide from the far side.
        .filter(|name| *name != http::header::CONTENT_LENGTH)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
    ] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
    headers
}
