//! Locks that outlive a panic: what they guard is valid between any two statements, so a thread that died holding one is
//! no reason for the others to stop.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, whether or not a thread panicked while it held it.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_lock_is_taken_after_a_panic_too() {
        let shared = Arc::new(Mutex::new(1));
        let held = shared.clone();
        let died = std::thread::spawn(move || {
            let _held = held.lock();
            panic!("on purpose");
        });
        assert!(died.join().is_err() && shared.is_poisoned());
        *lock(&shared) += 1;
        assert_eq!(*lock(&shared), 2);
    }
}
