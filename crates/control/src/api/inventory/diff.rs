//! What changed in a definition since it was approved, as operators see it.

use policy::{Changed, ItemEntry, ItemKind, ToolEntry, all_added, differences};
use serde_json::{Value, json};
use vocabulary::{Digest, Risk};

use super::view::replaced;

/// A definition and what is known of the one that was approved.
struct Pinned<'a> {
    approved: Option<Digest>,
    seen: Digest,
    before: Option<&'a [u8]>,
    definition: &'a [u8],
}

pub(super) fn of_tool(tool: &ToolEntry) -> Value {
    let pinned = Pinned {
        approved: tool.approved,
        seen: tool.definition_hash,
        before: tool.before.as_ref().map(|before| &*before.definition),
        definition: &tool.definition,
    };
    let mut shown = pinned.shown(tool.id.to_string(), ItemKind::Tool);
    if let Some(members) = shown.as_object_mut() {
        members.insert("server_identity".to_owned(), replaced(&tool.standing));
        let old = match (&tool.before, tool.approved) {
            (Some(before), _) => Some(before.risk),
            (None, Some(approved)) if approved == tool.definition_hash => Some(tool.risk),
            (None, _) => None,
        };
        members.insert("old_risk".to_owned(), json!(old.map(Risk::as_str)));
        members.insert("new_risk".to_owned(), json!(tool.risk.as_str()));
    }
    shown
}

pub(super) fn of_item(item: &ItemEntry) -> Value {
    let pinned = Pinned {
        approved: item.approved,
        seen: item.definition_hash,
        before: item.before.as_deref(),
        definition: &item.definition,
    };
    let mut shown = pinned.shown(item.id.to_string(), item.id.kind);
    if let Some(members) = shown.as_object_mut() {
        members.insert("server_identity".to_owned(), replaced(&item.standing));
    }
    shown
}

impl Pinned<'_> {
    fn shown(&self, id: String, kind: ItemKind) -> Value {
        let changes: Vec<Value> = self.changes().iter().map(change).collect();
        let is_missing = self.before.is_none() && self.approved.is_some_and(|approved| approved != self.seen);
        json!({
            "id": id,
            "kind": kind.as_str(),
            "old_hash": self.approved.map(|digest| digest.to_string()),
            "new_hash": self.seen.to_string(),
            "note": is_missing.then_some(NOT_KEPT),
            "changes": changes,
        })
    }

    fn changes(&self) -> Vec<Changed> {
        match (self.approved, self.before) {
            (Some(approved), _) if approved == self.seen => Vec::new(),
            (Some(_), Some(before)) => differences(before, self.definition),
            (Some(_), None) | (None, _) => all_added(self.definition),
        }
    }
}

fn change(change: &Changed) -> Value {
    json!({ "path": change.path, "kind": change.kind.as_str(), "old": change.old, "new": change.new })
}

const NOT_KEPT: &str = "the approved definition was pinned by a release that kept only its digest, so what changed cannot be told; \
                        the whole definition is shown as it is now";
