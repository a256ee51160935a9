//! Connections to one server. Each is driven by the call that uses it: no task stands between a call and its answer,
//! so that nobody has to be woken on the way, and those that wait for their next use cost nothing.
//! ADR 0050: a call drives its own connection.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest, handshake};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::unconstrained;
use tower_service::Service;
use vocabulary::lock;

use crate::failure::Failure;
use crate::http::connections::ConnectionPermit;
use crate::http::wakes::suppress_wakes;

/// How long a connection is kept that nobody uses.
const LONGEST_IDLE: Duration = Duration::from_secs(60);
/// How often idle connections are looked at.
const REAP_EVERY: Duration = Duration::from_secs(15);

/// The connections to one server.
pub(crate) struct Pool(Arc<Shared>);

/// The connections of a pool, and where to open more.
struct Shared {
    connector: HttpsConnector<HttpConnector>,
    server: Uri,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// The one that was used last comes last, and is used first.
    connections: Vec<(Box<Connection>, Instant)>,
    /// Whether a reaper runs.
    reaped: bool,
}

impl Pool {
    /// To this server; none is opened yet.
    pub(crate) fn new(connector: HttpsConnector<HttpConnector>, server: Uri) -> Self {
        Self(Arc::new(Shared {
            connector,
            server,
            idle: Mutex::default(),
        }))
    }

    /// Sends a request; the head of the answer. Dropped before its end, the connection is closed.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, Failure> {
        let mut connection = match self.0.take() {
            Some(connection) => connection,
            // The rarer way is boxed: the common one stays small.
            None => Box::pin(self.0.open()).await.map_err(Failure::Unreachable)?,
        };
        let (head, body) = connection.ask(request).await?.into_parts();
        let body = ResponseBody {
            body: Some(body),
            connection: Some(connection),
            shared: Arc::clone(&self.0),
        };
        Ok(Response::from_parts(head, body))
    }
}

impl Shared {
    fn take(&self) -> Option<Box<Connection>> {
        loop {
            let (mut connection, _) = self.idle().connections.pop()?;
            // The server may have closed it while nobody looked.
            if connection.is_free() {
                return Some(connection);
            }
        }
    }

    async fn open(&self) -> Result<Box<Connection>, Box<dyn std::error::Error + Send + Sync>> {
        let permit = ConnectionPermit::take().ok_or(TOO_MANY)?;
        let mut connector = self.connector.clone();
        poll_fn(|context| connector.poll_ready(context)).await?;
        let stream = connector.call(self.server.clone()).await?;
        let (sender, driver) = handshake(stream).await?;
        Ok(Box::new(Connection {
            sender,
            driver,
            ended: false,
            _permit: permit,
        }))
    }

    fn put(self: &Arc<Self>, connection: Box<Connection>) {
        let mut idle = self.idle();
        idle.connections.push((connection, Instant::now()));
        if idle.reaped {
            return;
        }
        // Without a runtime the process is ending, and everything is closed.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            idle.reaped = true;
            runtime.spawn(reap(Arc::downgrade(self)));
        }
    }

    /// Closes what has waited long enough or was closed by the server; whether any is left.
    fn close_stale(&self) -> bool {
        let mut idle = self.idle();
        idle.connections
            .retain_mut(|(connection, since)| since.elapsed() < LONGEST_IDLE && connection.is_free());
        idle.reaped = !idle.connections.is_empty();
        idle.reaped
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        lock(&self.idle)
    }
}

async fn reap(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(REAP_EVERY).await;
        if !shared.upgrade().is_some_and(|shared| shared.close_stale()) {
            return;
        }
    }
}

/// One connection.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: http1::Connection<MaybeHttpsStream<TokioIo<TcpStream>>, Full<Bytes>>,
    /// Nothing goes over it any more.
    ended: bool,
    _permit: ConnectionPermit,
}

impl Connection {
    /// Sends and reads as much as can be now.
    fn drive(&mut self, context: &mut Context<'_>) {
        self.ended = self.ended || Pin::new(&mut self.driver).poll(context).is_ready();
    }

    /// Whether it takes a request. The answer must be the socket's: one that has something to tell says nothing to a task
    /// that has used up its turn.
    fn is_free(&mut self) -> bool {
        let mut look = unconstrained(poll_fn(|context| {
            self.drive(context);
            Poll::Ready(())
        }));
        let _ = Pin::new(&mut look).poll(&mut nobody());
        !self.ended && self.sender.is_ready()
    }

    async fn ask(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let mut answer = pin!(unconstrained(self.sender.send_request(request)));
        poll_fn(|context| {
            self.drive(context);
            match answer.as_mut().poll(&mut nobody()) {
                Poll::Ready(answer) => Poll::Ready(answer.map_err(|error| Failure::Broken(Box::new(error)))),
                Poll::Pending if self.ended => Poll::Ready(Err(Failure::Broken(ENDED.into()))),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

const ENDED: &str = "the connection ended";
const TOO_MANY: &str = "there are as many connections to servers as there may be";

/// What waits for a connection's own doing need not be woken: it is asked again whenever the connection was driven.
fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// The body of an answer, on the connection that it comes over.
pub(crate) struct ResponseBody {
    body: Option<Incoming>,
    connection: Option<Box<Connection>>,
    shared: Arc<Shared>,
}

impl ResponseBody {
    /// The least that is still to come.
    pub(crate) fn at_least(&self) -> u64 {
        self.body.as_ref().map_or(0, |body| body.size_hint().lower())
    }

    /// The next bytes, never none; `None` at the end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let Some(frame) = poll_fn(|context| self.poll_frame(context)).await else {
                self.body = None;
                self.give_back();
                return Ok(None);
            };
            if let Ok(data) = frame?.into_data()
                && !data.is_empty()
            {
                return Ok(Some(data));
            }
        }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Failure>>> {
        let (Some(body), Some(connection)) = (&mut self.body, &mut self.connection) else {
            return Poll::Ready(None);
        };
        // Nothing needs to be woken to read on: the connection is driven whenever a piece is missing.
        let mut polled = suppress_wakes(|| Pin::new(&mut *body).poll_frame(&mut nobody())).0;
        if polled.is_pending() {
            connection.drive(context);
            polled = suppress_wakes(|| Pin::new(body).poll_frame(&mut nobody())).0;
        }
        match polled {
            Poll::Ready(frame) => {
                Poll::Ready(frame.map(|frame| frame.map_err(|error| Failure::Broken(Box::new(error)))))
            }
            Poll::Pending if connection.ended => Poll::Ready(Some(Err(Failure::Broken(ENDED.into())))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn give_back(&mut self) {
        if let Some(connection) = self.connection.take().filter(|connection| !connection.ended) {
            self.shared.put(connection);
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // What is left of a body that nobody reads is passed over if it is here already; otherwise the connection is
        // closed.
        self.body = None;
        if self.connection.as_mut().is_some_and(|connection| connection.is_free()) {
            self.give_back();
        }
    }
}

#[cfg(test)]
mod tests;
