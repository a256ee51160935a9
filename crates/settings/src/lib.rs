//! The only road from configuration text to a typed value. A [`Format`] says what a file may hold; [`Format::read`] hands
//! its root table to the caller's reader, which takes every key through a [`Section`] or an [`Entry`] and goes on after a
//! fault. What comes out is the value without a single fault, or all [`Faults`] with file, line, key and hint.
//!
//! A section is made here and nowhere else, so nothing can be read past the table of keys:
//!
//! ```
//! use portreeve_settings::Section;
//! fn read(mut section: Section<'_>) -> Option<u64> {
//!     section.read("port", |value| value.number(1..=65_535))
//! }
//! ```
//!
//! ```compile_fail,E0624
//! let forge = portreeve_settings::Section::root;
//! ```
//! ADR 0052: one reader of configuration files.

mod entry;
mod fault;
mod files;
mod format;
mod keys;
mod notes;
mod outline;
mod place;
mod reference;
mod section;
pub mod units;

pub use entry::Entry;
pub use fault::{Complaint, Fault, Faults, not_yet, quoted};
pub use files::{Unreadable, read, text};
pub use format::Format;
pub use keys::{Key, Standing, key};
pub use notes::{Notes, Remarks};
pub use outline::Outline;
pub use reference::Reference;
pub use section::Section;
