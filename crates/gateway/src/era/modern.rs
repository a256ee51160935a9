//! Requests of the modern era: each says all that is needed to answer it. What it says in headers
//! must be what it says in its body; decided is from the body alone.

use http::StatusCode;
use http::request::Parts;
use mcp::headers::{self, Marks, Named};
use mcp::method::recordable;
use mcp::translate::LogLevel;
use mcp::{Method, Request, Version, compose};
use vocabulary::ReasonCode;

use crate::context::client::{Abilities, Client, ModernClient};
use crate::context::{Ended, RequestContext};
use crate::era::initialize as introduce;
use crate::receive::Gateway;
use crate::reply::{ErrorData, Prepared};
use crate::snapshot::Wanted;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Whether a request is of the modern era: its `_meta` decides first, then the version header.
pub(crate) fn is_modern(head: &Parts, params: &mcp::Params) -> bool {
    params.meta(VERSION).is_some() || names_no_session_version(head)
}

/// A version header that names no version with sessions.
pub(crate) fn names_no_session_version(head: &Parts) -> bool {
    let mut versions = head.headers.get_all(mcp::http::PROTOCOL_VERSION).iter();
    let known = |version: &http::HeaderValue| {
        let version = version.to_str().ok().and_then(Version::parse);
        version.is_some_and(|version| version.era() == mcp::Era::Legacy)
    };
    let first = versions.next().map(known);
    first == Some(false) || versions.next().is_some()
}

impl Gateway {
    /// One modern request.
    pub(crate) async fn serve_modern(&self, mut asked: RequestContext, head: &Parts, request: &Request) -> Ended {
        let version = match self.check_modern(&mut asked, head, request) {
            Ok(version) => version,
            Err(ended) => return *ended,
        };
        if version != Version::MODERN.as_str() {
            return unsupported(&asked, request, &version);
        }
        match request.method() {
            Method::Discover => {
                self.await_first_discovery(&asked.who, &Wanted::List(asked.route.server()))
                    .await;
                let result = introduce::discover_result(&self.snapshot(), &asked.who, &asked.route);
                self.answered(&asked, request, result)
            }
            Method::ToolsList | Method::PromptsList | Method::ResourcesList | Method::TemplatesList => {
                self.list(&asked, request).await
            }
            Method::ToolsCall => self.call(&asked, request).await,
            Method::ResourcesRead
            | Method::PromptsGet
            | Method::Complete
            | Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksCancel => Box::pin(self.errand(&asked, request)).await,
            Method::Listen => Box::pin(self.listen(&asked, request)).await,
            Method::Other(name) if self.is_extension(&asked, name) => Box::pin(self.errand(&asked, request)).await,
            Method::Initialize
            | Method::Ping
            | Method::Subscribe
            | Method::Unsubscribe
            | Method::SetLevel
            | Method::TasksResult
            | Method::TasksList
            | Method::Other(_) => asked.no_such_method(request),
        }
    }

    /// What every modern request must say, in the order the specification wants it judged. The
    /// version it asks for.
    fn check_modern(&self, asked: &mut RequestContext, head: &Parts, request: &Request) -> Result<String, Box<Ended>> {
        let params = request.params();
        let bad = |asked: &RequestContext, code, message: &str| {
            let ended = asked.refused_with(request, code, message);
            Box::new(Ended {
                reply: ended.reply.with_status(StatusCode::BAD_REQUEST),
                ..ended
            })
        };
        let version = params.meta(VERSION).and_then(mcp::envelope::text_of);
        let capabilities = params.meta(CAPABILITIES).filter(|raw| raw.first() == Some(&b'{'));
        let level = params.meta(LOG_LEVEL).and_then(mcp::envelope::text_of);
        asked.client = Client::Modern(ModernClient {
            abilities: capabilities.map_or_else(Abilities::none, Abilities::read),
            log_level: level.as_deref().and_then(LogLevel::parse),
        });
        let (Some(version), Some(_)) = (version, capabilities) else {
            let message = "`_meta` must hold the protocol version and the client's capabilities";
            return Err(bad(asked, mcp::ErrorCode::InvalidParams, message));
        };
        if level.is_some() && asked.client.log_level().is_none() {
            return Err(bad(
                asked,
                mcp::ErrorCode::InvalidParams,
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
        let snapshot = self.snapshot();
        let tool = (*request.method() == Method::ToolsCall).then(|| self.tool_in_sight(&snapshot, asked, request));
        let marks = tool.flatten().map_or(&none, |tool| &tool.marks);
        if let Err(mismatch) = headers::check(&head.headers, &named, marks, params.raw("arguments")) {
            return Err(bad(asked, mcp::ErrorCode::HeaderMismatch, &mismatch.to_string()));
        }
        Ok(version.into_owned())
    }
}

/// What `Mcp-Name` must repeat.
fn mirrored_name(request: &Request) -> Option<String> {
    let member = match request.method().as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    Some(request.params().text(member).unwrap_or_default().into_owned())
}

fn unsupported(asked: &RequestContext, request: &Request, requested: &str) -> Ended {
    let code = ReasonCode::DenyMalformed;
    let note = ErrorData {
        beside: vec![
            ("supported", introduce::supported_versions()),
            ("requested", compose::literal(&recordable(requested))),
        ],
        ..ErrorData::denied(code)
    };
    let message = "this protocol version is not spoken here; use one of those in `data.supported`".to_owned();
    let reply = Prepared::refusal(
        Some(request.id().clone()),
        mcp::ErrorCode::UnsupportedVersion,
        message,
        note,
    );
    asked.refused(code, reply.with_status(StatusCode::BAD_REQUEST))
}
