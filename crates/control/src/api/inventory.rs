//! What exists, with risk, trust and standing; and the operator's word on it.

pub(super) mod orders;
mod view;

use std::sync::Arc;

use policy::ToolEntry;
use serde_json::{Value, json};
use vocabulary::{ServerId, ToolName};

use super::call::Call;
use crate::answer::{Answer, Refusal};
use crate::ports::ServerView;
use view::{in_full, server_view, standing_word};

pub(super) async fn tools(call: Call) -> Result<Answer, Refusal> {
    let standing = call.query("standing");
    if standing.is_some_and(|word| !matches!(word, "approved" | "quarantined" | "disabled")) {
        return Err(Refusal::bad_request(
            "`standing` is `approved`, `quarantined` or `disabled`",
        ));
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
        .map(|tool| view::tool(tool))
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
