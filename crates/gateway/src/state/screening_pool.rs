//! Where large results are worked on: as many at a time as there are processors, and nobody else's task waits behind one.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// From this size on a result is worked on aside, so that it holds up nobody else.
const LARGE: usize = 256 * 1024;

/// See the module.
pub(crate) struct ScreeningPool(Semaphore);

impl Default for ScreeningPool {
    fn default() -> Self {
        Self(Semaphore::new(
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        ))
    }
}

impl ScreeningPool {
    /// Works on something of this many bytes: aside, if that could take long.
    pub(crate) async fn run_if_large<T>(&self, size: usize, work: impl FnOnce() -> T) -> T {
        if size > LARGE { self.run(work).await } else { work() }
    }

    async fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _place = self.0.acquire().await;
        if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            tokio::task::block_in_place(work)
        } else {
            work()
        }
    }
}
