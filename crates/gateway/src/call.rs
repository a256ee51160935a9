//! The stages of a request that goes to a server, and the table of contents of the product: [`tool`] and [`method`] walk
//! resolve, preflight and decide, [`approval`] asks a person where policy wants one asked; [`forward`] takes what was
//! permitted to its server; [`answer`] brings back what came.

pub(crate) mod tool;
pub(crate) mod method;
pub(crate) mod approval;
pub(crate) mod outgoing_secrets;
pub(crate) mod forward;
pub(crate) mod forwarded;
pub(crate) mod send;
pub(crate) mod rounds;
pub(crate) mod answer;
pub(crate) mod task;
pub(crate) mod subscribe;
