//! How the standard streams were when the process began. Rust's start puts `/dev/null` where one was closed, after which
//! nobody can tell any more that what is written there goes nowhere by mistake.

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when this process began.
pub(crate) fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

// SAFETY: the loader calls every function pointer in this section once, on the only thread, before `main` and before
// Rust's own start. `look` has the signature it expects (further arguments are ignored by the C calling convention) and
// uses nothing that needs that start: one system call and a static.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: F_GETFD takes a number and touches no memory; a descriptor that is closed is an answer.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
    STDOUT_WAS_CLOSED.store(closed, Ordering::Relaxed);
}
