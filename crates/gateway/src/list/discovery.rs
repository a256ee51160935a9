//! Waits for servers that were never discovered since the start, so that a definition that changed meanwhile is not shown
//! or called.

use std::sync::Arc;

use tokio::sync::watch;
use upstream::ListKind;

use crate::delivery::Listener;
use crate::gateway::Gateway;
use crate::snapshot::{ServerState, Snapshot, Wanted};

/// The snapshot a request goes on with: the one it began with or, where it had to wait for the first discovery of servers
/// that what is wanted may come from, the one in force after that. The wait is bounded.
pub(crate) async fn discovered(
    gateway: &Gateway,
    snapshot: &Arc<Snapshot>,
    listener: &Listener,
    wanted: &Wanted<'_>,
) -> Arc<Snapshot> {
    let who = &listener.who;
    let mut pending = snapshot.pending(who, wanted);
    let waits = !pending.is_empty() || !snapshot.waiting_for_somebody(who, wanted).is_empty();
    if !waits {
        return snapshot.clone();
    }
    let all = async {
        for state in &mut pending {
            let _ = state.wait_for(|state| *state != ServerState::Pending).await;
        }
        for state in &mut lend(gateway, snapshot, listener, wanted) {
            until_asked(state).await;
        }
    };
    let _ = tokio::time::timeout(snapshot.limits.first_discovery, all).await;
    gateway.in_force()
}

/// Servers that give credentials to principals alone, and of which nobody's was good so far: they are asked again with this
/// caller's.
fn lend(
    gateway: &Gateway,
    snapshot: &Snapshot,
    listener: &Listener,
    wanted: &Wanted<'_>,
) -> Vec<watch::Receiver<ServerState>> {
    let (behalf, mut waited_for) = (listener.shown.behalf(), Vec::new());
    if !behalf.is_exchangeable() {
        return waited_for;
    }
    for (server, mut state) in snapshot.waiting_for_somebody(&listener.who, wanted) {
        server.lend(&behalf);
        state.mark_unchanged();
        gateway.changes.changed(server.id(), ListKind::Tools);
        waited_for.push(state);
    }
    waited_for
}

/// Until a server is up, or was asked in vain: the first answer may be that to a question from before somebody lent a credential.
async fn until_asked(state: &mut watch::Receiver<ServerState>) {
    for _ in 0..2 {
        if state.changed().await.is_err() || *state.borrow_and_update() == ServerState::Up {
            return;
        }
    }
}
