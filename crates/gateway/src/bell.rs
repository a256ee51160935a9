//! Tells everybody who listens that something changed: the town as a whole, or a list of a server.

use tokio::sync::broadcast;
use upstream::ListKind;
use vocabulary::ServerId;

/// What changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ring {
    /// Inventory, policies or settings: lists of tools may differ.
    TownMoved,
    /// A list of a server that is not kept here.
    Changed(ServerId, ListKind),
    /// The gateway stops.
    Stop,
}

/// See the module. Whoever is slow to listen hears that something was missed.
pub(crate) struct Bell(broadcast::Sender<Ring>);

const MOST_UNHEARD: usize = 256;

impl Default for Bell {
    fn default() -> Self {
        Self(broadcast::Sender::new(MOST_UNHEARD))
    }
}

impl Bell {
    pub(crate) fn town_moved(&self) {
        let _ = self.0.send(Ring::TownMoved);
    }

    pub(crate) fn changed(&self, server: &ServerId, kind: ListKind) {
        let _ = self.0.send(Ring::Changed(server.clone(), kind));
    }

    pub(crate) fn stop(&self) {
        let _ = self.0.send(Ring::Stop);
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Ring> {
        self.0.subscribe()
    }
}
