//! Tells a server that nobody waits for an answer any more.

use std::sync::Arc;

use mcp::compose;

use crate::credentials::Behalf;
use crate::http::Post;
use crate::server::Server;
use crate::session::opened::Opened;

/// A request in a session that we wait for. Dropped before its answer came (time is up, the caller
/// cancelled), it tells the server that nobody waits any more. A modern server learns it from the
/// stream that closes.
pub(crate) struct Unanswered {
    server: Arc<Server>,
    opened: Option<Opened>,
    behalf: Behalf,
    id: u64,
}

impl Unanswered {
    pub(crate) fn new(server: &Arc<Server>, session: Option<&Opened>, behalf: &Behalf, id: u64) -> Self {
        let (server, opened, behalf) = (server.clone(), session.cloned(), behalf.clone());
        Self {
            server,
            opened,
            behalf,
            id,
        }
    }

    /// Its answer is here, or there will be none.
    pub(crate) fn end(mut self) {
        self.opened = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let Some(opened) = self.opened.take() else { return };
        let (server, behalf, id) = (self.server.clone(), self.behalf.clone(), self.id);
        tokio::spawn(async move {
            let telling = async {
                let credential = server.credential_for(&behalf).await?;
                let post = Post::legacy(compose::cancelled_notification(id), &opened, &credential);
                server.link.notify(post).await
            };
            let _ = tokio::time::timeout(server.caps.timeout, telling).await;
        });
    }
}
