//! Takes the client's lines one by one and gives each message to a task of its own, so that a slow call
//! holds nothing up; ends when the input ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp::{Method, RequestId};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::forward::{Forwarder, Pending, Purpose};
use super::in_flight::{CancelBy, InFlight, InFlightRequest};
use super::message::{self, Era, INTERNAL_ERROR, INVALID_REQUEST, Message, MessageKind, Mirrored};
use super::stdio::Line;
use crate::wire_up::stop_signal;

/// Where the client's messages come in.
pub(super) struct Dispatcher {
    forwarder: Arc<Forwarder>,
    in_flight: InFlight,
    places: Arc<Semaphore>,
    /// What ends by itself.
    tasks: JoinSet<()>,
    /// Streams that do not.
    subscriptions: JoinSet<()>,
    turn: HandshakeBarrier,
}

/// Requests of a session wait until what opens it, said before them, has been done.
#[derive(Clone, Default)]
struct HandshakeBarrier(Option<watch::Receiver<()>>);

impl HandshakeBarrier {
    async fn come(self) {
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
    pub(super) fn new(forwarder: Arc<Forwarder>) -> Self {
        Self {
            forwarder,
            in_flight: InFlight::default(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            tasks: JoinSet::new(),
            subscriptions: JoinSet::new(),
            turn: HandshakeBarrier::default(),
        }
    }

    /// Takes lines until they end, then lets requests under way finish and ends the session.
    pub(super) async fn serve(mut self, mut lines: mpsc::Receiver<Line>) {
        let (out, stop) = (self.forwarder.out.clone(), stop_signal());
        tokio::pin!(stop);
        let end = loop {
            tokio::select! {
                line = lines.recv(), if self.tasks.len() < MOST_TASKS => match line {
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
            Ok(message) => self.carry(message).await,
            Err(error) => self.forwarder.out.send(error).await,
        }
    }

    async fn carry(&mut self, message: Message) {
        let Message { body, kind, era } = message;
        let forwarder = Arc::clone(&self.forwarder);
        match (kind, era) {
            (MessageKind::Initialize(id), _) => {
                let (before, done) = self.next_turn();
                self.tasks.spawn(async move {
                    before.come().await;
                    forwarder.open(id, body).await;
                    drop(done);
                });
            }
            (MessageKind::Initialized, Era::Legacy) => {
                let (before, done) = self.next_turn();
                self.tasks.spawn(async move {
                    before.come().await;
                    forwarder.ready(body).await;
                    drop(done);
                });
            }
            (MessageKind::Request(id, method), Era::Legacy) => self.ask(id, &method, body).await,
            (MessageKind::Request(id, method), Era::Modern(mirrored)) => {
                self.ask_modern(id, &method, mirrored, body).await
            }
            (MessageKind::Batch(ids), _) => self.ask_all(ids, body),
            (MessageKind::Cancelled(id), era) => match (id.and_then(|id| self.in_flight.cancel(&id)), era) {
                // HTTP has no other word for it than the end of the stream.
                (Some(CancelBy::ClosingStream), _) | (None, Era::Modern(_)) => {}
                (Some(CancelBy::Notification), _) | (None, Era::Legacy) => self.tell(body),
            },
            (MessageKind::Notification | MessageKind::Initialized, Era::Modern(mirrored)) => {
                self.tasks
                    .spawn(async move { forwarder.tell_modern(&mirrored, body).await });
            }
            (MessageKind::Notification, Era::Legacy) => self.tell(body),
            (MessageKind::Response, _) => {
                self.tasks.spawn(async move { forwarder.respond(body).await });
            }
        }
    }

    async fn ask(&mut self, id: RequestId, method: &Method, body: Bytes) {
        let Some(request) = self.in_flight.register(&id, CancelBy::Notification) else {
            return self
                .forwarder
                .out
                .send(message::error_response(Some(&id), INTERNAL_ERROR, TOO_MANY))
                .await;
        };
        let mut pending = Pending::one(id, method);
        let (forwarder, places, turn) = (Arc::clone(&self.forwarder), Arc::clone(&self.places), self.turn.clone());
        self.tasks.spawn(async move {
            turn.come().await;
            let _place = places.acquire().await;
            if request.is_cancelled() {
                return;
            }
            let done = forwarder.ask(&mut pending, body).await;
            if !request.is_cancelled() {
                forwarder.settle(done, &pending).await;
            }
        });
    }

    async fn ask_modern(&mut self, id: RequestId, method: &Method, mirrored: Mirrored, body: Bytes) {
        let Some(request) = self.in_flight.register(&id, CancelBy::ClosingStream) else {
            return self
                .forwarder
                .out
                .send(message::error_response(Some(&id), INTERNAL_ERROR, TOO_MANY))
                .await;
        };
        let pending = Pending::one(id, method);
        let (forwarder, places) = (Arc::clone(&self.forwarder), Arc::clone(&self.places));
        let tasks = match method.as_str() {
            "subscriptions/listen" => &mut self.subscriptions,
            _ => &mut self.tasks,
        };
        tasks.spawn(async move {
            let work = async {
                let _place = places.acquire().await;
                let mut pending = pending;
                let done = forwarder.ask_modern(&mut pending, &mirrored, body).await;
                forwarder.settle(done, &pending).await;
            };
            unless_closed(&request, work).await;
        });
    }

    fn ask_all(&mut self, ids: Vec<RequestId>, body: Bytes) {
        let purpose = Purpose::ForwardOnly;
        let mut pending = Pending { ids, purpose };
        let (forwarder, places, turn) = (Arc::clone(&self.forwarder), Arc::clone(&self.places), self.turn.clone());
        self.tasks.spawn(async move {
            turn.come().await;
            let _place = places.acquire().await;
            let done = forwarder.ask(&mut pending, body).await;
            forwarder.settle(done, &pending).await;
        });
    }

    /// A notification of the session; before there is one, nobody would understand it.
    fn tell(&mut self, body: Bytes) {
        let (forwarder, turn) = (Arc::clone(&self.forwarder), self.turn.clone());
        self.tasks.spawn(async move {
            turn.come().await;
            if forwarder.session.headers().1.is_some() {
                forwarder.tell(body).await;
            }
        });
    }

    /// The turn that is waited for, and what to hold while those behind wait.
    fn next_turn(&mut self) -> (HandshakeBarrier, watch::Sender<()>) {
        let (done, next) = watch::channel(());
        (std::mem::replace(&mut self.turn, HandshakeBarrier(Some(next))), done)
    }
}

impl Pending {
    fn one(id: RequestId, method: &Method) -> Self {
        let purpose = match method.as_str() {
            "tools/list" => Purpose::LearnToolHeaders,
            _ => Purpose::ForwardOnly,
        };
        Self { ids: vec![id], purpose }
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
const AT_ONCE: usize = 64;
/// Messages under way; beyond that the client's next line waits. More than requests can be, so that a
/// cancellation or an answer still comes through.
const MOST_TASKS: usize = 1024;
/// How long answers may take after the input has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
const TOO_LONG: &str = "the line is longer than the gateway's limit for a request; send less at once";
const TOO_MANY: &str = "too many requests are under way; wait for answers before asking more";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_comes_when_what_was_before_is_done() {
        HandshakeBarrier::default().come().await;
        let (done, next) = watch::channel(());
        let waiting = tokio::spawn(HandshakeBarrier(Some(next)).come());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(done);
        waiting.await.unwrap();
    }
}
