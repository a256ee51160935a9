//! The lists: what this principal may use, and nothing else. Filtered before they are paged,
//! composed from raw definitions, and hashed so that the receipt tells exactly what was shown.

pub(crate) mod discovery;
pub(crate) mod federated;

use std::sync::Arc;

use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;
use mcp::{ErrorCode, Request, compose};
use policy::ToolEntry;
use upstream::ListKind;
use vocabulary::{Digest, Era, Principal, PrincipalKey, ServerId};

use crate::context::{Ended, RequestContext};
use crate::gateway::Gateway;
use crate::list::federated::Gathering;
use crate::message::OwnResult;
use crate::message::own::OwnValue;
use crate::offers::Offers;
use crate::outcome::{CallRecord, answered_by_itself, no_credential};
use crate::snapshot::tool::{ListedDefinition, canonical_form};
use crate::snapshot::{ServerState, Snapshot};
use crate::stages::Stages;
use crate::truncated::definition;

/// Many clients never ask for a second page.
const PAGE: usize = 1000;

/// Answers a request for a list.
pub(crate) async fn answer(stages: &Stages<'_>, request: &Request, kind: ListKind) -> Ended {
    match kind {
        ListKind::Tools => {
            let context = stages.context;
            let shown = Tools::of(&stages.snapshot, context);
            show(stages, request, &shown.catalogue())
        }
        ListKind::Prompts | ListKind::Resources | ListKind::Templates | ListKind::Tasks => {
            Box::pin(answer_live(stages, request, kind)).await
        }
    }
}

/// A list that is not kept here: asked of the servers, for this client.
async fn answer_live(stages: &Stages<'_>, request: &Request, kind: ListKind) -> Ended {
    let (context, snapshot) = (stages.context, &stages.snapshot);
    let offers = Offers::of(snapshot, &context.who, &context.route, context.client.era());
    let offered = match kind {
        ListKind::Tools => true,
        ListKind::Prompts => offers.prompts,
        ListKind::Resources | ListKind::Templates => offers.resources,
        ListKind::Tasks => offers.session_tasks,
    };
    if !offered {
        return context.no_such_method(request);
    }
    let gathering = Gathering {
        gateway: stages.gateway,
        context,
        snapshot,
    };
    let gathered = gathering.gather(kind).await;
    if let (Some(_), Some(failure)) = (context.route.server(), &gathered.failure) {
        let record = CallRecord {
            facts: context.facts(),
            decision: answered_by_itself(snapshot),
            credential: no_credential(),
        };
        return stages.failed(record, failure);
    }
    let canonical: Vec<Vec<u8>> = gathered
        .entries
        .iter()
        .map(|entry| canonical_form(entry.bytes()))
        .collect();
    let catalogue = Catalogue {
        kind,
        hash: catalogue_hash(canonical.iter().map(Vec::as_slice)),
        entries: gathered.entries.iter().map(federated::Entry::value).collect(),
        unavailable: gathered.unavailable.iter().map(ServerId::as_str).collect(),
        ttl_ms: gathered.ttl_ms,
    };
    show(stages, request, &catalogue)
}

/// One page of a catalogue.
fn show(stages: &Stages<'_>, request: &Request, shown: &Catalogue<'_>) -> Ended {
    let (gateway, context) = (stages.gateway, stages.context);
    let Some(start) = page_start(gateway, request, context, &shown.hash) else {
        let message = "the cursor is not one of this list; ask for the first page again";
        return *stages.malformed(ErrorCode::InvalidParams, message);
    };
    let next = (start + PAGE < shown.entries.len()).then(|| cursor(gateway, start + PAGE, context, &shown.hash));
    let result = shown.page(context.client.era(), start, next);
    stages.listed(result, shown.hash)
}

/// The digest of the tools a principal sees now: another one means that their list changed.
pub(crate) fn tools_seen(snapshot: &Snapshot, context: &RequestContext) -> Digest {
    Tools::of(snapshot, context).catalogue().hash
}

