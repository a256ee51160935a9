//! What a request is made in: a session of the legacy era, or a process; and which era a server speaks. In the order in
//! which they build on each other.
//! ADR 0003 and ADR 0016: whose upstream session it is.

pub(crate) mod eras;
pub(crate) mod guest;
pub(crate) mod told;
// One stream that several requests share, and what is open over it.
pub(crate) mod multiplex;
pub(crate) mod opened;
pub(crate) mod slots;
// From here on the server is known.
pub(crate) mod reader;
pub(crate) mod stream;
// From here on requests can be made.
pub(crate) mod era;
pub(crate) mod open;
