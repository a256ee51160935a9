//! What exists, with risk, trust and standing; and the operator's word on it.

mod diff;
pub(super) mod orders;
mod view;

use policy::{ItemId, ItemKind, Standing};
use serde_json::{Value, json};
use vocabulary::ServerId;

use super::call::Call;
use crate::answer::{Answer, Refusal};
use crate::ports::ServerView;
use view::{Found, server_view, standing_word};

pub(super) async fn tools(call: Call) -> Result<Answer, Refusal> {
    let standing = call.query("standing");
    if standing.is_some_and(|word| !matches!(word, "approved" | "quarantined" | "disabled")) {
        return Err(Refusal::bad_request(
            "`standing` is `approved`, `quarantined` or `disabled`",
        ));
    }
    let kind = kind(&call)?;
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    let wanted = |server: &ServerId, found: ItemKind, has: &Standing| {
        call.query("server").is_none_or(|wanted| server.as_str() == wanted)
            && kind.is_none_or(|kind| kind == found)
            && standing.is_none_or(|word| standing_word(has) == word)
    };
    let tools = snapshot.inventory().tools().iter();
    let tools = tools.filter(|tool| wanted(&tool.id.server, ItemKind::Tool, &tool.standing));
    let items = snapshot.inventory().items().iter();
    let items = items.filter(|item| wanted(&item.id.server, item.id.kind, &item.standing));
    let shown: Vec<Value> = tools
        .map(|tool| view::tool(tool))
        .chain(items.map(|item| view::item(item)))
        .collect();
    Ok(Answer::json(&json!({ "tools": shown })))
}

pub(super) async fn tool(call: Call) -> Result<Answer, Refusal> {
    let (found, _) = find(&call).await?;
    Ok(Answer::json(&found.in_full()))
}

pub(super) async fn diff(call: Call) -> Result<Answer, Refusal> {
    let (found, _) = find(&call).await?;
    Ok(Answer::json(&found.diff()))
}

/// What a request names, with each of its definitions, and its id.
async fn find(call: &Call) -> Result<(Found, ItemId), Refusal> {
    let server = ServerId::parse(call.part("server")).map_err(|_| nothing())?;
    let (name, kind) = (call.part("tool"), kind(call)?);
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    let inventory = snapshot.inventory();
    let kind = match (kind, inventory.kinds(&server, name).as_slice()) {
        (Some(kind), _) => kind,
        (None, [kind]) => *kind,
        (None, []) => return Err(nothing()),
        (None, [_, _, ..]) => {
            return Err(Refusal::conflict(
                "things of several kinds have this id; say which with `kind`",
            ));
        }
    };
    let name = match kind {
        ItemKind::Instructions => "",
        ItemKind::Tool | ItemKind::Prompt | ItemKind::Resource | ItemKind::Template => name,
    };
    let id = ItemId {
        server,
        kind,
        name: name.into(),
    };
    let found = match kind {
        ItemKind::Tool => Found::Tool(inventory.tool(&id.server, name).to_vec()),
        ItemKind::Prompt | ItemKind::Resource | ItemKind::Template | ItemKind::Instructions => {
            Found::Item(inventory.item(&id).to_vec())
        }
    };
    if found.digests().is_empty() {
        return Err(nothing());
    }
    Ok((found, id))
}

fn kind(call: &Call) -> Result<Option<ItemKind>, Refusal> {
    let wrong = || Refusal::bad_request("`kind` is `tool`, `prompt`, `resource`, `template` or `instructions`");
    let kind = call.query("kind").map(|word| ItemKind::parse(word).ok_or_else(wrong));
    kind.transpose()
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

fn nothing() -> Refusal {
    Refusal::not_found("there is no such tool, prompt, resource, template or instructions")
}
