//! Modern servers that may have sessions too are asked when the first client comes that has one. What they show it is
//! discovered before the client is told what is offered.
//! ADR 0055: the era follows the client.

use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::task::JoinSet;
use upstream::Server;
use vocabulary::Era;

use crate::context::incoming::IncomingRequest;
use crate::gateway::Gateway;
use crate::offers::usable;
use crate::snapshot::Snapshot;
use crate::state::changes::Change;

/// Asks the servers of a route that nobody has asked yet, and gives the snapshot to go on with. The wait is bounded.
pub(crate) async fn ask_for(gateway: &Gateway, incoming: &IncomingRequest) -> Arc<Snapshot> {
    let (snapshot, who) = (&incoming.snapshot, incoming.head.who());
    let on_route = |server: &&Arc<Server>| incoming.route.server().is_none_or(|only| only == server.id());
    let unasked = snapshot
        .servers()
        .filter(on_route)
        .filter(|server| server.may_have_sessions());
    let unasked: Vec<Arc<Server>> = unasked
        .filter(|server| usable(snapshot, who, server.id()))
        .cloned()
        .collect();
    if unasked.is_empty() {
        return snapshot.clone();
    }
    let mut changes = gateway.changes.listen();
    let asked = async {
        let mut asking = JoinSet::new();
        for server in unasked {
            asking.spawn(async move { server.era_for(Era::Legacy).await });
        }
        let found = asking.join_all().await;
        let mut more = found.iter().filter(|era| matches!(era, Ok(Era::Legacy))).count();
        while more > 0 {
            match changes.recv().await {
                Ok(Change::SnapshotReplaced) => more -= 1,
                Ok(Change::Changed(..) | Change::Recheck) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Ok(Change::Stop) | Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    };
    let _ = tokio::time::timeout(snapshot.limits.first_discovery, asked).await;
    gateway.in_force()
}
