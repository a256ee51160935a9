//! Commands that fetch a package when they start: what they run tomorrow is not what somebody looked at, unless the version is
//! exact.

use std::path::Path;

use crate::package::{Registry, Spec};

/// Whether a command line starts a package in no exact version.
pub(super) fn floats(command: &[String]) -> bool {
    let words: Vec<&str> = command
        .iter()
        .flat_map(|word| word.split([' ', '\t', '\n', ';', '&', '|', '(', ')', '\'', '"']))
        .filter(|word| !word.is_empty())
        .collect();
    let is_shell = words.first().is_some_and(|word| SHELLS.contains(&name(word)));
    let mut runs = words.iter().enumerate().filter(|(at, _)| *at == 0 || is_shell);
    runs.any(|(at, word)| {
        let rest = words.get(at + 1..).unwrap_or_default();
        runner(name(word), rest).is_some_and(|(kind, rest)| !kind.is_exact(rest))
    })
}

/// Programs that start what their arguments say.
const SHELLS: [&str; 10] = [
    "sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "env", "nice", "timeout",
];

enum Runner {
    Package(Registry),
    Image,
    /// One whose way of naming versions is not known here.
    Other,
}

fn name(word: &str) -> &str {
    let name = Path::new(word).file_name().and_then(|name| name.to_str());
    name.unwrap_or(word)
}

/// What a program fetches, and the words that say what.
fn runner<'a, 'b>(program: &str, rest: &'a [&'b str]) -> Option<(Runner, &'a [&'b str])> {
    let after = |count: usize| rest.get(count..).unwrap_or_default();
    let npm = Runner::Package(Registry::Npm);
    let pypi = Runner::Package(Registry::Pypi);
    match (program, rest) {
        ("npx" | "bunx" | "pnpx", _) => Some((npm, rest)),
        ("npm", ["exec" | "x", ..]) | ("pnpm" | "yarn", ["dlx", ..]) | ("bun", ["x", ..]) => Some((npm, after(1))),
        ("uvx", _) => Some((pypi, rest)),
        ("uv", ["tool", "run", ..]) => Some((pypi, after(2))),
        ("pipx", ["run", ..]) => Some((pypi, after(1))),
        ("docker" | "podman" | "nerdctl", ["run", ..]) => Some((Runner::Image, after(1))),
        ("docker" | "podman" | "nerdctl", ["container", "run", ..]) => Some((Runner::Image, after(2))),
        ("dnx", _) | ("go" | "cargo" | "deno", ["run", ..]) | ("nix", ["run" | "shell", ..]) => {
            Some((Runner::Other, rest))
        }
        _ => None,
    }
}

impl Runner {
    fn is_exact(&self, words: &[&str]) -> bool {
        match self {
            Self::Package(registry) => {
                let named = packages(words);
                !named.is_empty() && named.iter().all(|word| is_exact(*registry, word))
            }
            Self::Image => words.iter().any(|word| word.contains("@sha256:")),
            // `deno run ./server.ts`, `cargo run --locked`: a file or a tree of one's own is no version.
            Self::Other => !words
                .iter()
                .any(|word| word.contains('@') || word.contains("npm:") || word.contains("://")),
        }
    }
}

/// What is to be fetched: what options name, else the first word that is no option.
fn packages<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut named = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            _ if ["-p", "--package", "--from", "--spec", "--with"].contains(word) => {
                named.extend(words.get(at + 1).copied());
            }
            Some(("--package" | "--from" | "--spec" | "--with", package)) => named.push(package),
            _ => {}
        }
    }
    if named.is_empty() {
        named.extend(words.iter().find(|word| !word.starts_with('-')).copied());
    }
    named
}

fn is_exact(registry: Registry, word: &str) -> bool {
    let spec = match registry {
        Registry::Npm => format!("npm:{word}"),
        Registry::Pypi => format!("pypi:{}", word.replace("==", "@")),
    };
    matches!(Spec::parse(&spec), Some(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_floating(line: &str) -> bool {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        floats(&words)
    }

    #[test]
    fn what_fetches_the_newest_floats() {
        for line in [
            "npx -y @scope/server",
            "npx @scope/server@latest",
            "/usr/bin/npx --yes server@^1.0.0",
            "npx -p server@latest run",
            "npm exec server",
            "pnpm dlx server",
            "bunx server",
            "npx",
            "uvx mcp-server-time",
            "uvx --from git+https://host/x mcp-server-time",
            "uv tool run mcp-server-time>=1.0",
            "pipx run mcp-server-time",
            "docker run -i --rm mcp/time",
            "docker run -i mcp/time:1.0",
            "sh -c npx -y server",
            "env A=b uvx server",
            "deno run npm:server",
            "go run host/server@latest",
        ] {
            assert!(is_floating(line), "{line}");
        }
        assert!(floats(&[
            "bash".to_owned(),
            "-c".to_owned(),
            "cd /x && exec npx -y server".to_owned()
        ]));
    }

    #[test]
    fn one_version_and_files_of_ones_own_do_not() {
        for line in [
            "node /opt/server/index.js",
            "npx -y @scope/server@1.2.3",
            "npx --package=server@1.2.3 run",
            "uvx mcp-server-time==1.0.0",
            "uvx --from mcp-server-time==1.0.0 time",
            "docker run -i mcp/time@sha256:00ff",
            "python3 -m server",
            "cat npx",
            "deno run /opt/server.ts",
            "npm run start",
        ] {
            assert!(!is_floating(line), "{line}");
        }
    }
}
