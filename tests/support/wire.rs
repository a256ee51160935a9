//! HTTP/1.1 by hand, so that a test decides on every byte; both sides of the gateway are played with it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

/// Longer than anything the gateway may take; a guard against hanging tests.
const PATIENCE: Duration = Duration::from_secs(90);

/// A way to a listener: address, the TLS to speak and where to call from.
#[derive(Clone)]
pub(crate) struct Door {
    pub address: SocketAddr,
    pub tls: Option<Arc<ClientConfig>>,
    pub from: Option<IpAddr>,
}

impl Door {
    /// The same door, called from another address.
    pub(crate) fn calling_from(&self, from: [u8; 4]) -> Self {
        Self {
            from: Some(IpAddr::from(from)),
            ..self.clone()
        }
    }

    /// Opens a connection.
    pub(crate) async fn open(&self) -> io::Result<Wire> {
        let tcp = self.connect().await?;
        let Some(config) = &self.tls else {
            return Ok(Wire::over(tcp));
        };
        let name = ServerName::try_from("localhost").expect("a name");
        Ok(Wire::over(
            TlsConnector::from(Arc::clone(config)).connect(name, tcp).await?,
        ))
    }

    /// Opens the bare TCP connection.
    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let Some(from) = self.from else {
            return TcpStream::connect(self.address).await;
        };
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(self.address).await
    }

    /// Sends one request on a fresh connection and reads its answer.
    pub(crate) async fn ask(&self, ask: &Ask) -> Reply {
        self.try_ask(ask).await.expect("an answer")
    }

    /// Sends one request on a fresh connection; it may be cut off.
    pub(crate) async fn try_ask(&self, ask: &Ask) -> io::Result<Reply> {
        let mut wire = self.open().await?;
        wire.send(&ask.bytes(self.address)).await?;
        wire.reply_to(&ask.method).await
    }
}

/// Anything that carries bytes both ways.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// One connection.
pub(crate) struct Wire {
    stream: Box<dyn Duplex>,
    pending: Vec<u8>,
}

impl Wire {
    /// Takes over a stream.
    pub(crate) fn over(stream: impl Duplex + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            pending: Vec::new(),
        }
    }

    /// Sends bytes as they are.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Ends the sending half.
    pub(crate) async fn close(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Reads an answer.
    pub(crate) async fn reply(&mut self) -> io::Result<Reply> {
        self.reply_to("POST").await
    }

    /// Reads the answer to a method; the one to HEAD has no body.
    pub(crate) async fn reply_to(&mut self, method: &str) -> io::Result<Reply> {
        let head = self.head().await?;
        let status = head
            .start
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .ok_or_else(malformed)?;
        let bare = method == "HEAD" || status == 204 || status == 304;
        let body = if bare {
            Vec::new()
        } else {
            self.body(&head, Unframed::UntilClose).await?
        };
        Ok(Reply {
            status,
            headers: head.headers,
            body,
        })
    }

    /// Reads the head of an answer whose body comes piece by piece.
    pub(crate) async fn begin_reply(&mut self) -> io::Result<(u16, Headers)> {
        let head = self.head().await?;
        let status = head.start.split(' ').nth(1).and_then(|code| code.parse().ok());
        Ok((status.ok_or_else(malformed)?, head.headers))
    }

    /// Reads one chunk of a chunked body; `None` behind the last one.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let end = loop {
            if let Some(at) = find(&self.pending, b"\r\n") {
                break at;
            }
            self.more().await?;
        };
        let line = String::from_utf8_lossy(&self.take(end + 2)).into_owned();
        let size = usize::from_str_radix(line.trim().split(';').next().unwrap_or(""), 16).map_err(|_| malformed())?;
        let chunk = self.exactly(size).await?;
        self.exactly(2).await?;
        Ok((size > 0).then_some(chunk))
    }

    /// Reads a request: start line, headers, body.
    pub(crate) async fn request(&mut self) -> io::Result<(String, Headers, Vec<u8>)> {
        let head = self.head().await?;
        let body = self.body(&head, Unframed::Empty).await?;
        Ok((head.start, head.headers, body))
    }

    /// Reads whatever comes until the other side closes.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await.is_ok() {}
        std::mem::take(&mut self.pending)
    }

    async fn head(&mut self) -> io::Result<Head> {
        let end = loop {
            if let Some(at) = find(&self.pending, b"\r\n\r\n") {
                break at;
            }
            self.more().await?;
        };
        let text = String::from_utf8_lossy(&self.take(end + 4)).into_owned();
        let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
        let start = lines.next().ok_or_else(malformed)?.to_owned();
        let pairs = lines.filter_map(|line| line.split_once(':'));
        Ok(Head {
            start,
            headers: Headers(pairs.map(|(k, v)| (k.to_owned(), v.trim().to_owned())).collect()),
        })
    }

    async fn body(&mut self, head: &Head, unframed: Unframed) -> io::Result<Vec<u8>> {
        if head
            .headers
            .get("transfer-encoding")
            .is_some_and(|value| value.contains("chunked"))
        {
            return self.chunks().await;
        }
        if let Some(length) = head.headers.get("content-length") {
            let length: usize = length.parse().map_err(|_| malformed())?;
            return self.exactly(length).await;
        }
        match unframed {
            Unframed::Empty => Ok(Vec::new()),
            Unframed::UntilClose => Ok(self.rest().await),
        }
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend(chunk);
        }
        Ok(body)
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.pending.len() < length {
            self.more().await?;
        }
        Ok(self.take(length))
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.pending.split_off(length);
        std::mem::replace(&mut self.pending, rest)
    }

    async fn more(&mut self) -> io::Result<()> {
        let mut chunk = vec![0; 64 * 1024];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut chunk)).await??;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.pending.extend_from_slice(&chunk[..read]);
        Ok(())
    }
}

/// Header lines in the order they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The first value of a header.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Headers,
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {} {}", self.status, self.text()))
    }

    /// The messages of the body: one document, or the events of a stream.
    pub(crate) fn messages(&self) -> Vec<serde_json::Value> {
        let kind = self.headers.get("content-type").unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            return vec![self.json()];
        }
        let text = self.text();
        let events = text.split("\n\n").map(super::stream::data_of);
        let events = events.filter(|data| !data.is_empty());
        events.map(|data| serde_json::from_str(&data).unwrap()).collect()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A request in the making. `Host` is the address called unless a header says otherwise.
#[derive(Clone)]
pub(crate) struct Ask {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Ask {
    /// A request without headers.
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: None,
        }
    }

    /// A POST the way an MCP client makes it.
    pub(crate) fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("POST", target)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .body(body)
    }

    /// Adds a header line.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Replaces a header, or leaves it out.
    pub(crate) fn instead(mut self, name: &str, value: Option<&str>) -> Self {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self.headers
            .extend(value.map(|value| (name.to_owned(), value.to_owned())));
        self
    }

    /// The same request by another method.
    pub(crate) fn with_method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    /// Adds a bearer token.
    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// Sets the body.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// The request as it goes over the wire, asking for the connection to be closed.
    pub(crate) fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let has = |name: &str| self.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !has("host") {
            head += &format!("Host: {address}\r\n");
        }
        if !has("connection") {
            head += "Connection: close\r\n";
        }
        if let Some(body) = &self.body
            && !has("content-length")
            && !has("transfer-encoding")
        {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let mut bytes = head.into_bytes();
        bytes.extend(self.body.iter().flatten());
        bytes
    }
}

struct Head {
    start: String,
    headers: Headers,
}

enum Unframed {
    Empty,
    UntilClose,
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
