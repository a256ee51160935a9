//! Streamable HTTP towards a server: every request is built from nothing, redirects are not
//! followed.

pub(crate) mod address;
pub(crate) mod connections;
pub(crate) mod messages;
pub(crate) mod pool;
mod tls;
pub(crate) mod wakes;

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use mcp::Version;
use mcp::http::{JSON, PROTOCOL_VERSION};
use vocabulary::TraceId;

use crate::caps::Caps;
use crate::credentials::UpstreamCredential;
use crate::failure::{Failure, TlsFault};
use crate::http::address::Address;
use crate::http::pool::{Pool, ResponseBody};
use crate::session::opened::Opened;

/// The way to one server.
pub(crate) struct Link {
    end: LinkEnd,
    last_id: AtomicU64,
}

/// What is at the other end.
enum LinkEnd {
    Server(Box<HttpServer>),
    /// Messages to processes go through the pipes of their sessions.
    Processes,
    /// Nobody is to be reached, for this reason.
    Nobody(String),
}

/// Where a server is, and the connections to it.
struct HttpServer {
    url: Uri,
    /// The url's path as a request names it.
    path: Uri,
    /// The url's host as a header, spelled once.
    host: Option<HeaderValue>,
    pool: Pool,
}

/// One message to send.
pub(crate) struct Post<'a> {
    body: Bytes,
    session: Option<&'a Opened>,
    modern: Option<&'a HeaderMap>,
    credential: &'a UpstreamCredential,
    trace: Option<&'a TraceId>,
}

impl<'a> Post<'a> {
    /// The first message to a server of the legacy era: there is no session yet.
    pub(crate) fn opening(body: Bytes, credential: &'a UpstreamCredential) -> Self {
        Self {
            body,
            session: None,
            modern: None,
            credential,
            trace: None,
        }
    }

    /// A message within a session.
    pub(crate) fn legacy(body: Bytes, session: &'a Opened, credential: &'a UpstreamCredential) -> Self {
        Self {
            session: Some(session),
            ..Self::opening(body, credential)
        }
    }

    /// A message to a server of the modern era, with the headers that mirror it.
    pub(crate) fn modern(body: Bytes, headers: &'a HeaderMap, credential: &'a UpstreamCredential) -> Self {
        Self {
            modern: Some(headers),
            ..Self::opening(body, credential)
        }
    }

    /// To the process of this session, whatever the era.
    pub(crate) fn through(self, session: Option<&'a Opened>) -> Self {
        Self { session, ..self }
    }

    pub(crate) fn traced(self, trace: &'a TraceId) -> Self {
        Self {
            trace: Some(trace),
            ..self
        }
    }
}

impl Link {
    pub(crate) fn new(address: Address, caps: Caps) -> Result<Self, TlsFault> {
        let tls = tls::config(&address)?;
        let url = address.url;
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.enforce_http(false);
        plain.set_connect_timeout(Some(caps.timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(plain);
        let server = HttpServer {
            path: path_of(&url),
            host: host_header(&url),
            pool: Pool::new(connector, url.clone()),
            url,
        };
        Ok(Self {
            end: LinkEnd::Server(Box::new(server)),
            last_id: AtomicU64::new(0),
        })
    }

    /// To processes.
    pub(crate) fn to_processes() -> Self {
        Self {
            end: LinkEnd::Processes,
            last_id: AtomicU64::new(0),
        }
    }

    /// To a server that is not to be reached.
    pub(crate) fn barred(why: String) -> Self {
        Self {
            end: LinkEnd::Nobody(why),
            last_id: AtomicU64::new(0),
        }
    }

    fn server(&self) -> Result<&HttpServer, Failure> {
        match &self.end {
            LinkEnd::Server(server) => Ok(server),
            LinkEnd::Processes => Err(Failure::Broken("this server is a process".into())),
            LinkEnd::Nobody(why) => Err(Failure::NotStarted(why.clone())),
        }
    }

    /// A request id of ours, unique on this link.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sends a message; nothing comes back.
    pub(crate) async fn notify(&self, post: Post<'_>) -> Result<(), Failure> {
        if let Some(pipe) = post.session.and_then(|opened| opened.pipe()) {
            return pipe.write(post.body, post.credential).await;
        }
        let had_session = post.session.is_some_and(|opened| opened.session_id.is_some());
        let response = self.send(post).await?;
        check_status(response.status(), had_session)
    }

    /// Sends a message; the head of the answer, whatever its status.
    pub(crate) async fn send(&self, post: Post<'_>) -> Result<Response<ResponseBody>, Failure> {
        let (server, credential) = (self.server()?, post.credential);
        server.send(server.build(post), credential).await
    }

    /// Opens a session's stream of messages that answer nothing, or resumes one that broke.
    pub(crate) async fn open_stream(
        &self,
        session: &Opened,
        credential: &UpstreamCredential,
        last_event_id: Option<&str>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let server = self.server()?;
        let mut request = server.request_to(&server.path, Bytes::new());
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static(mcp::http::EVENT_STREAM));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert("last-event-id", id);
        }
        session.put_on(headers);
        let response = server.send(request, credential).await?;
        check_status(response.status(), session.session_id.is_some())?;
        Ok(response)
    }

