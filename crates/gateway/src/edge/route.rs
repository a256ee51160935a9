//! The routes of the data plane.

use mcp::method::split_federated;
use screening::recorded::recordable;
use vocabulary::ServerId;

/// Every route there is, and whether it needs a credential; the tests walk this list.
pub const ROUTES: &[(&str, &str)] = &[
    ("/mcp", "credential"),
    ("/mcp/{server}", "credential"),
    ("/.well-known/oauth-protected-resource", "open"),
    ("/.well-known/oauth-protected-resource/mcp", "open"),
    ("/.well-known/oauth-protected-resource/mcp/{server}", "open"),
    ("/healthz", "open"),
    ("/readyz", "open"),
];

const SHORTEST_SECRET: usize = 16;

/// Where a request is addressed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// `/mcp`: all servers of the principal.
    Federated,
    /// `/mcp/{server}`: one server.
    Server(ServerId),
    /// An RFC 9728 document, for the resource at this path.
    Metadata(String),
    /// Is the process there?
    Health,
    /// Can it serve?
    Ready,
    /// Nothing we have.
    Nowhere,
}

impl Route {
    pub(crate) fn of(path: &str) -> Self {
        match path {
            "/mcp" => Self::Federated,
            "/healthz" => Self::Health,
            "/readyz" => Self::Ready,
            _ => Self::longer(path),
        }
    }

    fn longer(path: &str) -> Self {
        let server = |rest: &str| rest.strip_prefix("/mcp/").and_then(|id| ServerId::parse(id).ok());
        if let Some(id) = server(path) {
            return Self::Server(id);
        }
        match path.strip_prefix(crate::edge::metadata::WELL_KNOWN) {
            Some(rest) if rest.is_empty() || rest == "/mcp" || server(rest).is_some() => {
                Self::Metadata(rest.to_owned())
            }
            _ => Self::Nowhere,
        }
    }

    /// The server of a server's own route.
    pub(crate) fn server(&self) -> Option<&ServerId> {
        match self {
            Self::Server(id) => Some(id),
            Self::Federated | Self::Metadata(_) | Self::Health | Self::Ready | Self::Nowhere => None,
        }
    }

    /// The server of a server's own route, as it can be recorded: a path may name any.
    pub(crate) fn recorded_server(&self) -> Option<String> {
        let id = self.server()?.as_str();
        // Shorter than any secret.
        let is_short = id.len() < SHORTEST_SECRET;
        Some(if is_short { id.to_owned() } else { recordable(id) })
    }

    /// The server and the tool that a name means on this route: its own name on a server's route,
    /// `server__tool` on the federated one.
    pub(crate) fn tool_named<'a>(&self, name: &'a str) -> Option<(ServerId, &'a str)> {
        match self.server() {
            Some(server) => Some((server.clone(), name)),
            None => {
                let (server, tool) = split_federated(name)?;
                Some((ServerId::parse(server).ok()?, tool))
            }
        }
    }

    /// The path of the protected resource, for challenges.
    pub(crate) fn resource_path(&self) -> String {
        match self {
            Self::Server(id) => format!("/mcp/{id}"),
            Self::Federated | Self::Metadata(_) | Self::Health | Self::Ready | Self::Nowhere => "/mcp".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_they_say() {
        let files = ServerId::parse("files").expect("an id");
        for (path, route) in [
            ("/mcp", Route::Federated),
            ("/mcp/files", Route::Server(files)),
            ("/mcp/", Route::Nowhere),
            ("/mcp/a_b", Route::Nowhere),
            ("/mcp/files/x", Route::Nowhere),
            ("/.well-known/oauth-protected-resource", Route::Metadata(String::new())),
            (
                "/.well-known/oauth-protected-resource/mcp/files",
                Route::Metadata("/mcp/files".to_owned()),
            ),
            ("/.well-known/oauth-protected-resource/x", Route::Nowhere),
            ("/healthz", Route::Health),
            ("/", Route::Nowhere),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }
}
