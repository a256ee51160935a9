//! One connection of an MCP client: opens a session, calls, and closes the session again.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use mcp::http::{JSON, PROTOCOL_VERSION, SESSION_ID};
use tokio::net::TcpStream;

use crate::sample;

/// Where to connect, and as whom.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) token: Option<String>,
}

/// A connection with its session.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    path: Uri,
    headers: HeaderMap,
}

impl Client {
    /// Connects; no session is open yet.
    pub(crate) async fn connect(place: &Place) -> Result<Self> {
        let url: Uri = place.url.parse()?;
        let authority = url.authority().context("the address names no host")?;
        let stream = TcpStream::connect(authority.as_str()).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        let mut headers = HeaderMap::from_iter([
            (header::HOST, HeaderValue::from_str(authority.as_str())?),
            (header::ACCEPT, accept),
            (header::CONTENT_TYPE, HeaderValue::from_static(JSON)),
        ]);
        if let Some(token) = &place.token {
            headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}"))?);
        }
        Ok(Self {
            sender,
            path: url.path().parse()?,
            headers,
        })
    }

    /// `initialize` and `notifications/initialized`.
    pub(crate) async fn open_session(&mut self) -> Result<()> {
        let greeted = self.send(Method::POST, sample::initialize()).await?;
        ensure!(
            greeted.status() == StatusCode::OK,
            "initialize was answered with {}",
            greeted.status()
        );
        let session = greeted
            .headers()
            .get(SESSION_ID)
            .context("no session was opened")?
            .clone();
        greeted.into_body().collect().await?;
        self.headers.insert(SESSION_ID, session);
        self.headers
            .insert(PROTOCOL_VERSION, HeaderValue::from_static(sample::VERSION));
        let noted = self.send(Method::POST, sample::initialized()).await?;
        ensure!(
            noted.status() == StatusCode::ACCEPTED,
            "a notification was answered with {}",
            noted.status()
        );
        noted.into_body().collect().await?;
        Ok(())
    }

    /// Sends a call and fails unless the answer is, byte for byte, `result` under this id.
    pub(crate) async fn call(&mut self, id: u64, body: Bytes, result: &[u8], answer: &mut Vec<u8>) -> Result<()> {
        let response = self.send(Method::POST, body).await?;
        let status = response.status();
        answer.clear();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            answer.extend_from_slice(frame?.data_ref().map_or(&[], Bytes::as_ref));
        }
        let right = status == StatusCode::OK && sample::is_answer(id, result, answer);
        let shown = answer.get(..answer.len().min(300)).unwrap_or_default();
        ensure!(
            right,
            "call {id} was answered with {status}: {}",
            String::from_utf8_lossy(shown)
        );
        Ok(())
    }

    /// `DELETE`.
    pub(crate) async fn close_session(&mut self) -> Result<()> {
        let closed = self.send(Method::DELETE, Bytes::new()).await?;
        ensure!(
            closed.status().is_success(),
            "the end of a session was answered with {}",
            closed.status()
        );
        closed.into_body().collect().await?;
        Ok(())
    }

    async fn send(&mut self, method: Method, body: Bytes) -> Result<Response<Incoming>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = self.headers.clone();
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}
