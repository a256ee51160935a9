//! Accepts connections: TLS handshakes with a deadline, HTTP/1.1 and HTTP/2 with bounds on slow
//! clients, and an end that lets calls in flight finish.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use upstream::WakeFilter;

use super::Peer;
pub use super::asked::OnUnparsable;
use super::asked::{Asked, Counted};
use super::certificate::CertifiedPeer;
use super::connections::{Activity, Busy, ConnectionLimit, Leaving};

/// How long a handshake, and the head of a request, may take.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// How long calls in flight may take to finish when the gateway stops.
const DRAIN_DEADLINE: Duration = Duration::from_secs(30);
/// How often a connection is looked after.
const LOOK_AFTER: Duration = Duration::from_secs(5);
/// The largest head of a request.
pub(crate) const LARGEST_HEAD: usize = 64 * 1024;
/// What HTTP/2 hands over at most: the library answers larger ones by itself.
const LARGEST_HEAD_SEEN: u32 = 256 * 1024;

/// A bound address, with or without TLS.
pub struct Door {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    most: usize,
    on_unparsable: Option<Arc<OnUnparsable>>,
}

impl Door {
    /// Binds `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(address: SocketAddr, tls: Option<rustls::ServerConfig>) -> std::io::Result<Self> {
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        Ok(Self {
            tcp: TcpListener::bind(address).await?,
            tls,
            most: usize::MAX,
            on_unparsable: None,
        })
    }

    /// The same with so many connections at most.
    #[must_use]
    pub fn at_most(mut self, connections: usize) -> Self {
        self.most = connections;
        self
    }

    /// The same, telling of requests that are answered by HTTP itself: malformed ones, and heads that are too large.
    #[must_use]
    pub fn on_unparsable(mut self, tell: Arc<OnUnparsable>) -> Self {
        self.on_unparsable = Some(tell);
        self
    }

    /// The address in use.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves connections until `stop` completes, then waits for the calls in flight.
    pub async fn serve<H, F, B>(self, handle: H, stop: impl Future<Output = ()>)
    where
        H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        let graceful = GracefulShutdown::new();
        let limit = ConnectionLimit::of(self.most);
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = self.tcp.accept() => accepted,
            };
            let Ok((stream, address)) = accepted else {
                // Out of descriptors, most likely: let some connections end first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            // No seat: the connection is closed at once, so that others are still heard.
            let Some(seat) = limit.enter(address.ip()) else {
                continue;
            };
            let (tls, handle, watcher) = (self.tls.clone(), handle.clone(), graceful.watcher());
            let address = address.ip().to_canonical();
            let asked = Asked::of(address, self.on_unparsable.clone());
            tokio::spawn(async move {
                greet((stream, tls), (address, asked), handle, watcher).await;
                drop(seat);
            });
        }
        drop(self.tcp);
        let _ = tokio::time::timeout(DRAIN_DEADLINE, graceful.shutdown()).await;
    }
}

/// Shakes hands with a new connection and learns who its certificate names.
async fn greet<H, F, B>(
    (stream, tls): (TcpStream, Option<TlsAcceptor>),
    (address, asked): (IpAddr, Arc<Asked>),
    handle: H,
    watcher: Watcher,
) where
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let _ = stream.set_nodelay(true);
    let certificate = None;
    let Some(tls) = tls else {
        return converse((stream, asked), Peer { address, certificate }, handle, watcher).await;
    };
    let accepted = tokio::time::timeout(HEAD_DEADLINE, tls.accept(stream)).await;
    let Ok(Ok(stream)) = accepted else { return };
    let chain = stream.get_ref().1.peer_certificates();
    let certificate = chain.and_then(<[_]>::first).and_then(CertifiedPeer::read).map(Arc::new);
    converse((stream, asked), Peer { address, certificate }, handle, watcher).await;
}

async fn converse<S, H, F, B>((stream, asked): (S, Arc<Asked>), peer: Peer, handle: H, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(LARGEST_HEAD);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(128)
        .max_header_list_size(LARGEST_HEAD_SEEN)
        .keep_alive_interval(Duration::from_secs(30));
    let activity = Arc::new(Activity::default());
    let (noted, handed_over) = (activity.clone(), asked.clone());
    let service = service_fn(move |request| {
        handed_over.hand_over();
        let (busy, leaving) = (noted.begin(), noted.clone());
        // `handle` is called here, not when it is first polled: a connection may end in between.
        let answer = handle(request, peer.clone());
        async move {
            let answer = answer.await;
            // A stream is asked about for as long as it goes on; whoever does not fetch a whole answer idles.
            let busy = answer.body().size_hint().exact().is_none().then_some(busy);
            Ok::<_, Infallible>(answer.map(|body| Attended {
                body,
                leaving,
                _busy: busy,
            }))
        }
    });
    let conversation = server
        .serve_connection(TokioIo::new(Counted::of(stream, asked.clone())), service)
        .into_owned();
    let conversation = std::pin::pin!(watcher.watch(conversation));
    let mut conversation = WakeFilter::new(conversation);
    loop {
        tokio::select! {
            // A connection that breaks is the peer's business; what was asked on it has its own record, unless HTTP itself
            // answered what it could not read.
            ended = &mut conversation => {
                let is_unreadable = ended.is_err_and(|error| {
                    let error = error.downcast_ref::<hyper::Error>();
                    error.is_some_and(|error| error.is_parse() || error.is_parse_too_large())
                });
                return asked.end(is_unreadable);
            }
            () = tokio::time::sleep(LOOK_AFTER) => {
                asked.look();
                if activity.is_over() {
                    return asked.end(false);
                }
            }
        }
    }
}

/// A body that keeps its connection busy while it is a stream, and whose parts are watched until they have left.
struct Attended<B> {
    body: B,
    leaving: Arc<Activity>,
    _busy: Option<Busy>,
}

impl<B: Body + Unpin> Body for Attended<B> {
    type Data = Leaving<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map_ok(|frame| frame.map_data(|data| self.leaving.leaving(data)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
