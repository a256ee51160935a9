//! How the process is confined that a call goes to, for its receipt.

use std::sync::{Arc, Mutex};

use vocabulary::{Confinement, lock};

use crate::server::Server;
use crate::session::opened::Opened;

/// How the process is confined that a request went to; filled when it is sent. Nothing is kept for servers that are
/// elsewhere.
#[derive(Clone, Default)]
pub struct SeenConfinement(Option<Arc<Mutex<Option<Arc<Confinement>>>>>);

impl SeenConfinement {
    /// What is known so far.
    #[must_use]
    pub fn now(&self) -> Option<Arc<Confinement>> {
        lock(self.0.as_ref()?).clone()
    }

    pub(super) fn of(server: &Server) -> Self {
        Self(server.is_process().then(Arc::default))
    }

    /// The request goes to this session's process.
    pub(super) fn see(&self, session: &Opened) {
        if let Some(seen) = &self.0 {
            lock(seen).clone_from(&session.confinement);
        }
    }
}
