//! `server add`: an address, a command, or a package that is installed first. The configuration is changed last, and
//! only if it is sound with the new server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use vocabulary::{ServerId, Trust};

use super::after_add;
use crate::command::output::{self, Form};
use crate::config::{Config, Draft, NewReach, Written, hold, is_web_url, replace};
use crate::package::{self, Interpreter, Listed, Locked, Registry, Spec, Wanted};
use crate::server_json::{self, Listing, Offer, PackageOffer};
use crate::servers_lock::{Entry, LOCK_FILE, ServersLock};

#[derive(clap::Args)]
pub(in crate::command) struct Add {
    /// The new server's id: up to 32 lower-case letters, digits and hyphens
    #[arg(value_parser = server_id)]
    id: ServerId,
    /// `https://…`, `npm:NAME@VERSION` or `pypi:NAME@VERSION` in one exact version, or `registry:FILE_OR_URL` of an official
    /// `server.json`
    #[arg(value_parser = source, required_unless_present = "words")]
    source: Option<Source>,
    /// How far it is trusted: internal, verified, community or unknown
    #[arg(long, value_name = "TRUST", value_parser = trust)]
    trust: Option<Trust>,
    /// The program of the package, where it has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// Another Python for a package of PyPI: `PREFIX/bin/python3`
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Another Node for a package of npm: `PREFIX/bin/node`
    #[arg(long, value_name = "PATH")]
    node: Option<PathBuf>,
    /// A variable of its environment: `NAME=text:VALUE`, or `NAME=env:VARIABLE` and `NAME=file:PATH` for secrets
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// A path that its program may read beside /usr and its workspace; may be given several times
    #[arg(long, value_name = "PATH", value_parser = from_root)]
    read: Vec<String>,
    #[command(flatten)]
    form: Form,
    /// A command to start, or with a package the arguments of its program
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// Where a server comes from, unless it is a command.
#[derive(Clone, Debug)]
enum Source {
    Url(String),
    Package(Spec),
    Registry(String),
}

/// What is to be added, once it is known.
enum Origin {
    Reach(NewReach),
    Package { wanted: Wanted, arguments: Vec<String> },
}

fn server_id(text: &str) -> Result<ServerId, String> {
    ServerId::parse(text).map_err(|fault| fault.to_string())
}

fn source(text: &str) -> Result<Source, String> {
    if let Some(place) = text.strip_prefix("registry:").filter(|place| !place.is_empty()) {
        return Ok(Source::Registry(place.to_owned()));
    }
    match Spec::parse(text) {
        Some(spec) => spec.map(Source::Package).map_err(|fault| fault.to_string()),
        None => is_web_url(text).map(|()| Source::Url(text.to_owned())),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("is not `NAME=VALUE`")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// A path as the configuration has it: from the root, wherever the command is called.
fn from_root(text: &str) -> Result<String, String> {
    let path = std::path::absolute(text).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}

fn trust(text: &str) -> Result<Trust, String> {
    let words = Trust::ALL.map(Trust::as_str).join(", ");
    let found = Trust::ALL.into_iter().find(|trust| trust.as_str() == text);
    found.ok_or_else(|| format!("is none of {words}"))
}

impl Add {
    pub(super) async fn run(self, file: &Path) -> anyhow::Result<ExitCode> {
        let origin = self.origin().await?;
        if let Some(misplaced) = self.misplaced(&origin) {
            output::note(&format!("error: {misplaced}"));
            return Ok(ExitCode::from(2));
        }
        let _held = hold(file)?;
        let draft = Draft::open(file)?;
        anyhow::ensure!(
            !draft.has_server(&self.id),
            "there is a server `{}` already; remove it first",
            self.id
        );
        let before = draft.check()?;
        let (config, locked) = match &origin {
            Origin::Package { wanted, arguments } => {
                let (config, locked) = self.add_package(file, &before, (wanted, arguments)).await?;
                (config, Some(locked))
            }
            Origin::Reach(reach) => (self.write(file, reach)?, None),
        };
        let running = super::reload(&config).await?;
        let found = match running {
            true => Some(after_add::found(&config, &self.id).await?),
            false => None,
        };
        self.tell(&config, locked.as_ref(), found.as_ref())
    }

    /// What is to be added: as it was named, or as an official registry names it.
    async fn origin(&self) -> anyhow::Result<Origin> {
        let package = |spec: Spec, listed: Option<Listed>, arguments: Vec<String>| Origin::Package {
            wanted: Wanted {
                spec,
                interpreter: None,
                listed,
            },
            arguments,
        };
        Ok(match &self.source {
            Some(Source::Url(url)) => Origin::Reach(NewReach::Url(url.clone())),
            Some(Source::Package(spec)) => package(spec.clone(), None, self.words.clone()),
            Some(Source::Registry(place)) => {
                let listing = Listing::read(&server_json::fetch(place).await?)
                    .map_err(|why| anyhow::anyhow!("the document for `{}` {why}; nothing was added", self.id))?;
                match listing.offer {
                    Offer::Remote(reach) => Origin::Reach(reach),
                    Offer::Package(offer) => {
                        let arguments = self.complete(&offer)?;
                        let listed = Listed {
                            name: listing.name,
                            sha256: offer.sha256,
                        };
                        package(offer.spec, Some(listed), arguments)
                    }
                }
            }
            None => Origin::Reach(NewReach::Command {
                command: self.words.clone(),
                read: self.read.clone(),
                env: self.env.clone(),
            }),
        })
    }

    /// The arguments of a package that a registry names, if everything it needs is given.
    fn complete(&self, offer: &PackageOffer) -> anyhow::Result<Vec<String>> {
        let given = |name: &&String| !self.env.iter().any(|(known, _)| known == *name);
        let missing: Vec<String> = offer
            .variables
            .iter()
            .filter(given)
            .map(|name| format!("--env {name}=…"))
            .collect();
        anyhow::ensure!(
            missing.is_empty(),
            "the server needs variables that only you can give; add {}",
            missing.join(" ")
        );
        anyhow::ensure!(
            !(offer.lacks_arguments && self.words.is_empty()),
            "the server needs arguments that only you can give; add them after `--`"
        );
        Ok(match self.words.is_empty() {
            true => offer.arguments.clone(),
            false => self.words.clone(),
        })
    }

    /// What was given that does not belong to this kind of server.
    fn misplaced(&self, origin: &Origin) -> Option<&'static str> {
        let registry = match origin {
            Origin::Package { wanted, .. } => Some(wanted.spec.registry),
            Origin::Reach(_) => None,
        };
        let is_own = (self.python.is_none() || registry == Some(Registry::Pypi))
            && (self.node.is_none() || registry == Some(Registry::Npm));
        if !is_own {
            return Some("`--python` belongs to a package of PyPI, `--node` to one of npm");
        }
        let is_url = matches!(origin, Origin::Reach(NewReach::Url(_) | NewReach::Sse(_)));
        let is_started = is_url && !(self.words.is_empty() && self.env.is_empty() && self.read.is_empty());
        ((self.bin.is_some() && registry.is_none()) || is_started).then_some(
            "`--bin` belongs to a package, `--env` and `--read` to what is started here; words after `--` are a command or a \
             package's arguments",
        )
    }

    /// Puts the server into the configuration as it is now, if that is sound with it. An installation takes its time, and
    /// somebody may have changed the file meanwhile.
    fn write(&self, file: &Path, reach: &NewReach) -> anyhow::Result<Config> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut draft = Draft::open(file)?;
            anyhow::ensure!(
                !draft.has_server(&self.id),
                "there is a server `{}` already; remove it first",
                self.id
            );
            draft.add_server(&self.id, reach, self.trust)?;
            let config = draft.check()?;
            config.starts(&self.id)?;
            match draft.write()? {
                Written::Done => return Ok(config),
                Written::ChangedMeanwhile if tries < TRIES => {}
                Written::ChangedMeanwhile => {
                    anyhow::bail!("`{}` keeps being changed; nothing was written", file.display())
                }
            }
        }
    }

