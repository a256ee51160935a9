//! The operator's word on what servers offer: approved, disabled, enabled, classified.

use std::collections::BTreeSet;

use policy::{ItemId, ItemKind, OperatorOrder};
use serde::Deserialize;
use vocabulary::{Digest, Risk};

use super::super::call::Call;
use super::{find, nothing, tool};
use crate::answer::{Answer, Refusal};
use crate::ports::{Approval, Heeded};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalBody {
    definition_hash: Option<String>,
}

pub(in super::super) async fn approve(call: Call) -> Result<Answer, Refusal> {
    let body: ApprovalBody = call.body()?;
    let (found, item) = find(&call).await?;
    let wanted: BTreeSet<Digest> = match body.definition_hash {
        None => found.digests(),
        Some(text) => {
            let malformed = || Refusal::bad_request("`definition_hash` is not `sha256:` and 64 hex digits");
            BTreeSet::from([Digest::parse(&text).ok_or_else(malformed)?])
        }
    };
    for seen in wanted {
        approve_one(&call, &item, seen).await?;
    }
    tool(call).await
}

async fn approve_one(call: &Call, item: &ItemId, seen: Digest) -> Result<(), Refusal> {
    call.record(Some(&item.to_string()), &format!("the definition {seen} is approved"))
        .await?;
    let (operator, item) = (call.operator.clone(), item.clone());
    let approved = call
        .ask(move |plane| plane.ports().inventory.approve(&item, seen, &operator))
        .await?;
    match approved {
        Approval::Approved => Ok(()),
        Approval::Changed { now } => Err(Refusal::conflict(format!(
            "the definition has changed; it is {now} now"
        ))),
        Approval::NotOffered => Err(nothing()),
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
        call,
        OperatorOrder::Classify(risk),
        &format!("the tool is classified as {risk}"),
    )
    .await
}

pub(in super::super) async fn disable(call: Call) -> Result<Answer, Refusal> {
    let Nothing {} = call.body()?;
    heed(call, OperatorOrder::Disable, "it is disabled").await
}

pub(in super::super) async fn enable(call: Call) -> Result<Answer, Refusal> {
    let Nothing {} = call.body()?;
    heed(call, OperatorOrder::Enable, "it is enabled").await
}

async fn heed(call: Call, order: OperatorOrder, message: &str) -> Result<Answer, Refusal> {
    let (_, item) = find(&call).await?;
    if matches!(order, OperatorOrder::Classify(_)) && item.kind != ItemKind::Tool {
        return Err(Refusal::conflict("only tools have a risk of their own"));
    }
    call.record(Some(&item.to_string()), message).await?;
    let operator = call.operator.clone();
    let heeded = call
        .ask(move |plane| plane.ports().inventory.heed(&item, order, &operator))
        .await?;
    match heeded {
        Heeded::Done => tool(call).await,
        Heeded::NotOffered => Err(nothing()),
        Heeded::Refused(why) => Err(Refusal::conflict(why)),
    }
}
