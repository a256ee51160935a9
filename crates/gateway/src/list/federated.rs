//! Lists that servers keep themselves: asked of each server for this client, screened entry by
//! entry, filtered by policy, and named as the route names things. One broken server does not take
//! the others down.

use std::sync::Arc;

use bytes::Bytes;
use mcp::method::federated;
use mcp::splice::Splice;
use policy::Target;
use screening::result::walk::Message;
use screening::result::{Origin, Raw, Received as _};
use tokio::task::JoinSet;
use upstream::{Failure, ListKind, Listed, Server};
use vocabulary::ServerId;

use crate::context::RequestContext;
use crate::era::initialize::usable;
use crate::receive::Gateway;
use crate::screen::{beside_a_call, of_tool};
use crate::snapshot::{ServerState, Snapshot};

/// What the servers of a route list.
pub(crate) struct Gathered {
    pub(crate) entries: Vec<Bytes>,
    /// Servers that did not answer.
    pub(crate) unavailable: Vec<ServerId>,
    /// Why the last of them did not.
    pub(crate) failure: Option<Failure>,
    pub(crate) ttl_ms: u64,
}

/// The longest name on the federated route.
const LONGEST_NAME: usize = 128;

impl Gateway {
    /// Asks the servers of the route that have such a list.
    pub(crate) async fn gather(&self, asked: &RequestContext, snapshot: &Arc<Snapshot>, kind: ListKind) -> Gathered {
        let mut gathered = Gathered {
            entries: Vec::new(),
            unavailable: Vec::new(),
            failure: None,
            ttl_ms: u64::MAX,
        };
        for (server, listed) in self.ask_servers(asked, snapshot, kind).await {
            match listed {
                Ok(listed) => {
                    gathered.ttl_ms = gathered.ttl_ms.min(listed.ttl_ms);
                    let entries = self.admitted(asked, snapshot, (server.id(), kind), listed).await;
                    gathered.entries.extend(entries);
                }
                Err(failure) => {
                    tracing::warn!(server = %server.id(), error = &failure as &dyn std::error::Error, "a list failed");
                    gathered.unavailable.push(server.id().clone());
                    gathered.failure = Some(failure);
                }
            }
        }
        if asked.route.server().is_none() {
            let missing = snapshot.servers().map(|server| server.id());
            let missing =
                missing.filter(|id| snapshot.state_of(id) != ServerState::Up && usable(snapshot, &asked.who, id));
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
    pub(crate) async fn owners_of(
        &self,
        asked: &RequestContext,
        snapshot: &Arc<Snapshot>,
        uris: &[String],
    ) -> Vec<Vec<ServerId>> {
        let mut owners: Vec<Vec<ServerId>> = vec![Vec::new(); uris.len()];
        let caller = snapshot.policy.caller(&asked.who);
        let mut listed_by = std::collections::BTreeSet::new();
        for kind in [ListKind::Resources, ListKind::Templates] {
            if owners.iter().all(|found| !found.is_empty()) {
                break;
            }
            for (server, listed) in self.ask_servers(asked, snapshot, kind).await {
                let Ok(listed) = listed else { continue };
                let names = self.listed_names(asked, (server.id(), kind), listed).await;
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
                    if !decided && fits(kind, &names, uri) && snapshot.policy.could(&caller, "resources/read", &target)
                    {
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

    async fn ask_servers(
        &self,
        asked: &RequestContext,
        snapshot: &Arc<Snapshot>,
        kind: ListKind,
    ) -> Vec<(Arc<Server>, Result<Listed, Failure>)> {
        let guest = asked.client.guest(&asked.who);
        let mut asking = JoinSet::new();
        for server in self.listing_servers(asked, snapshot, kind) {
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

    fn listing_servers(&self, asked: &RequestContext, snapshot: &Snapshot, kind: ListKind) -> Vec<Arc<Server>> {
        let member = match kind {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources | ListKind::Templates => "resources",
            ListKind::Tasks => "tasks",
        };
        let wanted = |server: &&Arc<Server>| {
            let on_route = asked.route.server().is_none_or(|only| only == server.id());
            on_route
                && (asked.route.server().is_some() || snapshot.state_of(server.id()) == ServerState::Up)
                && mcp::server::member_span(&server.introduction().capabilities, member).is_some()
                && usable(snapshot, &asked.who, server.id())
        };
        snapshot.servers().filter(wanted).cloned().collect()
    }

    /// The entries that cross the chokepoint, that the client may use, under the route's names.
    async fn admitted(
        &self,
        asked: &RequestContext,
        snapshot: &Snapshot,
        (server, kind): (&ServerId, ListKind),
        listed: Listed,
    ) -> Vec<Bytes> {
        let caller = snapshot.policy.caller(&asked.who);
        let mut admitted = Vec::new();
        for entry in listed.entries {
            if kind == ListKind::Tasks {
                admitted.extend(self.admitted_task(asked, snapshot, server, entry.into_raw()).await);
                continue;
            }
            let Ok(entry) = self.screen(entry, &origin(server, kind), asked).await else {
                continue;
            };
            let raw = entry.bytes();
            let Some((action, target)) = target(server, kind, raw) else {
                continue;
            };
            if !snapshot.policy.could(&caller, action, &target) {
                continue;
            }
            let federated_prompt = asked.route.server().is_none() && kind == ListKind::Prompts;
            if !federated_prompt {
                admitted.push(raw.clone());
            } else if let Some(renamed) = renamed(server, raw) {
                admitted.push(renamed);
            }
        }
        admitted
    }

    /// A task by our name, judged as what its tool brings. What is not this principal's is not there.
    async fn admitted_task(
        &self,
        asked: &RequestContext,
        snapshot: &Snapshot,
        server: &ServerId,
        raw: Raw,
    ) -> Option<Bytes> {
        let theirs = raw.bytes().get(mcp::server::member_span(raw.bytes(), "taskId")?)?;
        let tool = self.tasks.tool_of(theirs, &asked.who, server)?;
        let origin = of_tool(snapshot, &tool, Message::TaskState);
        let entry = self.screen_and_keep(raw, &origin, &tool, asked).await.ok()?;
        self.tasks.renamed(entry.bytes(), &asked.who, server)
    }

    /// The URIs or templates of a list that cross the chokepoint.
    async fn listed_names(
        &self,
        asked: &RequestContext,
        (server, kind): (&ServerId, ListKind),
        listed: Listed,
    ) -> Vec<String> {
        let member = if kind == ListKind::Templates {
            "uriTemplate"
        } else {
            "uri"
        };
        let mut names = Vec::new();
        for entry in listed.entries {
            if let Ok(entry) = self.screen(entry, &origin(server, kind), asked).await {
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

fn renamed(server: &ServerId, raw: &Bytes) -> Option<Bytes> {
    let mut splice = Splice::new(raw).ok()?;
    let name = mcp::envelope::text_of(splice.raw("name")?)?;
    let name = federated(server.as_str(), &name);
    if name.chars().count() > LONGEST_NAME {
        return None;
    }
    splice.replace_or_insert("name", mcp::compose::literal(&name));
    Some(splice.finish())
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
