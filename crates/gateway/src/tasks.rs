//! Tasks of modern servers: a call that goes on after its answer. The client gets an id of ours,
//! good for its own principal alone, and every answer about the task crosses the chokepoint.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ledger::Status;
use mcp::mrtr::InputRequired;
use mcp::splice::Splice;
use mcp::{Request, compose};
use policy::{Target, ToolEntry};
use screening::result::ScreenedResult;
use vocabulary::{ReasonCode, ServerId, random_hex};

use crate::asked::Ended;
use crate::carry::Journey;
use crate::case::Case;
use crate::dialogue::unusable;
use crate::errand::TaskOf;
use crate::introduce::TASKS;
use crate::reply::Prepared;
use crate::session::Owner;

/// Tasks that were begun through us.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<String, Task>>);

struct Task {
    owner: Owner,
    entry: Arc<ToolEntry>,
    /// The server's own id, as the literal it sent.
    theirs: Vec<u8>,
    expires: Instant,
}

const MOST_TASKS: usize = 100_000;
const SHORTEST_LIFE: Duration = Duration::from_secs(60 * 60);
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

impl Tasks {
    fn begin(&self, task: Task) -> Option<String> {
        let id = random_hex(32).ok()?;
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() >= MOST_TASKS {
            let now = Instant::now();
            tasks.retain(|_, task| task.expires > now);
        }
        (tasks.len() < MOST_TASKS).then(|| tasks.insert(id.clone(), task))?;
        Some(id)
    }

    fn find(&self, id: &str, who: &vocabulary::Principal, server: Option<&ServerId>) -> Option<TaskOf> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let task = tasks.get(id)?;
        let here = server.is_none_or(|only| task.entry.id.server == *only);
        (here && task.owner.is(who) && task.expires > Instant::now()).then(|| (task.entry.clone(), task.theirs.clone()))
    }
}

impl Case<'_> {
    /// The task a request is about, of this principal.
    pub(crate) fn recognise_task(&self, request: &Request) -> Result<TaskOf, Box<Ended>> {
        let declared = self.asked.client.abilities();
        if !declared.is_some_and(|abilities| abilities.declared().has_tasks_extension()) {
            let required = format!("{{\"extensions\":{{\"{TASKS}\":{{}}}}}}");
            let reply = self.lacks_capability(&required);
            return Err(Box::new(self.asked.refused(ReasonCode::DenyMalformed, reply)));
        }
        let id = request.params().text("taskId");
        let found = id.and_then(|id| self.gateway.tasks.find(&id, &self.asked.who, self.asked.route.server()));
        found.ok_or_else(|| self.malformed(-32602, "there is no such task"))
    }

    /// A call becomes a task: under an id of ours.
    pub(crate) fn adapt_task(
        &self,
        journey: &Journey,
        result: ScreenedResult,
    ) -> (Status, Prepared, Option<ReasonCode>) {
        let declared = self.asked.client.abilities();
        let takes_tasks = declared.is_some_and(|abilities| abilities.declared().has_tasks_extension());
        let (Target::Tool(entry), true) = (&journey.target, takes_tasks) else {
            return self.kept_back(&unusable());
        };
        let adapted = self.renamed_task(entry, result.bytes());
        match adapted {
            Some(adapted) => {
                let reply = Prepared::adapted_result(self.id.clone(), result, adapted);
                (Status::Success, reply, None)
            }
            None => self.kept_back(&unusable()),
        }
    }

    /// What a server says of a task: under the id the client knows, and with questions only that the
    /// client may be asked.
    pub(crate) async fn adapt_task_state(
        &self,
        journey: &Journey,
        result: ScreenedResult,
    ) -> (Status, Prepared, Option<ReasonCode>) {
        let Ok(mut splice) = Splice::new(result.bytes()) else {
            return self.kept_back(&unusable());
        };
        if splice.raw("inputRequests").is_some() {
            let allowed = match InputRequired::read(result.bytes()) {
                Ok(wanted) => self.allow_inputs(journey, &result, &wanted).await,
                Err(_) => Err(unusable()),
            };
            if let Err(withheld) = allowed {
                return self.kept_back(&withheld);
            }
        }
        splice.insert_if_absent("resultType", b"\"complete\"".as_slice());
        if splice.raw("taskId").is_some() {
            splice.replace_or_insert("taskId", compose::literal(&journey.task));
        }
        let adapted = splice.finish();
        let reply = Prepared::adapted_result(self.id.clone(), result, adapted);
        (Status::Success, reply, None)
    }

    fn renamed_task(&self, entry: &Arc<ToolEntry>, result: &Bytes) -> Option<Bytes> {
        let mut splice = Splice::new(result).ok()?;
        let theirs = splice.raw("taskId").filter(|raw| raw.first() == Some(&b'"'))?;
        let ttl = splice
            .raw("ttlMs")
            .and_then(|raw| std::str::from_utf8(raw).ok()?.parse().ok());
        let life = ttl.map_or(LONGEST_LIFE, Duration::from_millis);
        let task = Task {
            owner: Owner::of(&self.asked.who),
            entry: entry.clone(),
            theirs: theirs.to_vec(),
            expires: Instant::now() + life.max(SHORTEST_LIFE),
        };
        let ours = self.gateway.tasks.begin(task)?;
        splice.replace_or_insert("taskId", compose::literal(&ours));
        Some(splice.finish())
    }
}
