//! One call: prepared with its permit, sent, observed, and waited for to its answer. In the order in which they build on
//! each other, `dispatch` last.

pub(crate) mod answer;
pub(crate) mod observer;
// One request and its answer, whoever asks.
pub(crate) mod exchange;
mod unanswered;
// A call that became a task.
pub(crate) mod confinement;
pub(crate) mod task;
// The permit is spent here.
pub(crate) mod dispatch;
