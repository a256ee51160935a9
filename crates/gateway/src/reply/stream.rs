//! Where what concerns one request goes before its answer. The answer's head is held back until
//! there is something to say: a plain answer stays plain, anything before it makes it a stream.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use mcp::{compose, sse};
use screening::result::ScreenedResult;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, Sleep};

use crate::reply::pieces::Pieces;
use crate::session::Session;
use crate::session::replay::ReplayBuffer;

/// What hyper sends: a whole answer, or events as they come.
pub enum ReplyBody {
    /// All of it, in one frame; nothing once that was taken.
    Whole(Pieces),
    /// A stream.
    Events(Box<EventBody>),
}

/// A quiet stream says something now and then, so that nobody on the way closes it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Events that wait for a slow client; then the server waits too.
pub(crate) const BACKLOG: usize = 32;

/// The events of one stream.
pub struct EventBody {
    events: mpsc::Receiver<Bytes>,
    alarm: Pin<Box<Sleep>>,
    gone: Arc<Notify>,
    until: Option<Instant>,
}

/// A stream without an end of its own ends after this time, so that the credential is shown again.
const LONGEST_STREAM: Duration = Duration::from_secs(15 * 60);

impl EventBody {
    pub(crate) fn new(events: mpsc::Receiver<Bytes>, gone: Arc<Notify>) -> Self {
        Self {
            events,
            alarm: Box::pin(tokio::time::sleep(KEEP_ALIVE)),
            gone,
            until: None,
        }
    }

    /// The same, but not for ever.
    pub(crate) fn for_a_while(mut self) -> Self {
        self.until = Some(Instant::now() + LONGEST_STREAM);
        self
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Poll::Ready(None);
        }
        let polled = self.events.poll_recv(context);
        let rings = polled.is_pending() && self.alarm.as_mut().poll(context).is_ready();
        if rings || polled.is_ready() {
            self.alarm.as_mut().reset(Instant::now() + KEEP_ALIVE);
        }
        if rings {
            // Polled again at once, so that the alarm is set.
            context.waker().wake_by_ref();
            return Poll::Ready(Some(sse::keep_alive()));
        }
        match polled {
            Poll::Ready(Some(event)) if event.is_empty() => Poll::Ready(None),
            polled @ (Poll::Ready(_) | Poll::Pending) => polled,
        }
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        self.gone.notify_one();
    }
}

impl Body for ReplyBody {
    type Data = Pieces;
    type Error = std::convert::Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(whole) => {
                let whole = std::mem::take(whole);
                Poll::Ready(whole.has_remaining().then(|| Ok(Frame::data(whole))))
            }
            Self::Events(events) => events
                .poll_event(context)
                .map(|event| event.map(|event| Ok(Frame::data(event.into())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => !whole.has_remaining(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => SizeHint::with_exact(whole.remaining() as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// Something that may go to a client before the answer: it crossed the chokepoint, or is ours.
pub(crate) struct ClientMessage(Bytes);

impl ClientMessage {
    /// A server's notification.
    pub(crate) fn notification(method: &str, params: &ScreenedResult) -> Self {
        Self(compose::notification(method, Some(params.bytes())))
    }

    /// A server's notification that was screened, of which the gateway then replaced a member: an id,
    /// a token.
    pub(crate) fn adapted(method: &str, _screened: &ScreenedResult, params: &[u8]) -> Self {
        Self(compose::notification(method, Some(params)))
    }

    /// A server's question, under an id of ours.
    pub(crate) fn question(id: u64, method: &str, params: Option<&ScreenedResult>) -> Self {
        let params = params.map(|params| params.bytes().as_ref());
        Self(compose::request(id.to_string().as_bytes(), method, params))
    }

    /// A notification of our own.
    pub(crate) fn own(method: &str, params: Option<&[u8]>) -> Self {
        Self(compose::notification(method, params))
    }

    pub(crate) fn message(&self) -> &[u8] {
        &self.0
    }
}

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
    lane: OnceLock<Option<Lane>>,
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
pub(crate) enum Lane {
    /// Straight to the client; what it does not hear is lost.
    Plain(mpsc::Sender<Bytes>),
    /// To a track that the client can take up again.
    ReplayBuffer(Arc<ReplayBuffer>),
}

impl ResponseStream {
    pub(crate) fn new(streams: Streams) -> Arc<Self> {
        Arc::new(Self {
            streams,
            lane: OnceLock::new(),
            body: Mutex::default(),
            gone: Arc::new(Notify::new()),
            said: AtomicU64::new(0),
        })
    }

    /// An outlet to a stream that stands already.
    pub(crate) fn on_replay(replay: Arc<ReplayBuffer>) -> Arc<Self> {
        Arc::new(Self {
            streams: Streams::Taken,
            lane: OnceLock::from(Some(Lane::ReplayBuffer(replay))),
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
        self.lane.get_or_init(|| None).is_some()
    }

    /// The stream, once, as soon as it is opened.
    pub(crate) fn poll_body(&self, context: &Context<'_>) -> Poll<EventBody> {
        let mut handover = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        match handover.body.take() {
            Some(body) => Poll::Ready(body),
            None => {
                handover.waits = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Begins the stream. In a session it can be taken up again.
    pub(crate) async fn open(&self, session: Option<&Arc<Session>>) -> Option<&Lane> {
        if self.streams == Streams::Refused {
            return None;
        }
        if let Some(lane) = self.lane.get() {
            return lane.as_ref();
        }
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let lane = match session {
            Some(session) => Lane::ReplayBuffer(session.open_replay(sender).await),
            None => Lane::Plain(sender),
        };
        // Under the lock: who sees that there is a stream finds it.
        let mut handover = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lane.set(Some(lane)).is_ok() {
            handover.body = Some(EventBody::new(receiver, self.gone.clone()));
            if let Some(waits) = handover.waits.take() {
                waits.wake();
            }
        }
        self.lane.get().and_then(Option::as_ref)
    }

    /// Says something, beginning the stream if need be. Waits for a slow client.
    pub(crate) async fn say(&self, session: Option<&Arc<Session>>, message: &ClientMessage) {
        if let Some(lane) = self.open(session).await {
            self.said.fetch_add(message.message().len() as u64, Ordering::Relaxed);
            lane.send(message.message()).await;
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
    pub(crate) async fn finish(&self, answer: &[u8]) {
        if let Some(Some(lane)) = self.lane.get() {
            lane.send(answer).await;
            match lane {
                // An empty event: a call that waits for its client's answers may keep the sender for long.
                Lane::Plain(sender) => drop(sender.send(Bytes::new()).await),
                Lane::ReplayBuffer(replay) => replay.end().await,
            }
        }
    }
}

impl Lane {
    async fn send(&self, message: &[u8]) {
        match self {
            Self::Plain(sender) => {
                let _ = sender.send(sse::event(None, message)).await;
            }
            Self::ReplayBuffer(replay) => replay.say(message).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

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
        stream
            .say(None, &ClientMessage::own("notifications/progress", None))
            .await;
        let mut body = ReplyBody::Events(Box::new(waiting.await.unwrap()));
        assert!(stream.is_stream());
        stream.finish(b"{}").await;
        assert!(next(&mut body).await.is_some_and(|event| event.ends_with(b"\n\n")));
        assert_eq!(next(&mut body).await, Some(sse::event(None, b"{}")));
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
