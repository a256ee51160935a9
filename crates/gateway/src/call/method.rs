//! Every forwarded request that is not a tool call: resources, prompts, completion, tasks, and what
//! the operator lets through by name. The same stages as for a call.

use std::borrow::Cow;

use ledger::{MessageFacts, Verdict};
use mcp::headers::Marks;
use mcp::splice::Splice;
use mcp::translate::ResultKind;
use mcp::{ErrorCode, Method, Request};
use policy::{CallFacts, KnownTarget, NotKnown, Target};
use screening::arguments::{Beside, CheckedParams, check_params};
use screening::recorded::recordable;
use vocabulary::json::Value;
use vocabulary::{ReasonCode, ServerId};

use crate::call::forward::{Permitted, Sent, forward, passed_meta};
use crate::call::outgoing_secrets::look_for_secrets;
use crate::call::task;
use crate::context::Ended;
use crate::context::client::Client;
use crate::list::federated::Gathering;
use crate::message::error_data::ErrorData;
use crate::message::own::OwnValue;
use crate::offers::Offers;
use crate::outcome::by_preflight;
use crate::stages::{Decided, Stages};
use crate::state::incidents::Says;

/// What a request is about.
struct Recognised {
    target: Target,
    /// The server's own id of the task it is about, as the literal it sent.
    task_id: Option<Vec<u8>>,
}

/// Answers a request by asking its server.
pub(crate) async fn call(stages: &Stages<'_>, request: &Request) -> Ended {
    let context = stages.context;
    if !Offers::of(&stages.snapshot, &context.who, &context.route, context.client.era()).include(request.method()) {
        return context.no_such_method(request);
    }
    walk(stages, request).await.unwrap_or_else(|ended| *ended)
}

/// The stages, in order.
async fn walk(stages: &Stages<'_>, request: &Request) -> Result<Ended, Box<Ended>> {
    let recognised = recognise(stages, request).await?;
    let mut facts = stages.context.facts();
    let server = recognised.target.server();
    if stages.snapshot.server(server).is_some() {
        facts.server_id = Some(server.to_string());
    }
    facts.tool_name = Some(match &recognised.target {
        Target::Tool(entry) => entry.id.name.to_string(),
        target @ (Target::Resource { .. } | Target::Prompt { .. } | Target::Server(_)) => recordable(name_of(target)),
    });
    let checked = preflight(stages, request, &mut facts)?;
    look_for_secrets(stages, request, &checked, &facts).await?;
    let known = resolve(stages, request, recognised.target, &facts)?;
    let decided = decide(stages, known, &checked, &mut facts).await?;
    let permitted = Permitted {
        decided,
        facts,
        sent: Sent {
            checked: &checked,
            task_id: recognised.task_id,
            marks: &NO_MARKS,
            needs_task: false,
        },
        kind: ResultKind::of(request.method()),
    };
    forward(stages, request, permitted).await
}

/// What the request is about.
async fn recognise(stages: &Stages<'_>, request: &Request) -> Result<Recognised, Box<Ended>> {
    match request.method() {
        Method::ResourcesRead | Method::Subscribe | Method::Unsubscribe => {
            let uri = text(stages, request, "uri")?;
            let server = owner_of(stages, &uri).await?;
            let uri = uri.into();
            Ok(Target::Resource { server, uri }.into())
        }
        Method::PromptsGet => {
            let name = text(stages, request, "name")?;
            Ok(prompt_named(stages, &name)?.into())
        }
        Method::Complete => recognise_reference(stages, request).await,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult => {
            let found = task::recognise(stages, request)?;
            Ok(Recognised {
                target: Target::Tool(found.entry),
                task_id: Some(found.theirs),
            })
        }
        Method::Other(_) => match stages.context.route.server() {
            Some(server) => Ok(Target::Server(server.clone()).into()),
            None => Err(stages.malformed(ErrorCode::MethodNotFound, "this method is not offered here")),
        },
        // Not forwarded: answered here, or by the stages of a tool call.
        Method::ToolsCall
        | Method::Initialize
        | Method::Discover
        | Method::Ping
        | Method::ToolsList
        | Method::ResourcesList
        | Method::TemplatesList
        | Method::PromptsList
        | Method::SetLevel
        | Method::Listen
        | Method::TasksList => Err(stages.malformed(ErrorCode::MethodNotFound, "this method is not offered here")),
    }
}

