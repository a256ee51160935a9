//! The parsers of what a sandbox says, opened for the fuzzer and for the replay of what it kept. Each gives what was read in
//! words of no module, so that nothing else has to be opened.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::dns::Question;
use super::head::{LONGEST_HEAD, read_head, refusal, request_line};
use super::hello;
use super::host::{Asked, Host};
use super::record::Reason;
use super::socks::negotiate;
use super::tap::{Flows, PacketKind, Seen, read_packet};

/// What the first bytes of a connection are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hello {
    /// A beginning; this many bytes are needed to read on.
    Short(usize),
    /// A `ClientHello` for this host.
    For(String),
    /// A `ClientHello` for something that is no host name.
    Misnamed,
    /// A `ClientHello` without a name.
    Nameless,
    /// Something else.
    NotTls,
}

/// Reads the first bytes of a connection.
#[must_use]
pub fn hello(bytes: &[u8]) -> Hello {
    match hello::read(bytes) {
        hello::Hello::Short(needed) => Hello::Short(needed),
        hello::Hello::For(host) => Hello::For(host.as_str().to_owned()),
        hello::Hello::Misnamed => Hello::Misnamed,
        hello::Hello::Nameless => Hello::Nameless,
        hello::Hello::NotTls => Hello::NotTls,
    }
}

/// A question to the resolver: its name, dotted and escaped, the answer with an address, and the refusal.
#[must_use]
pub fn question(packet: &[u8]) -> Option<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let question = Question::parse(packet)?;
    let answered = question.answered(Some(Ipv4Addr::new(198, 18, 0, 1)));
    let refused = question.refused();
    Some((question.name, answered, refused))
}

/// What a SOCKS5 caller came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Negotiated {
    /// Command, host and port; `None` for what is no request.
    pub request: Option<(u8, Vec<u8>, u16)>,
    /// What was not read.
    pub left: usize,
    /// What it was told on the way.
    pub answered: Vec<u8>,
}

/// Negotiates with a caller that says `said`, at most `piece` bytes at a time.
#[must_use]
pub fn socks(said: &[u8], piece: usize) -> Negotiated {
    let mut stream = Pieces::of(said, piece);
    let request = at_once(negotiate(&mut stream)).flatten();
    Negotiated {
        request: request.map(|request| (request.command, request.asked.host, request.asked.port)),
        left: stream.said.len(),
        answered: stream.heard,
    }
}

/// What the head of a request came to: where it ends, or the status and the text of the refusal.
///
/// # Errors
/// When there is no head within the bounds.
pub async fn head(said: &[u8], piece: usize) -> Result<usize, (u16, String)> {
    let mut read = Vec::new();
    read_head(&mut Pieces::of(said, piece), &mut read)
        .await
        .map_err(refusal)
}

/// Method and target of a request line.
#[must_use]
pub fn line(said: &[u8]) -> Option<(&[u8], &[u8])> {
    request_line(said)
}

/// The host in its normal form, and the port, that an authority names.
#[must_use]
pub fn authority(text: &[u8], default: Option<u16>) -> Option<(String, u16)> {
    let asked = Asked::parse(text, default);
    Some((Host::parse(&asked.host)?.as_str().to_owned(), asked.port))
}

/// The longest head that is read.
pub const MOST_HEAD: usize = LONGEST_HEAD;

/// What the tap reads of a packet: whether it is UDP, from where and to where.
#[must_use]
pub fn packet(bytes: &[u8]) -> Option<(bool, SocketAddr, SocketAddr)> {
    read_packet(bytes).map(|seen| (seen.kind == PacketKind::Udp, seen.from, seen.to))
}

/// The UDP conversations that a tap has seen.
#[derive(Default)]
pub struct Conversations(Flows);

impl Conversations {
    /// Whether a packet is an attempt of its own.
    pub fn is_new(&mut self, bytes: &[u8]) -> Option<bool> {
        read_packet(bytes).map(|seen: Seen| self.0.is_new(&seen))
    }
}

/// Every refusal, so that whoever compares knows all words there are.
#[must_use]
pub fn refusals() -> Vec<(u16, String)> {
    [Reason::HeaderTooLarge, Reason::NotAProxyRequest].map(refusal).to_vec()
}

/// Polls once: whoever reads from memory never waits.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A caller that says its words in pieces and keeps what it hears.
struct Pieces<'a> {
    said: &'a [u8],
    piece: usize,
    heard: Vec<u8>,
}

impl<'a> Pieces<'a> {
    fn of(said: &'a [u8], piece: usize) -> Self {
        let piece = piece.max(1);
        let heard = Vec::new();
        Self { said, piece, heard }
    }
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let length = self.said.len().min(self.piece).min(into.remaining());
        let (now, later) = self.said.split_at_checked(length).unwrap_or_default();
        into.put_slice(now);
        self.said = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, words: &[u8]) -> Poll<io::Result<usize>> {
        self.heard.extend_from_slice(words);
        Poll::Ready(Ok(words.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
