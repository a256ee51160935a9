//! Turns bytes into MCP messages and back. The only room that knows JSON-RPC: it finds where the
//! parts of a message lie, keeps the bytes as they came, and writes envelopes around raw spans.
//! Nothing is decoded before somebody must judge it.

pub mod capabilities;
pub mod compose;
pub mod envelope;
pub mod error_code;
pub mod headers;
pub mod http;
pub mod id;
pub mod members;
pub mod method;
pub mod mrtr;
pub mod server;
pub mod server_method;
pub mod span;
pub mod splice;
pub mod sse;
pub mod task;
pub mod translate;
pub mod version;

pub use envelope::{Content, Malformed, Message, Notification, Params, Request, Response};
pub use error_code::ErrorCode;
pub use id::RequestId;
pub use method::{ClientNotice, Handling, Method};
pub use server_method::{ServerMethod, ServerNotice};
pub use version::Version;
pub use vocabulary::Era;
