//! The `portreeve` binary.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: the launcher has to be a single thread.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == sandbox::LAUNCHER_WORD)
    {
        return sandbox::launcher_main();
    }
    portreeve::command::run()
}
