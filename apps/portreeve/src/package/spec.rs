//! What may be asked of a registry: one package in one exact version. Ranges, tags, addresses and files are refused,
//! because tomorrow they would mean something else.

use std::fmt;

use serde::{Deserialize, Serialize};
use vocabulary::words;

words! {
    /// A public registry; the word stands before the colon.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub(crate) enum Registry {
        /// The Node package registry.
        Npm = "npm",
        /// The Python package index.
        Pypi = "pypi",
    }
}

/// A package in one version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spec {
    pub(crate) registry: Registry,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.registry.as_str(), self.name, self.version)
    }
}

/// Why something is no package in one version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum SpecFault {
    #[error("has no version; write `NAME@VERSION`")]
    NoVersion,
    #[error("is not the name of a package; addresses, files and repositories are not taken")]
    Name,
    #[error(
        "does not name one exact version; ranges and tags such as `latest` mean something else tomorrow: write `1.2.3`"
    )]
    Version,
}

impl Spec {
    /// Reads `npm:NAME@VERSION` or `pypi:NAME@VERSION`; `None` if it is neither.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, SpecFault>> {
        let (registry, rest) = match text.split_once(':')? {
            ("npm", rest) => (Registry::Npm, rest),
            ("pypi", rest) => (Registry::Pypi, rest),
            _ => return None,
        };
        Some(Self::parse_in(registry, rest))
    }

    fn parse_in(registry: Registry, text: &str) -> Result<Self, SpecFault> {
        let (name, version) = text.rsplit_once('@').ok_or(SpecFault::NoVersion)?;
        if name.is_empty() {
            // `@scope/name` without a version.
            return Err(SpecFault::NoVersion);
        }
        let (is_name, is_version) = match registry {
            Registry::Npm => (is_npm_name(name), is_semver(version)),
            Registry::Pypi => (is_pypi_name(name), is_pep440(version)),
        };
        if !is_name {
            return Err(SpecFault::Name);
        }
        if !is_version {
            return Err(SpecFault::Version);
        }
        Ok(Self {
            registry,
            name: name.to_owned(),
            version: version.to_owned(),
        })
    }
}

/// `name` or `@scope/name`, as the registry takes them today.
fn is_npm_name(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'_' | b'~'))
    };
    let fits = match name.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    };
    fits && name.len() <= 214
}

/// A name by PEP 508, without extras.
fn is_pypi_name(name: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    name.starts_with(ends)
        && name.ends_with(ends)
        && name.len() <= 128
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
}

/// `1.2.3`, `1.2.3-beta.1`: all three numbers, nothing in place of one.
fn is_semver(version: &str) -> bool {
    let (main, before) = match version.split_once('-') {
        Some((main, before)) => (main, Some(before)),
        None => (version, None),
    };
    let numbers: Vec<&str> = main.split('.').collect();
    let words = |text: &str| {
        text.split('.')
            .all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
    };
    numbers.len() == 3 && numbers.iter().all(|number| is_number(number)) && before.is_none_or(words)
}

/// A public version by PEP 440 in its usual spelling: `1.2`, `2026.1.3`, `1.0rc1`, `1.0.post2`, `1!2.0`.
fn is_pep440(version: &str) -> bool {
    let rest = match version.split_once('!') {
        Some((epoch, rest)) if is_number(epoch) => rest,
        Some(_) => return false,
        None => version,
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (release, mut tail) = rest.split_at(end);
    // The dot of `.post1` and `.dev1` belongs to the tail.
    let release = match (release.strip_suffix('.'), tail.is_empty()) {
        (Some(release), false) => {
            if !tail.starts_with("post") && !tail.starts_with("dev") {
                return false;
            }
            release
        }
        _ => release,
    };
    if !release.split('.').all(is_number) {
        return false;
    }
    for words in [&["a", "b", "rc"][..], &["post", ".post"], &["dev", ".dev"]] {
        tail = without(tail, words);
    }
    tail.is_empty()
}

/// What is left after one of these words and its number; all of it if none of them is there.
fn without<'a>(text: &'a str, words: &[&str]) -> &'a str {
    let Some(after) = words.iter().find_map(|word| text.strip_prefix(word)) else {
        return text;
    };
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == after.len() { text } else { rest }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Option<SpecFault> {
        Spec::parse(text).expect("a package").err()
    }

    #[test]
    fn one_exact_version_is_taken() {
        for text in [
            "npm:left-pad@1.3.0",
            "npm:@scope/server-memory@2026.8.31",
            "npm:a@1.0.0-beta.1",
            "pypi:mcp-server-time@2026.10.19",
            "pypi:Some_Name@1.0rc1",
            "pypi:a@1.0.post2",
            "pypi:a@1!2.0.dev3",
            "pypi:a@1.0a1.post2.dev3",
            "pypi:a@7",
        ] {
            let spec = Spec::parse(text).expect("a package").expect("exact");
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn what_means_something_else_tomorrow_is_refused() {
        for version in [
            "latest",
            "^1.0.0",
            "~1.0.0",
            "1.x",
            "1",
            "1.2",
            "*",
            "",
            ">=1.0.0",
            "1.0.0 || 2.0.0",
            "1.0.0-",
            "v1.0.0",
        ] {
            assert_eq!(
                fault(&format!("npm:a@{version}")),
                Some(SpecFault::Version),
                "{version}"
            );
        }
        for version in [
            "latest",
            ">=1",
            "1.*",
            "1.0+local",
            "1..0",
            "1.0.rc1",
            "1.0rc",
            "==1.0",
            "",
            "1.0,<2",
        ] {
            assert_eq!(
                fault(&format!("pypi:a@{version}")),
                Some(SpecFault::Version),
                "{version}"
            );
        }
    }

    #[test]
    fn files_addresses_and_repositories_are_no_names() {
        for text in [
            "npm:../evil@1.0.0",
            "npm:git+https://host/x@1.0.0",
            "npm:https://host/x.tgz@1.0.0",
            "npm:user/repo@1.0.0",
            "npm:-g@1.0.0",
            "npm:alias@npm:other@1.0.0",
            "pypi:./x@1.0",
            "pypi:a[extra]@1.0",
            "pypi:--index-url@1.0",
            "pypi:a @ https://host/x.whl@1.0",
        ] {
            assert_eq!(fault(text), Some(SpecFault::Name), "{text}");
        }
        assert_eq!(fault("npm:left-pad"), Some(SpecFault::NoVersion));
        assert_eq!(fault("npm:@scope/name"), Some(SpecFault::NoVersion));
        assert_eq!(Spec::parse("https://host/mcp"), None);
        assert_eq!(Spec::parse("git:x@1.0.0"), None);
    }
}
