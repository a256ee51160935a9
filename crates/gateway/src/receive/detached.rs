//! Work that goes on when nobody waits for it any more.
//! ADR 0007: the call outlives its connection.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is driven by whoever polls it, and by a task of its own once that one lets go of
/// it: even before its first poll. The common case costs no task.
pub(crate) struct Detached<F: Future<Output: Send> + Send + 'static>(Option<Pin<Box<F>>>);

impl<F: Future<Output: Send> + Send + 'static> Detached<F> {
    /// `work` makes the future where it will stay: moving one costs as many bytes as it could ever need, which is far
    /// more than it has at its beginning.
    #[inline]
    pub(crate) fn new(work: impl FnOnce() -> F) -> Self {
        Self(Some(Box::into_pin(Box::write(Box::new_uninit(), work()))))
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Detached<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Detached<F> {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and nothing goes on.
        if let (Some(work), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn work_goes_on_when_it_is_dropped_before_or_after_its_first_poll() {
        for polls in [0, 1] {
            let (gate, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let (waiting, tell) = (gate.clone(), done.clone());
            let mut work = Detached::new(|| async move {
                waiting.notified().await;
                tell.notify_one();
            });
            for _ in 0..polls {
                assert!(
                    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut work).poll(context)))
                        .await
                        .is_pending()
                );
            }
            drop(work);
            gate.notify_one();
            done.notified().await;
        }
    }

    #[tokio::test]
    async fn finished_work_is_not_done_again() {
        assert_eq!(Detached::new(|| async { 7 }).await, 7);
    }
}
