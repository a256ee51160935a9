//! Takes the client's lines one by one and gives each message to a task of its own, so that a slow call holds nothing
//! up; ends when the input ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp::{Method, RequestId};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::deliver::Pending;
use super::forward::Forwarder;
use super::in_flight::{CancelBy, InFlight, InFlightRequest};
use super::message::{self, Era, INTERNAL_ERROR, INVALID_REQUEST, Message, MessageKind, Mirrored};
use super::stdio::{Line, StdoutSender};
use crate::wire_up::stop_signal;

/// Where the client's messages come in.
pub(super) struct Dispatcher {
    forwarder: Arc<Forwarder>,
    out: StdoutSender,
    in_flight: InFlight,
    /// One for each request that may be with the gateway at the same time.
    slots: Arc<Semaphore>,
    /// What ends by itself.
    tasks: JoinSet<()>,
    /// Streams that do not.
    subscriptions: JoinSet<()>,
    barrier: HandshakeBarrier,
}

/// Requests of a session wait until the handshake messages before them have been forwarded.
#[derive(Clone, Default)]
struct HandshakeBarrier(Option<watch::Receiver<()>>);

impl HandshakeBarrier {
    async fn passed(self) {
        if let Some(mut before) = self.0 {
            // Nothing is ever sent: the sender goes when its task is done.
            while before.changed().await.is_ok() {}
        }
    }
}

/// Why no more lines are taken.
enum End {
    /// The client has said everything; it may wait for answers.
    Input,
    /// Nobody waits.
    Now,
}

impl Dispatcher {
    pub(super) fn new(forwarder: Arc<Forwarder>, out: StdoutSender) -> Self {
        Self {
            forwarder,
            out,
            in_flight: InFlight::default(),
            slots: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            tasks: JoinSet::new(),
            subscriptions: JoinSet::new(),
            barrier: HandshakeBarrier::default(),
        }
    }

    /// Takes lines until they end, then lets requests in flight finish and ends the session.
    pub(super) async fn serve(mut self, mut lines: mpsc::Receiver<Line>) {
        let (out, stop) = (self.out.clone(), stop_signal());
        tokio::pin!(stop);
        let end = loop {
            tokio::select! {
                line = lines.recv(), if self.tasks.len() < MAX_TASKS => match line {
                    Some(line) => self.take(line).await,
                    None => break End::Input,
                },
                Some(_) = self.tasks.join_next() => {}
                Some(_) = self.subscriptions.join_next() => {}
                () = out.closed() => break End::Now,
                () = &mut stop => break End::Now,
            }
        };
        self.subscriptions.abort_all();
        if matches!(end, End::Input) {
            let last = async { while self.tasks.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_ANSWERS, last).await;
        }
        self.tasks.abort_all();
        self.forwarder.end_session().await;
    }

    async fn take(&mut self, line: Line) {
        let parsed = match line {
            Line::Whole(line) => Message::parse(line),
            Line::TooLong => Err(message::error_response(None, INVALID_REQUEST, TOO_LONG)),
        };
        match parsed {
            Ok(message) => self.dispatch(message).await,
            Err(error) => self.out.send(error).await,
        }
    }

    async fn dispatch(&mut self, message: Message) {
        let Message { body, kind, era } = message;
        let forwarder = Arc::clone(&self.forwarder);
        match (kind, era) {
            (MessageKind::Initialize(id), _) => {
                self.forward_handshake(async move { forwarder.initialize(id, body).await });
            }
            (MessageKind::Initialized, Era::Legacy) => {
                self.forward_handshake(async move { forwarder.initialized(body).await });
            }
            (MessageKind::Request(id, method), Era::Legacy) => self.request(id, &method, body).await,
            (MessageKind::Request(id, method), Era::Modern(mirrored)) => {
                self.request_modern(id, &method, mirrored, body).await;
            }
            (MessageKind::Batch(ids), _) => self.batch(ids, body),
            (MessageKind::Cancelled(id), era) => match (id.and_then(|id| self.in_flight.cancel(&id)), era) {
                // HTTP has no other word for it than the end of the stream.
                (Some(CancelBy::ClosingStream), _) | (None, Era::Modern(_)) => {}
                (Some(CancelBy::Notification), _) | (None, Era::Legacy) => self.notify(body),
            },
            (MessageKind::Notification | MessageKind::Initialized, Era::Modern(mirrored)) => {
                self.tasks
                    .spawn(async move { forwarder.notify_modern(&mirrored, body).await });
            }
            (MessageKind::Notification, Era::Legacy) => self.notify(body),
            (MessageKind::Response, _) => {
                self.tasks.spawn(async move { forwarder.respond(body).await });
            }
        }
    }

