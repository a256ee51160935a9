//! The lists: what this principal may use, and nothing else. Filtered before they are paged,
//! composed from raw definitions, and hashed so that the receipt tells exactly what was shown.

pub(crate) mod federated;

use std::sync::Arc;

use aws_lc_rs::hmac;
use bytes::Bytes;
use ledger::Ending;
use mcp::{Method, Request, compose};
use policy::ToolEntry;
use upstream::ListKind;
use vocabulary::{Digest, Principal, ReasonCode, ServerId};

use crate::context::client::Client;
use crate::context::{Ended, RequestContext};
use crate::era::initialize::Offers;
use crate::outcome::Case;
use crate::receive::Gateway;
use crate::reply::{ErrorData, Prepared};
use crate::snapshot::{Display, ServerState, Snapshot, Wanted};
use crate::truncated as read_cache;

/// Many clients never ask for a second page.
const PAGE: usize = 1000;

impl Gateway {
    /// Answers a request for a list.
    pub(crate) async fn list(&self, asked: &RequestContext, request: &Request) -> Ended {
        self.await_first_discovery(&asked.who, &Wanted::List(asked.route.server()))
            .await;
        let snapshot = self.snapshot();
        match kind_of(&asked.method) {
            ListKind::Tools => {
                let shown = Tools::of(&snapshot, &asked.who, asked.route.server());
                let catalogue = shown.catalogue();
                self.show(asked, request, &snapshot, &catalogue)
            }
            kind @ (ListKind::Prompts | ListKind::Resources | ListKind::Templates | ListKind::Tasks) => {
                Box::pin(self.list_live(asked, request, &snapshot, kind)).await
            }
        }
    }

    /// A list that is not kept here: asked of the servers, for this client.
    async fn list_live(
        &self,
        asked: &RequestContext,
        request: &Request,
        snapshot: &Arc<Snapshot>,
        kind: ListKind,
    ) -> Ended {
        let offers = Offers::of(snapshot, &asked.who, &asked.route);
        let offered = match kind {
            ListKind::Tools => true,
            ListKind::Prompts => offers.prompts,
            ListKind::Resources | ListKind::Templates => offers.resources,
            ListKind::Tasks => offers.session_tasks,
        };
        if !offered {
            return asked.no_such_method(request);
        }
        let gathered = self.gather(asked, snapshot, kind).await;
        if let (Some(_), Some(failure)) = (asked.route.server(), &gathered.failure) {
            let case = Case::new(self, asked, request);
            return case.failed(asked.facts(), asked.answered_here(snapshot), None, failure);
        }
        let canonical: Vec<Vec<u8>> = gathered.entries.iter().map(|entry| canonical_form(entry)).collect();
        let catalogue = Catalogue {
            kind,
            hash: catalogue_hash(canonical.iter().map(Vec::as_slice)),
            entries: gathered.entries.iter().map(AsRef::as_ref).collect(),
            unavailable: gathered.unavailable.iter().map(ServerId::as_str).collect(),
            ttl_ms: gathered.ttl_ms,
        };
        self.show(asked, request, snapshot, &catalogue)
    }

    /// One page of a catalogue.
    fn show(&self, asked: &RequestContext, request: &Request, snapshot: &Snapshot, shown: &Catalogue<'_>) -> Ended {
        let Some(start) = self.page_start(request, asked, &shown.hash) else {
            let note = ErrorData::denied(ReasonCode::DenyMalformed);
            let message = "the cursor is not one of this list; ask for the first page again".to_owned();
            let reply = Prepared::refusal(Some(request.id().clone()), mcp::ErrorCode::InvalidParams, message, note);
            return asked.refused(ReasonCode::DenyMalformed, reply);
        };
        let next = (start + PAGE < shown.entries.len()).then(|| self.cursor(start + PAGE, asked, &shown.hash));
        let result = shown.page(&asked.client, start, next.as_deref());
        Ended {
            ending: Ending::Answered {
                who: asked.who.clone(),
                message: asked.facts(),
                decision: asked.answered_here(snapshot),
                catalog: Some(shown.hash),
            },
            reply: Prepared::own(request.id().clone(), result),
        }
    }

    /// The digest of the tools a principal sees: another one means that their list changed.
    pub(crate) fn tools_seen(&self, who: &Arc<Principal>, server: Option<&ServerId>) -> Digest {
        let snapshot = self.snapshot();
        Tools::of(&snapshot, who, server).catalogue().hash
    }

    /// Waits for the first discovery of the servers that what is wanted may come from, for a bounded
    /// time.
    pub(crate) async fn await_first_discovery(&self, who: &Arc<Principal>, wanted: &Wanted<'_>) {
        let snapshot = self.snapshot();
        let mut pending = snapshot.pending(who, wanted);
        if pending.is_empty() {
            return;
        }
        let all = async {
            for state in &mut pending {
                let _ = state.wait_for(|state| *state != ServerState::Pending).await;
            }
        };
        let _ = tokio::time::timeout(snapshot.limits.first_discovery, all).await;
    }

