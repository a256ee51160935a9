//! What came back: it crosses the chokepoint, then gets the form that the client's era wants, or stays here.

use ledger::Status;
use mcp::mrtr::{self, ResultType};
use mcp::translate::ResultKind;
use mcp::{Era, ErrorCode, Method};
use policy::Target;
use screening::result::walk::Message;
use screening::result::{Origin, Raw, Received, Said, ScreenedResult, Withheld};
use upstream::{Dispatched, Failure};
use vocabulary::json::scanned::Named;

use crate::call::forwarded::{Forwarded, adapted, status_of, unusable};
use crate::call::rounds::question::allow_all;
use crate::call::rounds::state::seal_servers;
use crate::call::task;
use crate::context::Ended;
use crate::message::Adapted;
use crate::outcome::CallOutcome;
use crate::reply::Prepared;
use crate::screen::inputs::{ScreenedWithState, screen_forms, set_state_aside};
use crate::screen::{beside_a_call, of_tool, screen, screen_and_keep};
use crate::stages::Stages;

/// The end of a request that was sent.
pub(crate) async fn arrive(
    stages: &Stages<'_>,
    forwarded: Forwarded,
    dispatched: Result<Dispatched, Failure>,
) -> Ended {
    let outcome = match dispatched {
        Err(failure) => return forwarded.fail(stages, &failure),
        Ok(Dispatched::Result(raw)) => match screened(stages, &forwarded, raw).await {
            Ok(screened) => adapt(stages, &forwarded, screened).await,
            Err(withheld) => stages.withheld(&withheld),
        },
        // A task asks where it can be answered; here it cannot.
        Ok(Dispatched::TaskAsks(_)) => stages.withheld(&unusable()),
        Ok(Dispatched::Error(raw)) => {
            let code = raw.code();
            let origin = origin(stages, &forwarded, Message::Error);
            match screen(stages.gateway, raw, &origin, stages.context).await {
                Ok(error) => CallOutcome::answered(Status::Error, adapt_error(stages, &forwarded, error, code)),
                Err(withheld) => stages.withheld(&withheld),
            }
        }
    };
    forwarded.end(stages, outcome)
}

/// A result crosses the chokepoint.
pub(crate) async fn screened<R: Received>(
    stages: &Stages<'_>,
    forwarded: &Forwarded,
    raw: R,
) -> Result<ScreenedWithState, Withheld> {
    let (gateway, context) = (stages.gateway, stages.context);
    let raw = raw.into_raw();
    let origin = origin(stages, forwarded, message_kind(forwarded, &raw));
    let (raw, state) = match forwarded.era {
        Era::Modern => {
            screen_forms(gateway, forwarded.server.id(), &raw, context).await?;
            set_state_aside(gateway, raw)
        }
        Era::Legacy => (raw, None),
    };
    let screened = match &forwarded.target {
        Target::Tool(entry) => screen_and_keep(gateway, raw, &origin, entry, context).await,
        Target::Resource { .. } | Target::Prompt { .. } | Target::Server(_) => {
            screen(gateway, raw, &origin, context).await
        }
    };
    screened.map(|result| ScreenedWithState::new(result, state))
}

/// What kind of message the answer to a method is.
fn message_kind(forwarded: &Forwarded, raw: &Raw) -> Message {
    match forwarded.method {
        // That a task begins is no output yet, so none is missing.
        Method::ToolsCall if forwarded.task.is_of_session() && begins_task(raw) => Message::Other,
        Method::ToolsCall | Method::TasksResult => Message::ToolResult,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => Message::TaskState,
        Method::ResourcesRead => Message::ResourceRead,
        Method::PromptsGet => Message::PromptGet,
        Method::Initialize
        | Method::Discover
        | Method::Ping
        | Method::ToolsList
        | Method::ResourcesList
        | Method::TemplatesList
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::PromptsList
        | Method::Complete
        | Method::SetLevel
        | Method::Listen
        | Method::TasksList
        | Method::Other(_) => Message::Other,
    }
}

/// Whether a server with sessions says that a call becomes a task, and nothing else.
fn begins_task(raw: &Raw) -> bool {
    match raw {
        Raw::Scanned(scanned) => {
            let member = |name: &str| scanned.member(name);
            matches!(member("task"), Named::Once([b'{', ..]))
                && matches!(
                    (member("content"), member("structuredContent")),
                    (Named::Never, Named::Never)
                )
        }
        Raw::Unread(_) => false,
    }
}

