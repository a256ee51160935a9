//! The rules the repository sets itself, checked against the repository: who may know whom, how long a file may be, what a commit says.

mod commits;
mod rooms;
mod rows;
pub mod sources;
