//! Reads a server's inventory: its introduction, then `tools/list` to the last page, as clients of each era get it that
//! can be asked nothing, everything and, where that makes a difference, everything but one thing; then its other lists. Where it
//! told a client that something is not what it was, the lists are read in that client's session or process too.
//! ADR 0055: the era follows the client, and definitions have faces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp::Era;
use policy::{Discovery, ItemKind, ItemsSeen, LISTED_KINDS, Shown};
use tokio::task::JoinSet;
use vocabulary::{CapabilitySet, Face};

use crate::failure::Failure;
use crate::list::{Cut, ListKind, Listed, list};
use crate::server::Server;
use crate::session::era;
use crate::session::eras::Eras;
use crate::session::guest::Guest;
use crate::session::open;

/// How often a list is read again that changes while it is read.
const MOST_TRIES: usize = 3;
/// How long a client's session or process may take to say what it shows.
const TOLD_PATIENCE: Duration = Duration::from_secs(10);

/// Asks `server` for everything it offers.
///
/// # Errors
/// When it cannot be reached, or speaks nonsense.
pub async fn discover(server: &Arc<Server>) -> Result<Discovery, Failure> {
    let discovered = ask(server).await;
    if matches!(
        discovered,
        Err(Failure::Refused(_) | Failure::Status(_) | Failure::Version | Failure::Nonsense(_))
    ) {
        // A server may have been replaced by one of the other era.
        server.doubt_era();
    }
    discovered
}

