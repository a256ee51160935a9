//! What a change means to those who listen: to one client on its route, and to the inventory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcp::ServerNotice;
use policy::{ItemKind, LISTED_KINDS};
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
use crate::snapshot::Snapshot;
use crate::state::changes::Change;

/// What a change means to one client.
pub(crate) enum ForClient {
    Nothing,
    ListsChanged(Vec<(ListKind, About)>),
    Recheck,
    Stop,
}

/// What one client knows of its lists. However often a server says that one changed, the client is told once for each time that the
/// server was asked again: who asks at once then gets what is new, and nobody is flooded.
pub(crate) struct ListsKnown {
    catalogue: Digest,
    /// What is approved of what the servers of its route list beside tools.
    marks: BTreeMap<(ServerId, ItemKind), Option<Digest>>,
    /// A server said that its tools changed, and has not been asked again yet.
    tools_announced: bool,
    /// The same of another list.
    announced: BTreeSet<(ServerId, ItemKind)>,
}

impl ListsKnown {
    pub(crate) fn by(gateway: &Gateway, context: &RequestContext) -> Self {
        let snapshot = gateway.in_force();
        Self {
            catalogue: tools_seen(&snapshot, context),
            marks: marks(&snapshot, context),
            tools_announced: false,
            announced: BTreeSet::new(),
        }
    }

    fn announce(&mut self, server: ServerId, kind: ListKind) {
        match kind {
            ListKind::Tools => self.tools_announced = true,
            ListKind::Prompts => drop(self.announced.insert((server, ItemKind::Prompt))),
            // One notification is about both.
            ListKind::Resources | ListKind::Templates => drop(self.announced.insert((server, ItemKind::Resource))),
            ListKind::Tasks => {}
        }
    }

    /// What the client is to be told, now that a snapshot is in force: which lists differ, or are said to.
    fn renew(&mut self, snapshot: &Snapshot, context: &RequestContext) -> Vec<(ListKind, About)> {
        let mut changed = Vec::new();
        let now = tools_seen(snapshot, context);
        let differs = std::mem::replace(&mut self.catalogue, now) != now;
        if std::mem::take(&mut self.tools_announced) || differs {
            changed.push((ListKind::Tools, About::Own));
        }
        let now = marks(snapshot, context);
        let before = std::mem::replace(&mut self.marks, now);
        let mut others = std::mem::take(&mut self.announced);
        let differs = |of: &&(ServerId, ItemKind)| before.get(*of) != self.marks.get(*of);
        others.extend(
            before
                .keys()
                .chain(self.marks.keys())
                .filter(differs)
                .map(|(server, kind)| {
                    let kind = match kind {
                        ItemKind::Template => ItemKind::Resource,
                        other @ (ItemKind::Resource | ItemKind::Prompt | ItemKind::Tool | ItemKind::Instructions) => {
                            *other
                        }
                    };
                    (server.clone(), kind)
                }),
        );
        changed.extend(
            others
                .into_iter()
                .filter_map(|(server, kind)| heard(snapshot, context, server, kind)),
        );
        changed
    }
}

/// What is approved of what the servers of a client's route list beside tools.
fn marks(snapshot: &Snapshot, context: &RequestContext) -> BTreeMap<(ServerId, ItemKind), Option<Digest>> {
    let inventory = snapshot.policy.inventory();
    let servers = inventory.servers().map(|server| &server.id);
    let of_route = servers.filter(|id| context.route.server().is_none_or(|only| only == *id));
    let each = of_route.flat_map(|id| LISTED_KINDS.map(|kind| (id, kind)));
    each.map(|(id, kind)| ((id.clone(), kind), inventory.approved_mark(id, kind)))
        .collect()
}

/// What a client is told of a server's list, if it may use the server.
fn heard(snapshot: &Snapshot, context: &RequestContext, server: ServerId, kind: ItemKind) -> Option<(ListKind, About)> {
    let route = Route::Server(server.clone());
    let offers = Offers::of(snapshot, &context.who, &route, context.client.era());
    let about = About::Server(server);
    match kind {
        ItemKind::Prompt => offers.prompts.then_some((ListKind::Prompts, about)),
        ItemKind::Resource | ItemKind::Template => offers.resources.then_some((ListKind::Resources, about)),
        ItemKind::Tool | ItemKind::Instructions => None,
    }
}

/// What a change means to one principal on one route, by the rules in force now.
pub(crate) fn meaning(
    gateway: &Gateway,
    context: &RequestContext,
    change: Result<Change, broadcast::error::RecvError>,
    known: &mut ListsKnown,
) -> ForClient {
    match change {
        Ok(Change::Stop) | Err(broadcast::error::RecvError::Closed) => ForClient::Stop,
        Ok(Change::Recheck) => ForClient::Recheck,
        Ok(Change::SnapshotReplaced) | Err(broadcast::error::RecvError::Lagged(_)) => {
            match known.renew(&gateway.in_force(), context) {
                changed if changed.is_empty() => ForClient::Nothing,
                changed => ForClient::ListsChanged(changed),
            }
        }
        Ok(Change::Changed(server, kind)) => {
            let on_route = context.route.server().is_none_or(|only| *only == server);
            if on_route && usable(&gateway.in_force(), &context.who, &server) {
                known.announce(server, kind);
            }
            ForClient::Nothing
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

/// The servers of which a list changed, by their own word, from now on.
#[must_use]
pub fn stale_servers(gateway: &Gateway) -> StaleServers {
    StaleServers(gateway.changes.listen())
}

/// The servers of which a list changed, as they say so.
pub struct StaleServers(broadcast::Receiver<Change>);

impl StaleServers {
    /// The next one; `None` when the gateway stops.
    pub async fn next(&mut self) -> Option<ServerId> {
        loop {
            match self.0.recv().await {
                Ok(Change::Changed(
                    server,
                    ListKind::Tools | ListKind::Prompts | ListKind::Resources | ListKind::Templates,
                )) => return Some(server),
                Ok(Change::Changed(_, ListKind::Tasks) | Change::SnapshotReplaced | Change::Recheck)
                | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Ok(Change::Stop) | Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
