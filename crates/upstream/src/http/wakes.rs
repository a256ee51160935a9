//! Suppresses wakes that nobody needs. Taking a piece of a body wakes the connection that it came over, so that it reads
//! on. Where both are one task, that task is run once more for nothing, from the connection down to the call: twice for
//! each call.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    static WAKES: Cell<Wakes> = const { Cell::new(Wakes::Delivered) };
}

/// What becomes of a wake on this thread.
enum Wakes {
    /// The task is woken.
    Delivered,
    /// The last one is kept.
    Suppressed(Option<Waker>),
}

/// The wake of a connection that could read on.
pub struct SuppressedWake(Waker);

impl SuppressedWake {
    /// Whether the connection is driven by the task of this context.
    #[must_use]
    pub fn is_for(&self, context: &Context<'_>) -> bool {
        // Not `will_wake`: it also compares where the code of a waker lies, of which there may be several copies.
        self.0.data() == context.waker().data()
    }

    /// The connection is run again.
    pub fn wake(self) {
        self.0.wake();
    }
}

/// Polls a body. A wake of a [`WakeFilter`] that comes of it is kept, and given back.
pub fn suppress_wakes<T>(poll: impl FnOnce() -> T) -> (T, Option<SuppressedWake>) {
    let suppression = Suppression::begin();
    let polled = poll();
    let suppressed = suppression.take();
    (polled, suppressed.map(SuppressedWake))
}

/// Wakes on this thread are suppressed until it is dropped, also where a poll panics.
struct Suppression {
    before: Wakes,
}

impl Suppression {
    fn begin() -> Self {
        Self {
            before: WAKES.replace(Wakes::Suppressed(None)),
        }
    }

    /// The last wake that was suppressed.
    fn take(&self) -> Option<Waker> {
        match WAKES.replace(Wakes::Suppressed(None)) {
            Wakes::Suppressed(suppressed) => suppressed,
            Wakes::Delivered => None,
        }
    }
}

impl Drop for Suppression {
    fn drop(&mut self) {
        WAKES.set(std::mem::replace(&mut self.before, Wakes::Delivered));
    }
}

/// A task whose wakes can be kept while it polls a body.
pub struct WakeFilter<F> {
    work: F,
    /// Whom the task's wakes go through; made when it is polled first.
    waker: Option<(Arc<FilteredWaker>, Waker)>,
}

/// Wakes from other threads, and from sockets and timers, come while nobody polls a body here: those always arrive.
struct FilteredWaker(Waker);

impl<F> WakeFilter<F> {
    /// `work`, unchanged otherwise.
    pub fn new(work: F) -> Self {
        Self { work, waker: None }
    }
}

impl<F: Future + Unpin> Future for WakeFilter<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let known = this
            .waker
            .take()
            .filter(|(waker, _)| waker.0.will_wake(context.waker()));
        let (_, waker) = this.waker.insert(known.unwrap_or_else(|| {
            let waker = Arc::new(FilteredWaker(context.waker().clone()));
            (waker.clone(), Waker::from(waker))
        }));
        Pin::new(&mut this.work).poll(&mut Context::from_waker(waker))
    }
}

impl Wake for FilteredWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match WAKES.replace(Wakes::Delivered) {
            Wakes::Delivered => self.0.wake_by_ref(),
            Wakes::Suppressed(_) => WAKES.set(Wakes::Suppressed(Some(Waker::from(self.clone())))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The waker that a task gets to see, and how often it was woken.
    fn seen() -> (Waker, Arc<Count>) {
        let count = Arc::new(Count::default());
        let mut work = WakeFilter::new(std::future::poll_fn(|context| Poll::Ready(context.waker().clone())));
        let waker = Waker::from(count.clone());
        match Pin::new(&mut work).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(seen) => (seen, count),
            Poll::Pending => panic!("it was ready"),
        }
    }

    #[test]
    fn a_wake_is_kept_while_a_body_is_polled_here_and_arrives_at_any_other_time() {
        let (waker, count) = seen();
        let woken = || count.0.load(Ordering::SeqCst);
        waker.wake_by_ref();
        assert_eq!(woken(), 1);
        let (polled, kept) = suppress_wakes(|| {
            waker.wake_by_ref();
            7
        });
        assert_eq!((polled, woken()), (7, 1));
        let kept = kept.unwrap();
        assert!(kept.is_for(&Context::from_waker(&waker)));
        assert!(!kept.is_for(&Context::from_waker(Waker::noop())));
        kept.wake();
        assert_eq!(woken(), 2);
        waker.wake_by_ref();
        assert_eq!(woken(), 3);
    }

    #[test]
    fn a_poll_that_panics_delivers_wakes_again() {
        let (waker, count) = seen();
        let poll = std::panic::AssertUnwindSafe(|| suppress_wakes(|| panic!("a body")));
        assert!(std::panic::catch_unwind(poll).is_err());
        waker.wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_wake_from_another_thread_arrives_even_then() {
        let (waker, count) = seen();
        let ((), kept) =
            suppress_wakes(|| std::thread::scope(|scope| drop(scope.spawn(|| waker.wake_by_ref()).join())));
        assert!(kept.is_none());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_task_that_is_polled_by_another_one_wakes_that_one() {
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut work = WakeFilter::new(std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        for count in [&first, &second, &second] {
            let waker = Waker::from(count.clone());
            assert!(Pin::new(&mut work).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(
            (first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)),
            (1, 2)
        );
    }
}