    /// Installs, locks, then configures; what was done is undone when a later step fails.
    async fn add_package(
        &self,
        file: &Path,
        before: &Config,
        (wanted, arguments): (&Wanted, &[String]),
    ) -> anyhow::Result<(Config, Locked)> {
        let named = self.python.as_deref().or(self.node.as_deref());
        let registry = wanted.spec.registry;
        let interpreter = named.map(|path| Interpreter::at(path, registry)).transpose()?;
        let wanted = Wanted {
            interpreter,
            ..wanted.clone()
        };
        output::note(&format!("installing {}", wanted.spec));
        let lock_file = file.with_file_name(LOCK_FILE);
        let lock = ServersLock::read(&lock_file)?;
        let locked = package::install(&wanted, &before.state.dir, &self.id).await?;
        let dir = package::room(&before.state.dir, &self.id);
        let start = self.start(&dir, &locked, (wanted.interpreter.as_ref(), arguments));
        let done = start.and_then(|start| {
            let mut lock = lock.clone();
            lock.set(self.id.to_string(), entry(&start, &locked, &before.state.dir));
            replace(&lock_file, &lock.to_text()?)?;
            self.write(file, &start)
        });
        if done.is_err() {
            let _ = std::fs::remove_dir_all(&dir);
            super::remove::write_lock(&lock_file, &lock)?;
        }
        Ok((done?, locked))
    }

