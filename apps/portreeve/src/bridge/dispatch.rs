//! Takes the client's lines one by one and gives each message to a task of its own, so that a slow call
//! holds nothing up; ends when the input ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp::{Method, RequestId};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::forward::{Asked, Purpose, Relay};
use super::in_flight::{Flight, Flights, Means};
use super::message::{self, Era, Kind, Message, Mirrored, NO_ANSWER, NOT_A_MESSAGE};
use super::stdio::Line;
use crate::wire_up::stop_signal;

/// Where the client's messages come in.
pub(super) struct Desk {
    relay: Arc<Relay>,
    flights: Flights,
    places: Arc<Semaphore>,
    /// What ends by itself.
    tasks: JoinSet<()>,
    /// Streams that do not.
    subscriptions: JoinSet<()>,
    turn: Turn,
}

/// Requests of a session wait until what opens it, said before them, has been done.
#[derive(Clone, Default)]
struct Turn(Option<watch::Receiver<()>>);

impl Turn {
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

impl Desk {
    pub(super) fn new(relay: Arc<Relay>) -> Self {
        Self {
            relay,
            flights: Flights::default(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            tasks: JoinSet::new(),
            subscriptions: JoinSet::new(),
            turn: Turn::default(),
        }
    }

    /// Takes lines until they end, then lets requests under way finish and ends the session.
    pub(super) async fn serve(mut self, mut lines: mpsc::Receiver<Line>) {
        let (out, stop) = (self.relay.out.clone(), stop_signal());
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
        self.relay.end_session().await;
    }

    async fn take(&mut self, line: Line) {
        let parsed = match line {
            Line::Said(line) => Message::parse(line),
            Line::TooLong => Err(message::error(None, NOT_A_MESSAGE, TOO_LONG)),
        };
        match parsed {
            Ok(message) => self.carry(message).await,
            Err(error) => self.relay.out.print(error).await,
        }
    }

    async fn carry(&mut self, message: Message) {
        let Message { body, kind, era } = message;
        let relay = Arc::clone(&self.relay);
        match (kind, era) {
            (Kind::Initialize(id), _) => {
                let (before, done) = self.next_turn();
                self.tasks.spawn(async move {
                    before.come().await;
                    relay.open(id, body).await;
                    drop(done);
                });
            }
            (Kind::Initialized, Era::Legacy) => {
                let (before, done) = self.next_turn();
                self.tasks.spawn(async move {
                    before.come().await;
                    relay.ready(body).await;
                    drop(done);
                });
            }
            (Kind::Request(id, method), Era::Legacy) => self.ask(id, &method, body).await,
            (Kind::Request(id, method), Era::Modern(mirrored)) => self.ask_modern(id, &method, mirrored, body).await,
            (Kind::Batch(ids), _) => self.ask_all(ids, body),
            (Kind::Cancelled(id), era) => match (id.and_then(|id| self.flights.cancel(&id)), era) {
                // HTTP has no other word for it than the end of the stream.
                (Some(Means::Closing), _) | (None, Era::Modern(_)) => {}
                (Some(Means::Telling), _) | (None, Era::Legacy) => self.tell(body),
            },
            (Kind::Notification | Kind::Initialized, Era::Modern(mirrored)) => {
                self.tasks
                    .spawn(async move { relay.tell_modern(&mirrored, body).await });
            }
            (Kind::Notification, Era::Legacy) => self.tell(body),
            (Kind::Response, _) => {
                self.tasks.spawn(async move { relay.respond(body).await });
            }
        }
    }

    async fn ask(&mut self, id: RequestId, method: &Method, body: Bytes) {
        let Some(flight) = self.flights.begin(&id, Means::Telling) else {
            return self
                .relay
                .out
                .print(message::error(Some(&id), NO_ANSWER, TOO_MANY))
                .await;
        };
        let mut asked = Asked::one(id, method);
        let (relay, places, turn) = (Arc::clone(&self.relay), Arc::clone(&self.places), self.turn.clone());
        self.tasks.spawn(async move {
            turn.come().await;
            let _place = places.acquire().await;
            if flight.is_cancelled() {
                return;
            }
            let done = relay.ask(&mut asked, body).await;
            if !flight.is_cancelled() {
                relay.settle(done, &asked).await;
            }
        });
    }

    async fn ask_modern(&mut self, id: RequestId, method: &Method, mirrored: Mirrored, body: Bytes) {
        let Some(flight) = self.flights.begin(&id, Means::Closing) else {
            return self
                .relay
                .out
                .print(message::error(Some(&id), NO_ANSWER, TOO_MANY))
                .await;
        };
        let asked = Asked::one(id, method);
        let (relay, places) = (Arc::clone(&self.relay), Arc::clone(&self.places));
        let tasks = match method.as_str() {
            "subscriptions/listen" => &mut self.subscriptions,
            _ => &mut self.tasks,
        };
        tasks.spawn(async move {
            let work = async {
                let _place = places.acquire().await;
                let mut asked = asked;
                let done = relay.ask_modern(&mut asked, &mirrored, body).await;
                relay.settle(done, &asked).await;
            };
            unless_closed(&flight, work).await;
        });
    }

    fn ask_all(&mut self, ids: Vec<RequestId>, body: Bytes) {
        let purpose = Purpose::Nothing;
        let mut asked = Asked { ids, purpose };
        let (relay, places, turn) = (Arc::clone(&self.relay), Arc::clone(&self.places), self.turn.clone());
        self.tasks.spawn(async move {
            turn.come().await;
            let _place = places.acquire().await;
            let done = relay.ask(&mut asked, body).await;
            relay.settle(done, &asked).await;
        });
    }

    /// A notification of the session; before there is one, nobody would understand it.
    fn tell(&mut self, body: Bytes) {
        let (relay, turn) = (Arc::clone(&self.relay), self.turn.clone());
        self.tasks.spawn(async move {
            turn.come().await;
            if relay.session.headers().1.is_some() {
                relay.tell(body).await;
            }
        });
    }

    /// The turn that is waited for, and what to hold while those behind wait.
    fn next_turn(&mut self) -> (Turn, watch::Sender<()>) {
        let (done, next) = watch::channel(());
        (std::mem::replace(&mut self.turn, Turn(Some(next))), done)
    }
}

impl Asked {
    fn one(id: RequestId, method: &Method) -> Self {
        let purpose = match method.as_str() {
            "tools/list" => Purpose::LearnMarks,
            _ => Purpose::Nothing,
        };
        Self { ids: vec![id], purpose }
    }
}

/// Does the work until the client cancels it; what is then dropped closes its stream.
async fn unless_closed(flight: &Flight, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        () = flight.closed() => {}
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
        Turn::default().come().await;
        let (done, next) = watch::channel(());
        let waiting = tokio::spawn(Turn(Some(next)).come());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(done);
        waiting.await.unwrap();
    }
}
