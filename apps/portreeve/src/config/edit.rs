//! Changes a configuration file as its owner would: comments, order and everything that is not concerned stay, and what
//! would have a fault is not written.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use settings::{Fault, Faults};
use toml_edit::visit_mut::{VisitMut, visit_table_mut};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, value};
use vocabulary::{ServerId, Trust};

use super::FORMAT;
use super::checked::Config;
use super::raw::RawConfig;
use super::servers::web_url;

/// How a new server is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NewReach {
    /// At an address.
    Url(String),
    /// At an address, by HTTP+SSE.
    Sse(String),
    /// As a process.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// Paths it may read beside its workspace.
        read: Vec<String>,
        /// Variables, by name, as they are to be written.
        env: Vec<(String, String)>,
    },
}

/// Keeps other commands from changing the configuration as long as the result lives.
pub(crate) fn hold(file: &Path) -> anyhow::Result<fs::File> {
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let directory = target.parent().unwrap_or(Path::new("/"));
    let held = fs::File::open(directory).with_context(|| format!("`{}` cannot be opened", directory.display()))?;
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        anyhow::anyhow!(
            "another command is changing `{}`; wait until it is done",
            file.display()
        )
    })?;
    Ok(held)
}

/// What became of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// It is in the file.
    Done,
    /// Somebody else has changed the file since it was read; nothing was written.
    ChangedMeanwhile,
}

/// A configuration that is being changed.
pub(crate) struct Draft {
    /// As it was named.
    file: PathBuf,
    /// The text that was read.
    before: String,
    document: DocumentMut,
}

impl Draft {
    /// Reads a file; it need not be without faults, but TOML.
    pub(crate) fn open(file: &Path) -> anyhow::Result<Self> {
        let raw = RawConfig::read(file)?;
        let document = raw.text.parse::<DocumentMut>().map_err(|error| {
            // The error's own display quotes the line, which may hold a secret.
            FORMAT.refuse(Fault::of_file(file, format!("not TOML: {}", error.message()), None))
        })?;
        Ok(Self {
            file: file.to_owned(),
            before: raw.text,
            document,
        })
    }

    /// Whether the file has this server.
    pub(crate) fn has_server(&self, id: &ServerId) -> bool {
        let servers = self.document.get("servers").and_then(Item::as_table_like);
        servers.is_some_and(|servers| servers.contains_key(id.as_str()))
    }

    /// Adds a server at the end of the others.
    pub(crate) fn add_server(&mut self, id: &ServerId, reach: &NewReach, trust: Option<Trust>) -> anyhow::Result<()> {
        let mut table = Table::new();
        let list = |words: &[String]| value(words.iter().collect::<Array>());
        let (read, env) = match reach {
            NewReach::Url(url) => {
                table.insert("url", value(url));
                (&[][..], &[][..])
            }
            NewReach::Sse(url) => {
                table.insert("url", value(url));
                table.insert("transport", value("sse"));
                (&[][..], &[][..])
            }
            NewReach::Command { command, read, env } => {
                table.insert("command", list(command));
                (read.as_slice(), env.as_slice())
            }
        };
        if let Some(trust) = trust {
            table.insert("trust", value(trust.as_str()));
        }
        let mut sandbox = Table::new();
        if !read.is_empty() {
            sandbox.insert("read", list(read));
        }
        if !env.is_empty() {
            let pairs = env.iter().map(|(name, text)| (name.as_str(), text.as_str()));
            sandbox.insert("env", value(pairs.collect::<InlineTable>()));
        }
        if !sandbox.is_empty() {
            table.insert("sandbox", Item::Table(sandbox));
        }
        let servers = self.document.entry("servers").or_insert_with(|| {
            let mut servers = Table::new();
            servers.set_implicit(true);
            Item::Table(servers)
        });
        let servers = servers.as_table_like_mut().context("`servers` is not a table")?;
        servers.insert(id.as_str(), Item::Table(table));
        self.nothing_else_changed(id)
    }

    /// Takes a server out, with the comment that stands directly above it; whether it was there.
    pub(crate) fn remove_server(&mut self, id: &ServerId) -> anyhow::Result<bool> {
        let servers = self.document.get_mut("servers").and_then(Item::as_table_like_mut);
        let Some(removed) = servers.and_then(|servers| servers.remove(id.as_str())) else {
            return Ok(false);
        };
        if let Some(table) = removed.as_table() {
            self.keep_what_stood_above(table);
        }
        self.nothing_else_changed(id)?;
        Ok(true)
    }