impl From<Target> for Recognised {
    fn from(target: Target) -> Self {
        Self { target, task_id: None }
    }
}

fn text<'r>(stages: &Stages<'_>, request: &'r Request, member: &str) -> Result<Cow<'r, str>, Box<Ended>> {
    let text = request.params().text(member);
    text.ok_or_else(|| stages.malformed(ErrorCode::InvalidParams, &format!("`params.{member}` must be a string")))
}

fn prompt_named(stages: &Stages<'_>, name: &str) -> Result<Target, Box<Ended>> {
    let Some((server, prompt)) = stages.context.route.tool_named(name) else {
        return Err(not_found(stages, &stages.context.facts(), name, None));
    };
    Ok(Target::Prompt {
        server,
        name: prompt.into(),
    })
}

/// `ref` of a completion: a prompt by its name, or a resource by its template.
async fn recognise_reference(stages: &Stages<'_>, request: &Request) -> Result<Recognised, Box<Ended>> {
    let malformed = || {
        stages.malformed(
            ErrorCode::InvalidParams,
            "`params.ref` must name a prompt or a resource",
        )
    };
    let reference = request.params().raw("ref").ok_or_else(malformed)?;
    let part = |name: &str| mcp::server::text_member(reference, name);
    match (part("type").as_deref(), part("name"), part("uri")) {
        (Some("ref/prompt"), Some(name), _) => {
            // Its server gets it under the name it knows.
            let whole = bytes::Bytes::copy_from_slice(reference);
            Splice::new(&whole).map_err(|_| malformed())?;
            Ok(prompt_named(stages, &name)?.into())
        }
        (Some("ref/resource"), _, Some(uri)) => {
            let server = owner_of(stages, &uri).await?;
            let uri = uri.into();
            Ok(Target::Resource { server, uri }.into())
        }
        _ => Err(malformed()),
    }
}

/// The server a URI belongs to: the route's, or the one visible server that lists it.
async fn owner_of(stages: &Stages<'_>, uri: &str) -> Result<ServerId, Box<Ended>> {
    let context = stages.context;
    if let Some(server) = context.route.server() {
        return Ok(server.clone());
    }
    let gathering = Gathering {
        gateway: stages.gateway,
        context,
        snapshot: &stages.snapshot,
    };
    let owners = gathering.owners_of(&[uri.to_owned()]).await;
    match owners.first().map_or(&[][..], Vec::as_slice) {
        [only] => Ok(only.clone()),
        [] => Err(not_found(stages, &context.facts(), uri, None)),
        _ => Err(stages.malformed(
            ErrorCode::InvalidParams,
            "more than one server has this resource; ask at /mcp/{server}",
        )),
    }
}

/// Members of a dialogue are put in when they were judged; `tasks/update` is all about its responses.
fn preflight<'r>(
    stages: &Stages<'_>,
    request: &'r Request,
    facts: &mut MessageFacts,
) -> Result<CheckedParams<'r>, Box<Ended>> {
    let params = request.params();
    let keeps_responses = *request.method() == Method::TasksUpdate;
    let apart = |name: &str| matches!(name, "inputResponses" | "requestState");
    let sent = Beside {
        members: params
            .members()
            .filter(|(name, _)| keeps_responses || !apart(name))
            .collect(),
        meta: passed_meta(request),
    };
    match check_params(params.whole(), sent, &stages.snapshot.limits.arguments) {
        Ok(checked) => {
            facts.args_hash = Some(checked.digest());
            facts.args_canon = Some(checked.spelling());
            Ok(checked)
        }
        Err(refusal) => {
            let decision = stages.decision(Verdict::Deny, by_preflight(), refusal.code);
            let data = ErrorData::denied(ErrorCode::InvalidParams, refusal.message, refusal.code);
            Err(stages.refused_as(facts, decision, data))
        }
    }
}

