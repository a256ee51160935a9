//! The operator's word on what servers offer: approved, disabled, enabled, classified.

use std::collections::BTreeSet;

use policy::{ItemId, ItemKind, OperatorOrder};
use serde::Deserialize;
use vocabulary::{Digest, Risk, ServerId, ToolName};

use super::super::call::Call;
use super::{named, no_tool, show};
use crate::answer::{Answer, Refusal};
use crate::ports::{Approval, Heeded};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalBody {
    definition_hash: Option<String>,
}

pub(in super::super) async fn approve(call: Call) -> Result<Answer, Refusal> {
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Classification {
    risk: String,
}

pub(in super::super) async fn classify(call: Call) -> Result<Answer, Refusal> {
    let body: Classification = call.body()?;
    let wrong = || Refusal::bad_request("`risk` is one of `low`, `medium`, `high` and `critical`");
    let risk = Risk::parse(&body.risk).ok_or_else(wrong)?;
    heed(
        &call,
        OperatorOrder::Classify(risk),
        &format!("the tool is classified as {risk}"),
    )
    .await
}

pub(in super::super) async fn disable(call: Call) -> Result<Answer, Refusal> {
    let Nothing {} = call.body()?;
    heed(&call, OperatorOrder::Disable, "it is disabled").await
}

pub(in super::super) async fn enable(call: Call) -> Result<Answer, Refusal> {
    let Nothing {} = call.body()?;
    heed(&call, OperatorOrder::Enable, "it is enabled").await
}

async fn heed(call: &Call, order: OperatorOrder, message: &str) -> Result<Answer, Refusal> {
    let (server, name) = named(call)?;
    let item = ItemId {
        server,
        kind: ItemKind::Tool,
        name: name.as_str().into(),
    };
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    if snapshot.inventory().tool(&item.server, &item.name).is_empty() {
        return Err(no_tool());
    }
    call.record(Some(&item.to_string()), message).await?;
    let operator = call.operator.clone();
    let heeded = call
        .ask(move |plane| plane.ports().inventory.heed(&item, order, &operator))
        .await?;
    match heeded {
        Heeded::Done => show(call).await,
        Heeded::NotOffered => Err(no_tool()),
        Heeded::Refused(why) => Err(Refusal::conflict(why)),
    }
}
