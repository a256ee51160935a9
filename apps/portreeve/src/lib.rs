//! The composition root: reads configuration, plugs the rooms together, and offers the commands.

mod bridge;
pub mod command;
pub mod config;
pub mod demo;
mod package;
mod reach;
mod server_json;
mod servers_lock;
pub mod wire_up;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use bridge::stdin_lines;
