//! Finds where JSON values begin and end; the scanner itself is everybody's.

pub use vocabulary::json::span::{DEEPEST, Scanner, Span, SpanFault, decode_name, decode_string};
