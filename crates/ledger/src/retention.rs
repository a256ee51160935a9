//! How long records are kept: whole segments go, oldest first, never younger than the floor; segments that have grown cold are
//! packed. Tiles and checkpoints stay, so that old proofs hold. ADR 0120.

mod bounds;
mod handover;
mod keeper;
mod survey;

pub use bounds::{Retention, Room};
pub(crate) use handover::{Handover, PRUNED, read_handovers};
pub(crate) use keeper::{Keeper, Kept};
pub use survey::room;

#[cfg(test)]
mod tests;
