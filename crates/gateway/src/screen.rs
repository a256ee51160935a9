//! Takes what a server sent through the chokepoint, and puts every decision about it on record before any of it leaves.

pub(crate) mod inputs;

use std::sync::Arc;

use ledger::ScreeningSubject;
use policy::{Target, ToolEntry};
use screening::result::validate::Declared;
use screening::result::walk::Message;
use screening::result::{
    Origin, OutputTrust, Raw, Received, Rules, ScreenedResult, Screening, Spotlight, Withheld, screen,
};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use vocabulary::json::scanned::Named;
use vocabulary::{ServerId, Trust};

use crate::call::forward::Forwarded;
use crate::context::RequestContext;
use crate::outcome::Case;
use crate::receive::Gateway;
use crate::screen::inputs::ScreenedWithState;
use crate::snapshot::Snapshot;
use crate::state::truncated::{Judged, Terms};

impl Gateway {
    /// Screens by the rules in force now: what was changed meanwhile holds for answers that were under way.
    pub(crate) async fn screen<R: Received>(
        &self,
        raw: R,
        origin: &Origin<'_>,
        asked: &RequestContext,
    ) -> Result<ScreenedResult, Withheld> {
        let rules = self.snapshot().screening.clone();
        let raw = raw.into_raw();
        let screening = self
            .screening_pool
            .run_if_large(raw.size(), || screen(raw, origin, &rules))
            .await;
        if screening.is_clean() {
            let released = screening.release(Vec::new());
            if let Some(result) = released.as_ref().ok().filter(|result| result.fences() > 0) {
                let (server, name) = (origin.server, mcp::method::recordable(origin.name));
                tracing::debug!(server, name, texts = result.fences(), "untrusted text was fenced");
            }
            released
        } else {
            Box::pin(self.recorded(screening, origin, asked)).await
        }
    }

    /// Screens a whole text again that was kept under other rules: nothing of it is cut or fenced yet.
    pub(crate) async fn screen_kept(
        &self,
        raw: Raw,
        origin: &Origin<'_>,
        asked: &RequestContext,
    ) -> Result<ScreenedResult, Withheld> {
        let mut rules = Rules::clone(&self.snapshot().screening);
        rules.truncation = None;
        rules.sanitisation.spotlight = Spotlight::Nothing;
        let screening = self
            .screening_pool
            .run_if_large(raw.size(), || screen(raw, origin, &rules))
            .await;
        self.recorded(screening, origin, asked).await
    }

    /// Screens a page of a text that was cut before: it is not cut again.
    pub(crate) async fn screen_page(
        &self,
        raw: Raw,
        origin: &Origin<'_>,
        asked: &RequestContext,
    ) -> Result<ScreenedResult, Withheld> {
        let rules = Rules {
            truncation: None,
            ..Rules::clone(&self.snapshot().screening)
        };
        let screening = self
            .screening_pool
            .run_if_large(raw.size(), || screen(raw, origin, &rules))
            .await;
        self.recorded(screening, origin, asked).await
    }

    /// Screens what a tool brought, and keeps what was cut out of it for whoever asked.
    pub(crate) async fn screen_and_keep<R: Received>(
        &self,
        raw: R,
        origin: &Origin<'_>,
        entry: &Arc<ToolEntry>,
        asked: &RequestContext,
    ) -> Result<ScreenedResult, Withheld> {
        // Taken before: should they change meanwhile, the text is only judged once more.
        let judged = Judged::by(&self.snapshot().screening, origin.standing);
        let mut result = self.screen(raw, origin, asked).await?;
        let terms = Terms {
            who: &asked.who,
            ttl: self.snapshot().limits.cache_ttl,
            judged,
        };
        for kept in result.take_kept() {
            self.cache.keep(kept, entry, &terms);
        }
        Ok(result)
    }

    pub(crate) async fn recorded(
        &self,
        mut screening: Screening,
        origin: &Origin<'_>,
        asked: &RequestContext,
    ) -> Result<ScreenedResult, Withheld> {
        let mut recorded = Vec::new();
        for decision in screening.take_decisions() {
            let name = Some(mcp::method::recordable(origin.name)).filter(|name| !name.is_empty());
            let subject = subject(asked, origin.server.to_owned(), name);
            match self.ledger.record(decision, subject).await {
                Ok(one) => recorded.push(one),
                Err(down) => {
                    let error = &down as &dyn std::error::Error;
                    tracing::error!(error, "a decision about a result cannot be recorded");
                }
            }
        }
        screening.release(recorded)
    }
}