    /// Forwards a message of the handshake behind those before it; requests of the session wait for it.
    fn forward_handshake(&mut self, forwarding: impl Future<Output = ()> + Send + 'static) {
        let (done, next) = watch::channel(());
        let before = std::mem::replace(&mut self.barrier, HandshakeBarrier(Some(next)));
        self.tasks.spawn(async move {
            before.passed().await;
            forwarding.await;
            drop(done);
        });
    }

    async fn request(&mut self, id: RequestId, method: &Method, body: Bytes) {
        let Some(request) = self.register(&id, CancelBy::Notification).await else {
            return;
        };
        let mut pending = Pending::request(id, method);
        let (forwarder, slots, barrier) = (
            Arc::clone(&self.forwarder),
            Arc::clone(&self.slots),
            self.barrier.clone(),
        );
        self.tasks.spawn(async move {
            barrier.passed().await;
            let _slot = slots.acquire().await;
            if request.is_cancelled() {
                return;
            }
            let done = forwarder.request(&mut pending, body).await;
            if !request.is_cancelled() {
                forwarder.settle(done, &pending).await;
            }
        });
    }

    async fn request_modern(&mut self, id: RequestId, method: &Method, mirrored: Mirrored, body: Bytes) {
        let Some(request) = self.register(&id, CancelBy::ClosingStream).await else {
            return;
        };
        let mut pending = Pending::request(id, method);
        let (forwarder, slots) = (Arc::clone(&self.forwarder), Arc::clone(&self.slots));
        let tasks = match *method == Method::Listen {
            true => &mut self.subscriptions,
            false => &mut self.tasks,
        };
        tasks.spawn(async move {
            let work = async {
                let _slot = slots.acquire().await;
                let done = forwarder.request_modern(&mut pending, &mirrored, body).await;
                forwarder.settle(done, &pending).await;
            };
            unless_closed(&request, work).await;
        });
    }

    fn batch(&mut self, ids: Vec<RequestId>, body: Bytes) {
        let mut pending = Pending::batch(ids);
        let (forwarder, slots, barrier) = (
            Arc::clone(&self.forwarder),
            Arc::clone(&self.slots),
            self.barrier.clone(),
        );
        self.tasks.spawn(async move {
            barrier.passed().await;
            let _slot = slots.acquire().await;
            let done = forwarder.request(&mut pending, body).await;
            forwarder.settle(done, &pending).await;
        });
    }

    fn notify(&mut self, body: Bytes) {
        let (forwarder, barrier) = (Arc::clone(&self.forwarder), self.barrier.clone());
        self.tasks.spawn(async move {
            barrier.passed().await;
            forwarder.notify(body).await;
        });
    }

    /// Registers a request; one too many is answered with an error.
    async fn register(&self, id: &RequestId, by: CancelBy) -> Option<InFlightRequest> {
        let registered = self.in_flight.register(id, by);
        if registered.is_none() {
            let error = message::error_response(Some(id), INTERNAL_ERROR, TOO_MANY);
            self.out.send(error).await;
        }
        registered
    }
}

/// Does the work until the client cancels it; what is then dropped closes its stream.
async fn unless_closed(request: &InFlightRequest, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        () = request.stream_closed() => {}
    }
}

/// Requests that are with the gateway at the same time; others wait.
const MAX_AT_ONCE: usize = 64;
/// Messages that are being forwarded; beyond that the client's next line waits. More than requests can be, so that a
/// cancellation or an answer still comes through.
const MAX_TASKS: usize = 1024;
/// How long answers may take after the input has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
const TOO_LONG: &str = "the line is longer than the gateway's limit for a request; send less at once";
const TOO_MANY: &str = "too many requests are under way; wait for answers before asking more";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_waits_until_the_handshake_before_it_is_done() {
        HandshakeBarrier::default().passed().await;
        let (done, next) = watch::channel(());
        let waiting = tokio::spawn(HandshakeBarrier(Some(next)).passed());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(done);
        waiting.await.unwrap();
    }
}
