//! Reads a configuration once its files stand still. The beginning of a TOML or Cedar file is a valid file that says less:
//! one that is caught while it is written could lose its forbids.

use std::path::Path;
use std::time::Duration;

use settings::{Fault, Faults};

use super::eyes::OpenFiles;
use crate::config::{Config, FORMAT};

/// Files that were written in place have to say the same after this long.
const STILL: Duration = Duration::from_millis(500);
/// What the kernel has to tell of writers arrives within this.
const WORD_OF_WRITERS: Duration = Duration::from_millis(20);
/// How often it is looked whether a writer is done.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// A file that somebody holds open this long without an end is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(15);

/// Reads the configuration at `file` when nobody writes to its files. Blocks.
///
/// # Errors
/// Its faults, or that it is still being written.
pub(super) fn read(file: &Path, in_force: &Config, open: &OpenFiles) -> Result<Config, Faults> {
    let mut waited = Duration::ZERO;
    let mut pause = |time: Duration| {
        std::thread::sleep(time);
        waited += time;
        waited < PATIENCE
    };
    let mut goes_on = pause(WORD_OF_WRITERS);
    while goes_on {
        if open.any_of(in_force.files()) {
            goes_on = pause(LOOK_AGAIN);
            continue;
        }
        let found = in_force.found_now();
        let loaded = Config::load(file);
        let is_whole = match &loaded {
            Ok(config) => config.is_whole_since(in_force),
            Err(_) => false,
        };
        if !is_whole {
            goes_on = pause(STILL);
        }
        let is_same = match &loaded {
            Ok(config) => config.is_as_read() && !open.any_of(config.files()),
            Err(_) => in_force.found_now() == found && !open.any_of(in_force.files()),
        };
        if is_same {
            return loaded;
        }
    }
    let hint = "ask for the reload again when it is written; or write beside it and rename";
    let fault = Fault::of_file(file, "it, or a file that it names, is still being written", Some(hint));
    Err(FORMAT.refuse(fault))
}
