//! The sandbox against a server that means harm. Every test has a stage: namespaces of its own in which canaries stand
//! where nobody may come, beside the shipped gateway and a hostile server behind it. Each attempt of `rows.json` is
//! first made without a sandbox, where that is expected to work, then through a real call; the canaries decide.

mod attempts;
mod canaries;
mod conformance;
mod far_sides;
mod faults;
mod nuisances;
mod resolver;
mod scene;
mod stage;
mod table;