    /// Comments that an empty line parts from the removed table are not about it; they stay where they are.
    fn keep_what_stood_above(&mut self, removed: &Table) {
        let above = removed.decor().prefix().and_then(toml_edit::RawString::as_str);
        let Some((kept, _)) = above.and_then(|above| above.rsplit_once("\n\n")) else {
            return;
        };
        if kept.trim().is_empty() {
            return;
        }
        let kept = format!("{kept}\n");
        let mut heir = Heir {
            after: removed.position().unwrap_or_default(),
            nearest: None,
            kept: None,
        };
        heir.visit_document_mut(&mut self.document);
        if heir.nearest.is_some() {
            heir.kept = Some(kept);
            heir.visit_document_mut(&mut self.document);
        } else {
            let trailing = self.document.trailing().as_str().unwrap_or_default().to_owned();
            self.document.set_trailing(format!("{kept}{trailing}"));
        }
    }

    /// The rest of the file must mean what it meant.
    fn nothing_else_changed(&self, id: &ServerId) -> anyhow::Result<()> {
        let rest = |text: &str| -> anyhow::Result<toml::Table> {
            let mut table: toml::Table = text.parse().map_err(|_| unfit())?;
            if let Some(servers) = table.get_mut("servers").and_then(toml::Value::as_table_mut) {
                servers.remove(id.as_str());
                if servers.is_empty() {
                    table.remove("servers");
                }
            }
            Ok(table)
        };
        anyhow::ensure!(rest(&self.before)? == rest(&self.document.to_string())?, unfit());
        Ok(())
    }

    /// The configuration as it would be.
    pub(crate) fn check(&self) -> Result<Config, Faults> {
        let mut raw = RawConfig::read(&self.file)?;
        raw.text = self.document.to_string();
        raw.try_into()
    }

    /// Replaces the file, unless somebody else has changed it meanwhile.
    pub(crate) fn write(&self) -> anyhow::Result<Written> {
        if RawConfig::read(&self.file)?.text != self.before {
            return Ok(Written::ChangedMeanwhile);
        }
        replace(&self.file, &self.document.to_string())?;
        Ok(Written::Done)
    }
}

fn unfit() -> anyhow::Error {
    anyhow::anyhow!("the file is written in a way that cannot be changed here; change it by hand")
}

/// Finds the table that follows a place, then hands it what stood there.
struct Heir {
    after: isize,
    nearest: Option<isize>,
    kept: Option<String>,
}

impl VisitMut for Heir {
    fn visit_table_mut(&mut self, table: &mut Table) {
        if let Some(place) = table.position().filter(|place| *place > self.after) {
            match &self.kept {
                None => self.nearest = Some(self.nearest.map_or(place, |nearest| nearest.min(place))),
                Some(kept) if self.nearest == Some(place) => {
                    let prefix = table.decor().prefix().and_then(toml_edit::RawString::as_str);
                    let prefix = format!("{kept}{}", prefix.unwrap_or_default());
                    table.decor_mut().set_prefix(prefix);
                }
                Some(_) => {}
            }
        }
        visit_table_mut(self, table);
    }
}

/// An address that a configuration would take.
pub(crate) fn is_web_url(text: &str) -> Result<(), String> {
    web_url(text).map(drop).map_err(|complaint| complaint.to_line())
}

/// Replaces a file in one step; owner and mode stay. A link stays a link.
pub(crate) fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let written = replace_at(&target, text);
    written.with_context(|| format!("`{}` cannot be written", file.display()))
}