    /// Where the page begins; `None` for a cursor that is not ours, not theirs, or of another list.
    fn page_start(&self, request: &Request, asked: &RequestContext, hash: &Digest) -> Option<usize> {
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
    fn cursor(&self, start: usize, asked: &RequestContext, hash: &Digest) -> String {
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

fn kind_of(method: &Method) -> ListKind {
    match method.as_str() {
        "prompts/list" => ListKind::Prompts,
        "resources/list" => ListKind::Resources,
        "resources/templates/list" => ListKind::Templates,
        "tasks/list" => ListKind::Tasks,
        _ => ListKind::Tools,
    }
}

/// The tools one principal sees on one route.
struct Tools<'a> {
    displays: Vec<&'a Display>,
    unavailable: Vec<&'a str>,
}

impl<'a> Tools<'a> {
    fn of(snapshot: &'a Snapshot, who: &Arc<Principal>, server: Option<&ServerId>) -> Self {
        let visible = snapshot.policy.visible(&snapshot.policy.caller(who), server);
        let display = |entry: &Arc<ToolEntry>| {
            let tool = snapshot.tool(&entry.id)?;
            if server.is_some() {
                Some(tool.plain())
            } else {
                tool.federated()
            }
        };
        let mut displays: Vec<&Display> = visible.iter().filter_map(display).collect();
        // Who sees no tool has nothing to read on in.
        if !displays.is_empty() && read_cache::is_offered(snapshot) {
            displays.push(&read_cache::DISPLAY);
        }
        let unavailable = if server.is_none() {
            unavailable(snapshot, who, &visible)
        } else {
            Vec::new()
        };
        Self { displays, unavailable }
    }

    fn catalogue(&self) -> Catalogue<'_> {
        Catalogue {
            kind: ListKind::Tools,
            hash: catalogue_hash(self.displays.iter().map(|display| display.canonical.as_slice())),
            entries: self
                .displays
                .iter()
                .map(|display| display.definition.as_slice())
                .collect(),
            unavailable: self.unavailable.clone(),
            ttl_ms: 0,
        }
    }
}

/// Everything one principal sees of one kind on one route.
struct Catalogue<'a> {
    kind: ListKind,
    entries: Vec<&'a [u8]>,
    hash: Digest,
    unavailable: Vec<&'a str>,
    ttl_ms: u64,
}

impl Catalogue<'_> {
    fn page(&self, client: &Client, start: usize, next: Option<&str>) -> Bytes {
        let mut entries = b"[".to_vec();
        for (place, entry) in self.entries.iter().skip(start).take(PAGE).enumerate() {
            if place > 0 {
                entries.push(b',');
            }
            entries.extend_from_slice(entry);
        }
        entries.push(b']');
        let next = next.map(compose::literal);
        let ttl = self.ttl_ms.to_string();
        let meta = self.meta(client);
        let mut members: Vec<(&str, &[u8])> = vec![(self.kind.member(), &entries)];
        members.extend(next.as_deref().map(|cursor| ("nextCursor", cursor)));
        if matches!(client, Client::Modern(_)) {
            members.push(("resultType", b"\"complete\""));
            members.push(("ttlMs", ttl.as_bytes()));
            members.push(("cacheScope", b"\"private\""));
        }
        members.extend(meta.as_deref().map(|meta| ("_meta", meta)));
        let mut out = Vec::with_capacity(entries.len() + 256);
        compose::object(members.into_iter(), &mut out);
        out.into()
    }

    fn meta(&self, client: &Client) -> Option<Vec<u8>> {
        let names: Vec<Vec<u8>> = self.unavailable.iter().map(|id| compose::literal(id)).collect();
        let names = [b"[".as_slice(), &names.join(&b','), b"]"].concat();
        let mut members: Vec<(&str, &[u8])> = Vec::new();
        if matches!(client, Client::Modern(_)) {
            members.push((mcp::translate::SERVER_INFO, compose::OUR_INFO.as_bytes()));
        }
        if !self.unavailable.is_empty() {
            members.push(("portreeve/unavailable", &names));
        }
        let mut out = Vec::new();
        compose::object(members.iter().copied(), &mut out);
        (!members.is_empty()).then_some(out)
    }
}

/// SHA-256 of the canonical array of what is shown, all pages.
fn catalogue_hash<'a>(entries: impl Iterator<Item = &'a [u8]>) -> Digest {
    let mut pieces: Vec<&[u8]> = vec![b"["];
    for (place, entry) in entries.enumerate() {
        if place > 0 {
            pieces.push(b",");
        }
        pieces.push(entry);
    }
    pieces.push(b"]");
    Digest::of_pieces(pieces)
}

fn canonical_form(entry: &[u8]) -> Vec<u8> {
    Display::of(entry.to_vec()).canonical
}

/// The servers that are down, of those the principal may use.
fn unavailable<'a>(snapshot: &'a Snapshot, who: &Arc<Principal>, visible: &[Arc<ToolEntry>]) -> Vec<&'a str> {
    let caller = snapshot.policy.caller(who);
    let may_use =
        |id: &ServerId| visible.iter().any(|entry| entry.id.server == *id) || snapshot.policy.could_use(&caller, id);
    let servers = snapshot.policy.inventory().servers().map(|server| &server.id);
    servers
        .filter(|id| snapshot.state_of(id) != ServerState::Up && may_use(id))
        .map(ServerId::as_str)
        .collect()
}
