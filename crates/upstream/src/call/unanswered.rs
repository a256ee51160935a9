//! Tells a server that nobody waits for an answer any more.

use std::sync::Arc;

use mcp::compose;

use crate::http::Post;
use crate::server::Server;
use crate::session::opened::Opened;

/// A request in a session that we wait for. Dropped before its answer came (time is up, the caller
/// cancelled), it tells the server that nobody waits any more. A modern server learns it from the
/// stream that closes.
pub(crate) struct Unanswered {
    server: Arc<Server>,
    opened: Option<Opened>,
    id: u64,
}

impl Unanswered {
    pub(crate) fn new(server: &Arc<Server>, session: Option<&Opened>, id: u64) -> Self {
        let (server, opened) = (server.clone(), session.cloned());
        Self { server, opened, id }
    }

    /// Its answer is here, or there will be none.
    pub(crate) fn end(mut self) {
        self.opened = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let Some(opened) = self.opened.take() else { return };
        let (server, id) = (self.server.clone(), self.id);
        tokio::spawn(async move {
            let credential = server.credential.fetch();
            let post = Post::legacy(compose::cancelled_notification(id), &opened, &credential);
            let _ = tokio::time::timeout(server.caps.timeout, server.link.notify(post)).await;
        });
    }
}
