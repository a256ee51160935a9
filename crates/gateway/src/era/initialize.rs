//! How we introduce ourselves: what is offered on a route to a principal, in either era. Nobody
//! learns here of a server they may not use.

use std::sync::Arc;

use bytes::Bytes;
use mcp::{Era, Method, Version, compose};
use policy::Target;
use vocabulary::{Principal, ServerId};

use crate::edge::route::Route;
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
    /// What a principal is offered on a route.
    pub(crate) fn of(snapshot: &Snapshot, who: &Arc<Principal>, route: &Route) -> Self {
        let servers = snapshot.servers().filter(|server| match route.server() {
            Some(only) => server.id() == only,
            None => true,
        });
        let mut offers = Self::default();
        for server in servers.filter(|server| usable(snapshot, who, server.id())) {
            offers.add(&server.introduction().capabilities);
        }
        offers
    }

    /// What one server offers.
    pub(crate) fn by(server: &upstream::Server) -> Self {
        let mut offers = Self::default();
        offers.add(&server.introduction().capabilities);
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
        match method.as_str() {
            "resources/read" => self.resources,
            "resources/subscribe" | "resources/unsubscribe" => self.subscriptions,
            "prompts/get" => self.prompts,
            "completion/complete" => self.completions,
            "tasks/get" | "tasks/cancel" => self.tasks || self.session_tasks,
            "tasks/result" | "tasks/list" => self.session_tasks,
            _ => true,
        }
    }

    fn capabilities(self, era: Era) -> Vec<u8> {
        let changes = |changes: bool| if changes { "{\"listChanged\":true}" } else { "{}" }.to_owned();
        let mut members = vec![("tools", changes(true))];
        if self.prompts {
            members.push(("prompts", changes(self.prompts_change)));
        }
        if self.resources {
            let flags = [
                ("listChanged", self.resources_change),
                ("subscribe", self.subscriptions),
            ];
            let flags: Vec<String> = flags
                .into_iter()
                .filter(|(_, set)| *set)
                .map(|(name, _)| format!("\"{name}\":true"))
                .collect();
            members.push(("resources", format!("{{{}}}", flags.join(","))));
        }
        if self.completions {
            members.push(("completions", "{}".to_owned()));
        }
        if self.logging {
            members.push(("logging", "{}".to_owned()));
        }
        if self.session_tasks && era == Era::Legacy {
            let tasks = "{\"list\":{},\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}";
            members.push(("tasks", tasks.to_owned()));
        }
        if self.tasks && era == Era::Modern {
            members.push(("extensions", format!("{{\"{TASKS}\":{{}}}}")));
        }
        let mut out = Vec::new();
        compose::object(members.iter().map(|(name, raw)| (*name, raw.as_bytes())), &mut out);
        out
    }
}

/// The extension of tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether a principal could do anything at all on a server.
pub(crate) fn usable(snapshot: &Snapshot, who: &Arc<Principal>, server: &ServerId) -> bool {
    let caller = snapshot.policy.caller(who);
    let some_prompt = Target::Prompt {
        server: server.clone(),
        name: "some-prompt".into(),
    };
    let some_resource = Target::Resource {
        server: server.clone(),
        uri: "some:resource".into(),
    };
    // What is known already comes first: the last question is a costly one.
    who.servers.covers(server)
        && (!snapshot.policy.visible(&caller, Some(server)).is_empty()
            || snapshot.policy.could(&caller, "prompts/get", &some_prompt)
            || snapshot.policy.could(&caller, "resources/read", &some_resource)
            || snapshot.policy.could_use(&caller, server))
}

/// The result of `initialize`.
pub(crate) fn initialize_result(snapshot: &Snapshot, who: &Arc<Principal>, route: &Route, version: Version) -> Bytes {
    let version = compose::literal(version.as_str());
    let capabilities = Offers::of(snapshot, who, route).capabilities(Era::Legacy);
    let instructions = instructions(snapshot, who, route);
    let mut members = vec![
        ("protocolVersion", version.as_slice()),
        ("capabilities", &capabilities),
        ("serverInfo", compose::OUR_INFO.as_bytes()),
    ];
    members.extend(instructions.as_deref().map(|text| ("instructions", text)));
    let mut out = Vec::new();
    compose::object(members.into_iter(), &mut out);
    out.into()
}

/// The result of `server/discover`.
pub(crate) fn discover_result(snapshot: &Snapshot, who: &Arc<Principal>, route: &Route) -> Bytes {
    let versions = supported_versions();
    let capabilities = Offers::of(snapshot, who, route).capabilities(Era::Modern);
    let instructions = instructions(snapshot, who, route);
    let meta = format!("{{\"io.modelcontextprotocol/serverInfo\":{}}}", compose::OUR_INFO);
    let mut members = vec![
        ("resultType", b"\"complete\"".as_slice()),
        ("supportedVersions", &versions),
        ("capabilities", &capabilities),
        ("ttlMs", b"0"),
        ("cacheScope", b"\"private\""),
        ("_meta", meta.as_bytes()),
    ];
    members.extend(instructions.as_deref().map(|text| ("instructions", text)));
    let mut out = Vec::new();
    compose::object(members.into_iter(), &mut out);
    out.into()
}

/// The modern versions we speak, as a raw array.
pub(crate) fn supported_versions() -> Vec<u8> {
    let modern = Version::ALL.into_iter().filter(|version| version.era() == Era::Modern);
    let versions: Vec<Vec<u8>> = modern.map(|version| compose::literal(version.as_str())).collect();
    [b"[".as_slice(), &versions.join(&b','), b"]"].concat()
}

fn instructions(snapshot: &Snapshot, who: &Arc<Principal>, route: &Route) -> Option<Vec<u8>> {
    let text = snapshot.instructions_for(who, route.server()?)?;
    Some(compose::literal(&text))
}
