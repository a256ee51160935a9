//! Judges a JSON value against a JSON Schema, safely: a schema is admitted before it is compiled
//! (bytes, depth, count, worst-case evaluations, references), patterns run in linear time, nothing is
//! fetched or read, objects of arguments are closed when the schema is compiled, values are judged where
//! they lie, and what is wrong with one is said without quoting a value. The only crate that imports the schema library.

mod admit;
mod argument;
mod closed;
mod compile;
mod dialect;
mod graph;
mod output;
mod places;
mod tree;
mod violation;

pub use admit::SchemaFault;
pub use argument::ArgumentSchema;
pub use compile::{DroppedPattern, Fields};
pub use output::{FormatFault, OutputSchema};
pub use places::{Place, PlaceId, Places};
pub use violation::{TellName, ToldName, Violation, Violations};
