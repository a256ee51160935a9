//! The body of an answer: all of it at once, or events as they come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, Sleep};

use crate::message::Event;
use crate::message::pieces::Pieces;

/// What hyper sends: a whole answer, or events as they come.
pub enum ReplyBody {
    /// All of it, in one frame; nothing once that was taken.
    Whole(Pieces),
    /// A stream.
    Events(Box<EventBody>),
}

/// A quiet stream says something now and then, so that nobody on the way closes it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The events of one stream.
pub struct EventBody {
    events: mpsc::Receiver<Event>,
    alarm: Pin<Box<Sleep>>,
    gone: Arc<Notify>,
    until: Option<Instant>,
}

/// A stream without an end of its own ends after this time, so that the credential is shown again.
const LONGEST_STREAM: Duration = Duration::from_secs(15 * 60);

impl EventBody {
    pub(crate) fn new(events: mpsc::Receiver<Event>, gone: Arc<Notify>) -> Self {
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

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
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
            return Poll::Ready(Some(Event::keep_alive()));
        }
        match polled {
            Poll::Ready(Some(event)) if event.is_end() => Poll::Ready(None),
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
                .map(|event| event.map(|event| Ok(Frame::data(event.into_bytes().into())))),
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
