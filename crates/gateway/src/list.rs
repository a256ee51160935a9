//! `tools/list`: what this principal may call, and nothing else. Filtered before it is paged,
//! composed from raw definitions, and hashed so that the receipt tells exactly what was shown.

use std::sync::Arc;

use aws_lc_rs::hmac;
use bytes::Bytes;
use ledger::Ending;
use mcp::Request;
use policy::ToolEntry;
use vocabulary::{Digest, Principal, ReasonCode, ServerId};

use crate::answer::Gateway;
use crate::asked::{Asked, Ended};
use crate::reply::{DecisionNote, Prepared};
use crate::town::{Display, ServerState, Town, Wanted};

/// Many clients never ask for a second page.
const PAGE: usize = 1000;

impl Gateway {
    /// Answers `tools/list`.
    pub(crate) async fn list(&self, asked: &Asked, request: &Request) -> Ended {
        self.await_first_discovery(&asked.who, &Wanted::List(asked.route.server()))
            .await;
        let town = self.town();
        let shown = Catalogue::of(&town, &asked.who, asked.route.server());
        let Some(start) = self.page_start(request, asked, &shown.hash) else {
            let note = DecisionNote::denied(ReasonCode::DenyMalformed);
            let message = "the cursor is not one of this list; ask for the first page again".to_owned();
            let reply = Prepared::refusal(Some(request.id().clone()), -32602, message, note);
            return asked.refused(ReasonCode::DenyMalformed, reply);
        };
        let next = (start + PAGE < shown.displays.len()).then(|| self.cursor(start + PAGE, asked, &shown.hash));
        let result = shown.page(start, next.as_deref());
        Ended {
            ending: Ending::Answered {
                who: asked.who.clone(),
                message: asked.facts(),
                decision: asked.answered_here(&town),
                catalog: Some(shown.hash),
            },
            reply: Prepared::own(request.id().clone(), result),
        }
    }

    /// Waits for the first discovery of the servers that what is wanted may come from, for a bounded
    /// time.
    pub(crate) async fn await_first_discovery(&self, who: &Arc<Principal>, wanted: &Wanted<'_>) {
        let town = self.town();
        let mut pending = town.pending(who, wanted);
        if pending.is_empty() {
            return;
        }
        let all = async {
            for state in &mut pending {
                let _ = state.wait_for(|state| *state != ServerState::Pending).await;
            }
        };
        let _ = tokio::time::timeout(town.limits.first_discovery, all).await;
    }

    /// Where the page begins; `None` for a cursor that is not ours, not theirs, or of another list.
    fn page_start(&self, request: &Request, asked: &Asked, hash: &Digest) -> Option<usize> {
        match request.params().raw("cursor") {
            None | Some(b"null") => Some(0),
            Some(_) => {
                let cursor = request.params().text("cursor")?;
                let start: usize = cursor.split_once('.')?.0.parse().ok()?;
                (self.cursor(start, asked, hash) == cursor).then_some(start)
            }
        }
    }

    /// A cursor sealed for this principal, route and catalogue.
    fn cursor(&self, start: usize, asked: &Asked, hash: &Digest) -> String {
        let route = asked.route.resource_path();
        let mut seal = hmac::Context::with_key(&self.cursor_key);
        for part in [
            start.to_string().as_bytes(),
            asked.who.issuer.as_bytes(),
            asked.who.sub.as_bytes(),
            route.as_bytes(),
        ] {
            seal.update(&(part.len() as u64).to_be_bytes());
            seal.update(part);
        }
        seal.update(hash.as_bytes());
        let tag: String = seal
            .sign()
            .as_ref()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{start}.{tag}")
    }
}

/// Everything one principal sees on one route.
struct Catalogue<'a> {
    displays: Vec<&'a Display>,
    hash: Digest,
    unavailable: Vec<&'a str>,
}

impl<'a> Catalogue<'a> {
    fn of(town: &'a Town, who: &Arc<Principal>, server: Option<&ServerId>) -> Self {
        let visible = town.policy.visible(&town.policy.caller(who), server);
        let display = |entry: &Arc<ToolEntry>| {
            let tool = town.tool(&entry.id)?;
            if server.is_some() {
                Some(tool.plain())
            } else {
                tool.federated()
            }
        };
        let displays: Vec<&Display> = visible.iter().filter_map(display).collect();
        let hash = catalogue_hash(&displays);
        let unavailable = if server.is_none() {
            unavailable(town, who, &visible)
        } else {
            Vec::new()
        };
        Self {
            displays,
            hash,
            unavailable,
        }
    }

    fn page(&self, start: usize, next: Option<&str>) -> Bytes {
        let mut out = b"{\"tools\":[".to_vec();
        for (place, display) in self.displays.iter().skip(start).take(PAGE).enumerate() {
            if place > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&display.definition);
        }
        out.push(b']');
        if let Some(cursor) = next {
            out.extend_from_slice(b",\"nextCursor\":");
            mcp::compose::string(cursor, &mut out);
        }
        if !self.unavailable.is_empty() {
            let names: Vec<String> = self.unavailable.iter().map(|id| format!("\"{id}\"")).collect();
            out.extend_from_slice(format!(",\"_meta\":{{\"portreeve/unavailable\":[{}]}}", names.join(",")).as_bytes());
        }
        out.push(b'}');
        out.into()
    }
}

/// SHA-256 of the canonical array of what is shown, all pages.
fn catalogue_hash(displays: &[&Display]) -> Digest {
    let mut pieces: Vec<&[u8]> = vec![b"["];
    for (place, display) in displays.iter().enumerate() {
        if place > 0 {
            pieces.push(b",");
        }
        pieces.push(&display.canonical);
    }
    pieces.push(b"]");
    Digest::of_pieces(pieces)
}

/// The servers that are down, of those the principal may use.
fn unavailable<'a>(town: &'a Town, who: &Arc<Principal>, visible: &[Arc<ToolEntry>]) -> Vec<&'a str> {
    let caller = town.policy.caller(who);
    let may_use =
        |id: &ServerId| visible.iter().any(|entry| entry.id.server == *id) || town.policy.could_use(&caller, id);
    let servers = town.policy.inventory().servers().map(|server| &server.id);
    servers
        .filter(|id| town.state_of(id) != ServerState::Up && may_use(id))
        .map(ServerId::as_str)
        .collect()
}
