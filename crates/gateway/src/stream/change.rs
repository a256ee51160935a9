//! What a change means to those who listen: to one client on its route, and to the inventory.

use std::sync::Arc;

use mcp::ServerNotice;
use tokio::sync::broadcast;
use upstream::{Failure, Guest, ListKind, NoObserver, Observer, Server, ServerEvent, Topics, Waiting};
use vocabulary::{Digest, Era, ServerId};

use crate::context::RequestContext;
use crate::delivery::About;
use crate::edge::route::Route;
use crate::events::observer::changed_list;
use crate::gateway::Gateway;
use crate::list::tools_seen;
use crate::offers::{Offers, usable};
use crate::state::changes::Change;

/// What a change means to one client.
pub(crate) enum ForClient {
    Nothing,
    ListChanged(ListKind, About),
    Recheck,
    Stop,
}

/// What one client knows of its list of tools.
pub(crate) struct ToolsKnown {
    catalogue: Digest,
    /// A server said that its tools changed, and has not been asked again yet.
    announced: bool,
}

impl ToolsKnown {
    pub(crate) fn by(gateway: &Gateway, context: &RequestContext) -> Self {
        Self {
            catalogue: tools_seen(&gateway.in_force(), context),
            announced: false,
        }
    }

    /// Whether the client is to be told, now that a snapshot is in force: its list differs, or a server said so.
    fn renew(&mut self, now: Digest) -> bool {
        let differs = std::mem::replace(&mut self.catalogue, now) != now;
        std::mem::take(&mut self.announced) || differs
    }
}

/// What a change means to one principal on one route, by the rules in force now.
pub(crate) fn meaning(
    gateway: &Gateway,
    context: &RequestContext,
    change: Result<Change, broadcast::error::RecvError>,
    known: &mut ToolsKnown,
) -> ForClient {
    match change {
        Ok(Change::Stop) | Err(broadcast::error::RecvError::Closed) => ForClient::Stop,
        Ok(Change::Recheck) => ForClient::Recheck,
        Ok(Change::SnapshotReplaced) | Err(broadcast::error::RecvError::Lagged(_)) => {
            let now = tools_seen(&gateway.in_force(), context);
            match known.renew(now) {
                true => ForClient::ListChanged(ListKind::Tools, About::Own),
                false => ForClient::Nothing,
            }
        }
        // It is passed on when the server was asked again: who asks at once then gets what is new.
        Ok(Change::Changed(server, ListKind::Tools)) => {
            let on_route = context.route.server().is_none_or(|only| *only == server);
            known.announced |= on_route && usable(&gateway.in_force(), &context.who, &server);
            ForClient::Nothing
        }
        Ok(Change::Changed(server, kind)) => {
            let on_route = context.route.server().is_none_or(|only| *only == server);
            let offers = Offers::of(
                &gateway.in_force(),
                &context.who,
                &Route::Server(server.clone()),
                context.client.era(),
            );
            match kind {
                ListKind::Prompts if on_route && offers.prompts => ForClient::ListChanged(kind, About::Server(server)),
                ListKind::Resources | ListKind::Templates if on_route && offers.resources => {
                    ForClient::ListChanged(kind, About::Server(server))
                }
                ListKind::Prompts | ListKind::Resources | ListKind::Templates | ListKind::Tools | ListKind::Tasks => {
                    ForClient::Nothing
                }
            }
        }
    }
}

pub(crate) fn notification_of(kind: ListKind) -> ServerNotice {
    match kind {
        ListKind::Tools | ListKind::Tasks => ServerNotice::ToolsChanged,
        ListKind::Prompts => ServerNotice::PromptsChanged,
        ListKind::Resources | ListKind::Templates => ServerNotice::ResourcesChanged,
    }
}

/// Listens to a server for changes of its lists, until it ends the stream. For the inventory.
///
/// # Errors
/// When the server has no such stream, or it breaks.
pub async fn hear_changes(gateway: &Gateway, server: &Arc<Server>) -> Result<(), Failure> {
    let offers = Offers::by(server, Era::Modern);
    let topics = Topics {
        tools: true,
        prompts: offers.prompts_change,
        resources: offers.resources_change,
        uris: Vec::new(),
    };
    let observer = InventoryObserver {
        gateway,
        server: server.id(),
    };
    upstream::listen(server, &Guest::gateway(), &topics, &observer, || {}).await
}

/// Hears only that lists changed.
struct InventoryObserver<'a> {
    gateway: &'a Gateway,
    server: &'a ServerId,
}

impl Observer for InventoryObserver<'_> {
    fn observe(&self, event: ServerEvent) -> Waiting<'_> {
        Box::pin(async move {
            match event {
                ServerEvent::Notification(told) => {
                    if let Some(kind) = ServerNotice::parse(told.method()).and_then(changed_list) {
                        self.gateway.changes.changed(self.server, kind);
                    }
                }
                question @ ServerEvent::Request(_) => NoObserver.observe(question).await,
            }
        })
    }

    fn quiet(&self) -> Waiting<'_> {
        Box::pin(std::future::ready(()))
    }

    fn last_asked(&self) -> Option<std::time::Instant> {
        None
    }
}

/// The servers whose tools changed, by their own word, from now on.
#[must_use]
pub fn stale_servers(gateway: &Gateway) -> StaleServers {
    StaleServers(gateway.changes.listen())
}

/// The servers whose tools changed, as they say so.
pub struct StaleServers(broadcast::Receiver<Change>);

impl StaleServers {
    /// The next one; `None` when the gateway stops.
    pub async fn next(&mut self) -> Option<ServerId> {
        loop {
            match self.0.recv().await {
                Ok(Change::Changed(server, ListKind::Tools)) => return Some(server),
                Ok(Change::Changed(..) | Change::SnapshotReplaced | Change::Recheck)
                | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Ok(Change::Stop) | Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