    /// Opens the stream that a conversation of HTTP+SSE begins with.
    pub(crate) async fn open_plain_stream(
        &self,
        credential: &UpstreamCredential,
    ) -> Result<Response<ResponseBody>, Failure> {
        let server = self.server()?;
        let mut request = server.request_to(&server.path, Bytes::new());
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static(mcp::http::EVENT_STREAM));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        server.send(request, credential).await
    }

    /// The path of what a server calls its endpoint, if that is on its own origin.
    pub(crate) fn same_origin(&self, endpoint: &str) -> Option<Uri> {
        let server = self.server().ok()?;
        let given: Uri = endpoint.parse().ok()?;
        let same = match given.authority() {
            None => endpoint.starts_with('/'),
            Some(authority) => Some(authority) == server.url.authority() && given.scheme() == server.url.scheme(),
        };
        same.then(|| path_of(&given))
    }

    /// Ends a session. Whether the server knows how to is its own business.
    pub(crate) async fn end(&self, session: &Opened, credential: &UpstreamCredential) {
        let Ok(server) = self.server() else { return };
        let mut request = server.request_to(&server.path, Bytes::new());
        *request.method_mut() = Method::DELETE;
        session.put_on(request.headers_mut());
        let _ = server.send(request, credential).await;
    }
}

impl HttpServer {
    /// The one way out: whatever leaves was compared with the credential that it leaves on behalf of.
    async fn send(
        &self,
        request: Request<Bytes>,
        credential: &UpstreamCredential,
    ) -> Result<Response<ResponseBody>, Failure> {
        let request = credential.put_on(request)?.map(Full::new);
        let response = self.pool.send(request).await?;
        if response.status().is_redirection() {
            return Err(Failure::Redirected);
        }
        Ok(response)
    }

    fn request_to(&self, path: &Uri, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.uri_mut() = path.clone();
        let headers = request.headers_mut();
        headers.reserve(HEADERS);
        if let Some(host) = &self.host {
            headers.insert(header::HOST, host.clone());
        }
        request
    }

    /// INVARIANT: no header of a client is in reach here; all of them are written below.
    fn build(&self, post: Post<'_>) -> Request<Bytes> {
        let endpoint = post.session.and_then(|opened| opened.endpoint());
        let mut request = self.request_to(endpoint.unwrap_or(&self.path), post.body);
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(opened) = post.session {
            opened.put_on(headers);
        }
        if let Some(mirrored) = post.modern {
            headers.extend(mirrored.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        if let Some(value) = post
            .trace
            .and_then(|trace| HeaderValue::try_from(trace.to_traceparent()).ok())
        {
            headers.insert("traceparent", value);
        }
        request
    }
}

/// The headers of a modern request that names nothing but its method.
pub(crate) fn plain_headers(method: &str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(Version::MODERN.as_str()));
    if let Ok(method) = HeaderValue::from_str(method) {
        headers.insert(mcp::headers::METHOD, method);
    }
    headers
}

/// What a request names of a url: nobody but the server itself is asked.
fn path_of(url: &Uri) -> Uri {
    url.path_and_query().cloned().map_or_else(Uri::default, Uri::from)
}

/// As the client would spell it for every request: without a port that the scheme implies.
fn host_header(url: &Uri) -> Option<HeaderValue> {
    let host = url.host()?;
    let implied = match url.scheme_str() {
        Some("https") => 443,
        _ => 80,
    };
    let spelled = match url.port_u16().filter(|port| *port != implied) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    HeaderValue::try_from(spelled).ok()
}

/// Headers of a request, with room for what the client adds.
const HEADERS: usize = 12;

/// A status that is not success, within or without a session.
pub(crate) fn check_status(status: StatusCode, had_session: bool) -> Result<(), Failure> {
    match status {
        status if status.is_success() => Ok(()),
        StatusCode::NOT_FOUND if had_session => Err(Failure::SessionGone),
        status => Err(Failure::Status(status.as_u16())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_header_names_a_port_only_where_the_scheme_does_not_imply_it() {
        for (url, host) in [
            ("http://a.example/mcp", "a.example"),
            ("http://a.example:80/mcp", "a.example"),
            ("https://a.example:443/", "a.example"),
            ("https://a.example:8443/", "a.example:8443"),
            ("http://[::1]:3000/mcp", "[::1]:3000"),
        ] {
            let spelled = url.parse().ok().as_ref().and_then(host_header);
            assert_eq!(spelled, Some(HeaderValue::from_static(host)), "{url}");
        }
    }
}
