//! Tasks that were begun through us: our ids, whose they are, and what their servers call them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use policy::ToolEntry;
use vocabulary::{Principal, ServerId, lock, random_hex};

use crate::session::owner::Owner;

/// Tasks that were begun through us.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<String, Task>>);

/// A task that a call became.
pub(crate) struct Task {
    owner: Owner,
    entry: Arc<ToolEntry>,
    /// The server's own id, as the literal it sent.
    theirs: Vec<u8>,
    expires: Instant,
}

/// A task that was found by our id.
pub(crate) struct FoundTask {
    /// The tool whose call became it.
    pub(crate) entry: Arc<ToolEntry>,
    /// The server's own id, as the literal it sent.
    pub(crate) theirs: Vec<u8>,
}

impl Task {
    /// A task of `who`, kept for as long as its server says, within bounds.
    pub(crate) fn new(who: &Principal, entry: Arc<ToolEntry>, theirs: Vec<u8>, ttl: Option<Duration>) -> Self {
        let life = ttl.unwrap_or(LONGEST_LIFE).clamp(SHORTEST_LIFE, LONGEST_LIFE);
        Self {
            owner: Owner::of(who),
            entry,
            theirs,
            expires: Instant::now() + life,
        }
    }
}

const MOST_TASKS: usize = 100_000;
const SHORTEST_LIFE: Duration = Duration::from_secs(60 * 60);
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

impl Tasks {
    /// Notes a task; its id of ours, or `None` when there are too many.
    pub(crate) fn begin(&self, task: Task) -> Option<String> {
        let id = random_hex(32).ok()?;
        let mut tasks = lock(&self.0);
        if tasks.len() >= MOST_TASKS {
            let now = Instant::now();
            tasks.retain(|_, task| task.expires > now);
        }
        (tasks.len() < MOST_TASKS).then(|| tasks.insert(id.clone(), task))?;
        Some(id)
    }

    /// Our id of a server's task, for its owner.
    pub(crate) fn ours(&self, theirs: &[u8], who: &Principal, server: &ServerId) -> Option<String> {
        let tasks = lock(&self.0);
        let mut known = tasks.iter();
        let found =
            known.find(|(_, task)| task.theirs == theirs && task.entry.id.server == *server && task.owner.is(who));
        found.map(|(ours, _)| ours.clone())
    }

    /// The tool whose call became a task that a server names, if it is this owner's.
    pub(crate) fn tool_of(&self, theirs: &[u8], who: &Principal, server: &ServerId) -> Option<Arc<ToolEntry>> {
        let ours = self.ours(theirs, who, server)?;
        let tasks = lock(&self.0);
        tasks.get(&ours).map(|task| task.entry.clone())
    }

    /// The task of a client's request by our id, for its owner; on a server's route only that server's.
    pub(crate) fn find(&self, id: &str, who: &Principal, server: Option<&ServerId>) -> Option<FoundTask> {
        let tasks = lock(&self.0);
        let task = tasks.get(id)?;
        let here = server.is_none_or(|only| task.entry.id.server == *only);
        (here && task.owner.is(who) && task.expires > Instant::now()).then(|| FoundTask {
            entry: task.entry.clone(),
            theirs: task.theirs.clone(),
        })
    }
}
