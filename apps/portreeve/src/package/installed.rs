//! Reads what an installation left behind. Packages are strangers' work: nothing they say may lead out of their tree.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vocabulary::Digest;

use super::spec::Registry;
use super::{npm, pypi};

/// Why an installed package cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unfit(pub(super) String);

impl Unfit {
    pub(super) fn new(why: &str) -> Self {
        Self(why.to_owned())
    }
}

/// One package as it was installed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Locked {
    /// Where it came from.
    pub(crate) source: Registry,
    /// Its name there.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// The digest of the package itself, as the registry states it and the installer checked it.
    pub(crate) digest: String,
    /// The digest over name, version and digest of everything that was installed for it.
    pub(crate) tree: String,
}

/// One package of an installed tree.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) digest: String,
}

/// What lies in `dir`, by what its installer left there.
pub(crate) fn described(dir: &Path) -> Result<Locked, Unfit> {
    let (registry, name) = match dir.join(npm::LOCK).is_file() {
        true => (Registry::Npm, npm::asked_for(dir)?),
        false => (Registry::Pypi, pypi::asked_for(dir)?),
    };
    locked(dir, registry, &name)
}

/// What `servers.lock` has to say of the tree in `dir`: the same packages give the same entry on every machine.
pub(crate) fn locked(dir: &Path, registry: Registry, name: &str) -> Result<Locked, Unfit> {
    let (parts, same): (_, fn(&str, &str) -> bool) = match registry {
        Registry::Npm => (npm::parts(dir)?, npm::same),
        Registry::Pypi => (pypi::parts(dir)?, pypi::same),
    };
    let own = parts.iter().find(|part| same(&part.name, name));
    let own = own.cloned().ok_or_else(|| Unfit(format!("{name} is not installed")))?;
    let lines: BTreeSet<String> = parts
        .iter()
        .map(|part| format!("{}@{} {}\n", part.name, part.version, part.digest))
        .collect();
    Ok(Locked {
        source: registry,
        name: name.to_owned(),
        version: own.version,
        digest: own.digest,
        tree: Digest::of_pieces(lines.iter().map(String::as_bytes)).to_string(),
    })
}

/// Whether the tree in `dir` is the one that was locked.
pub(crate) fn verify(dir: &Path, expected: &Locked) -> Result<(), Unfit> {
    let Locked { name, version, .. } = expected;
    let found = locked(dir, expected.source, name).map_err(|why| {
        Unfit(format!(
            "the package {name}@{version} of servers.lock is not installed as it was: {why}"
        ))
    })?;
    let differs = match &found {
        found if found == expected => return Ok(()),
        found if found.version != *version => format!("version {} is installed", found.version),
        found if found.digest != expected.digest => format!("its digest is {}", found.digest),
        _ => format!("its dependencies have the digest {}", found.tree),
    };
    Err(Unfit(format!("servers.lock has {name}@{version}, but {differs}")))
}

/// How the server in `dir` is started.
pub(crate) fn command(dir: &Path, registry: Registry, name: &str, bin: Option<&str>) -> Result<Vec<String>, Unfit> {
    match registry {
        Registry::Npm => npm::command(dir, name, bin),
        Registry::Pypi => pypi::command(dir, name, bin),
    }
}

/// The script to start: the one asked for, the only one, or the one that is called like the package.
pub(super) fn choose<'a>(names: &[&'a str], package: &str, wanted: Option<&str>) -> Result<&'a str, Unfit> {
    let known = || {
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let find = |name: &str| names.iter().find(|known| **known == name).copied();
    match (wanted, names) {
        (_, []) => Err(Unfit::new("offers no program and can start no server")),
        (Some(wanted), _) => find(wanted).ok_or_else(|| Unfit(format!("offers no `{wanted}`, only {}", known()))),
        (None, [only]) => Ok(only),
        (None, _) => {
            find(package).ok_or_else(|| Unfit(format!("offers several programs; name one with --bin: {}", known())))
        }
    }
}

/// The path of a file that is named in a package, if it lies in the package.
pub(super) fn inside(home: &Path, name: &str) -> Result<String, Unfit> {
    let astray = || {
        Unfit(format!(
            "its program `{}` does not lie in the package",
            name.escape_debug()
        ))
    };
    let home = home.canonicalize().map_err(|_| astray())?;
    let file = home.join(name).canonicalize().map_err(|_| astray())?;
    if !file.starts_with(&home) || !file.is_file() {
        return Err(astray());
    }
    file.to_str().map(str::to_owned).ok_or_else(astray)
}

pub(super) fn json(file: &Path) -> Result<Value, Unfit> {
    serde_json::from_str(&text_of(file)?).map_err(|_| Unfit(format!("`{}` is not JSON", file.display())))
}

/// The text of an ordinary file of reasonable size.
pub(super) fn text_of(file: &Path) -> Result<String, Unfit> {
    let found = std::fs::symlink_metadata(file)
        .map_err(|error| Unfit(format!("`{}` cannot be read: {error}", file.display())))?;
    if !found.is_file() || found.len() > MOST {
        return Err(Unfit(format!(
            "`{}` is not an ordinary file below 64 MiB",
            file.display()
        )));
    }
    std::fs::read_to_string(file).map_err(|error| Unfit(format!("`{}` cannot be read: {error}", file.display())))
}

const MOST: u64 = 64 << 20;

#[cfg(test)]
mod tests;
