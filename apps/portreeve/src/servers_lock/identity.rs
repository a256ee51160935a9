//! By what a server is known again: its package, its address, or its command line. What was approved of one is not approved of
//! another that takes its name.
//! ADR 0081: an approval is of one server.

use std::path::Path;

use policy::ServerIdentity;
use serde_json::{Value, json};
use vocabulary::{Digest, ServerId};

use super::Entry;
use crate::config::{Process, Reach, Web};
use crate::package::Locked;

/// The identity of a configured server. No file of a plain command is read: a program that is built anew is the same server, as
/// long as nobody has to sign for it.
pub(crate) fn identity(id: &ServerId, reach: &Reach, state: &Path) -> ServerIdentity {
    let (shown, whole) = match reach {
        Reach::Web(web) => of_web(web),
        Reach::Process(process) => of_process(id, process, state),
    };
    ServerIdentity::new(shown, Digest::of(whole.to_string().as_bytes()))
}

fn of_web(web: &Web) -> (String, Value) {
    let url = web.url.to_string();
    let roots: Vec<String> = web.ca.iter().map(|root| Digest::of(root).to_string()).collect();
    let whole = json!(["url", url, web.certificate_name, roots]);
    // What follows the path may hold a key.
    let place = url.split_once('?').map_or(url.as_str(), |(place, _)| place);
    let shown = match &web.certificate_name {
        Some(name) => format!("{place}, certificate of {name}"),
        None => place.to_owned(),
    };
    (shown, whole)
}

fn of_process(id: &ServerId, process: &Process, state: &Path) -> (String, Value) {
    let own = process.packages.iter().find(|(name, _)| name == id.as_str());
    match own.or(process.packages.first()) {
        Some((_, package)) => {
            let entry = Entry::of_package(package.clone(), &process.command, state);
            let command = match &entry {
                Entry::Package { command, .. } => command.as_deref(),
                Entry::Web { .. } | Entry::Command { .. } => None,
            };
            let Locked {
                source,
                name,
                version,
                digest,
                tree,
            } = package;
            let whole = json!(["package", source.as_str(), name, version, digest, tree, command]);
            (entry.shown(), whole)
        }
        None => {
            // What follows the program may hold a key.
            let program = process.command.first().cloned().unwrap_or_default();
            (format!("command {program}"), json!(["command", process.command]))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{Config, RawConfig};

    fn config(servers: &str) -> Config {
        let home = tempfile::tempdir().unwrap();
        let text = format!("[state]\ndir = \"state\"\n{servers}");
        let raw = RawConfig::from_text(text, home.path().to_owned(), Default::default());
        Config::try_from(raw).unwrap_or_else(|faults| panic!("{faults:?}"))
    }

    /// The identities of the servers of a configuration, by their ids.
    fn identities(servers: &str) -> BTreeMap<String, ServerIdentity> {
        let config = config(servers);
        let servers = config.servers.iter();
        servers
            .map(|(id, server)| (id.to_string(), server.identity.clone()))
            .collect()
    }

    #[test]
    fn address_certificate_and_command_line_tell_servers_apart_and_nothing_else_does() {
        let known = identities(
            r#"
            [servers.a]
            url = "https://one.example/mcp"
            [servers.again]
            url = "https://one.example/mcp"
            trust = "community"
            era = "modern"
            tools.read.risk = "low"
            [servers.path]
            url = "https://one.example/other"
            [servers.query]
            url = "https://one.example/mcp?key=hunter2"
            [servers.name]
            url = "https://one.example/mcp"
            certificate_name = "two.example"
            [servers.b]
            command = ["cat", "-u"]
            [servers.b-walls]
            command = ["cat", "-u"]
            sandbox.fs = "read_only"
            [servers.b-word]
            command = ["cat", "-u", "hunter2"]
            [servers.b-joined]
            command = ["cat", "-u hunter2"]
            "#,
        );
        assert_eq!(known["a"], known["again"]);
        assert_eq!(known["b"], known["b-walls"]);
        let all = ["a", "path", "query", "name", "b", "b-word", "b-joined"];
        for one in all {
            for other in all.iter().filter(|other| **other != one) {
                assert_ne!(known[one], known[*other], "{one} {other}");
            }
        }
        assert_eq!(
            known["name"].shown(),
            "https://one.example/mcp, certificate of two.example"
        );
        for name in ["query", "b-word", "b-joined"] {
            assert!(!known[name].to_string().contains("hunter2"), "{}", known[name]);
        }
    }

    #[test]
    fn version_digest_dependencies_and_command_line_of_a_package_tell_it_apart_and_where_it_lies_does_not() {
        let config = config("[servers.b]\ncommand = [\"cat\"]\n");
        let (id, server) = config.servers.iter().next().unwrap();
        let Reach::Process(plain) = &server.reach else {
            panic!("a process")
        };
        let installed = |state: &str, change: fn(&mut Locked), argument: &str| {
            let mut package = Locked {
                source: crate::package::Registry::Npm,
                name: "@scope/memory".to_owned(),
                version: "1.2.3".to_owned(),
                digest: "sha512-abc".to_owned(),
                tree: "sha256:00".to_owned(),
            };
            change(&mut package);
            let script = format!("{state}/packages/b/index.js");
            let process = Process {
                command: vec!["node".to_owned(), script, argument.to_owned()],
                packages: vec![("b".to_owned(), package)],
                ..plain.clone()
            };
            identity(id, &Reach::Process(process), Path::new(state))
        };
        let first = installed("/srv/one", |_| (), "a");
        assert_eq!(first, installed("/srv/two", |_| (), "a"), "another state directory");
        assert_eq!(first.shown(), "npm:@scope/memory@1.2.3 sha512-abc");
        let changes: [fn(&mut Locked); 4] = [
            |package| package.name = "@scope/memery".to_owned(),
            |package| package.version = "1.2.4".to_owned(),
            |package| package.digest = "sha512-abd".to_owned(),
            |package| package.tree = "sha256:01".to_owned(),
        ];
        for change in changes {
            assert_ne!(first, installed("/srv/one", change, "a"));
        }
        assert_ne!(first, installed("/srv/one", |_| (), "b"), "another argument");
    }

    /// The digests are in people's stores: another spelling of the same would make every server a stranger.
    #[test]
    fn the_same_server_is_the_same_in_every_release() {
        let known =
            identities("[servers.a]\nurl = \"https://one.example/mcp\"\n[servers.b]\ncommand = [\"cat\", \"-u\"]\n");
        let of = |text: &str| Digest::of(text.as_bytes());
        assert_eq!(known["a"].digest(), of(r#"["url","https://one.example/mcp",null,[]]"#));
        assert_eq!(known["b"].digest(), of(r#"["command",["cat","-u"]]"#));
    }
}