/// What a principal may not know of is not there.
fn resolve(
    stages: &Stages<'_>,
    request: &Request,
    target: Target,
    facts: &MessageFacts,
) -> Result<KnownTarget, Box<Ended>> {
    let name = name_of(&target).to_owned();
    let policy = &stages.snapshot.policy;
    let known = policy.resolve_target(&stages.caller, request.method().as_str(), &target);
    known.map_err(|missing| not_found(stages, facts, &name, Some(missing)))
}

fn not_found(stages: &Stages<'_>, facts: &MessageFacts, name: &str, missing: Option<NotKnown>) -> Box<Ended> {
    let (policy_id, code) = missing.map_or_else(
        || ("builtin:default-deny".into(), ReasonCode::DenyToolNotFound),
        |missing| (missing.policy_id, missing.code),
    );
    let decision = stages.decision(Verdict::Deny, policy_id, code);
    let name = recordable(name);
    let reason = ReasonCode::DenyToolNotFound;
    let data = match stages.context.method {
        Method::PromptsGet => ErrorData::denied(ErrorCode::InvalidParams, format!("Unknown prompt: {name}"), reason),
        Method::ResourcesRead | Method::Subscribe | Method::Unsubscribe => {
            let modern = matches!(stages.context.client, Client::Modern(_));
            let number = if modern {
                ErrorCode::InvalidParams
            } else {
                ErrorCode::ResourceNotFound
            };
            ErrorData::denied(number, format!("Unknown resource: {name}"), reason)
                .beside("uri", OwnValue::Text(name.into()))
        }
        Method::Complete
        | Method::Initialize
        | Method::Discover
        | Method::Ping
        | Method::ToolsList
        | Method::ToolsCall
        | Method::ResourcesList
        | Method::TemplatesList
        | Method::PromptsList
        | Method::SetLevel
        | Method::Listen
        | Method::TasksGet
        | Method::TasksUpdate
        | Method::TasksCancel
        | Method::TasksResult
        | Method::TasksList
        | Method::Other(_) => ErrorData::denied(ErrorCode::InvalidParams, format!("Unknown reference: {name}"), reason),
    };
    stages.refused_as(facts, decision, data)
}

/// Counts the request, then asks the policies.
async fn decide(
    stages: &Stages<'_>,
    known: KnownTarget,
    checked: &CheckedParams<'_>,
    facts: &mut MessageFacts,
) -> Result<Decided, Box<Ended>> {
    // What needs a person is a call.
    if stages.incident_says(known.target(), known.target().risk()) == Says::Denied {
        return Err(stages.by_incident(facts));
    }
    let admitted = stages.admit(known.target().server(), None).await;
    let slot = admitted.map_err(|over| stages.over_limit(facts, &over))?;
    stages.keep_arguments(facts, checked.tree())?;
    let nothing = Value::Object(Vec::new());
    let arguments = match (&stages.context.method, checked.tree()) {
        (Method::PromptsGet, Value::Object(members)) => members
            .iter()
            .find(|(name, _)| name == "arguments")
            .map_or(&nothing, |(_, value)| value),
        (_, tree) => tree,
    };
    let call = CallFacts {
        arguments,
        args_hash: checked.digest(),
        found: None,
        address: stages.context.arrival.address,
    };
    let decision = stages.snapshot.policy.decide_target(&stages.caller, known, &call);
    stages.decided(decision, slot, facts)
}

static NO_MARKS: std::sync::LazyLock<Marks> = std::sync::LazyLock::new(Marks::default);

fn name_of(target: &Target) -> &str {
    match target {
        Target::Tool(entry) => entry.id.name.as_str(),
        Target::Resource { uri, .. } => uri,
        Target::Prompt { name, .. } => name,
        Target::Server(server) => server.as_str(),
    }
}
