//! What is offered on a route to a principal. Nobody learns here of a server they may not use.

use std::sync::Arc;

use bytes::Bytes;
use mcp::{Era, Method};
use vocabulary::{Principal, ServerId};

use crate::edge::route::Route;
use crate::message::own::OwnValue;
use crate::snapshot::Snapshot;

/// What the servers of a route offer, beside tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Offers {
    pub(crate) prompts: bool,
    pub(crate) prompts_change: bool,
    pub(crate) resources: bool,
    pub(crate) resources_change: bool,
    pub(crate) subscriptions: bool,
    pub(crate) completions: bool,
    pub(crate) logging: bool,
    pub(crate) tasks: bool,
    pub(crate) session_tasks: bool,
}

impl Offers {
    /// What a principal is offered on a route, with a client of this era.
    pub(crate) fn of(snapshot: &Snapshot, who: &Arc<Principal>, route: &Route, client: Era) -> Self {
        let servers = snapshot.servers().filter(|server| match route.server() {
            Some(only) => server.id() == only,
            None => true,
        });
        let mut offers = Self::default();
        for server in servers.filter(|server| usable(snapshot, who, server.id())) {
            offers.add(&server.introduction(client).capabilities);
        }
        offers
    }

    /// What one server offers to clients of this era.
    pub(crate) fn by(server: &upstream::Server, client: Era) -> Self {
        let mut offers = Self::default();
        offers.add(&server.introduction(client).capabilities);
        offers
    }

    pub(crate) fn add(&mut self, capabilities: &Bytes) {
        let member = |raw: &Bytes, name: &str| mcp::server::member_span(raw, name).map(|span| raw.slice(span));
        let part = |name: &str| member(capabilities, name);
        let says = |raw: &Option<Bytes>, name: &str| {
            raw.as_ref().and_then(|raw| member(raw, name)).as_deref() == Some(b"true")
        };
        let (prompts, resources) = (part("prompts"), part("resources"));
        self.prompts |= prompts.is_some();
        self.prompts_change |= says(&prompts, "listChanged");
        self.resources |= resources.is_some();
        self.resources_change |= says(&resources, "listChanged");
        self.subscriptions |= says(&resources, "subscribe");
        self.completions |= part("completions").is_some();
        self.logging |= part("logging").is_some();
        let extensions = part("extensions");
        let extension = extensions.and_then(|raw| member(&raw, TASKS));
        self.tasks |= extension.is_some();
        let calls = part("tasks")
            .and_then(|raw| member(&raw, "requests"))
            .and_then(|raw| member(&raw, "tools"))
            .and_then(|raw| member(&raw, "call"));
        self.session_tasks |= calls.is_some();
    }

    /// Whether a method is one of what is offered.
    pub(crate) fn include(self, method: &Method) -> bool {
        match method {
            Method::ResourcesRead => self.resources,
            Method::Subscribe | Method::Unsubscribe => self.subscriptions,
            Method::PromptsGet => self.prompts,
            Method::Complete => self.completions,
            Method::TasksGet | Method::TasksCancel => self.tasks || self.session_tasks,
            Method::TasksResult | Method::TasksList => self.session_tasks,
            Method::Initialize
            | Method::Discover
            | Method::Ping
            | Method::ToolsList
            | Method::ToolsCall
            | Method::ResourcesList
            | Method::TemplatesList
            | Method::PromptsList
            | Method::SetLevel
            | Method::Listen
            | Method::TasksUpdate
            | Method::Other(_) => true,
        }
    }

    /// The same, as the gateway says it of itself.
    pub(crate) fn capabilities(self, era: Era) -> OwnValue<'static> {
        let flag = |set: bool, name| set.then_some((name, OwnValue::Fixed("true")));
        let empty = || OwnValue::Object(Vec::new());
        let mut members = vec![(
            "tools",
            OwnValue::Object(vec![("listChanged", OwnValue::Fixed("true"))]),
        )];
        if self.prompts {
            let flags = flag(self.prompts_change, "listChanged").into_iter().collect();
            members.push(("prompts", OwnValue::Object(flags)));
        }
        if self.resources {
            let flags = [
                flag(self.resources_change, "listChanged"),
                flag(self.subscriptions, "subscribe"),
            ];
            members.push(("resources", OwnValue::Object(flags.into_iter().flatten().collect())));
        }
        if self.completions {
            members.push(("completions", empty()));
        }
        if self.logging {
            members.push(("logging", empty()));
        }
        if self.session_tasks && era == Era::Legacy {
            let tasks = r#"{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#;
            members.push(("tasks", OwnValue::Fixed(tasks)));
        }
        if self.tasks && era == Era::Modern {
            members.push(("extensions", OwnValue::Object(vec![(TASKS, empty())])));
        }
        OwnValue::Object(members)
    }
}

/// The extension of tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether a principal could do anything at all on a server.
pub(crate) fn usable(snapshot: &Snapshot, who: &Arc<Principal>, server: &ServerId) -> bool {
    let caller = snapshot.policy.caller(who);
    // What is known already comes first: the last question is a costly one.
    who.servers.covers(server)
        && (snapshot.policy.sees_a_tool(&caller, server)
            || snapshot.policy.could_get_some_prompt(&caller, server)
            || snapshot.policy.could_read_something(&caller, server)
            || snapshot.policy.could_use(&caller, server))
}
