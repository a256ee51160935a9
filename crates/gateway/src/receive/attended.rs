//! A request being answered: driven by its connection until something is to be said, then by a
//! task of its own, with the stream in the connection's hands.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Response;

use crate::receive::detached::Detached;
use crate::reply::Answer;
use crate::reply::body::ReplyBody;
use crate::reply::stream::ResponseStream;

/// See the module.
pub(crate) struct Attended<F: Future<Output = Answer> + Send + 'static> {
    work: Option<Detached<F>>,
    stream: Arc<ResponseStream>,
}

impl<F: Future<Output = Answer> + Send + 'static> Attended<F> {
    pub(crate) fn new(work: Detached<F>, stream: Arc<ResponseStream>) -> Self {
        Self {
            work: Some(work),
            stream,
        }
    }
}

impl<F: Future<Output = Answer> + Send + 'static> Future for Attended<F> {
    type Output = Response<ReplyBody>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let worked = Pin::new(work).poll(context);
        if let Poll::Ready(body) = self.stream.poll_body(context) {
            // Letting go of the work gives it a task of its own. If it is done, its answer is in the stream.
            self.work = None;
            return Poll::Ready(Answer::stream(body).into_response());
        }
        worked.map(|answer| {
            self.work = None;
            answer.into_response()
        })
    }
}

impl<F: Future<Output = Answer> + Send + 'static> Drop for Attended<F> {
    fn drop(&mut self) {
        if self.work.is_some() {
            self.stream.hang_up();
        }
    }
}
