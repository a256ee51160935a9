//! Lists that servers keep themselves: asked of each server for this client, screened entry by
//! entry, filtered by policy, and named as the route names things. One broken server does not take
//! the others down.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use policy::{ItemKind, Listing, Target, fits_template};
use screening::definition::{is_doubtful, unforged};
use screening::result::walk::Message;
use screening::result::{Origin, Raw, Received, ScreenedResult};
use tokio::task::JoinSet;
use upstream::{Cut, Failure, ListKind, Listed, Server};
use vocabulary::ServerId;

use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::message::Adapted;
use crate::message::own::OwnValue;
use crate::offers::usable;
use crate::screen::{beside_a_call, of_tool, screen, screen_and_keep};
use crate::snapshot::{ServerState, Snapshot};

/// What the servers of a route list.
pub(crate) struct Gathered {
    pub(crate) entries: Vec<Entry>,
    /// Servers that did not answer, or whose list could not be read to its end.
    pub(crate) unavailable: Vec<ServerId>,
    /// Why the last of them did not.
    pub(crate) failure: Option<Failure>,
    pub(crate) ttl_ms: u64,
}

/// An entry of a list that a client may see.
pub(crate) enum Entry {
    /// As its server sent it.
    Screened(ScreenedResult),
    /// Under a name or an id of ours.
    Adapted(Adapted),
}

impl Entry {
    pub(crate) fn bytes(&self) -> &Bytes {
        match self {
            Self::Screened(screened) => screened.bytes(),
            Self::Adapted(adapted) => adapted.bytes(),
        }
    }

    pub(crate) fn value(&self) -> OwnValue<'_> {
        match self {
            Self::Screened(screened) => OwnValue::Screened(screened),
            Self::Adapted(adapted) => OwnValue::Adapted(adapted),
        }
    }
}

/// One client's request for a list, and what it looks at.
#[derive(Clone, Copy)]
pub(crate) struct Gathering<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) context: &'a RequestContext,
    pub(crate) snapshot: &'a Arc<Snapshot>,
}

