//! The beginning of the stages, alike in both eras: what a request waits for, and whose tool it calls.

use mcp::{Method, Request};
use vocabulary::ServerId;

use crate::call::tool;
use crate::context::incoming::IncomingRequest;
use crate::context::{Ended, RequestContext};
use crate::gateway::Gateway;
use crate::list::discovery::discovered;
use crate::snapshot::{Snapshot, Wanted};
use crate::stages::Stages;
use crate::truncated;
use crate::truncated::definition::{NAME, is_offered};

/// The stages of a request, once the servers were discovered that it may be about.
pub(crate) async fn stages_of<'a>(
    gateway: &'a Gateway,
    incoming: &IncomingRequest,
    context: &'a RequestContext,
    request: &Request,
) -> Stages<'a> {
    let server = incoming.route.server();
    let named = named_server(incoming, request);
    let wanted = match request.method() {
        Method::ToolsCall if is_our_own(&incoming.snapshot, request) => None,
        Method::ToolsCall => Some(Wanted::Tool(named.as_ref())),
        Method::Initialize
        | Method::Discover
        | Method::ToolsList
        | Method::ResourcesList
        | Method::TemplatesList
        | Method::ResourcesRead
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::PromptsList
        | Method::PromptsGet
        | Method::Complete
        | Method::TasksGet
        | Method::TasksUpdate
        | Method::TasksCancel
        | Method::TasksResult
        | Method::TasksList => Some(Wanted::List(server)),
        Method::Other(name) if is_extension(&incoming.snapshot, server, name) => Some(Wanted::List(server)),
        // Answered here, whatever servers there are.
        Method::Ping | Method::SetLevel | Method::Listen | Method::Other(_) => None,
    };
    let snapshot = match &wanted {
        Some(wanted) => discovered(gateway, &incoming.snapshot, &context.listener(), wanted).await,
        None => incoming.snapshot.clone(),
    };
    Stages::new(gateway, context, snapshot, request)
}

/// The server of the tool that a request names.
fn named_server(incoming: &IncomingRequest, request: &Request) -> Option<ServerId> {
    let name = request.params().text("name")?;
    Some(incoming.route.tool_named(&name)?.0)
}

/// Whether a call is of the gateway's own tool.
fn is_our_own(snapshot: &Snapshot, request: &Request) -> bool {
    request.params().text("name").as_deref() == Some(NAME) && is_offered(snapshot)
}

/// A tool of a server, or the gateway's own.
pub(crate) async fn call_tool(stages: &Stages<'_>, request: &Request) -> Ended {
    if is_our_own(&stages.snapshot, request) {
        Box::pin(truncated::tool::call(stages, request)).await
    } else {
        tool::call(stages, request).await
    }
}

/// Whether the operator named this method for the server of the route.
pub(crate) fn is_extension(snapshot: &Snapshot, server: Option<&ServerId>, name: &str) -> bool {
    server.is_some_and(|server| snapshot.extension_methods(server).any(|known| known == name))
}
