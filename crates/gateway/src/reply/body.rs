//! The body of an answer: all of it at once, or events as they come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, Sleep};

use crate::delivery::{Listener, Released, Releases, Told, Unheard};
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

/// The events of one stream. Every one is decided on when the connection takes it, by the rules in force then; the stream
/// ends with the credential that it was opened with.
pub struct EventBody {
    told: mpsc::Receiver<Told>,
    listener: Listener,
    rules: Arc<dyn Releases>,
    alarm: Pin<Box<Sleep>>,
    gone: Arc<Notify>,
    until: Instant,
}

/// Longer than any stream.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// A stream without an end of its own ends after this time, so that the credential is shown again.
const LONGEST_STREAM: Duration = Duration::from_secs(15 * 60);

impl EventBody {
    pub(crate) fn new(told: mpsc::Receiver<Told>, listener: Listener, rules: Arc<dyn Releases>) -> Self {
        let until = Instant::now() + rules.time_left(&listener).min(A_YEAR);
        Self {
            told,
            listener,
            rules,
            alarm: Box::pin(tokio::time::sleep_until(until.min(Instant::now() + KEEP_ALIVE))),
            gone: Arc::new(Notify::new()),
            until,
        }
    }

    /// The same, telling when it is gone.
    pub(crate) fn telling(mut self, gone: Arc<Notify>) -> Self {
        self.gone = gone;
        self
    }

    /// The same, but not for ever.
    pub(crate) fn for_a_while(mut self) -> Self {
        self.until = self.until.min(Instant::now() + LONGEST_STREAM);
        self
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Released>> {
        if Instant::now() >= self.until {
            return Poll::Ready(None);
        }
        let polled = self.poll_told(context);
        let rings = polled.is_pending() && self.alarm.as_mut().poll(context).is_ready();
        if rings || polled.is_ready() {
            self.alarm.as_mut().reset(self.until.min(Instant::now() + KEEP_ALIVE));
        }
        if rings {
            // Polled again at once, so that the alarm is set.
            context.waker().wake_by_ref();
            return Poll::Ready(Some((Event::keep_alive(), None)));
        }
        polled
    }

    /// The next event that whoever listens may have.
    fn poll_told(&mut self, context: &mut Context<'_>) -> Poll<Option<Released>> {
        loop {
            match std::task::ready!(self.told.poll_recv(context)) {
                None => return Poll::Ready(None),
                Some(told) if told.is_end() => return Poll::Ready(None),
                Some(told) => match self.rules.release(told, &self.listener) {
                    Ok(released) => return Poll::Ready(Some(released)),
                    Err(Unheard::Withheld) => {
                        tracing::debug!("a message on a stream is withheld by the rules in force")
                    }
                    Err(Unheard::Ended) => return Poll::Ready(None),
                },
            }
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
            Self::Events(events) => events.poll_event(context).map(|event| {
                event.map(|(event, hold)| Ok(Frame::data(Pieces::from(event.into_bytes()).counted(hold))))
            }),
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
