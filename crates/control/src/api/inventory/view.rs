//! The inventory as operators see it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy::{ItemEntry, ItemKind, OutputState, QuarantineCause, Said, Standing, ToolEntry};
use serde_json::{Value, json};
use vocabulary::{Capability, Digest, Era, Risk, RiskSource};

use super::diff;
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
        Standing::Quarantined(QuarantineCause::IdentityChanged(_)) => "identity_changed".into(),
        Standing::Quarantined(QuarantineCause::BadDefinition(fault)) => fault.to_string().into(),
        Standing::Quarantined(QuarantineCause::Shadowing(why)) => why.to_string().into(),
    }
}

/// Whom it was approved of and who offers it, where that is not the same server; null where it is.
pub(super) fn replaced(standing: &Standing) -> Value {
    match standing {
        Standing::Quarantined(QuarantineCause::IdentityChanged(replaced)) => {
            json!({ "approved": replaced.approved.to_string(), "now": replaced.now.to_string() })
        }
        Standing::Approved | Standing::Disabled | Standing::Quarantined(_) => Value::Null,
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
        "server_identity": replaced(&tool.standing),
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

/// Something that is no tool: to ask for it does nothing, so its risk is low.
pub(super) fn item(item: &ItemEntry) -> Value {
    json!({
        "id": item.id.to_string(),
        "kind": item.id.kind.as_str(),
        "server": item.id.server.as_str(),
        "name": item.id.name.as_ref(),
        "risk": Risk::Low.as_str(),
        "risk_source": RiskSource::Default.as_str(),
        "trust": item.trust.as_str(),
        "standing": standing_word(&item.standing),
        "cause": match &item.standing {
            Standing::Quarantined(QuarantineCause::NewTool) => "new".into(),
            standing @ (Standing::Approved | Standing::Quarantined(_) | Standing::Disabled) => cause(standing),
        },
        "server_identity": replaced(&item.standing),
        "output_schema": OutputState::Absent.as_str(),
        "definition_hash": item.definition_hash.to_string(),
        "approved_hash": item.approved.map(|digest| digest.to_string()),
        "disabled": item.word.disabled.as_ref().map(said),
    })
}

/// Something of the inventory, with each of its definitions: that of the widest audience last.
pub(super) enum Found {
    Tool(Vec<Arc<ToolEntry>>),
    Item(Vec<Arc<ItemEntry>>),
}

impl Found {
    /// The digest of each definition.
    pub(super) fn digests(&self) -> BTreeSet<Digest> {
        match self {
            Self::Tool(definitions) => definitions.iter().map(|tool| tool.definition_hash).collect(),
            Self::Item(definitions) => definitions.iter().map(|item| item.definition_hash).collect(),
        }
    }

    /// With the server's own definition, and with the others it has for other clients.
    pub(super) fn in_full(&self) -> Value {
        self.with_others(
            |tool| with_definition(self::tool(tool), &tool.definition),
            |item| with_definition(self::item(item), &item.definition),
        )
    }

    /// What changed since it was approved.
    pub(super) fn diff(&self) -> Value {
        self.with_others(diff::of_tool, diff::of_item)
    }

    fn with_others(&self, tool: impl Fn(&ToolEntry) -> Value, item: impl Fn(&ItemEntry) -> Value) -> Value {
        let mut shown: Vec<Value> = match self {
            Self::Tool(definitions) => definitions.iter().map(|one| tool(one)).collect(),
            Self::Item(definitions) => definitions.iter().map(|one| item(one)).collect(),
        };
        let mut last = shown.pop().unwrap_or_default();
        if let Some(members) = last.as_object_mut()
            && !shown.is_empty()
        {
            members.insert("other_definitions".to_owned(), shown.into());
        }
        last
    }
}

/// With the server's own definition; a text where that is no JSON.
fn with_definition(mut shown: Value, definition: &[u8]) -> Value {
    let definition = serde_json::from_slice(definition)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(definition).into_owned()));
    if let Some(members) = shown.as_object_mut() {
        members.insert("definition".to_owned(), definition);
    }
    shown
}

/// How many things of each kind are approved, wait, or are disabled.
fn standings(server: &ServerView, inventory: &policy::Inventory) -> Value {
    let tools = inventory.tools().iter().filter(|tool| tool.id.server == server.id);
    // What has several definitions is one thing, and stands as the worst of them.
    let mut worst: BTreeMap<(ItemKind, &str), &Standing> = BTreeMap::new();
    let tools = tools.map(|tool| ((ItemKind::Tool, tool.id.name.as_str()), &tool.standing));
    let items = inventory.items().iter().filter(|item| item.id.server == server.id);
    let items = items.map(|item| ((item.id.kind, item.id.name.as_ref()), &item.standing));
    for (id, standing) in tools.chain(items) {
        let known = worst.entry(id).or_insert(standing);
        if **known == Standing::Approved {
            *known = standing;
        }
    }
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for ((kind, _), standing) in worst {
        let of_kind = counts.entry(kind.as_str()).or_insert_with(|| {
            let none = ["approved", "quarantined", "disabled"].map(|word| (word, 0));
            BTreeMap::from(none)
        });
        *of_kind.entry(standing_word(standing)).or_default() += 1;
    }
    json!(counts)
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
        "tier": entry.map(|entry| entry.tier.as_str()),
        "approved_as": entry.and_then(|entry| entry.approved_as.as_ref()).map(ToString::to_string),
        "eras": entry.map(|entry| entry.eras.iter().map(|era| era.as_str()).collect::<Vec<_>>()),
        "standings": standings(server, inventory),
        "discovered": entry.and_then(|entry| entry.discovered).map(|time| time.to_string()),
        "tools": tools.len(),
        "quarantined": quarantined.len(),
    })
}
