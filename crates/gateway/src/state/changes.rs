//! Tells everybody who listens that something changed: the snapshot as a whole, or a list of a server.

use tokio::sync::{broadcast, watch};
use upstream::ListKind;
use vocabulary::ServerId;

/// What changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// Inventory, policies or settings: lists of tools may differ.
    SnapshotReplaced,
    /// A list of a server that is not kept here.
    Changed(ServerId, ListKind),
    /// A credential was taken back: whoever listens has to show theirs again.
    Recheck,
    /// The gateway stops.
    Stop,
}

/// See the module. Whoever is slow to listen hears that something was missed.
pub(crate) struct ChangeFeed {
    sender: broadcast::Sender<Change>,
    stopping: watch::Sender<bool>,
}

const MOST_UNHEARD: usize = 256;

impl Default for ChangeFeed {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(MOST_UNHEARD),
            stopping: watch::Sender::new(false),
        }
    }
}

impl ChangeFeed {
    pub(crate) fn snapshot_replaced(&self) {
        let _ = self.sender.send(Change::SnapshotReplaced);
    }

    pub(crate) fn changed(&self, server: &ServerId, kind: ListKind) {
        let _ = self.sender.send(Change::Changed(server.clone(), kind));
    }

    pub(crate) fn recheck(&self) {
        let _ = self.sender.send(Change::Recheck);
    }

    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
        let _ = self.sender.send(Change::Stop);
    }

    /// Completes when the gateway stops, or has stopped before.
    pub(crate) async fn stopped(&self) {
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Change> {
        self.sender.subscribe()
    }
}
