//! Waits for servers that were never discovered since the start, so that a definition that changed meanwhile is not shown
//! or called.

use std::sync::Arc;

use vocabulary::Principal;

use crate::gateway::Gateway;
use crate::snapshot::{ServerState, Snapshot, Wanted};

/// The snapshot a request goes on with: the one it began with or, where it had to wait for the first discovery of servers
/// that what is wanted may come from, the one in force after that. The wait is bounded.
pub(crate) async fn discovered(
    gateway: &Gateway,
    snapshot: &Arc<Snapshot>,
    who: &Arc<Principal>,
    wanted: &Wanted<'_>,
) -> Arc<Snapshot> {
    let mut pending = snapshot.pending(who, wanted);
    if pending.is_empty() {
        return snapshot.clone();
    }
    let all = async {
        for state in &mut pending {
            let _ = state.wait_for(|state| *state != ServerState::Pending).await;
        }
    };
    let _ = tokio::time::timeout(snapshot.limits.first_discovery, all).await;
    gateway.in_force()
}