async fn ask(server: &Arc<Server>) -> Result<Discovery, Failure> {
    let mut eras = server.eras().await?;
    if eras == Eras::Modern && server.may_have_sessions() && era::begins_sessions(server).await {
        eras = Eras::Both;
    }
    let mut discovery = Discovery {
        server: server.id.clone(),
        instructions: None,
        shown: Vec::new(),
        told: Vec::new(),
        cut: None,
        doubtful: Default::default(),
    };
    for era in eras.each() {
        match Box::pin(look_at(server, *era, &mut discovery)).await {
            Ok(()) => {}
            // A modern server that begins sessions and shows nothing in them has none to speak of.
            Err(failure) if eras == Eras::Both && *era == Era::Legacy => {
                tracing::warn!(server = %server.id, error = &failure as &dyn std::error::Error,
                    "a server begins sessions and cannot be discovered in them");
                discovery.shown.retain(|shown| shown.to.era == Era::Modern);
                eras = Eras::Modern;
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    server.remember_eras(eras);
    discovery.told = told(server, ListKind::Tools).await;
    Ok(discovery)
}

/// Asks a server that was discovered for what it lists beside its tools. A kind that it does not speak of has no list; one that
/// cannot be read is left out, and nothing is known of it.
pub async fn discover_items(server: &Arc<Server>) -> ItemsSeen {
    let eras = server.known_eras().unwrap_or(Eras::Modern);
    let mut lists = BTreeMap::new();
    for kind in LISTED_KINDS {
        match items_of(server, eras, kind).await {
            Ok(found) => drop(lists.insert(kind, found)),
            Err(failure) => {
                let error = &failure as &dyn std::error::Error;
                tracing::warn!(server = %server.id, %kind, error, "a list could not be read; what it holds is left as it was");
            }
        }
    }
    ItemsSeen {
        server: server.id.clone(),
        lists,
        doubtful: Default::default(),
        secret: Default::default(),
    }
}

/// A list as it is in each era, and in the sessions of clients that were told of a change.
async fn items_of(server: &Arc<Server>, eras: Eras, kind: ItemKind) -> Result<Vec<Vec<Arc<[u8]>>>, Failure> {
    let (list_kind, member) = match kind {
        ItemKind::Prompt => (ListKind::Prompts, "prompts"),
        ItemKind::Resource => (ListKind::Resources, "resources"),
        ItemKind::Template => (ListKind::Templates, "resources"),
        ItemKind::Tool | ItemKind::Instructions => return Ok(Vec::new()),
    };
    let mut lists = Vec::new();
    for era in eras.each() {
        let capabilities = &server.introduction_in(*era).capabilities;
        if mcp::server::member_span(capabilities, member).is_none() {
            continue;
        }
        let face = Face {
            era: *era,
            can: CapabilitySet::NONE,
        };
        match list(server, &Guest::in_place_of(face), list_kind).await {
            Ok(listed) => lists.push(raw(listed)),
            // It speaks of resources and has no such list: there is nothing in it.
            Err(Failure::Refused(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    lists.extend(told(server, list_kind).await);
    Ok(lists)
}

/// A list as it is in the sessions of clients that were told of a change, all asked at once. Who does not answer soon is not heard:
/// nobody holds up what the others say.
async fn told(server: &Arc<Server>, kind: ListKind) -> Vec<Vec<Arc<[u8]>>> {
    let mut asking = JoinSet::new();
    for (place, guest) in server.guests_told().into_iter().enumerate() {
        let server = server.clone();
        asking.spawn(async move {
            let listed = tokio::time::timeout(TOLD_PATIENCE, list(&server, &guest, kind)).await;
            Some((place, raw(listed.ok()?.ok()?)))
        });
    }
    let mut lists: Vec<(usize, Vec<Arc<[u8]>>)> = asking.join_all().await.into_iter().flatten().collect();
    lists.sort_by_key(|(place, _)| *place);
    lists.into_iter().map(|(_, list)| list).collect()
}

fn raw(listed: Listed) -> Vec<Arc<[u8]>> {
    listed
        .entries
        .into_iter()
        .map(|entry| Arc::from(entry.0.as_ref()))
        .collect()
}

async fn look_at(server: &Arc<Server>, era: Era, discovery: &mut Discovery) -> Result<(), Failure> {
    introduce(server, era).await?;
    show_all(server, era, discovery).await?;
    let instructions = &server.introduction_in(era).instructions;
    if discovery.instructions.is_none() {
        discovery.instructions.clone_from(instructions);
    }
    Ok(())
}

async fn introduce(server: &Arc<Server>, era: Era) -> Result<(), Failure> {
    match era {
        Era::Modern => tokio::time::timeout(server.caps.timeout, era::introduce(server))
            .await
            .map_err(|_| Failure::TimedOut)?,
        Era::Legacy => open::session(server, &Guest::in_place_of(Face::LEAST)).await.map(drop),
    }
}

/// What clients of one era are shown. Where all are shown the same, that is all there is to know; where not, what is
/// missing without one capability needs it.
async fn show_all(server: &Arc<Server>, era: Era, discovery: &mut Discovery) -> Result<(), Failure> {
    let all = CapabilitySet::all_of(era);
    let face = |can| Face { era, can };
    let mut least = show(server, face(CapabilitySet::NONE), discovery).await?;
    for _ in 0..MOST_TRIES {
        // A shared session is told of no client's capabilities, and a list that does not end is not read again.
        if server.is_shared() || discovery.cut.is_some() {
            break;
        }
        let most = show(server, face(all), discovery).await.ok();
        let Some(most) = most.filter(|most| most.definitions != least.definitions) else {
            break;
        };
        // A list that changes meanwhile, or with every process, does not differ by whom it is shown to.
        server.end(&Guest::in_place_of(face(CapabilitySet::NONE)).key);
        let again = show(server, face(CapabilitySet::NONE), discovery).await?;
        if again.definitions != least.definitions {
            least = again;
            continue;
        }
        show_fewer(server, &least, most, discovery).await;
        break;
    }
    discovery.shown.push(least);
    Ok(())
}

/// What is shown without one capability and, where something needs none of them by itself, with one alone.
async fn show_fewer(server: &Arc<Server>, least: &Shown, most: Shown, discovery: &mut Discovery) {
    let Face { era, can: all } = most.to;
    let mut fewer = Vec::new();
    for capability in all.iter() {
        let can = all.without(capability);
        fewer.extend(show(server, Face { era, can }, discovery).await);
    }
    let is_everywhere = |definition: &Arc<[u8]>| fewer.iter().all(|shown| shown.definitions.contains(definition));
    let mut brought = most.definitions.iter().filter(|one| !least.definitions.contains(*one));
    if brought.any(is_everywhere) {
        for capability in all.iter() {
            let can = CapabilitySet::only(capability);
            fewer.extend(show(server, Face { era, can }, discovery).await);
        }
    }
    discovery.shown.push(most);
    discovery.shown.extend(fewer);
}

async fn show(server: &Arc<Server>, to: Face, discovery: &mut Discovery) -> Result<Shown, Failure> {
    let guest = Guest::in_place_of(to);
    let listed = list(server, &guest, ListKind::Tools).await;
    if !to.can.is_empty() {
        server.end(&guest.key);
    }
    let listed = listed?;
    discovery.cut = discovery.cut.or(listed.cut.map(Cut::as_str));
    Ok(Shown {
        to,
        definitions: raw(listed),
    })
}