fn replace_at(target: &Path, text: &str) -> std::io::Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let fresh = target.with_file_name(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&fresh)?;
    let mode = match fs::metadata(target) {
        Ok(before) => {
            let now = file.metadata()?;
            if (before.uid(), before.gid()) != (now.uid(), now.gid()) {
                std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()))?;
            }
            before.mode()
        }
        Err(_) => 0o644,
    };
    file.set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, target).inspect_err(|_| drop(fs::remove_file(&fresh)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# The gateway of the harbour.\n\n[state]\ndir = \"state\" # here\n\n# Everything below is ours.\n\n# Files.\n[servers.files]\nurl   = \"https://files.example/mcp\"\n\n# Its sandbox\n[servers.files.tools.read]\nrisk = \"low\"\n\n# Mail.\n[servers.mail]\nurl = \"https://mail.example/mcp\"\n\n# The end.\n";

    fn draft(text: &str) -> (tempfile::TempDir, Draft) {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("portreeve.toml");
        fs::write(&file, text).unwrap();
        let draft = Draft::open(&file).unwrap();
        (home, draft)
    }

    fn id(text: &str) -> ServerId {
        ServerId::parse(text).unwrap()
    }

    #[test]
    fn what_is_added_and_removed_again_leaves_the_file_as_it_was() {
        let (_home, mut draft) = draft(TEXT);
        let reach = NewReach::Command {
            command: vec!["node".to_owned(), "x.js".to_owned()],
            read: vec!["/opt/x".to_owned()],
            env: vec![("A".to_owned(), "text:{workspace}/b".to_owned())],
        };
        draft.add_server(&id("new"), &reach, Some(Trust::Community)).unwrap();
        let text = draft.document.to_string();
        let entry = "[servers.new]\ncommand = [\"node\", \"x.js\"]\ntrust = \"community\"\n\n[servers.new.sandbox]\nread = [\"/opt/x\"]\nenv = { A = \"text:{workspace}/b\" }\n";
        assert!(text.contains(entry), "{text}");
        assert!(text.find("[servers.mail]") < text.find("[servers.new]"), "{text}");
        assert!(draft.remove_server(&id("new")).unwrap());
        assert_eq!(draft.document.to_string(), TEXT);
        assert!(!draft.remove_server(&id("new")).unwrap());
    }

    #[test]
    fn a_removed_server_takes_its_own_comment_and_no_other() {
        let (_home, mut files) = draft(TEXT);
        files.remove_server(&id("files")).unwrap();
        let text = files.document.to_string();
        for gone in ["# Files.", "files.example", "Its sandbox", "risk"] {
            assert!(!text.contains(gone), "{text}");
        }
        for kept in [
            "# The gateway",
            "# here",
            "# Everything below is ours.",
            "# Mail.",
            "# The end.",
        ] {
            assert!(text.contains(kept), "{text}");
        }
        assert!(text.find("# Everything") < text.find("# Mail."), "{text}");
        let (_home, mut last) = draft("# A.\n\n# B.\n[servers.b]\nurl = \"https://b.example/\"\n");
        last.remove_server(&id("b")).unwrap();
        assert_eq!(last.document.to_string(), "# A.\n");
    }

    #[test]
    fn tables_in_one_line_are_changed_too() {
        let text = "servers = { a = { url = \"https://a.example/\" } } # all\n";
        let (_home, mut added) = draft(text);
        let reach = NewReach::Url("https://b.example/".to_owned());
        added.add_server(&id("b"), &reach, None).unwrap();
        assert!(added.document.to_string().ends_with("# all\n"));
        assert_eq!(added.check().unwrap().servers.len(), 2);
        let (_home, mut removed) = draft(text);
        removed.remove_server(&id("a")).unwrap();
        assert!(removed.check().unwrap().servers.is_empty());
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone() {
        let (home, mut draft) = draft("");
        let reach = NewReach::Url("https://b.example/".to_owned());
        draft.add_server(&id("b"), &reach, None).unwrap();
        let file = home.path().join("portreeve.toml");
        fs::write(&file, "# mine\n").unwrap();
        assert_eq!(draft.write().unwrap(), Written::ChangedMeanwhile);
        assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\n");
    }

    #[test]
    fn one_command_at_a_time_changes_a_configuration() {
        let (home, _draft) = draft("");
        let file = home.path().join("portreeve.toml");
        let held = hold(&file).unwrap();
        assert!(hold(&file).unwrap_err().to_string().contains("another command"));
        drop(held);
        assert!(hold(&file).is_ok());
    }

    #[test]
    fn mode_and_link_stay() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("real.toml"), home.path().join("link.toml"));
        fs::write(&real, "a").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace(&link, "b").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "b");
        assert_eq!(real.metadata().unwrap().mode() & 0o7777, 0o640);
        assert_eq!(home.path().read_dir().unwrap().count(), 2, "nothing else is left");
    }
}
