//! Streamable HTTP towards a server: every request is built from nothing, answers are read under
//! caps, redirects are not followed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use mcp::http::{EVENT_STREAM, JSON, PROTOCOL_VERSION, SESSION_ID};
use mcp::server::{self, ServerMessage, is_our_id};
use mcp::sse::EventReader;
use rustls_pki_types::CertificateDer;
use rustls_platform_verifier::Verifier;
use vocabulary::TraceId;

use crate::credentials::UpstreamCredential;
use crate::failure::{Failure, TlsFault};
use crate::server::Caps;
use crate::session::Opened;

/// The way to one server.
pub(crate) struct Link {
    url: Uri,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    caps: Caps,
    last_id: AtomicU64,
}

/// One message to send.
pub(crate) struct Post<'a> {
    pub(crate) body: Bytes,
    pub(crate) session: Option<&'a Opened>,
    pub(crate) credential: &'a UpstreamCredential,
    pub(crate) trace: Option<&'a TraceId>,
}

/// A server's answer, and the session id it may have set.
pub(crate) struct Reply {
    pub(crate) message: ServerMessage,
    pub(crate) session_id: Option<HeaderValue>,
}

impl Link {
    pub(crate) fn new(url: Uri, extra_roots: Vec<CertificateDer<'static>>, caps: Caps) -> Result<Self, TlsFault> {
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.enforce_http(false);
        plain.set_connect_timeout(Some(caps.timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config(url.scheme_str() == Some("https"), extra_roots)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(plain);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(std::time::Duration::from_secs(60))
            .retry_canceled_requests(false)
            .build(connector);
        Ok(Self {
            url,
            client,
            caps,
            last_id: AtomicU64::new(0),
        })
    }

    /// A request id of ours, unique on this link.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sends a request and waits for the message that answers `id`.
    pub(crate) async fn exchange(&self, post: Post<'_>, id: u64) -> Result<Reply, Failure> {
        let response = self.send(post).await?;
        let session_id = response.headers().get(SESSION_ID).cloned();
        let message = self.read_answer(response, id).await?;
        Ok(Reply { message, session_id })
    }

    /// Sends a notification; nothing comes back.
    pub(crate) async fn notify(&self, post: Post<'_>) -> Result<(), Failure> {
        self.send(post).await.map(drop)
    }

    async fn send(&self, post: Post<'_>) -> Result<Response<Incoming>, Failure> {
        let had_session = post.session.is_some_and(|opened| opened.session_id.is_some());
        let sent = self.client.request(self.build(post)).await;
        let response = sent.map_err(|error| {
            if error.is_connect() {
                Failure::Unreachable(error)
            } else {
                Failure::Broken(Box::new(error))
            }
        })?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status if status.is_redirection() => Err(Failure::Redirected),
            StatusCode::NOT_FOUND if had_session => Err(Failure::SessionGone),
            status => Err(Failure::Status(status.as_u16())),
        }
    }

    /// INVARIANT: no header of a client is in reach here; all of them are written below.
    fn build(&self, post: Post<'_>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(post.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(opened) = post.session {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(opened.version.as_str()));
            if let Some(id) = &opened.session_id {
                headers.insert(SESSION_ID, id.clone());
            }
        }
        if let Some(value) = post
            .trace
            .and_then(|trace| HeaderValue::try_from(trace.to_traceparent()).ok())
        {
            headers.insert("traceparent", value);
        }
        post.credential.put_on(headers);
        request
    }

    async fn read_answer(&self, response: Response<Incoming>, id: u64) -> Result<ServerMessage, Failure> {
        if response.status() == StatusCode::ACCEPTED {
            return Err(Failure::Nonsense(server::Nonsense::NotAMessage));
        }
        let is_stream =
            mcp::http::media_type(response.headers()).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM));
        if is_stream {
            self.read_stream(response.into_body(), id).await
        } else {
            self.read_body(response.into_body(), id).await
        }
    }

    async fn read_body(&self, body: Incoming, id: u64) -> Result<ServerMessage, Failure> {
        let bytes = collect(body, self.caps.max_bytes).await?;
        self.answer_to(&bytes, id)?
            .ok_or(Failure::Nonsense(server::Nonsense::NotAMessage))
    }

    /// Reads events until one answers `id`. Plain JSON under the wrong label is taken too.
    async fn read_stream(&self, mut body: Incoming, id: u64) -> Result<ServerMessage, Failure> {
        let mut events = EventReader::new(self.caps.max_bytes);
        let mut first = true;
        while let Some(piece) = next_piece(&mut body).await? {
            if std::mem::take(&mut first) && piece.first() == Some(&b'{') {
                let rest = collect(body, self.caps.max_bytes.saturating_sub(piece.len())).await?;
                let whole = Bytes::from([piece, rest].concat());
                return self
                    .answer_to(&whole, id)?
                    .ok_or(Failure::Nonsense(server::Nonsense::NotAMessage));
            }
            for event in events.feed(&piece).map_err(|_| Failure::TooLarge)? {
                if let Some(answer) = self.answer_to(&event, id)? {
                    return Ok(answer);
                }
            }
        }
        Err(Failure::Broken("the stream ended without an answer".into()))
    }

    /// The message, if it answers `id`; `None` for notifications and requests of the server.
    fn answer_to(&self, bytes: &Bytes, wanted: u64) -> Result<Option<ServerMessage>, Failure> {
        let message = server::parse(bytes, self.caps.max_depth)?;
        match &message {
            ServerMessage::Result { id, .. } if is_our_id(id, wanted) => Ok(Some(message)),
            ServerMessage::Error { id, .. } if is_our_id(id, wanted) || id.as_ref() == b"null" => Ok(Some(message)),
            ServerMessage::Other => Ok(None),
            ServerMessage::Result { .. } | ServerMessage::Error { .. } => {
                Err(Failure::Nonsense(server::Nonsense::NotAMessage))
            }
        }
    }
}

/// Reads a whole body under a cap. One piece is handed on without being copied.
async fn collect(mut body: Incoming, max_bytes: usize) -> Result<Bytes, Failure> {
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(Failure::TooLarge);
    }
    let Some(first) = next_piece(&mut body).await? else {
        return Ok(Bytes::new());
    };
    let mut whole = BytesMut::new();
    let mut total = first.len();
    while let Some(piece) = next_piece(&mut body).await? {
        if whole.is_empty() {
            whole.reserve(total + piece.len().max(body.size_hint().lower() as usize));
            whole.extend_from_slice(&first);
        }
        total += piece.len();
        if total > max_bytes {
            return Err(Failure::TooLarge);
        }
        whole.extend_from_slice(&piece);
    }
    if total > max_bytes {
        return Err(Failure::TooLarge);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::Broken(Box::new(error)))?;
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn tls_config(wanted: bool, extra_roots: Vec<CertificateDer<'static>>) -> Result<rustls::ClientConfig, TlsFault> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsFault::Roots)?;
    if !wanted {
        return Ok(builder
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth());
    }
    let verifier = Verifier::new_with_extra_roots(extra_roots, provider).map_err(TlsFault::Roots)?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}
