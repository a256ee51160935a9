//! Requests of the modern era: each says all that is needed to answer it. What it says in headers
//! must be what it says in its body; decided is from the body alone.

use http::StatusCode;
use mcp::headers::{self, Marks, Named};
use mcp::translate::LogLevel;
use mcp::{ErrorCode, Method, Request, Version};
use screening::recorded::recordable;
use upstream::ListKind;
use vocabulary::ReasonCode;

use crate::call::method;
use crate::call::tool::tool_in_sight;
use crate::context::client::{Client, ModernClient};
use crate::context::incoming::IncomingRequest;
use crate::context::{Ended, RequestContext};
use crate::era::begin::{call_tool, is_extension, stages_of};
use crate::era::initialize::{discover_result, supported_versions};
use crate::era::version::VERSION;
use crate::gateway::Gateway;
use crate::list;
use crate::message::error_data::ErrorData;
use crate::message::own::OwnValue;
use crate::session::capabilities::ClientCapabilities;
use crate::stages::Stages;
use crate::stream::listen::listen;

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// One modern request.
pub(crate) async fn serve(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Ended {
    let mut context = incoming.with_message(request);
    let version = match check(incoming, &mut context, request) {
        Ok(version) => version,
        Err(ended) => return *ended,
    };
    if version != Version::MODERN.as_str() {
        return unsupported(&context, request, &version);
    }
    let stages = stages_of(gateway, incoming, &context, request).await;
    answer(&stages, request).await
}

/// What each method leads to.
async fn answer(stages: &Stages<'_>, request: &Request) -> Ended {
    match request.method() {
        Method::Discover => {
            let context = stages.context;
            stages.answered(discover_result(&stages.snapshot, &context.who, &context.route))
        }
        Method::ToolsList => list::answer(stages, request, ListKind::Tools).await,
        Method::PromptsList => list::answer(stages, request, ListKind::Prompts).await,
        Method::ResourcesList => list::answer(stages, request, ListKind::Resources).await,
        Method::TemplatesList => list::answer(stages, request, ListKind::Templates).await,
        Method::ToolsCall => call_tool(stages, request).await,
        Method::ResourcesRead
        | Method::PromptsGet
        | Method::Complete
        | Method::TasksGet
        | Method::TasksUpdate
        | Method::TasksCancel => Box::pin(method::call(stages, request)).await,
        Method::Listen => Box::pin(listen(stages, request)).await,
        Method::Other(name) if is_extension(&stages.snapshot, stages.context.route.server(), name) => {
            Box::pin(method::call(stages, request)).await
        }
        Method::Initialize
        | Method::Ping
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::SetLevel
        | Method::TasksResult
        | Method::TasksList
        | Method::Other(_) => stages.context.no_such_method(request),
    }
}

/// What every modern request must say, in the order the specification wants it judged. The
/// version it asks for.
fn check(incoming: &IncomingRequest, context: &mut RequestContext, request: &Request) -> Result<String, Box<Ended>> {
    let params = request.params();
    let bad = |context: &RequestContext, code, message: &str| {
        let ended = context.refused_with(request, code, message);
        Box::new(ended.with_status(StatusCode::BAD_REQUEST))
    };
    let version = params.meta(VERSION).and_then(mcp::envelope::text_of);
    let capabilities = params.meta(CAPABILITIES).filter(|raw| raw.first() == Some(&b'{'));
    let level = params.meta(LOG_LEVEL).and_then(mcp::envelope::text_of);
    context.client = Client::Modern(ModernClient {
        capabilities: capabilities.map_or_else(ClientCapabilities::none, ClientCapabilities::read),
        log_level: level.as_deref().and_then(LogLevel::parse),
    });
    let (Some(version), Some(_)) = (version, capabilities) else {
        let message = "`_meta` must hold the protocol version and the client's capabilities";
        return Err(bad(context, ErrorCode::InvalidParams, message));
    };
    if level.is_some() && context.client.log_level().is_none() {
        return Err(bad(
            context,
            ErrorCode::InvalidParams,
            "the log level is none that there is",
        ));
    }
    let name = mirrored_name(request);
    let named = Named {
        version: &version,
        method: request.method_name(),
        name: name.as_deref(),
    };
    let none = Marks::default();
    let tool = (*request.method() == Method::ToolsCall).then(|| tool_in_sight(&incoming.snapshot, context, request));
    let marks = tool.flatten().map_or(&none, |tool| &tool.marks);
    if let Err(mismatch) = headers::check(incoming.head.headers(), &named, marks, params.raw("arguments")) {
        return Err(bad(context, ErrorCode::HeaderMismatch, &mismatch.to_string()));
    }
    Ok(version.into_owned())
}

/// What `Mcp-Name` must repeat.
fn mirrored_name(request: &Request) -> Option<String> {
    let member = match request.method() {
        Method::ToolsCall | Method::PromptsGet => "name",
        Method::ResourcesRead => "uri",
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => "taskId",
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
        | Method::TasksResult
        | Method::TasksList
        | Method::Other(_) => return None,
    };
    Some(request.params().text(member).unwrap_or_default().into_owned())
}

fn unsupported(context: &RequestContext, request: &Request, requested: &str) -> Ended {
    let message = "this protocol version is not spoken here; use one of those in `data.supported`";
    let data = ErrorData::denied(ErrorCode::UnsupportedVersion, message, ReasonCode::DenyMalformed)
        .beside("supported", supported_versions())
        .beside("requested", OwnValue::Text(recordable(requested).into()));
    context.refused_as(request, data).with_status(StatusCode::BAD_REQUEST)
}
