//! Takes what a server sent through the chokepoint, and puts every decision about it on record before any of it leaves.
//! Screening goes by the rules in force now: what was changed meanwhile holds for answers that were under way.

pub(crate) mod inputs;

use std::sync::Arc;

use ledger::ScreeningSubject;
use policy::ToolEntry;
use screening::recorded::recordable;
use screening::result::validate::Declared;
use screening::result::walk::Message;
use screening::result::{Origin, OutputTrust, Raw, Received, Rules, ScreenedResult, Screening, Spotlight, Withheld};
use vocabulary::{ServerId, Trust};

use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::snapshot::Snapshot;
use crate::state::truncated::{Judged, Terms};

/// Screens a message of a server for the client of `context`.
pub(crate) async fn screen<R: Received>(
    gateway: &Gateway,
    raw: R,
    origin: &Origin<'_>,
    context: &RequestContext,
) -> Result<ScreenedResult, Withheld> {
    let rules = gateway.in_force().screening.clone();
    let screening = judge(gateway, raw.into_raw(), origin, &rules).await;
    if screening.is_clean() {
        let released = screening.release(Vec::new());
        if let Some(result) = released.as_ref().ok().filter(|result| result.fences() > 0) {
            let (server, name) = (origin.server, recordable(origin.name));
            tracing::debug!(server, name, texts = result.fences(), "untrusted text was fenced");
        }
        released
    } else {
        Box::pin(recorded(gateway, screening, origin, context)).await
    }
}

/// Screens a whole text again that was kept under other rules: nothing of it is cut or fenced yet.
pub(crate) async fn screen_kept(
    gateway: &Gateway,
    raw: Raw,
    origin: &Origin<'_>,
    context: &RequestContext,
) -> Result<ScreenedResult, Withheld> {
    let mut rules = Rules::clone(&gateway.in_force().screening);
    rules.truncation = None;
    rules.sanitisation.spotlight = Spotlight::Nothing;
    let screening = judge(gateway, raw, origin, &rules).await;
    recorded(gateway, screening, origin, context).await
}

/// Screens a page of a text that was cut before: it is not cut again.
pub(crate) async fn screen_page(
    gateway: &Gateway,
    raw: Raw,
    origin: &Origin<'_>,
    context: &RequestContext,
) -> Result<ScreenedResult, Withheld> {
    let rules = Rules {
        truncation: None,
        ..Rules::clone(&gateway.in_force().screening)
    };
    let screening = judge(gateway, raw, origin, &rules).await;
    recorded(gateway, screening, origin, context).await
}

/// Screens what a tool brought, and keeps what was cut out of it for whoever asked.
pub(crate) async fn screen_and_keep<R: Received>(
    gateway: &Gateway,
    raw: R,
    origin: &Origin<'_>,
    entry: &Arc<ToolEntry>,
    context: &RequestContext,
) -> Result<ScreenedResult, Withheld> {
    // Taken before: should they change meanwhile, the text is only judged once more.
    let in_force = gateway.in_force();
    let judged = Judged::by(&in_force.screening, origin.standing);
    let mut result = screen(gateway, raw, origin, context).await?;
    let terms = Terms {
        who: &context.who,
        ttl: in_force.limits.cache_ttl,
        judged,
    };
    for kept in result.take_kept() {
        gateway.truncated.keep(kept, entry, &terms);
    }
    Ok(result)
}

async fn judge(gateway: &Gateway, raw: Raw, origin: &Origin<'_>, rules: &Rules) -> Screening {
    let pool = &gateway.screening_pool;
    pool.run_if_large(raw.size(), || screening::result::screen(raw, origin, rules))
        .await
}

/// Puts every decision on record; without all of them nothing is released.
pub(crate) async fn recorded(
    gateway: &Gateway,
    mut screening: Screening,
    origin: &Origin<'_>,
    context: &RequestContext,
) -> Result<ScreenedResult, Withheld> {
    let mut recorded = Vec::new();
    for decision in screening.take_decisions() {
        let name = Some(recordable(origin.name)).filter(|name| !name.is_empty());
        let subject = subject(context, origin.server.to_owned(), name);
        match gateway.ledger.record(decision, subject).await {
            Ok(one) => recorded.push(one),
            Err(down) => {
                let error = &down as &dyn std::error::Error;
                tracing::error!(error, "a decision about a result cannot be recorded");
            }
        }
    }
    screening.release(recorded)
}

/// What a decision of screening is about.
pub(crate) fn subject(context: &RequestContext, server_id: String, tool_name: Option<String>) -> ScreeningSubject {
    ScreeningSubject {
        receipt_id: Some(context.arrival.receipt_id),
        principal: Some(context.who.sub.to_string()),
        session: context.session().map(|session| session.digest),
        server_id,
        tool_name,
    }
}

/// What a tool's call brought: judged by what the tool declared when it was pinned.
pub(crate) fn of_tool<'a>(snapshot: &'a Snapshot, entry: &'a ToolEntry, message: Message) -> Origin<'a> {
    let tool = snapshot.tool(entry);
    Origin {
        server: entry.id.server.as_str(),
        name: entry.id.name.as_str(),
        message,
        standing: standing(entry),
        declared: tool.map_or(Declared::Nothing, |tool| tool.output.declared()),
    }
}

/// What a server says that no tool declared: beside the result of a call, of a prompt or a resource, or of itself.
pub(crate) fn beside_a_call<'a>(server: &'a ServerId, name: Option<&'a str>, message: Message) -> Origin<'a> {
    Origin {
        server: server.as_str(),
        name: name.unwrap_or_default(),
        message,
        standing: OutputTrust::Untrusted,
        declared: Declared::Nothing,
    }
}

/// Trusted is what the operator trusts and what says that it brings nothing from elsewhere; a server's word alone
/// counts for nothing.
pub(crate) fn standing(entry: &ToolEntry) -> OutputTrust {
    match (entry.trust, entry.hints.open_world) {
        (Trust::Internal | Trust::Verified, Some(false)) => OutputTrust::Trusted,
        (Trust::Internal | Trust::Verified | Trust::Community | Trust::Unknown, _) => OutputTrust::Untrusted,
    }
}
