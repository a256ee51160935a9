//! What exists, with risk, trust and standing; and the operator's approval of what changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use policy::{QuarantineCause, Standing, ToolEntry};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use vocabulary::{Capability, Digest, Era, ServerId, ToolName};

use super::call::Call;
use crate::answer::{Answer, Refusal};
use crate::ports::{Approval, ServerHealth, ServerView};

pub(super) async fn tools(call: Call) -> Result<Answer, Refusal> {
    let standing = call.query("standing");
    if standing.is_some_and(|word| !matches!(word, "approved" | "quarantined")) {
        return Err(Refusal::bad_request("`standing` is `approved` or `quarantined`"));
    }
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    let wanted = |tool: &&Arc<ToolEntry>| {
        call.query("server")
            .is_none_or(|server| tool.id.server.as_str() == server)
            && standing.is_none_or(|word| standing_word(&tool.standing) == word)
    };
    let shown: Vec<Value> = snapshot
        .inventory()
        .tools()
        .iter()
        .filter(wanted)
        .map(|tool| view(tool))
        .collect();
    Ok(Answer::json(&json!({ "tools": shown })))
}

pub(super) async fn tool(call: Call) -> Result<Answer, Refusal> {
    show(&call).await
}

async fn show(call: &Call) -> Result<Answer, Refusal> {
    let (server, name) = named(call)?;
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    let definitions = snapshot.inventory().tool(&server, name.as_str());
    let tool = definitions.last().ok_or_else(no_tool)?;
    Ok(Answer::json(&in_full(tool, definitions)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalBody {
    definition_hash: Option<String>,
}

pub(super) async fn approve(call: Call) -> Result<Answer, Refusal> {
    let (server, name) = named(&call)?;
    let body: ApprovalBody = call.body()?;
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    let definitions = snapshot.inventory().tool(&server, name.as_str());
    let tool = definitions.last().ok_or_else(no_tool)?;
    let wanted: BTreeSet<Digest> = match body.definition_hash {
        None => definitions.iter().map(|entry| entry.definition_hash).collect(),
        Some(text) => {
            let malformed = || Refusal::bad_request("`definition_hash` is not `sha256:` and 64 hex digits");
            BTreeSet::from([Digest::parse(&text).ok_or_else(malformed)?])
        }
    };
    for seen in wanted {
        approve_one(&call, (&server, &name), &tool.id.to_string(), seen).await?;
    }
    show(&call).await
}

async fn approve_one(call: &Call, tool: (&ServerId, &ToolName), id: &str, seen: Digest) -> Result<(), Refusal> {
    call.record(Some(id), &format!("the definition {seen} is approved"))
        .await?;
    let (operator, server, name) = (call.operator.clone(), tool.0.clone(), tool.1.clone());
    let approved = call
        .ask(move |plane| plane.ports().inventory.approve(&server, &name, seen, &operator))
        .await?;
    match approved {
        Approval::Approved => Ok(()),
        Approval::Changed { now } => Err(Refusal::conflict(format!(
            "the definition has changed; it is {now} now"
        ))),
        Approval::NotOffered => Err(no_tool()),
        Approval::Unusable(why) => Err(Refusal::conflict(format!("the definition cannot be used: {why}"))),
    }
}

pub(super) async fn servers(call: Call) -> Result<Answer, Refusal> {
    let servers = call.ask(|plane| plane.ports().gateway.servers()).await?;
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    let shown: Vec<Value> = servers
        .iter()
        .map(|server| server_view(server, snapshot.inventory()))
        .collect();
    Ok(Answer::json(&json!({ "servers": shown })))
}

pub(super) async fn refresh(call: Call) -> Result<Answer, Refusal> {
    let no_server = || Refusal::not_found("no such server is configured");
    let id = ServerId::parse(call.part("server")).map_err(|_| no_server())?;
    let servers = call.ask(|plane| plane.ports().gateway.servers()).await?;
    let known = servers
        .into_iter()
        .find(|server| server.id == id)
        .ok_or_else(no_server)?;
    call.record(Some(id.as_str()), "its tools are discovered again").await?;
    let reach = call.plane.ports().gateway.refresh(&id).await?.ok_or_else(no_server)?;
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    Ok(Answer::json(&server_view(
        &ServerView { reach, ..known },
        snapshot.inventory(),
    )))
}

fn named(call: &Call) -> Result<(ServerId, ToolName), Refusal> {
    let server = ServerId::parse(call.part("server")).map_err(|_| no_tool())?;
    let tool = ToolName::parse(call.part("tool")).map_err(|_| no_tool())?;
    Ok((server, tool))
}

fn no_tool() -> Refusal {
    Refusal::not_found("there is no such tool")
}

fn standing_word(standing: &Standing) -> &'static str {
    match standing {
        Standing::Approved => "approved",
        Standing::Quarantined(_) => "quarantined",
    }
}

fn view(tool: &ToolEntry) -> Value {
    let cause = match &tool.standing {
        Standing::Approved => Value::Null,
        Standing::Quarantined(QuarantineCause::FirstSight) => "first_sight".into(),
        Standing::Quarantined(QuarantineCause::NewTool) => "new_tool".into(),
        Standing::Quarantined(QuarantineCause::Doubtful) => "doubtful".into(),
        Standing::Quarantined(QuarantineCause::Changed { .. }) => "changed".into(),
        Standing::Quarantined(QuarantineCause::BadDefinition(fault)) => fault.to_string().into(),
    };
    let approved = match &tool.standing {
        Standing::Approved => Some(tool.definition_hash),
        Standing::Quarantined(QuarantineCause::Changed { approved }) => Some(*approved),
        Standing::Quarantined(
            QuarantineCause::FirstSight
            | QuarantineCause::NewTool
            | QuarantineCause::Doubtful
            | QuarantineCause::BadDefinition(_),
        ) => None,
    };
    json!({
        "id": tool.id.to_string(),
        "server": tool.id.server.as_str(),
        "name": tool.id.name.as_str(),
        "risk": tool.risk.as_str(),
        "risk_source": tool.risk_source.as_str(),
        "trust": tool.trust.as_str(),
        "standing": standing_word(&tool.standing),
        "cause": cause,
        "input_schema": tool.input.as_str(),
        "output_schema": tool.output.as_str(),
        "shown_to": {
            "era": tool.audience.era.map(Era::as_str),
            "needs": tool.audience.needs.iter().map(Capability::as_str).collect::<Vec<_>>(),
        },
        "definition_hash": tool.definition_hash.to_string(),
        "approved_hash": approved.map(|digest| digest.to_string()),
        "hints": {
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        },
    })
}

/// A tool with the server's own definition, and with the others it has for other clients.
fn in_full(tool: &ToolEntry, definitions: &[Arc<ToolEntry>]) -> Value {
    let mut shown = with_definition(tool);
    let others: Vec<Value> = definitions
        .iter()
        .filter(|other| !std::ptr::eq(Arc::as_ptr(other), tool))
        .map(|other| with_definition(other))
        .collect();
    if let Some(members) = shown.as_object_mut()
        && !others.is_empty()
    {
        members.insert("other_definitions".to_owned(), others.into());
    }
    shown
}

/// A tool with the server's own definition; `null` where that is no JSON.
fn with_definition(tool: &ToolEntry) -> Value {
    let raw: Option<&RawValue> = serde_json::from_slice(&tool.definition).ok();
    let definition = raw
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or(Value::Null);
    let mut shown = view(tool);
    if let Some(members) = shown.as_object_mut() {
        members.insert("definition".to_owned(), definition);
    }
    shown
}

fn server_view(server: &ServerView, inventory: &policy::Inventory) -> Value {
    let entry = inventory.server(&server.id);
    // A tool that has several definitions is one tool.
    let definitions = inventory.tools().iter().filter(|tool| tool.id.server == server.id);
    let tools: BTreeSet<_> = definitions.clone().map(|tool| &tool.id.name).collect();
    let waits = |tool: &&Arc<ToolEntry>| matches!(tool.standing, Standing::Quarantined(_));
    let quarantined: BTreeSet<_> = definitions.filter(waits).map(|tool| &tool.id.name).collect();
    let (reach, trouble) = match &server.reach {
        ServerHealth::Unknown => ("unknown", None),
        ServerHealth::Up => ("up", None),
        ServerHealth::Degraded(trouble) => ("degraded", Some(trouble)),
        ServerHealth::Down(trouble) => ("down", Some(trouble)),
    };
    json!({
        "id": server.id.as_str(),
        "url": server.url,
        "trust": entry.map(|entry| entry.trust.as_str()),
        "reach": reach,
        "reason": trouble.map(|trouble| &trouble.reason),
        "ending": trouble.and_then(|trouble| trouble.ending.as_ref()),
        "stderr": trouble.map(|trouble| &trouble.stderr),
        "log": trouble.and_then(|trouble| trouble.log.as_ref()),
        "hints": trouble.map(|trouble| &trouble.hints),
        "discovered": entry.and_then(|entry| entry.discovered).map(|time| time.to_string()),
        "tools": tools.len(),
        "quarantined": quarantined.len(),
    })
}
