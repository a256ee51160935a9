//! `servers.lock`: what every server was when somebody looked, beside the configuration and fit to be kept with it. Where the
//! operator says so, only what stands in it, under a signature of theirs, is started.
//! ADR 0070: locks are signed notes beside the lock.

mod entry;
mod identity;
mod named;
mod signature;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::package::{self, Locked};

pub(crate) use entry::{Entry, changed_file};
pub(crate) use identity::identity;
pub(crate) use named::named_files;
pub(crate) use signature::{Signed, signed};

/// The name of the file.
pub(crate) const LOCK_FILE: &str = "servers.lock";
/// The name of the file with its signatures.
pub(crate) const SIGNATURE_FILE: &str = "servers.lock.sig";

/// The whole file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServersLock {
    version: u32,
    #[serde(default)]
    servers: BTreeMap<String, Entry>,
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

    /// What lies in the directory of packages, as it is now; what cannot be told from it is left out.
    pub(crate) fn installed(packages: &Path) -> Self {
        let mut lock = Self::default();
        for entry in packages.read_dir().into_iter().flatten().flatten() {
            let (name, found) = (entry.file_name(), package::described(&entry.path()));
            if let (Some(name), Ok(package)) = (name.to_str().filter(|name| !name.starts_with('.')), found) {
                let entry = Entry::Package { package, command: None };
                lock.servers.insert(name.to_owned(), entry);
            }
        }
        lock
    }

    /// The text of the file: the same entries are the same text.
    pub(crate) fn to_text(&self) -> anyhow::Result<String> {
        Ok(format!("{HEAD}{}", toml::to_string(self)?))
    }

    /// What is written of a server.
    pub(crate) fn get(&self, id: &str) -> Option<&Entry> {
        self.servers.get(id)
    }

    /// The package of a server.
    pub(crate) fn package(&self, id: &str) -> Option<&Locked> {
        match self.servers.get(id)? {
            Entry::Package { package, .. } => Some(package),
            Entry::Web { .. } | Entry::Command { .. } => None,
        }
    }

    pub(crate) fn set(&mut self, id: String, entry: Entry) {
        self.servers.insert(id, entry);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<Entry> {
        self.servers.remove(id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// What another lock has otherwise: a line for each server.
    pub(crate) fn changes_to(&self, other: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for (id, now) in &other.servers {
            match self.servers.get(id) {
                None => changes.push(format!("{id} is new: {}", now.shown())),
                Some(before) if before != now => changes.push(format!("{id} changed: {}", now.shown())),
                Some(_) => {}
            }
        }
        let gone = self.servers.keys().filter(|id| !other.servers.contains_key(*id));
        changes.extend(gone.map(|id| format!("{id} is gone")));
        changes
    }
}

const VERSION: u32 = 1;
const HEAD: &str = "# Written by `portreeve server add`, `remove`, `lock` and `sign`: what servers are and were installed from.\n\
    # Keep it with the configuration; an installed package that differs is not started.\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::Registry;

    fn example() -> ServersLock {
        let mut lock = ServersLock::default();
        let package = Locked {
            source: Registry::Npm,
            name: "@scope/memory".to_owned(),
            version: "1.2.3".to_owned(),
            digest: "sha512-abc".to_owned(),
            tree: "sha256:00".to_owned(),
        };
        let command = Some(vec!["node".to_owned(), "{packages}/memory/index.js".to_owned()]);
        lock.set("memory".to_owned(), Entry::Package { package, command });
        let web = Entry::Web {
            url: "https://mail.example/mcp".to_owned(),
            certificate: Some("mail.internal".to_owned()),
        };
        lock.set("mail".to_owned(), web);
        let command = Entry::Command {
            command: vec!["cat".to_owned(), "-u".to_owned()],
            files: BTreeMap::from([("cat".to_owned(), "sha256:00".to_owned())]),
        };
        lock.set("echo".to_owned(), command);
        lock
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = example().to_text().unwrap();
        assert_eq!(ServersLock::parse(&text).unwrap(), example());
        assert!(text.contains("[servers.memory]\nsource = \"npm\"\n"), "{text}");
        assert_eq!(vocabulary::note::split(&format!("{text}\n— a b\n")).unwrap().0, text);
    }

    #[test]
    fn a_lock_of_before_is_read() {
        let text = "version = 1\n[servers.a]\nsource = \"npm\"\nname = \"a\"\nversion = \"1.0.0\"\ndigest = \"x\"\ntree = \"y\"\n";
        let lock = ServersLock::parse(text).unwrap();
        assert_eq!(lock.package("a").unwrap().version, "1.0.0");
        assert_eq!(lock.to_text().unwrap().lines().last(), Some("tree = \"y\""));
    }

    #[test]
    fn another_version_and_unknown_words_are_refused() {
        assert!(ServersLock::parse("version = 2\n").unwrap_err().contains("version 2"));
        assert!(ServersLock::parse("version = 1\nextra = 1\n").is_err());
        assert!(ServersLock::parse("").is_err());
        for entry in [
            "",
            "url = \"https://a.example/\"\ncommand = [\"a\"]",
            "source = \"npm\"\nname = \"a\"",
            "source = \"npm\"\nname = \"a\"\nversion = \"1\"\ndigest = \"x\"\ntree = \"y\"\nurl = \"z\"",
            "command = []",
            "command = [\"a\"]\ncertificate = \"x\"",
            "shape = \"round\"",
        ] {
            let text = format!("version = 1\n[servers.a]\n{entry}\n");
            assert!(ServersLock::parse(&text).is_err(), "{entry}");
        }
    }

    #[test]
    fn what_changed_is_told_server_by_server() {
        let (old, mut new) = (example(), example());
        assert!(old.changes_to(&new).is_empty());
        new.remove("echo");
        new.set("more".to_owned(), old.get("mail").cloned().unwrap());
        let url = "https://else.example/".to_owned();
        new.set("mail".to_owned(), Entry::Web { url, certificate: None });
        assert_eq!(
            old.changes_to(&new),
            [
                "mail changed: https://else.example/",
                "more is new: https://mail.example/mcp, certificate of mail.internal",
                "echo is gone"
            ]
        );
    }
}
