//! Judges untrusted payloads: arguments on the way in, results on the way out. Pure: bytes and compiled
//! rules in, evidence out; no I/O, no clock, no log lines. The only place where [`CheckedArguments`] and
//! [`ScreenedResult`] are made.
//!
//! [`CheckedArguments`]: arguments::CheckedArguments
//! [`ScreenedResult`]: result::ScreenedResult

pub mod arguments;
pub mod definition;
pub mod detect;
pub mod imitation;
pub mod passthrough;
pub mod recorded;
pub mod result;
pub mod risk;
pub mod utterance;