    /// How the installed package is started, and what it must see.
    fn start(
        &self,
        dir: &Path,
        locked: &Locked,
        (interpreter, arguments): (Option<&Interpreter>, &[String]),
    ) -> anyhow::Result<NewReach> {
        let dir: PathBuf = dir.canonicalize()?;
        let mut command = package::command(&dir, locked.source, &locked.name, self.bin.as_deref())
            .map_err(|why| anyhow::anyhow!("{}@{} {why}", locked.name, locked.version))?;
        // A Python is in the package's own environment already.
        if let (Registry::Npm, Some(node), Some(program)) = (locked.source, interpreter, command.first_mut()) {
            *program = node.program.display().to_string();
        }
        command.extend(arguments.iter().cloned());
        let shown = interpreter.into_iter().flat_map(|interpreter| &interpreter.read);
        let read = std::iter::once(&dir)
            .chain(shown)
            .map(|path| path.display().to_string());
        Ok(NewReach::Command {
            command,
            read: read.chain(self.read.iter().cloned()).collect(),
            env: self.env.clone(),
        })
    }

    fn tell(&self, config: &Config, locked: Option<&Locked>, found: Option<&Value>) -> anyhow::Result<ExitCode> {
        let reach = config.servers.get(&self.id).map(|server| server.reach.shown());
        let next = after_add::next(config, &self.id);
        if self.form.json {
            let told = json!({"id": self.id.as_str(), "reach": reach, "package": locked, "reloaded": found.is_some(),
                "server": found, "next": next});
            output::line(&told.to_string())?;
            return Ok(ExitCode::SUCCESS);
        }
        output::line(&format!("{} is configured: {}", self.id, reach.unwrap_or_default()))?;
        output::note(super::told(found.is_some()));
        let about = format!("servers.{}.", self.id);
        for warning in config
            .warnings()
            .iter()
            .filter(|warning| warning.key.starts_with(&about))
        {
            output::note(&format!("warning: {warning}"));
        }
        if config
            .servers
            .get(&self.id)
            .is_some_and(|server| server.barred.is_some())
        {
            output::note(UNSIGNED);
        }
        found.into_iter().for_each(after_add::tell);
        for step in next {
            output::note(&format!("next: {step}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What is written of a package in `servers.lock`.
fn entry(start: &NewReach, locked: &Locked, state: &Path) -> Entry {
    let command = match start {
        NewReach::Command { command, .. } => command.as_slice(),
        NewReach::Url(_) | NewReach::Sse(_) => &[],
    };
    Entry::of_package(locked.clone(), command, state)
}

const UNSIGNED: &str = "it is not started until somebody signs for it: `portreeve server sign --key FILE`";

/// So often the file is read again when somebody else has changed it.
const TRIES: u32 = 5;