/// Where the page begins; `None` for a cursor that is not ours, not theirs, or of another list.
fn page_start(gateway: &Gateway, request: &Request, context: &RequestContext, hash: &Digest) -> Option<usize> {
    match request.params().raw("cursor") {
        None | Some(b"null") => Some(0),
        Some(_) => {
            let sent = request.params().text("cursor")?;
            let start: usize = sent.split_once('.')?.0.parse().ok()?;
            (cursor(gateway, start, context, hash) == sent).then_some(start)
        }
    }
}

/// A cursor sealed for this principal, route and catalogue.
fn cursor(gateway: &Gateway, start: usize, context: &RequestContext, hash: &Digest) -> String {
    let route = context.route.resource_path();
    let mut seal = hmac::Context::with_key(&gateway.cursor_key);
    for part in [
        start.to_string().as_bytes(),
        PrincipalKey::of(&context.who).digest().as_bytes(),
        route.as_bytes(),
    ] {
        seal.update(&(part.len() as u64).to_be_bytes());
        seal.update(part);
    }
    seal.update(hash.as_bytes());
    let tag = seal.sign();
    let tag = HEXLOWER.encode(tag.as_ref().get(..16).unwrap_or(tag.as_ref()));
    format!("{start}.{tag}")
}

/// The tools one principal sees on one route.
struct Tools<'a> {
    listed: Vec<&'a ListedDefinition>,
    unavailable: Vec<&'a str>,
}

impl<'a> Tools<'a> {
    fn of(snapshot: &'a Snapshot, context: &RequestContext) -> Self {
        let (who, server) = (&context.who, context.route.server());
        let caller = snapshot.policy.caller(who);
        let visible = snapshot.policy.visible(&caller, server, context.client.face());
        let definition_of = |entry: &Arc<ToolEntry>| {
            let tool = snapshot.tool(entry)?;
            if server.is_some() {
                Some(tool.plain())
            } else {
                tool.federated()
            }
        };
        let mut listed: Vec<&ListedDefinition> = visible.iter().filter_map(definition_of).collect();
        // Who sees no tool has nothing to read on in.
        if !listed.is_empty() && definition::is_offered(snapshot) {
            listed.push(&definition::LISTED);
        }
        let unavailable = if server.is_none() {
            unavailable(snapshot, who, &visible)
        } else {
            Vec::new()
        };
        Self { listed, unavailable }
    }

    fn catalogue(&self) -> Catalogue<'_> {
        Catalogue {
            kind: ListKind::Tools,
            hash: catalogue_hash(self.listed.iter().map(|listed| listed.canonical.as_slice())),
            entries: self.listed.iter().map(|listed| OwnValue::Definition(listed)).collect(),
            unavailable: self.unavailable.clone(),
            ttl_ms: 0,
        }
    }
}

/// Everything one principal sees of one kind on one route.
struct Catalogue<'a> {
    kind: ListKind,
    entries: Vec<OwnValue<'a>>,
    hash: Digest,
    unavailable: Vec<&'a str>,
    ttl_ms: u64,
}

impl Catalogue<'_> {
    fn page(&self, era: Era, start: usize, next: Option<String>) -> OwnResult {
        let end = self.entries.len().min(start + PAGE);
        let entries = OwnValue::Part(self.entries.get(start..end).unwrap_or_default());
        let mut members = vec![(self.kind.member(), entries)];
        members.extend(next.map(|cursor| ("nextCursor", OwnValue::Text(cursor.into()))));
        if era == Era::Modern {
            members.push(("resultType", OwnValue::Fixed("\"complete\"")));
            members.push(("ttlMs", OwnValue::Number(self.ttl_ms)));
            members.push(("cacheScope", OwnValue::Fixed("\"private\"")));
        }
        members.extend(self.meta(era).map(|meta| ("_meta", meta)));
        OwnResult::object(&members)
    }

    fn meta(&self, era: Era) -> Option<OwnValue<'_>> {
        let mut members = Vec::new();
        if era == Era::Modern {
            members.push((mcp::translate::SERVER_INFO, OwnValue::Fixed(compose::OUR_INFO)));
        }
        if !self.unavailable.is_empty() {
            let names = self.unavailable.iter().map(|id| OwnValue::Text((*id).into()));
            members.push(("portreeve/unavailable", OwnValue::Array(names.collect())));
        }
        (!members.is_empty()).then_some(OwnValue::Object(members))
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