fn origin<'a>(stages: &'a Stages<'_>, forwarded: &'a Forwarded, message: Message) -> Origin<'a> {
    let server = forwarded.server.id();
    match &forwarded.target {
        Target::Tool(entry) => of_tool(&stages.snapshot, entry, message),
        Target::Resource { uri, .. } => beside_a_call(server, Some(uri), message),
        Target::Prompt { name, .. } => beside_a_call(server, Some(name), message),
        Target::Server(_) => beside_a_call(server, None, message),
    }
}

/// A result that crossed the chokepoint, in the form the client's era wants.
pub(crate) async fn adapt(stages: &Stages<'_>, forwarded: &Forwarded, screened: ScreenedWithState) -> CallOutcome {
    let result = &screened.result;
    let (id, status) = (stages.id.clone(), status_of(result));
    let passed = |result| CallOutcome::answered(status, Prepared::result(id.clone(), result));
    match (stages.context.client.era(), forwarded.era) {
        (Era::Legacy, Era::Legacy) => passed(screened.result),
        (Era::Legacy, Era::Modern) => match result_type(result) {
            ResultType::Complete => passed(screened.result),
            ResultType::InputRequired | ResultType::Task | ResultType::Unknown => stages.withheld(&unusable()),
        },
        (Era::Modern, Era::Legacy) => adapted(stages, status, Adapted::for_modern(screened.result, forwarded.kind)),
        (Era::Modern, Era::Modern) => match result_type(result) {
            ResultType::Complete if is_about_task(&forwarded.method) => {
                Box::pin(task::adapt_state(stages, forwarded, screened.result)).await
            }
            // The common case goes on as it came.
            ResultType::Complete if forwarded.kind == ResultKind::Plain && result.result_type() == Said::Complete => {
                passed(screened.result)
            }
            ResultType::Complete => adapted(stages, status, Adapted::complete(screened.result, forwarded.kind)),
            ResultType::InputRequired => Box::pin(adapt_input_required(stages, forwarded, screened)).await,
            ResultType::Task => task::adapt_begun(stages, forwarded, screened.result),
            ResultType::Unknown => stages.withheld(&unusable()),
        },
    }
}

/// What a result is; where the chokepoint saw it already, nothing is read again.
pub(crate) fn result_type(result: &ScreenedResult) -> ResultType {
    match result.result_type() {
        Said::Nothing | Said::Complete => ResultType::Complete,
        Said::Otherwise => mrtr::result_type(result.bytes()),
    }
}

fn is_about_task(method: &Method) -> bool {
    matches!(
        method,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult | Method::TasksList
    )
}

/// The server needs something first: every question must be one this client can be asked.
async fn adapt_input_required(stages: &Stages<'_>, forwarded: &Forwarded, screened: ScreenedWithState) -> CallOutcome {
    let Ok(wanted) = screened.wanted() else {
        return stages.withheld(&unusable());
    };
    if let Err(withheld) = allow_all(stages, forwarded, &screened.result, &wanted).await {
        return stages.withheld(&withheld);
    }
    let sealed = match &wanted.request_state {
        None => None,
        Some(state) => match seal_servers(stages.gateway, &forwarded.binding, state) {
            Some(sealed) => Some(sealed),
            None => return stages.withheld(&unusable()),
        },
    };
    let result = Adapted::with_state(screened.result, sealed.as_deref());
    adapted(stages, Status::Success, result)
}

fn adapt_error(stages: &Stages<'_>, forwarded: &Forwarded, error: ScreenedResult, code: i64) -> Prepared {
    let id = stages.id.clone();
    match (stages.context.client.era(), forwarded.era) {
        (Era::Modern, era) => {
            let status = match ErrorCode::parse(code) {
                Some(ErrorCode::MethodNotFound) => http::StatusCode::NOT_FOUND,
                Some(ErrorCode::HeaderMismatch | ErrorCode::MissingCapability | ErrorCode::UnsupportedVersion) => {
                    http::StatusCode::BAD_REQUEST
                }
                _ => http::StatusCode::OK,
            };
            let reply = match era {
                Era::Legacy => Prepared::adapted_error(id, Adapted::error_for_modern(error)),
                Era::Modern => Prepared::server_error(id, error),
            };
            reply.with_status(status)
        }
        (Era::Legacy, Era::Modern) => Prepared::adapted_error(id, Adapted::error_for_legacy(error, &forwarded.method)),
        (Era::Legacy, Era::Legacy) => Prepared::server_error(id, error),
    }
}
