//! What is written of one server: the package it was installed from, the address it is at, or the command that starts it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vocabulary::ServerId;

use super::named::named_files;
use crate::config::{Process, Reach, packages};
use crate::package::{Locked, Registry};

/// One server as somebody looked at it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Spelled", into = "Spelled")]
pub(crate) enum Entry {
    /// A package of a registry.
    Package {
        /// As it was installed.
        package: Locked,
        /// How it is started, `{packages}` for the directory of packages; `None` in locks of before.
        command: Option<Vec<String>>,
    },
    /// A server at an address.
    Web {
        /// The address.
        url: String,
        /// The name its certificate must hold, where one is pinned.
        certificate: Option<String>,
    },
    /// A program of this machine.
    Command {
        /// The command line.
        command: Vec<String>,
        /// The digests of the program and of the scripts that are named in it, by their words.
        files: BTreeMap<String, String>,
    },
}

/// An entry as it is spelled.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelled {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Registry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<BTreeMap<String, String>>,
}

impl TryFrom<Spelled> for Entry {
    type Error = &'static str;

    fn try_from(spelled: Spelled) -> Result<Self, Self::Error> {
        match spelled {
            Spelled {
                source: Some(source),
                name: Some(name),
                version: Some(version),
                digest: Some(digest),
                tree: Some(tree),
                url: None,
                certificate: None,
                command,
                files: None,
            } => Ok(Self::Package {
                package: Locked {
                    source,
                    name,
                    version,
                    digest,
                    tree,
                },
                command,
            }),
            Spelled {
                source: None,
                name: None,
                version: None,
                digest: None,
                tree: None,
                url,
                certificate,
                command,
                files,
            } => match (url, command, certificate, files) {
                (Some(url), None, certificate, None) => Ok(Self::Web { url, certificate }),
                (None, Some(command), None, files) if !command.is_empty() => Ok(Self::Command {
                    command,
                    files: files.unwrap_or_default(),
                }),
                _ => Err(NEITHER),
            },
            Spelled { .. } => Err(NEITHER),
        }
    }
}

const NEITHER: &str = "a server in it is neither a package nor an address nor a command";

impl From<Entry> for Spelled {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Package { package, command } => Self {
                source: Some(package.source),
                name: Some(package.name),
                version: Some(package.version),
                digest: Some(package.digest),
                tree: Some(package.tree),
                command,
                ..Self::default()
            },
            Entry::Web { url, certificate } => Self {
                url: Some(url),
                certificate,
                ..Self::default()
            },
            Entry::Command { command, files } => Self {
                command: Some(command),
                files: Some(files),
                ..Self::default()
            },
        }
    }
}

impl Entry {
    /// What there is to write of a configured server, as it is now. Blocks.
    pub(crate) fn of(id: &ServerId, reach: &Reach, state: &Path) -> Result<Self, String> {
        match reach {
            Reach::Web(web) => Ok(Self::Web {
                url: web.url.to_string(),
                certificate: web.certificate_name.clone(),
            }),
            Reach::Process(process) => Self::of_process(id, process, state),
        }
    }

    fn of_process(id: &ServerId, process: &Process, state: &Path) -> Result<Self, String> {
        let own = process.packages.iter().find(|(name, _)| name == id.as_str());
        match own {
            Some((_, package)) => Ok(Self::of_package(package.clone(), &process.command, state)),
            None => Ok(Self::Command {
                command: process.command.clone(),
                files: named_files(process, &process.draft(id, state, None))?,
            }),
        }
    }

    /// A package and how it is started.
    pub(crate) fn of_package(package: Locked, command: &[String], state: &Path) -> Self {
        let room = packages(state);
        let rooms = [room.canonicalize().unwrap_or_else(|_| room.clone()), room];
        let anywhere = |word: &String| {
            let below = rooms.iter().find_map(|room| Path::new(word).strip_prefix(room).ok());
            below.map_or_else(|| word.clone(), |below| format!("{PACKAGES}/{}", below.display()))
        };
        Self::Package {
            package,
            command: Some(command.iter().map(anywhere).collect()),
        }
    }

    /// In what a server is another than this, in words; `None` if it is the same.
    pub(crate) fn difference(&self, found: &Self) -> Option<String> {
        let differs = match (self, found) {
            (locked, found) if locked == found => return None,
            (
                Self::Package { package, command },
                Self::Package {
                    package: found,
                    command: now,
                },
            ) => match () {
                () if package.version != found.version => format!("version {} is installed", found.version),
                () if package.digest != found.digest => format!("its digest is {}", found.digest),
                () if command != now => "its command line is another".to_owned(),
                () => "its package is another".to_owned(),
            },
            (Self::Web { url, .. }, Self::Web { url: now, .. }) if url != now => "its `url` is another".to_owned(),
            (Self::Web { .. }, Self::Web { .. }) => "its `certificate_name` is another".to_owned(),
            (Self::Command { command, .. }, Self::Command { command: now, .. }) if command != now => {
                "its command line is another".to_owned()
            }
            (Self::Command { files, .. }, Self::Command { files: now, .. }) => changed_file(files, now),
            (Self::Package { .. } | Self::Web { .. } | Self::Command { .. }, found) => {
                format!("it is {} now", found.kind())
            }
        };
        Some(differs)
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Package { .. } => "a package",
            Self::Web { .. } => "a server at an address",
            Self::Command { .. } => "a command",
        }
    }

    /// In one line, for people who are about to sign it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Package { package, .. } => format!(
                "{}:{}@{} {}",
                package.source.as_str(),
                package.name,
                package.version,
                package.digest
            ),
            Self::Web {
                url,
                certificate: Some(name),
            } => format!("{url}, certificate of {name}"),
            Self::Web { url, certificate: None } => url.clone(),
            Self::Command { command, .. } => command.join(" "),
        }
    }
}

/// Which file of a command is not the one that was locked.
pub(crate) fn changed_file(locked: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> String {
    let other = |(word, digest): &(&String, &String)| locked.get(*word) != Some(*digest);
    match found.iter().find(other) {
        Some((word, digest)) => format!("the digest of `{word}` is {digest}"),
        None => "a script that its command line names is gone".to_owned(),
    }
}

/// Stands for the directory of packages, which is another on every machine.
const PACKAGES: &str = "{packages}";
