//! Where what concerns one request goes before its answer. The answer's head is held back until
//! there is something to say: a plain answer stays plain, anything before it makes it a stream.
//! ADR 0010 and ADR 0015: how an answer becomes a stream.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

use tokio::sync::{Notify, mpsc};
use vocabulary::lock;

use crate::delivery::{About, Listener, Releases, Told};
use crate::message::{ClientMessage, Event};
use crate::reply::body::EventBody;
use crate::session::Session;
use crate::session::replay::{BACKLOG, ReplayBuffer};
use crate::state::unread::OnItsWay;

/// Whether a client takes streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Streams {
    Taken,
    Refused,
}

/// See the module.
pub(crate) struct ResponseStream {
    streams: Streams,
    /// Who knows the rules in force while it goes on.
    rules: Option<Arc<dyn Releases>>,
    /// None once the answer goes without a stream.
    destination: OnceLock<Option<Destination>>,
    /// What the request is about whose stream it is.
    about: OnceLock<About>,
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

/// What it takes to begin a stream.
pub(crate) struct Opener<'a> {
    /// In a session it can be resumed.
    pub(crate) session: Option<&'a Arc<Session>>,
    pub(crate) listener: Listener,
    /// What the request is about.
    pub(crate) about: About,
}

/// Where the events go.
pub(crate) enum Destination {
    /// Straight to the client; what it does not hear is lost.
    Plain(mpsc::Sender<Told>),
    /// To a buffer from which the client can resume.
    Replay(Arc<ReplayBuffer>),
}

impl ResponseStream {
    /// For a client that takes streams.
    pub(crate) fn taken(rules: Arc<dyn Releases>) -> Arc<Self> {
        Self::new(Streams::Taken, Some(rules))
    }

    /// For one that does not, or cannot be given one.
    pub(crate) fn refused() -> Arc<Self> {
        Self::new(Streams::Refused, None)
    }

    fn new(streams: Streams, rules: Option<Arc<dyn Releases>>) -> Arc<Self> {
        Arc::new(Self {
            streams,
            rules,
            destination: OnceLock::new(),
            about: OnceLock::new(),
            body: Mutex::default(),
            gone: Arc::new(Notify::new()),
            said: AtomicU64::new(0),
        })
    }

    /// Onto a stream that stands already.
    pub(crate) fn on_replay(replay: Arc<ReplayBuffer>) -> Arc<Self> {
        Arc::new(Self {
            streams: Streams::Taken,
            rules: None,
            about: OnceLock::new(),
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

    /// Begins the stream.
    pub(crate) async fn open(&self, opener: Opener<'_>) -> Option<&Destination> {
        if self.streams == Streams::Refused {
            return None;
        }
        if let Some(destination) = self.destination.get() {
            return destination.as_ref();
        }
        let rules = self.rules.clone()?;
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let _ = self.about.set(opener.about);
        let destination = match opener.session {
            Some(session) => Destination::Replay(session.open_replay(sender).await),
            None => Destination::Plain(sender),
        };
        // Under the lock: who sees that there is a stream finds it.
        let mut handover = lock(&self.body);
        if self.destination.set(Some(destination)).is_ok() {
            let body = EventBody::new(receiver, opener.listener, rules);
            handover.body = Some(body.telling(self.gone.clone()));
            if let Some(waits) = handover.waits.take() {
                waits.wake();
            }
        }
        self.destination.get().and_then(Option::as_ref)
    }

    /// Says something, beginning the stream if need be. Waits for a slow client.
    pub(crate) async fn say(&self, opener: Opener<'_>, about: About, message: &ClientMessage) {
        let counted = |rules: &Arc<dyn Releases>| rules.hold(&opener.listener, message.len());
        let hold = self.rules.as_ref().and_then(counted);
        if let Some(destination) = self.open(opener).await {
            self.said.fetch_add(message.len() as u64, Ordering::Relaxed);
            destination.send(message, about, hold).await;
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
    pub(crate) async fn finish(&self, answer: &ClientMessage, hold: Option<Arc<OnItsWay>>) {
        if let Some(Some(destination)) = self.destination.get() {
            let about = self.about.get().cloned().unwrap_or(About::Own);
            destination.send(answer, About::Answer(Box::new(about)), hold).await;
            match destination {
                // An empty event: a call that waits for its client's answers may keep the sender for long.
                Destination::Plain(sender) => drop(sender.send(Told::sign(Event::end())).await),
                Destination::Replay(replay) => replay.end().await,
            }
        }
    }
}

impl Destination {
    async fn send(&self, message: &ClientMessage, about: About, hold: Option<Arc<OnItsWay>>) {
        match self {
            Self::Plain(sender) => {
                let _ = sender.send(Told::new(message, None, about).counted(hold)).await;
            }
            Self::Replay(replay) => replay.say(message, about, hold).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use http_body_util::BodyExt as _;
    use mcp::ServerNotice;

    use crate::delivery::{Released, Unheard};
    use crate::edge::shown::ShownCredential;
    use crate::reply::body::ReplyBody;

    use super::*;

    /// Lets everything through.
    struct Everything;

    impl Releases for Everything {
        fn release(&self, told: Told, _: &Listener) -> Result<Released, Unheard> {
            Ok((told.unasked(), None))
        }

        fn time_left(&self, _: &Listener) -> Duration {
            Duration::MAX
        }

        fn hold(&self, _: &Listener, _: usize) -> Option<Arc<OnItsWay>> {
            None
        }
    }

    fn opener() -> Opener<'static> {
        Opener {
            session: None,
            listener: Listener {
                who: Arc::new(crate::session::principal("ann")),
                shown: ShownCredential::sample(),
            },
            about: About::Own,
        }
    }

    async fn next(body: &mut ReplyBody) -> Option<Bytes> {
        Some(body.frame().await?.ok()?.into_data().ok()?.joined())
    }

    #[tokio::test]
    async fn a_stream_that_another_task_begins_reaches_the_connection_at_once() {
        let stream = ResponseStream::taken(Arc::new(Everything));
        let waiting = tokio::spawn({
            let stream = stream.clone();
            async move { std::future::poll_fn(|context| stream.poll_body(context)).await }
        });
        tokio::task::yield_now().await;
        let progress = ClientMessage::own_notification(ServerNotice::Progress, None);
        stream.say(opener(), About::Own, &progress).await;
        let mut body = ReplyBody::Events(Box::new(waiting.await.unwrap()));
        assert!(stream.is_stream());
        stream.finish(&progress, None).await;
        assert!(next(&mut body).await.is_some_and(|event| event.ends_with(b"\n\n")));
        assert_eq!(next(&mut body).await, Some(Event::of(&progress, None).into_bytes()));
        assert_eq!(next(&mut body).await, None);
    }

    #[tokio::test]
    async fn no_stream_begins_once_the_answer_goes_without_one() {
        let stream = ResponseStream::taken(Arc::new(Everything));
        assert!(!stream.is_stream());
        assert!(stream.open(opener()).await.is_none());
        assert!(!stream.is_stream());
    }
}
