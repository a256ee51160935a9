//! The chokepoint: whatever a server sends, by whatever way, is judged before a client sees a byte of it.

mod asides;
mod attacks;
mod cached;
mod clamour;
mod combined;
mod disguised;
mod enumerated;
mod errands;
mod forged;
mod guarded;
mod lists;
mod many;
mod marked;
mod masked;
mod modes;
mod operator;
mod questions;
mod recorded;
mod reloaded;
mod results;
mod scene;
mod stripped;
mod structured;
mod tasks;
mod trusted;
mod unusable;
