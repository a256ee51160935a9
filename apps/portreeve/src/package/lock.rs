//! `servers.lock`: which package each server was installed from, beside the configuration and fit to be kept with it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::spec::Registry;

/// The name of the file.
pub(crate) const LOCK_FILE: &str = "servers.lock";

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

/// The whole file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServersLock {
    version: u32,
    #[serde(default)]
    servers: BTreeMap<String, Locked>,
}

impl Default for ServersLock {
    fn default() -> Self {
        Self {
            version: VERSION,
            servers: BTreeMap::new(),
        }
    }
}

impl ServersLock {
    /// Reads the text of the file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lock: Self = toml::from_str(text).map_err(|error| format!("cannot be read: {}", error.message()))?;
        match lock.version {
            VERSION => Ok(lock),
            other => Err(format!("has version {other}; this Portreeve knows version {VERSION}")),
        }
    }

    /// Reads the file; an absent one is empty.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        match std::fs::read_to_string(file) {
            Ok(text) => Self::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(anyhow::Error::new(error).context(format!("`{}` cannot be read", file.display()))),
        }
    }

    /// The text of the file: the same entries are the same text.
    pub(crate) fn to_text(&self) -> anyhow::Result<String> {
        Ok(format!("{HEAD}{}", toml::to_string(self)?))
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Locked> {
        self.servers.get(id)
    }

    pub(crate) fn set(&mut self, id: String, locked: Locked) {
        self.servers.insert(id, locked);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<Locked> {
        self.servers.remove(id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }
}

const VERSION: u32 = 1;
const HEAD: &str = "# Written by `portreeve server add` and `portreeve server remove`: what servers were installed from.\n\
    # Keep it with the configuration; an installed package that differs is not started.\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ServersLock {
        let mut lock = ServersLock::default();
        lock.set(
            "memory".to_owned(),
            Locked {
                source: Registry::Npm,
                name: "@scope/memory".to_owned(),
                version: "1.2.3".to_owned(),
                digest: "sha512-abc".to_owned(),
                tree: "sha256:00".to_owned(),
            },
        );
        lock
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = example().to_text().unwrap();
        assert_eq!(ServersLock::parse(&text).unwrap(), example());
        assert!(text.contains("[servers.memory]\nsource = \"npm\"\n"), "{text}");
    }

    #[test]
    fn another_version_and_unknown_words_are_refused() {
        assert!(ServersLock::parse("version = 2\n").unwrap_err().contains("version 2"));
        assert!(ServersLock::parse("version = 1\nextra = 1\n").is_err());
        assert!(ServersLock::parse("").is_err());
    }
}
