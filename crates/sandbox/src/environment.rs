//! The server's environment, built from nothing: what every sandbox has, then what the plan adds.

use std::collections::BTreeMap;
use std::path::Path;

use crate::plan::{FsPolicy, NetPolicy, Plan};
use crate::probe::Tier;

/// The home directory inside.
pub(crate) const HOME: &str = "/home/sandbox";

/// The port of the proxy inside.
pub(crate) const PROXY_PORT: u16 = 3128;

/// Where programs are looked for before the plan's own paths.
const SEARCH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Where programs are looked for: the host's usual places first, which no `read` path can replace.
pub(crate) fn search_path<'a>(read: impl IntoIterator<Item = &'a Path>) -> String {
    let mut path = SEARCH.to_owned();
    for directory in read {
        let bin = directory.join("bin");
        let place = if bin.is_dir() { bin.as_path() } else { directory };
        if let Some(text) = place.to_str().filter(|text| place.is_dir() && !text.contains(':')) {
            path.push(':');
            path.push_str(text);
        }
    }
    path
}

/// Every variable the server gets.
pub(crate) fn build(plan: &Plan, tier: Tier) -> BTreeMap<String, String> {
    let workspace = plan.workspace.to_string_lossy().into_owned();
    // Where there is no file tree of its own, the workspace is all that may be written.
    let own_tree = tier == Tier::A && plan.fs != FsPolicy::Unconfined;
    let (home, temporary) = match (own_tree, plan.fs) {
        (true, _) => (HOME.to_owned(), "/tmp".to_owned()),
        (false, FsPolicy::Unconfined) => (workspace, "/tmp".to_owned()),
        (false, FsPolicy::WorkspaceOnly | FsPolicy::ReadOnly) => (workspace.clone(), workspace),
    };
    let mut variables = BTreeMap::from([
        (
            "PATH".to_owned(),
            search_path(plan.read.iter().map(|shown| shown.at.as_path())),
        ),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("HOME".to_owned(), home),
        ("TMPDIR".to_owned(), temporary),
    ]);
    if plan.net == NetPolicy::Allowlist {
        variables.extend(proxy_variables());
    }
    for (name, value) in &plan.env {
        variables.insert(name.clone(), value.expose().to_owned());
    }
    variables
}

/// A convenience for clients that read them; nothing depends on it.
fn proxy_variables() -> impl Iterator<Item = (String, String)> {
    let http = format!("http://127.0.0.1:{PROXY_PORT}");
    let socks = format!("socks5h://127.0.0.1:{PROXY_PORT}");
    [
        ("HTTP_PROXY", http.clone()),
        ("http_proxy", http.clone()),
        ("HTTPS_PROXY", http.clone()),
        ("https_proxy", http),
        ("ALL_PROXY", socks.clone()),
        ("all_proxy", socks),
        // A server's own sockets on its loopback are no egress.
        ("NO_PROXY", "localhost,127.0.0.1,::1".to_owned()),
        ("no_proxy", "localhost,127.0.0.1,::1".to_owned()),
        ("NODE_USE_ENV_PROXY", "1".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
}

/// The environment of a trusted command on the host.
pub(crate) fn of_host_command(home: &Path) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("PATH".to_owned(), SEARCH.to_owned()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("HOME".to_owned(), home.to_string_lossy().into_owned()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_read_are_searched_last() {
        let read = [Path::new("/usr"), Path::new("/usr/share"), Path::new("/nowhere")];
        assert_eq!(search_path(read), "/usr/local/bin:/usr/bin:/bin:/usr/bin:/usr/share");
    }

    #[test]
    fn proxies_are_named_in_both_spellings() {
        let names: Vec<String> = proxy_variables().map(|(name, _)| name).collect();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            assert!(
                names.contains(&name.to_owned()) && names.contains(&name.to_lowercase()),
                "{name}"
            );
        }
    }
}
