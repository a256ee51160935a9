//! The `portreeve` binary.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: a launcher and a reaper have to be a single thread.
    match std::env::args_os().nth(1) {
        Some(word) if word == sandbox::LAUNCHER_WORD => return sandbox::launcher_main(),
        Some(word) if word == sandbox::host::REAPER_WORD => return sandbox::host::reaper_main(),
        Some(_) | None => {}
    }
    portreeve::command::run()
}