impl Gathering<'_> {
    /// Asks the servers of the route that have such a list.
    pub(crate) async fn gather(self, kind: ListKind) -> Gathered {
        let mut gathered = Gathered {
            entries: Vec::new(),
            unavailable: Vec::new(),
            failure: None,
            ttl_ms: u64::MAX,
        };
        for (server, listed) in self.ask_servers(kind).await {
            let listed = listed.and_then(|listed| match listed.cut {
                Some(Cut::Loop) => Err(Failure::EndlessList),
                Some(Cut::Entries | Cut::Bytes | Cut::Pages) | None => Ok(listed),
            });
            match listed {
                Ok(listed) => {
                    // What could be read is shown, and that there is more.
                    if let Some(why) = listed.cut {
                        tracing::warn!(server = %server.id(), %why, "a list could not be read to its end");
                        gathered.unavailable.push(server.id().clone());
                    }
                    gathered.ttl_ms = gathered.ttl_ms.min(listed.ttl_ms);
                    gathered.entries.extend(self.admitted(server.id(), kind, listed).await);
                }
                Err(failure) => {
                    tracing::warn!(server = %server.id(), error = &failure as &dyn std::error::Error, "a list failed");
                    gathered.unavailable.push(server.id().clone());
                    gathered.failure = Some(failure);
                }
            }
        }
        if self.context.route.server().is_none() {
            let down = |id: &&ServerId| {
                self.snapshot.state_of(id) != ServerState::Up && usable(self.snapshot, &self.context.who, id)
            };
            let missing = self.snapshot.servers().map(|server| server.id()).filter(down);
            gathered.unavailable.extend(missing.cloned());
            gathered.unavailable.sort();
        }
        if gathered.ttl_ms == u64::MAX {
            gathered.ttl_ms = 0;
        }
        gathered
    }

    /// For each URI the servers that list it, or have a template that fits it, of those the client may
    /// read it from. The servers are asked once for all.
    pub(crate) async fn owners_of(self, uris: &[String]) -> Vec<Vec<ServerId>> {
        let mut owners: Vec<Vec<ServerId>> = vec![Vec::new(); uris.len()];
        let policy = &self.snapshot.policy;
        let caller = policy.caller(&self.context.who);
        let mut listed_by = std::collections::BTreeSet::new();
        for kind in [ListKind::Resources, ListKind::Templates] {
            if owners.iter().all(|found| !found.is_empty()) {
                break;
            }
            for (server, listed) in self.ask_servers(kind).await {
                let Ok(listed) = listed else { continue };
                let names = self.listed_names(server.id(), kind, listed).await;
                for (uri, found) in uris.iter().zip(&mut owners) {
                    let target = Target::Resource {
                        server: server.id().clone(),
                        uri: uri.as_str().into(),
                    };
                    // A resource that a server lists is its own, whatever another's templates fit.
                    let decided = kind == ListKind::Templates
                        && found
                            .iter()
                            .any(|owner| listed_by.contains(&(owner.clone(), uri.clone())));
                    if !decided && fits(kind, &names, uri) && policy.could(&caller, "resources/read", &target) {
                        if kind == ListKind::Resources {
                            listed_by.insert((server.id().clone(), uri.clone()));
                        }
                        found.push(server.id().clone());
                    }
                }
            }
        }
        owners
    }

    async fn ask_servers(self, kind: ListKind) -> Vec<(Arc<Server>, Result<Listed, Failure>)> {
        let guest = self.context.guest();
        let mut asking = JoinSet::new();
        for server in self.listing_servers(kind) {
            let guest = guest.clone();
            asking.spawn(async move {
                let listed = upstream::list(&server, &guest, kind).await;
                (server, listed)
            });
        }
        let mut answers = asking.join_all().await;
        answers.sort_by(|(one, _), (other, _)| one.id().cmp(other.id()));
        answers
    }

    fn listing_servers(self, kind: ListKind) -> Vec<Arc<Server>> {
        let member = match kind {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources | ListKind::Templates => "resources",
            ListKind::Tasks => "tasks",
        };
        let only = self.context.route.server();
        let wanted = |server: &&Arc<Server>| {
            only.is_none_or(|only| only == server.id())
                && (only.is_some() || self.snapshot.state_of(server.id()) == ServerState::Up)
                && mcp::server::member_span(&server.introduction(self.context.client.era()).capabilities, member)
                    .is_some()
                && usable(self.snapshot, &self.context.who, server.id())
        };
        self.snapshot.servers().filter(wanted).cloned().collect()
    }

    /// The entries that cross the chokepoint, that the client may use, under the route's names.
    async fn admitted(self, server: &ServerId, kind: ListKind, listed: Listed) -> Vec<Entry> {
        let caller = self.snapshot.policy.caller(&self.context.who);
        let mut admitted = Vec::new();
        let entries: Vec<Raw> = listed.entries.into_iter().map(Received::into_raw).collect();
        let twice = names_given_twice(kind, &entries);
        for entry in entries {
            if kind == ListKind::Tasks {
                let task = self.admitted_task(server, entry).await;
                admitted.extend(task.map(Entry::Adapted));
                continue;
            }
            let is_pinned = self.is_pinned(server, kind, entry.bytes(), &twice);
            // What hides something is on record, whether it would be shown or not.
            let screened = screen(self.gateway, entry, &origin(server, kind), self.context).await;
            let Some(entry) = screened.ok().filter(|_| is_pinned) else {
                continue;
            };
            let Some((action, target)) = target(server, kind, entry.bytes()) else {
                continue;
            };
            if !self.snapshot.policy.could(&caller, action, &target) {
                continue;
            }
            if self.context.route.server().is_none() && kind == ListKind::Prompts {
                admitted.extend(Adapted::federated_name(entry, server).map(Entry::Adapted));
            } else {
                admitted.push(Entry::Screened(entry));
            }
        }
        admitted
    }

    /// Whether an entry may be shown as it is: it is approved so, or nobody need look at it. What nobody has seen so before is
    /// looked at soon.
    fn is_pinned(self, server: &ServerId, list: ListKind, raw: &[u8], twice: &HashSet<String>) -> bool {
        let kind = match list {
            ListKind::Prompts => ItemKind::Prompt,
            ListKind::Resources => ItemKind::Resource,
            ListKind::Templates => ItemKind::Template,
            ListKind::Tools | ListKind::Tasks => return true,
        };
        let (policy, screening) = (&self.snapshot.policy, &self.snapshot.screening);
        let definition = unforged(raw);
        let listing = policy.inventory().listing(server, kind, &definition);
        let detector = screening.sanitisation.action.detector().map(AsRef::as_ref);
        let is_shown = match listing {
            Listing::Approved => true,
            Listing::Welcome => {
                name_of(list, raw).is_some_and(|name| !twice.contains(&name)) && !is_doubtful(raw, detector)
            }
            Listing::Withheld | Listing::Unknown => false,
        };
        if matches!(listing, Listing::Welcome | Listing::Unknown)
            && let Some(server) = self.snapshot.server(server)
        {
            server.note_change(&self.context.guest());
        }
        is_shown
    }

    /// A task by our name, judged as what its tool brings. What is not this principal's is not there.
    async fn admitted_task(self, server: &ServerId, raw: Raw) -> Option<Adapted> {
        let (tasks, who) = (&self.gateway.tasks, &self.context.who);
        let theirs = raw.bytes().get(mcp::server::member_span(raw.bytes(), "taskId")?)?;
        let tool = tasks.tool_of(theirs, who, server)?;
        let ours = tasks.ours(theirs, who, server)?;
        let origin = of_tool(self.snapshot, &tool, Message::TaskState);
        let entry = screen_and_keep(self.gateway, raw, &origin, &tool, self.context)
            .await
            .ok()?;
        Adapted::task_news(entry, &ours)
    }

    /// The URIs or templates of a list that cross the chokepoint.
    async fn listed_names(self, server: &ServerId, kind: ListKind, listed: Listed) -> Vec<String> {
        let mut names = Vec::new();
        for entry in listed.entries {
            if let Ok(entry) = screen(self.gateway, entry, &origin(server, kind), self.context).await {
                names.extend(name_of(kind, entry.bytes()));
            }
        }
        names
    }
}

