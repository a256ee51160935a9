//! Tasks: a call that goes on after its answer. The client gets an id of ours, good for its own
//! principal alone, and every answer about the task crosses the chokepoint. Modern servers decide by
//! themselves that a call becomes one; servers with sessions are asked to. Across eras clients see
//! none: there the call itself sees its task through.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ledger::{Era, Status};
use mcp::mrtr::InputRequired;
use mcp::splice::Splice;
use mcp::task::RELATED_TASK;
use mcp::{Request, compose};
use policy::{Target, ToolEntry};
use screening::result::ScreenedResult;
use vocabulary::{Principal, ReasonCode, ServerId, random_hex};

use crate::call::forward::Forwarded;
use crate::call::method::TaskOf;
use crate::call::rounds::unusable;
use crate::context::Ended;
use crate::era::initialize::TASKS;
use crate::outcome::Case;
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

    /// Our id of a server's task, for its owner.
    fn ours(&self, theirs: &[u8], who: &Principal, server: &ServerId) -> Option<String> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = tasks.iter();
        let found =
            known.find(|(_, task)| task.theirs == theirs && task.entry.id.server == *server && task.owner.is(who));
        found.map(|(ours, _)| ours.clone())
    }

    /// The tool whose call became a task that a server names, if it is this owner's.
    pub(crate) fn tool_of(&self, theirs: &[u8], who: &Principal, server: &ServerId) -> Option<Arc<ToolEntry>> {
        let ours = self.ours(theirs, who, server)?;
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.get(&ours).map(|task| task.entry.clone())
    }

    /// An object that names a server's task, under our id; `None` for a task that is not this owner's.
    pub(crate) fn renamed(&self, object: &Bytes, who: &Principal, server: &ServerId) -> Option<Bytes> {
        let mut splice = Splice::new(object).ok()?;
        if splice.raw("inputRequests").is_some() {
            // Questions are put when the client asks for the task, where each is decided.
            splice.remove("inputRequests");
        }
        let ours = self.ours(splice.raw("taskId")?, who, server)?;
        splice.replace_or_insert("taskId", compose::literal(&ours));
        Some(splice.finish())
    }

    fn find(&self, id: &str, who: &Principal, server: Option<&ServerId>) -> Option<TaskOf> {
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
        let takes_tasks = declared.is_some_and(|abilities| abilities.declared().has_tasks_extension());
        if self.asked.client.era() == Era::Modern && !takes_tasks {
            let required = format!("{{\"extensions\":{{\"{TASKS}\":{{}}}}}}");
            let reply = self.lacks_capability(&required);
            return Err(Box::new(self.asked.refused(ReasonCode::DenyMalformed, reply)));
        }
        let id = request.params().text("taskId");
        let found = id.and_then(|id| self.gateway.tasks.find(&id, &self.asked.who, self.asked.route.server()));
        found.ok_or_else(|| self.malformed(mcp::ErrorCode::InvalidParams, "there is no such task"))
    }

    /// A call becomes a task: under an id of ours.
    pub(crate) fn adapt_task(
        &self,
        forwarded: &Forwarded,
        result: ScreenedResult,
    ) -> (Status, Prepared, Option<ReasonCode>) {
        let declared = self.asked.client.abilities();
        let takes_tasks = declared.is_some_and(|abilities| abilities.declared().has_tasks_extension());
        let (Target::Tool(entry), true) = (&forwarded.target, takes_tasks) else {
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
        forwarded: &Forwarded,
        result: ScreenedResult,
    ) -> (Status, Prepared, Option<ReasonCode>) {
        let Ok(mut splice) = Splice::new(result.bytes()) else {
            return self.kept_back(&unusable());
        };
        if splice.raw("inputRequests").is_some() {
            let allowed = match InputRequired::read(result.bytes()) {
                Ok(wanted) => self.allow_inputs(forwarded, &result, &wanted).await,
                Err(_) => Err(unusable()),
            };
            if let Err(withheld) = allowed {
                return self.kept_back(&withheld);
            }
        }
        splice.insert_if_absent("resultType", b"\"complete\"".as_slice());
        if splice.raw("taskId").is_some() {
            splice.replace_or_insert("taskId", compose::literal(&forwarded.task));
        }
        let adapted = splice.finish();
        let reply = Prepared::adapted_result(self.id.clone(), result, adapted);
        (Status::Success, reply, None)
    }

    /// A server with sessions made a task of a call, or tells of one: under our id.
    pub(crate) fn adapt_session_task(
        &self,
        request: &Request,
        forwarded: &Forwarded,
        result: ScreenedResult,
    ) -> (Status, Prepared, Option<ReasonCode>) {
        let status = if result.is_error() {
            Status::Error
        } else {
            Status::Success
        };
        let adapted = match request.method().as_str() {
            "tools/call" => self.renamed_creation(forwarded, result.bytes()),
            "tasks/result" => related(result.bytes(), &forwarded.task),
            _ => named(result.bytes(), &forwarded.task),
        };
        match adapted {
            Some(adapted) => (status, Prepared::adapted_result(self.id.clone(), result, adapted), None),
            None => self.kept_back(&unusable()),
        }
    }

    /// `task` of the answer to a call that was to become one; a server may have answered at once.
    fn renamed_creation(&self, forwarded: &Forwarded, result: &Bytes) -> Option<Bytes> {
        let mut splice = Splice::new(result).ok()?;
        let Some(task) = splice.member("task").map(|span| result.slice(span)) else {
            return Some(result.clone());
        };
        let Target::Tool(entry) = &forwarded.target else {
            return None;
        };
        splice.replace_or_insert("task", self.renamed_task(entry, &task)?.to_vec());
        Some(splice.finish())
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
            expires: Instant::now() + life.clamp(SHORTEST_LIFE, LONGEST_LIFE),
        };
        let ours = self.gateway.tasks.begin(task)?;
        splice.replace_or_insert("taskId", compose::literal(&ours));
        Some(splice.finish())
    }
}

/// The state of a task, under the id the client knows.
fn named(result: &Bytes, ours: &str) -> Option<Bytes> {
    let mut splice = Splice::new(result).ok()?;
    if splice.raw("taskId").is_some() {
        splice.replace_or_insert("taskId", compose::literal(ours));
    }
    Some(splice.finish())
}

/// The result of a task, which says in `_meta` which task it is of.
fn related(result: &Bytes, ours: &str) -> Option<Bytes> {
    let mut splice = Splice::new(result).ok()?;
    if splice.meta_raw(RELATED_TASK).is_some() {
        let mut task = Vec::new();
        compose::object([("taskId", compose::literal(ours).as_slice())].into_iter(), &mut task);
        splice.meta_replace_or_insert(RELATED_TASK, task);
    }
    Some(splice.finish())
}
