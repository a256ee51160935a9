//! The name of a log, fixed at its first start.

use std::fs;
use std::path::Path;

use crate::chain::text_member;
use crate::segment::{LedgerReader, last_line};

/// The name the log of a state directory got at its first start, if there was one.
#[must_use]
pub fn stored_origin(state: &Path) -> Option<String> {
    let kept = fs::read_to_string(state.join("ledger/origin")).ok();
    let kept = kept.and_then(|text| {
        text.strip_suffix('\n')
            .filter(|origin| !origin.is_empty())
            .map(str::to_owned)
    });
    // Without the file the records themselves say it.
    kept.or_else(|| {
        let reader = LedgerReader::of_state(state);
        let segments = reader.segments().ok()?;
        let line = segments
            .iter()
            .rev()
            .find_map(|number| last_line(&reader, *number).ok().flatten())?;
        text_member(&line, br#","log":""#).map(str::to_owned)
    })
}