/// What an entry is known by.
fn name_of(kind: ListKind, raw: &[u8]) -> Option<String> {
    let member = match kind {
        ListKind::Tools | ListKind::Prompts => "name",
        ListKind::Resources => "uri",
        ListKind::Templates => "uriTemplate",
        ListKind::Tasks => "taskId",
    };
    mcp::server::text_member(raw, member)
}

/// Of two entries of one name neither can be believed that nobody has looked at.
fn names_given_twice(kind: ListKind, entries: &[Raw]) -> HashSet<String> {
    let mut seen = HashSet::new();
    let names = entries.iter().filter_map(|entry| name_of(kind, entry.bytes()));
    names.filter(|name| !seen.insert(name.clone())).collect()
}

/// Entries are definitions, but for tasks.
fn origin(server: &ServerId, kind: ListKind) -> Origin<'_> {
    let message = match kind {
        ListKind::Tools | ListKind::Prompts | ListKind::Resources | ListKind::Templates => Message::Definitions,
        ListKind::Tasks => Message::TaskState,
    };
    beside_a_call(server, None, message)
}

fn fits(kind: ListKind, names: &[String], uri: &str) -> bool {
    names.iter().any(|name| match kind {
        ListKind::Templates => fits_template(name, uri),
        ListKind::Tools | ListKind::Prompts | ListKind::Resources | ListKind::Tasks => name == uri,
    })
}

/// What an entry would be used as.
fn target(server: &ServerId, kind: ListKind, raw: &[u8]) -> Option<(&'static str, Target)> {
    let server = server.clone();
    let name = || name_of(kind, raw).map(Arc::from);
    match kind {
        ListKind::Tools | ListKind::Tasks => None,
        ListKind::Prompts => Some(("prompts/get", Target::Prompt { server, name: name()? })),
        ListKind::Resources | ListKind::Templates => {
            Some(("resources/read", Target::Resource { server, uri: name()? }))
        }
    }
}
