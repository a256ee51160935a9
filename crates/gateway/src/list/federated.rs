//! Lists that servers keep themselves: asked of each server for this client, screened entry by
//! entry, filtered by policy, and named as the route names things. One broken server does not take
//! the others down.

use std::sync::Arc;

use bytes::Bytes;
use policy::Target;
use screening::result::walk::Message;
use screening::result::{Origin, Raw, Received as _, ScreenedResult};
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
        for entry in listed.entries {
            if kind == ListKind::Tasks {
                let task = self.admitted_task(server, entry.into_raw()).await;
                admitted.extend(task.map(Entry::Adapted));
                continue;
            }
            let Ok(entry) = screen(self.gateway, entry, &origin(server, kind), self.context).await else {
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
        let member = if kind == ListKind::Templates {
            "uriTemplate"
        } else {
            "uri"
        };
        let mut names = Vec::new();
        for entry in listed.entries {
            if let Ok(entry) = screen(self.gateway, entry, &origin(server, kind), self.context).await {
                names.extend(mcp::server::text_member(entry.bytes(), member));
            }
        }
        names
    }
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
    let resource = |member: &str| {
        let uri = mcp::server::text_member(raw, member)?.into();
        Some((
            "resources/read",
            Target::Resource {
                server: server.clone(),
                uri,
            },
        ))
    };
    match kind {
        ListKind::Tools | ListKind::Tasks => None,
        ListKind::Prompts => {
            let name = mcp::server::text_member(raw, "name")?.into();
            Some(("prompts/get", Target::Prompt { server, name }))
        }
        ListKind::Resources => resource("uri"),
        ListKind::Templates => resource("uriTemplate"),
    }
}

/// Whether a URI could come from a template: its fixed parts stand in it in order.
fn fits_template(template: &str, uri: &str) -> bool {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((fixed, variable)) = rest.split_once('{') {
        let Some((_, behind)) = variable.split_once('}') else {
            return false;
        };
        parts.push(fixed);
        rest = behind;
    }
    if parts.is_empty() {
        return template == uri;
    }
    let Some(mut left) = parts.first().and_then(|first| uri.strip_prefix(first)) else {
        return false;
    };
    for part in parts.iter().skip(1) {
        match left.split_once(part) {
            Some((_, behind)) => left = behind,
            None => return false,
        }
    }
    left.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_fits_what_it_can_make() {
        for (template, uri, fits) in [
            ("test://template/{id}/data", "test://template/123/data", true),
            ("test://template/{id}/data", "test://template/123/other", false),
            ("file:///{+path}", "file:///a/b", true),
            ("a{x}b{y}c", "a1b2c", true),
            ("a{x}b{y}c", "a1c2b", false),
            ("plain", "plain", true),
            ("plain", "plainer", false),
            ("broken{", "broken{", false),
        ] {
            assert_eq!(fits_template(template, uri), fits, "{template} {uri}");
        }
    }
}
