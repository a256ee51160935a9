//! Tasks: a call that goes on after its answer. The client gets an id of ours, good for its own
//! principal alone, and every answer about the task crosses the chokepoint. Modern servers decide by
//! themselves that a call becomes one; servers with sessions are asked to. Across eras clients see
//! none: there the call itself sees its task through.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ledger::Status;
use mcp::mrtr::InputRequired;
use mcp::splice::Splice;
use mcp::{ErrorCode, Method, Request};
use policy::{Target, ToolEntry};
use screening::result::ScreenedResult;
use vocabulary::{Era, ReasonCode};

use crate::call::forwarded::{Forwarded, adapted, status_of, unusable};
use crate::call::rounds::question::allow_all;
use crate::context::Ended;
use crate::message::Adapted;
use crate::message::error_data::ErrorData;
use crate::message::own::OwnValue;
use crate::offers::TASKS;
use crate::outcome::CallOutcome;
use crate::reply::Prepared;
use crate::stages::Stages;
use crate::state::tasks::{FoundTask, Task};

/// The task a request is about, of this principal.
pub(crate) fn recognise(stages: &Stages<'_>, request: &Request) -> Result<FoundTask, Box<Ended>> {
    let context = stages.context;
    if context.client.era() == Era::Modern && !takes_tasks(stages) {
        return Err(lacks_capability(stages));
    }
    let id = request.params().text("taskId");
    let tasks = &stages.gateway.tasks;
    let found = id.and_then(|id| tasks.find(&id, &context.who, context.route.server()));
    found.ok_or_else(|| stages.malformed(ErrorCode::InvalidParams, "there is no such task"))
}

fn takes_tasks(stages: &Stages<'_>) -> bool {
    let capabilities = stages.context.client.capabilities();
    capabilities.is_some_and(|capabilities| capabilities.declared().has_tasks_extension())
}

/// Refused because of what the client did not declare.
fn lacks_capability(stages: &Stages<'_>) -> Box<Ended> {
    let reason = ReasonCode::DenyMalformed;
    let message = "the client did not declare a capability that this needs";
    let tasks = OwnValue::Object(vec![(TASKS, OwnValue::Object(Vec::new()))]);
    let required = OwnValue::Object(vec![("extensions", tasks)]);
    let data =
        ErrorData::denied(ErrorCode::MissingCapability, message, reason).beside("requiredCapabilities", required);
    let reply = Prepared::refusal(Some(stages.id.clone()), data).with_status(http::StatusCode::BAD_REQUEST);
    Box::new(stages.context.refused(reason, reply))
}

/// A call becomes a task: under an id of ours.
pub(crate) fn adapt_begun(stages: &Stages<'_>, forwarded: &Forwarded, result: ScreenedResult) -> CallOutcome {
    let (Target::Tool(entry), true) = (&forwarded.target, takes_tasks(stages)) else {
        return stages.withheld(&unusable());
    };
    let ours = begin(stages, entry, result.bytes());
    let result = ours.and_then(|ours| Adapted::naming_task(result, &ours));
    adapted(stages, Status::Success, result)
}

/// What a server says of a task: under the id the client knows, and with questions only that the
/// client may be asked.
pub(crate) async fn adapt_state(stages: &Stages<'_>, forwarded: &Forwarded, result: ScreenedResult) -> CallOutcome {
    if mcp::server::member_span(result.bytes(), "inputRequests").is_some() {
        let allowed = match InputRequired::read(result.bytes()) {
            Ok(wanted) => allow_all(stages, forwarded, &result, &wanted).await,
            Err(_) => Err(unusable()),
        };
        if let Err(withheld) = allowed {
            return stages.withheld(&withheld);
        }
    }
    let result = Adapted::task_state(result, forwarded.task.name());
    adapted(stages, Status::Success, result)
}

/// A server with sessions made a task of a call, or tells of one: under our id.
pub(crate) fn adapt_of_session(stages: &Stages<'_>, forwarded: &Forwarded, result: ScreenedResult) -> CallOutcome {
    let status = status_of(&result);
    let ours = forwarded.task.name();
    match forwarded.method {
        Method::ToolsCall => {
            // A server may have answered at once.
            let Some(span) = mcp::server::member_span(result.bytes(), "task") else {
                return CallOutcome::answered(status, Prepared::result(stages.id.clone(), result));
            };
            let begun = match &forwarded.target {
                Target::Tool(entry) => begin(stages, entry, &result.bytes().slice(span)),
                Target::Resource { .. } | Target::Prompt { .. } | Target::Server(_) => None,
            };
            let result = begun.and_then(|ours| Adapted::begun_task(result, &ours));
            adapted(stages, status, result)
        }
        Method::TasksResult => adapted(stages, status, Adapted::related_to_task(result, ours)),
        Method::TasksGet
        | Method::TasksUpdate
        | Method::TasksCancel
        | Method::TasksList
        | Method::Initialize
        | Method::Discover
        | Method::Ping
        | Method::ToolsList
        | Method::ResourcesList
        | Method::TemplatesList
        | Method::ResourcesRead
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::PromptsList
        | Method::PromptsGet
        | Method::Complete
        | Method::SetLevel
        | Method::Listen
        | Method::Other(_) => adapted(stages, status, Adapted::naming_task(result, ours)),
    }
}

/// Notes a task that a server began; its id of ours.
fn begin(stages: &Stages<'_>, entry: &Arc<ToolEntry>, task: &Bytes) -> Option<String> {
    let splice = Splice::new(task).ok()?;
    let theirs = splice.raw("taskId").filter(|raw| raw.first() == Some(&b'"'))?;
    let ttl = splice
        .raw("ttlMs")
        .and_then(|raw| std::str::from_utf8(raw).ok()?.parse().ok())
        .map(Duration::from_millis);
    let task = Task::new(&stages.context.who, entry.clone(), theirs.to_vec(), ttl);
    stages.gateway.tasks.begin(task)
}
