//! The chokepoint: whatever a server sends, by whatever way, is judged before a client sees a byte of it.

mod asides;
mod enumerated;
mod errands;
mod lists;
mod questions;
mod results;
mod scene;
mod tasks;