/// From this size on a result is worked on aside, so that it holds up nobody else.
const LARGE: usize = 256 * 1024;

/// Where large results are worked on: as many at a time as there are processors, and nobody else's task waits behind one.
pub(crate) struct ScreeningPool(Semaphore);

impl Default for ScreeningPool {
    fn default() -> Self {
        Self(Semaphore::new(
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        ))
    }
}

impl ScreeningPool {
    /// Works on something of this many bytes: aside, if that could take long.
    pub(crate) async fn run_if_large<T>(&self, size: usize, work: impl FnOnce() -> T) -> T {
        if size > LARGE { self.run(work).await } else { work() }
    }

    async fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _room = self.0.acquire().await;
        if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            tokio::task::block_in_place(work)
        } else {
            work()
        }
    }
}

impl Case<'_> {
    /// The result of a journey.
    pub(crate) async fn screened<R: Received>(
        &self,
        forwarded: &Forwarded,
        raw: R,
    ) -> Result<ScreenedWithState, Withheld> {
        let raw = raw.into_raw();
        let message = match forwarded.facts.method.as_str() {
            // That a task begins is no output yet, so none is missing.
            "tools/call" if forwarded.session_task && begins_task(&raw) => Message::Other,
            "tools/call" | "tasks/result" => Message::ToolResult,
            "tasks/get" | "tasks/update" | "tasks/cancel" => Message::TaskState,
            "resources/read" => Message::ResourceRead,
            "prompts/get" => Message::PromptGet,
            _ => Message::Other,
        };
        let origin = self.origin(forwarded, message);
        self.screen_forms(forwarded, &raw).await?;
        let (raw, state) = self.set_state_aside(forwarded, raw);
        let screened = match &forwarded.target {
            Target::Tool(entry) => self.gateway.screen_and_keep(raw, &origin, entry, self.asked).await,
            Target::Resource { .. } | Target::Prompt { .. } | Target::Server(_) => {
                self.gateway.screen(raw, &origin, self.asked).await
            }
        };
        screened.map(|result| ScreenedWithState::new(result, state))
    }

    /// The error a journey ended with.
    pub(crate) async fn screened_error<R: Received>(
        &self,
        forwarded: &Forwarded,
        raw: R,
    ) -> Result<ScreenedResult, Withheld> {
        let origin = self.origin(forwarded, Message::Error);
        self.gateway.screen(raw, &origin, self.asked).await
    }

    fn origin<'j>(&'j self, forwarded: &'j Forwarded, message: Message) -> Origin<'j> {
        let server = forwarded.server.id();
        match &forwarded.target {
            Target::Tool(entry) => of_tool(&self.snapshot, entry, message),
            Target::Resource { uri, .. } => beside_a_call(server, Some(uri), message),
            Target::Prompt { name, .. } => beside_a_call(server, Some(name), message),
            Target::Server(_) => beside_a_call(server, None, message),
        }
    }
}

/// Whether a server with sessions says that a call becomes a task, and nothing else.
fn begins_task(raw: &Raw) -> bool {
    match raw {
        Raw::Scanned(scanned) => {
            let member = |name: &str| scanned.member(name);
            matches!(member("task"), Named::Once([b'{', ..]))
                && matches!(
                    (member("content"), member("structuredContent")),
                    (Named::Never, Named::Never)
                )
        }
        Raw::Unread(_) => false,
    }
}

/// What a tool's call brought: judged by what the tool declared when it was pinned.
pub(crate) fn of_tool<'a>(snapshot: &'a Snapshot, entry: &'a ToolEntry, message: Message) -> Origin<'a> {
    let tool = snapshot.tool(&entry.id);
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

pub(crate) fn finding(found: &FindingNote) -> ledger::FindingNote {
    ledger::FindingNote {
        category: found.category.as_str().to_owned(),
        rule: found.rule.clone(),
        place: found.place.clone(),
        length: found.length as u64,
    }
}

fn record(decision: &Decision, origin: &Origin<'_>, asked: &RequestContext) -> ScreeningDecision {
    ScreeningDecision {
        receipt_id: Some(asked.arrival.receipt_id),
        principal: Some(asked.who.sub.to_string()),
        session: asked.session().map(|session| session.digest),
        server_id,
        tool_name,
    }
}
