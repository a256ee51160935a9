//! Reads a server's inventory: its introduction, then `tools/list` to the last page, as clients of each era get it that
//! can be asked nothing, everything and, where that makes a difference, everything but one thing.
//! ADR 0055: the era follows the client, and definitions have faces.

use std::sync::Arc;

use mcp::Era;
use policy::{Discovery, Shown};
use vocabulary::{CapabilitySet, Face};

use crate::failure::Failure;
use crate::list::{Cut, ListKind, list};
use crate::server::Server;
use crate::session::era;
use crate::session::guest::Guest;
use crate::session::open;

/// How often a list is read again that changes while it is read.
const MOST_TRIES: usize = 3;

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
    let eras = server.eras().await?;
    let mut discovery = Discovery {
        server: server.id.clone(),
        instructions: None,
        asked: server.asked_eras(eras),
        shown: Vec::new(),
        cut: None,
        doubtful: Default::default(),
    };
    for era in eras.each() {
        introduce(server, *era).await?;
        let instructions = &server.introduction(*era).instructions;
        discovery.instructions = discovery.instructions.or_else(|| instructions.clone());
        Box::pin(show_all(server, *era, &mut discovery)).await?;
    }
    Ok(discovery)
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
        // A list that changes meanwhile does not differ by whom it is shown to.
        let again = show(server, face(CapabilitySet::NONE), discovery).await?;
        if again.definitions != least.definitions {
            least = again;
            continue;
        }
        discovery.shown.push(most);
        for capability in all.iter() {
            if let Ok(fewer) = show(server, face(all.without(capability)), discovery).await {
                discovery.shown.push(fewer);
            }
        }
        break;
    }
    discovery.shown.push(least);
    Ok(())
}

async fn show(server: &Arc<Server>, to: Face, discovery: &mut Discovery) -> Result<Shown, Failure> {
    let guest = Guest::in_place_of(to);
    let listed = list(server, &guest, ListKind::Tools).await;
    if !to.can.is_empty() {
        server.end(&guest.key);
    }
    let listed = listed?;
    discovery.cut = discovery.cut.or(listed.cut.map(Cut::as_str));
    let definitions = listed.entries.into_iter().map(|entry| Arc::from(entry.0.as_ref()));
    Ok(Shown {
        to,
        definitions: definitions.collect(),
    })
}
