//! Servers that come as packages of a public registry: what may be asked for, how it is installed, and how we know
//! later that it is still the same. Installing needs the network; running never does.
//! ADR 0021: installers run inside the sandbox.

pub(crate) mod files;
mod install;
mod installed;
mod interpreter;
mod listed;
mod log;
mod npm;
mod pypi;
mod registry;
mod seal;
mod spec;

pub(crate) use install::{Wanted, install, room};
pub(crate) use installed::{Locked, Unfit, command, described, verify};
pub(crate) use interpreter::Interpreter;
pub(crate) use listed::Listed;
pub(crate) use spec::{Registry, Spec};
