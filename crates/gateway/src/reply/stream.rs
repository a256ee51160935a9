//! Where what concerns one request goes before its answer. The answer's head is held back until
//! there is something to say: a plain answer stays plain, anything before it makes it a stream.
//! ADR 0010 and ADR 0015: how an answer becomes a stream.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

use tokio::sync::{Notify, mpsc};
use vocabulary::lock;

use crate::message::{ClientMessage, Event};
use crate::reply::body::EventBody;
use crate::session::Session;
use crate::session::replay::{BACKLOG, ReplayBuffer};

/// Whether a client takes streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Streams {
    Taken,
    Refused,
}

/// See the module.
pub(crate) struct ResponseStream {
    streams: Streams,
    /// None once the answer goes without a stream.
    destination: OnceLock<Option<Destination>>,
    body: Mutex<Handover>,
    gone: Arc<Notify>,
    /// Bytes of what was said before the answer.
    said: AtomicU64,
}

/// The stream on its way to the connection, and whom to wake for it: whoever begins it may be another task.
#[derive(Default)]
struct Handover {
    body: Option<EventBody>,
    waits: Option<Waker>,
}

/// Where the events go.
pub(crate) enum Destination {
    /// Straight to the client; what it does not hear is lost.
    Plain(mpsc::Sender<Event>),
    /// To a buffer from which the client can resume.
    Replay(Arc<ReplayBuffer>),
}

impl ResponseStream {
    pub(crate) fn new(streams: Streams) -> Arc<Self> {
        Arc::new(Self {
            streams,
            destination: OnceLock::new(),
            body: Mutex::default(),
            gone: Arc::new(Notify::new()),
            said: AtomicU64::new(0),
        })
    }

    /// Onto a stream that stands already.
    pub(crate) fn on_replay(replay: Arc<ReplayBuffer>) -> Arc<Self> {
        Arc::new(Self {
            streams: Streams::Taken,
            destination: OnceLock::from(Some(Destination::Replay(replay))),
            body: Mutex::default(),
            gone: Arc::new(Notify::new()),
            said: AtomicU64::new(0),
        })
    }

    /// Whether anything can be said before the answer.
    pub(crate) fn takes_streams(&self) -> bool {
        self.streams == Streams::Taken
    }

    /// The answer is there: whether it goes by a stream. If not, no stream begins any more.
    pub(crate) fn is_stream(&self) -> bool {
        self.destination.get_or_init(|| None).is_some()
    }

    /// The stream, once, as soon as it is opened.
    pub(crate) fn poll_body(&self, context: &Context<'_>) -> Poll<EventBody> {
        let mut handover = lock(&self.body);
        match handover.body.take() {
            Some(body) => Poll::Ready(body),
            None => {
                handover.waits = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Begins the stream. In a session it can be resumed.
    pub(crate) async fn open(&self, session: Option<&Arc<Session>>) -> Option<&Destination> {
        if self.streams == Streams::Refused {
            return None;
        }
        if let Some(destination) = self.destination.get() {
            return destination.as_ref();
        }
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let destination = match session {
            Some(session) => Destination::Replay(session.open_replay(sender).await),
            None => Destination::Plain(sender),
        };
        // Under the lock: who sees that there is a stream finds it.
        let mut handover = lock(&self.body);
        if self.destination.set(Some(destination)).is_ok() {
            handover.body = Some(EventBody::new(receiver, self.gone.clone()));
            if let Some(waits) = handover.waits.take() {
                waits.wake();
            }
        }
        self.destination.get().and_then(Option::as_ref)
    }

    /// Says something, beginning the stream if need be. Waits for a slow client.
    pub(crate) async fn say(&self, session: Option<&Arc<Session>>, message: &ClientMessage) {
        if let Some(destination) = self.open(session).await {
            self.said.fetch_add(message.len() as u64, Ordering::Relaxed);
            destination.send(message).await;
        }
    }

    /// How many bytes were said before the answer, without the framing of events.
    pub(crate) fn said(&self) -> u64 {
        self.said.load(Ordering::Relaxed)
    }

    /// The client hung up.
    pub(crate) fn hang_up(&self) {
        self.gone.notify_one();
    }

    /// Completes when the client is no longer there.
    pub(crate) async fn gone(&self) {
        self.gone.notified().await;
    }

    /// The last event; the stream ends behind it.
    pub(crate) async fn finish(&self, answer: &ClientMessage) {
        if let Some(Some(destination)) = self.destination.get() {
            destination.send(answer).await;
            match destination {
                // An empty event: a call that waits for its client's answers may keep the sender for long.
                Destination::Plain(sender) => drop(sender.send(Event::end()).await),
                Destination::Replay(replay) => replay.end().await,
            }
        }
    }
}

impl Destination {
    async fn send(&self, message: &ClientMessage) {
        match self {
            Self::Plain(sender) => {
                let _ = sender.send(Event::of(message, None)).await;
            }
            Self::Replay(replay) => replay.say(message).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt as _;
    use mcp::ServerNotice;

    use crate::reply::body::ReplyBody;

    use super::*;

    async fn next(body: &mut ReplyBody) -> Option<Bytes> {
        Some(body.frame().await?.ok()?.into_data().ok()?.joined())
    }

    #[tokio::test]
    async fn a_stream_that_another_task_begins_reaches_the_connection_at_once() {
        let stream = ResponseStream::new(Streams::Taken);
        let waiting = tokio::spawn({
            let stream = stream.clone();
            async move { std::future::poll_fn(|context| stream.poll_body(context)).await }
        });
        tokio::task::yield_now().await;
        let progress = ClientMessage::own_notification(ServerNotice::Progress, None);
        stream.say(None, &progress).await;
        let mut body = ReplyBody::Events(Box::new(waiting.await.unwrap()));
        assert!(stream.is_stream());
        stream.finish(&progress).await;
        assert!(next(&mut body).await.is_some_and(|event| event.ends_with(b"\n\n")));
        assert_eq!(next(&mut body).await, Some(Event::of(&progress, None).into_bytes()));
        assert_eq!(next(&mut body).await, None);
    }

    #[tokio::test]
    async fn no_stream_begins_once_the_answer_goes_without_one() {
        let stream = ResponseStream::new(Streams::Taken);
        assert!(!stream.is_stream());
        assert!(stream.open(None).await.is_none());
        assert!(!stream.is_stream());
    }
}
