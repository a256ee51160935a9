//! The chokepoint: whatever a server sends, by whatever way, is judged before a client sees a byte of it.

mod asides;
mod enumerated;
mod errands;
mod guarded;
mod lists;
mod many;
mod modes;
mod questions;
mod recorded;
mod reloaded;
mod results;
mod scene;
mod structured;
mod tasks;
