//! Reads a server's inventory: its introduction, then `tools/list` to the last page.

use std::sync::Arc;

use mcp::Era;
use policy::Discovery;

use crate::failure::Failure;
use crate::list::{ListKind, list};
use crate::server::Server;
use crate::session::era;
use crate::session::guest::Guest;
use crate::session::open;

/// Asks `server` for everything it offers.
///
/// # Errors
/// When it cannot be reached, speaks nonsense, or its list does not end.
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
    let guest = Guest::gateway();
    match server.era().await? {
        Era::Modern => tokio::time::timeout(server.caps.timeout, era::introduce(server))
            .await
            .map_err(|_| Failure::TimedOut)??,
        Era::Legacy => drop(open::session(server, &guest).await?),
    }
    let listed = list(server, &guest, ListKind::Tools).await?;
    let definitions = listed.entries.into_iter().map(|entry| Arc::from(entry.0.as_ref()));
    Ok(Discovery {
        server: server.id.clone(),
        definitions: definitions.collect(),
        instructions: server.introduction().instructions.clone(),
        doubtful: Default::default(),
    })
}
