//! The rules the repository sets itself, checked against the repository: who may know whom, how long a file may be, what a
//! commit says, and what the documents say about the tree.

mod columns;
mod commits;
mod decisions;
mod modules;
mod named;
mod pages;
mod cycles;
mod rooms;
mod rows;
pub(crate) mod sources;
