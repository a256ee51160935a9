//! The inventory as operators see it.

use std::collections::BTreeSet;
use std::sync::Arc;

use policy::{ItemKind, QuarantineCause, Said, Standing, ToolEntry};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use vocabulary::{Capability, Era};

use crate::ports::{ServerHealth, ServerView};

pub(super) fn standing_word(standing: &Standing) -> &'static str {
    match standing {
        Standing::Approved => "approved",
        Standing::Quarantined(_) => "quarantined",
        Standing::Disabled => "disabled",
    }
}

fn cause(standing: &Standing) -> Value {
    match standing {
        Standing::Approved | Standing::Disabled => Value::Null,
        Standing::Quarantined(QuarantineCause::FirstSight) => "first_sight".into(),
        Standing::Quarantined(QuarantineCause::NewTool) => "new_tool".into(),
        Standing::Quarantined(QuarantineCause::Doubtful) => "doubtful".into(),
        Standing::Quarantined(QuarantineCause::Changed { .. }) => "changed".into(),
        Standing::Quarantined(QuarantineCause::BadDefinition(fault)) => fault.to_string().into(),
        Standing::Quarantined(QuarantineCause::Shadowing(why)) => why.to_string().into(),
    }
}

fn said(said: &Said) -> Value {
    json!({ "by": said.by, "at": said.at.to_string() })
}

pub(super) fn tool(tool: &ToolEntry) -> Value {
    json!({
        "id": tool.id.to_string(),
        "kind": ItemKind::Tool.as_str(),
        "server": tool.id.server.as_str(),
        "name": tool.id.name.as_str(),
        "risk": tool.risk.as_str(),
        "risk_source": tool.risk_source.as_str(),
        "trust": tool.trust.as_str(),
        "standing": standing_word(&tool.standing),
        "cause": cause(&tool.standing),
        "input_schema": tool.input.as_str(),
        "output_schema": tool.output.as_str(),
        "shown_to": {
            "era": tool.audience.era.map(Era::as_str),
            "needs": tool.audience.needs.iter().map(Capability::as_str).collect::<Vec<_>>(),
        },
        "definition_hash": tool.definition_hash.to_string(),
        "approved_hash": tool.approved.map(|digest| digest.to_string()),
        "hints": {
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        },
        "classified": tool.word.risk.as_ref().map(|(_, word)| said(word)),
        "disabled": tool.word.disabled.as_ref().map(said),
    })
}

/// A tool with the server's own definition, and with the others it has for other clients.
pub(super) fn in_full(tool: &ToolEntry, definitions: &[Arc<ToolEntry>]) -> Value {
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
    let mut shown = self::tool(tool);
    if let Some(members) = shown.as_object_mut() {
        members.insert("definition".to_owned(), definition);
    }
    shown
}

pub(super) fn server_view(server: &ServerView, inventory: &policy::Inventory) -> Value {
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
