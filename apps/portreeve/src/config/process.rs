//! `[servers.*]` with a `command`: servers that are started here, and the walls around them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sandbox::{Allowlist, FsPolicy, Inotify, NetPolicy, Plan, PlanDraft, PlanFault, ResourceLimits, Tier, UnixSockets};
use settings::{Complaint, Entry, Reference, Section, quoted};
use upstream::{Grounds, Maker};
use vocabulary::{Digest, Masks, PrincipalKey, Secret, ServerId};

use super::credential::secret;
use super::raw::Surroundings;
use crate::package::{Locked, Unfit, files, verify};
use crate::servers_lock::{Entry as LockEntry, ServersLock, Signed, named_files};

/// A server that is started here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How its files are confined.
    pub fs: FsPolicy,
    /// How its network is confined.
    pub net: NetPolicy,
    /// The weakest walls it may be started in, beside what holds for all.
    pub tier: Option<Tier>,
    /// Where it works.
    pub workspace: Workspace,
    /// Further paths it may read.
    pub read: Vec<PathBuf>,
    /// Hosts it may reach.
    pub allow: Vec<String>,
    /// Ranges that are not public, into which those may resolve.
    pub private: Vec<String>,
    /// Its environment, beside what every sandbox has.
    pub env: Environment,
    /// Whether it may have Unix sockets.
    pub unix_sockets: UnixSockets,
    /// Whether it may watch files.
    pub inotify: Inotify,
    /// What it may use.
    pub limits: ResourceLimits,
    /// Packages it runs from, by the names of their directories, as `servers.lock` has them.
    pub(crate) packages: Vec<(String, Locked)>,
    /// The digests that its program and scripts must have at every start, where somebody had to sign for them.
    pub(crate) files: Option<BTreeMap<String, String>>,
}

/// Where a server works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Workspace {
    /// `workspaces/ID` in the state directory, made at first start.
    Own,
    /// A directory of the operator's.
    At(PathBuf),
    /// One for each principal: `{principal}` becomes a digest, and the last directory is made when it is missing.
    PerPrincipal(String),
}

/// Variables. Compared to tell whether a reload changed anything; both sides are the operator's own.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Those a reference named.
    pub secret: BTreeMap<String, Secret>,
    /// Those written out as no secret; `{workspace}` in them becomes the workspace's path.
    pub plain: BTreeMap<String, String>,
}

impl Environment {
    fn within(&self, workspace: &str) -> BTreeMap<String, Secret> {
        let plain = self.plain.iter();
        let plain = plain.map(|(name, value)| (name.clone(), Secret::new(value.replace(WORKSPACE, workspace))));
        self.secret.clone().into_iter().chain(plain).collect()
    }
}

impl PartialEq for Environment {
    fn eq(&self, other: &Self) -> bool {
        let plain = |variables: &BTreeMap<String, Secret>| -> Vec<(String, String)> {
            let pairs = variables.iter();
            pairs
                .map(|(name, value)| (name.clone(), value.expose().to_owned()))
                .collect()
        };
        self.plain == other.plain && plain(&self.secret) == plain(&other.secret)
    }
}

impl Eq for Environment {}

/// The directory of the workspaces that are made here.
pub(crate) fn workspaces(state: &Path) -> PathBuf {
    state.join("workspaces")
}

/// The directory that packages are installed in.
pub(crate) fn packages(state: &Path) -> PathBuf {
    state.join("packages")
}

impl Process {
    pub(super) fn check(server: &mut Section<'_>, around: &Surroundings) -> Option<Self> {
        let command = server.read("command", |value| command(value, around));
        let mut section = server.section("sandbox");
        let fs = section.read("fs", |value| value.word(FsPolicy::ALL, FsPolicy::as_str));
        let net = section.read("net", |value| value.word(NetPolicy::ALL, NetPolicy::as_str));
        let tier = section.has("tier").then(|| section.read("tier", super::sandbox::tier));
        let given = section.has("workspace");
        let workspace = section.read("workspace", |value| workspace(value, around));
        let read = section.read("read", |value| value.list(|item| Ok(around.resolve(item.text()?))));
        let allow = section.read("allow", Entry::texts);
        let private = section.read("private", Entry::texts);
        let env = environment(&mut section, around);
        let unix_sockets = unix_sockets(&mut section);
        let inotify = section.read("inotify", Entry::boolean);
        let limits = limits(section.section("limits"));
        let process = Self {
            command: command?,
            fs: fs?,
            net: net?,
            tier: match tier {
                Some(written) => Some(written?),
                None => None,
            },
            workspace: match given {
                true => workspace.clone()?,
                false => Workspace::Own,
            },
            read: read?,
            allow: allow?,
            private: private?,
            env,
            unix_sockets: unix_sockets?,
            inotify: match inotify? {
                true => Inotify::Allowed,
                false => Inotify::Denied,
            },
            limits: match (&workspace, given) {
                // What the operator keeps in a directory of theirs is theirs to judge.
                (Some(Workspace::At(_)), true) => limits,
                _ => limits.with_quota(),
            },
            packages: Vec::new(),
            files: None,
        };
        process.look_twice(&section);
        section.finish();
        Some(process)
    }

    /// What is allowed but deserves a second look.
    fn look_twice(&self, section: &Section<'_>) {
        if self.fs == FsPolicy::Unconfined {
            let complaint = Complaint::new("the server can read and write whatever its user can");
            section.warn("fs", complaint.hint("write `workspace_only`, or let it be"));
        }
        if self.net == NetPolicy::Unconfined {
            let complaint = Complaint::new("the server can reach whatever this machine can, unrecorded");
            section.warn(
                "net",
                complaint.hint("write `allowlist` and name what it needs in `allow`"),
            );
        }
        if self.net != NetPolicy::Allowlist && !self.allow.is_empty() {
            section.fault(
                "allow",
                Complaint::new("is of no use without `net = \"allowlist\"`").hint("write that, or remove the list"),
            );
        }
        self.look_at_hosts(section);
    }

    /// Hosts that are listed and still out of reach for some programs, or for all.
    fn look_at_hosts(&self, section: &Section<'_>) {
        let Ok(list) = Allowlist::parse(&self.allow, &self.private) else {
            return;
        };
        if list.names_localhost_in_vain() {
            let complaint = Complaint::new("names `localhost`, which is not reached without the loopback in `private`");
            section.warn(
                "allow",
                complaint.hint(r#"write `private = ["127.0.0.0/8", "::1/128"]`, or remove the entry"#),
            );
        }
        for port in list.proxy_only_ports() {
            let complaint = Complaint::new(format!(
                "names port {port}, which the sandbox uses itself: only programs that use its proxy get there"
            ));
            section.warn(
                "allow",
                complaint.hint("let the server use HTTP_PROXY or ALL_PROXY, or let it be"),
            );
        }
    }

    /// Looks at this machine: what keeps the server from starting here stands in its own way, and in no other server's.
    pub(super) fn try_out(&self, id: &ServerId, state: &Path, section: &Section<'_>) {
        let ours = match &self.workspace {
            Workspace::Own | Workspace::PerPrincipal(_) => true,
            Workspace::At(_) => false,
        };
        let faults = Plan::check(self.draft(id, state, None)).err().unwrap_or_default();
        // A workspace of ours is made before the server starts.
        let made = |fault: &PlanFault| ours && matches!(fault, PlanFault::WorkspaceMissing { .. });
        for fault in faults.iter().filter(|fault| !made(fault)) {
            let complaint = Complaint::new(fault.to_string());
            match fault.is_of_host() {
                true => section.obstacle_here(complaint),
                false => section.fault_here(complaint),
            }
        }
        for script in self.unreadable_scripts(id, state) {
            section.warn("command", Complaint::new(script));
        }
    }

    /// Scripts named among its arguments that it could not read, each with what to do about it.
    pub(crate) fn unreadable_scripts(&self, id: &ServerId, state: &Path) -> Vec<String> {
        super::scripts::unreadable(self, &self.draft(id, state, None), id)
    }

    /// Finds the packages the server runs from; each must be what `servers.lock` says.
    pub(super) fn match_lock(
        &mut self,
        (id, state): (&ServerId, &Path),
        (lock, signed): (&ServersLock, &Signed),
        section: &Section<'_>,
    ) {
        let room = packages(state);
        let rooms = [room.canonicalize().unwrap_or_else(|_| room.clone()), room];
        let words = self.command.iter().map(Path::new);
        let used: BTreeSet<String> = words
            .chain(self.read.iter().map(PathBuf::as_path))
            .filter_map(|path| rooms.iter().find_map(|room| path.strip_prefix(room).ok()))
            .filter_map(|below| Some(below.iter().next()?.to_str()?.to_owned()))
            .collect();
        for name in &used {
            match (lock.package(name), signed) {
                (Some(locked), _) => self.packages.push((name.clone(), locked.clone())),
                // Nothing is started without the lock, and it is told why.
                (None, Signed::No(_)) => {}
                (None, Signed::NotAsked | Signed::Yes) => section.fault_here(
                    Complaint::new(format!("its package {} is not in servers.lock", quoted(name)))
                        .hint("remove the server and add it again"),
                ),
            }
        }
        if let (Signed::Yes, Some(LockEntry::Command { files, .. })) = (signed, lock.get(id.as_str())) {
            self.files = Some(files.clone());
        }
        if lock.package(id.as_str()).is_some() && !used.contains(id.as_str()) {
            let complaint = Complaint::new("servers.lock has a package for this server, which it does not run from");
            section.warn("command", complaint.hint("remove the server and add it again"));
        }
        if let Err(unfit) = self.verify_packages(state) {
            section.obstacle_here(Complaint::new(unfit.to_string()).hint("remove the server and add it again"));
        }
    }

    /// Whether everything the server runs from is still what was locked.
    pub(crate) fn verify_packages(&self, state: &Path) -> Result<(), Unfit> {
        let room = packages(state);
        self.packages.iter().try_for_each(|(name, locked)| {
            verify(&room.join(name), locked)?;
            files::verify(&room, name)
        })
    }

    /// Whether program and scripts are those that somebody signed for. `draft` is what is about to be started.
    pub(crate) fn verify_files(&self, draft: &PlanDraft) -> Result<(), String> {
        let Some(locked) = &self.files else {
            return Ok(());
        };
        let found = named_files(self, draft)?;
        match found == *locked {
            true => Ok(()),
            false => Err(format!(
                "servers.lock has it otherwise: {}",
                crate::servers_lock::changed_file(locked, &found)
            )),
        }
    }

    /// What is asked of the sandbox, for one principal; `None` for the gateway's own instance.
    pub(crate) fn draft(&self, id: &ServerId, state: &Path, principal: Option<&PrincipalKey>) -> PlanDraft {
        let workspace = self.workspace_for(id, state, principal);
        let shown = workspace.display().to_string();
        let words = self.command.iter();
        PlanDraft {
            command: words.map(|word| word.replace(WORKSPACE, &shown)).collect(),
            fs: self.fs,
            net: self.net,
            read: self.read.clone(),
            env: self.environment(id, state, &shown),
            masks: Masks::of(self.env.secret.values().cloned()),
            workspace,
            allow: self.allow.clone(),
            private: self.private.clone(),
            unix_sockets: self.unix_sockets,
            inotify: self.inotify,
            limits: self.limits,
            tier: self.tier,
            uid: None,
            state_dir: Some(state.to_owned()),
            state_rooms: vec![workspaces(state), packages(state)],
        }
    }

    /// Where its files are, for one principal, with what [`Process::shown`] shows of others.
    pub(crate) fn grounds(&self, workspace: PathBuf, shown: &[PathBuf]) -> Grounds {
        Grounds {
            workspace,
            read: shown.to_vec(),
            maker: match self.workspace {
                Workspace::At(_) => Maker::Operator,
                Workspace::Own | Workspace::PerPrincipal(_) => Maker::Gateway,
            },
        }
    }

    /// Directories beside its workspace that callers may name. What the gateway installed is there to be run, and without
    /// walls `read` promises nothing.
    pub(crate) fn shown(&self, state: &Path) -> Vec<PathBuf> {
        let room = packages(state);
        let rooms = [room.canonicalize().unwrap_or_else(|_| room.clone()), room];
        let is_installed = |path: &&PathBuf| rooms.iter().any(|room| path.starts_with(room));
        match self.fs {
            FsPolicy::WorkspaceOnly | FsPolicy::ReadOnly => {
                self.read.iter().filter(|path| !is_installed(path)).cloned().collect()
            }
            FsPolicy::Unconfined => Vec::new(),
        }
    }

    /// Whether its files have a border that callers can be held to: walls, or a workspace that the operator named.
    pub(crate) fn has_workspace(&self) -> bool {
        self.fs != FsPolicy::Unconfined || self.workspace != Workspace::Own
    }

    /// Its variables. Python orders sets by a number that it draws at every start: with one number for each server, a server
    /// that writes a set into a definition does not look changed after every start.
    fn environment(&self, id: &ServerId, state: &Path, workspace: &str) -> BTreeMap<String, Secret> {
        let state = state.as_os_str().as_encoded_bytes();
        let digest = Digest::of_pieces([b"python hash seed ".as_slice(), id.as_str().as_bytes(), b" ", state]);
        let seed = digest
            .as_bytes()
            .iter()
            .take(4)
            .fold(0_u32, |seed, byte| seed << 8 | u32::from(*byte));
        let mut variables = BTreeMap::from([("PYTHONHASHSEED".to_owned(), Secret::new(seed.to_string()))]);
        variables.extend(self.env.within(workspace));
        variables
    }

    pub(crate) fn workspace_for(&self, id: &ServerId, state: &Path, principal: Option<&PrincipalKey>) -> PathBuf {
        match &self.workspace {
            Workspace::Own => workspaces(state).join(id.to_string()),
            Workspace::At(path) => path.clone(),
            Workspace::PerPrincipal(pattern) => {
                let name = match principal {
                    // Half of the digest tells principals apart and is short enough for a path.
                    Some(key) => key
                        .digest()
                        .to_string()
                        .trim_start_matches("sha256:")
                        .chars()
                        .take(32)
                        .collect(),
                    None => "inventory".to_owned(),
                };
                PathBuf::from(pattern.replace(PRINCIPAL, &name))
            }
        }
    }
}

const PRINCIPAL: &str = "{principal}";
const WORKSPACE: &str = "{workspace}";

/// A program that is named by a path is found from the configuration's directory.
fn command(value: &Entry<'_>, around: &Surroundings) -> Result<Vec<String>, Complaint> {
    let mut words = value.texts()?;
    match words.first_mut() {
        None => return Err(Complaint::new("is empty").hint("name the program and its arguments")),
        Some(program) if program.contains('/') => *program = around.resolve(program).display().to_string(),
        Some(_) => {}
    }
    Ok(words)
}

fn workspace(value: &Entry<'_>, around: &Surroundings) -> Result<Workspace, Complaint> {
    let path = around.resolve(value.text()?);
    let text = path.display().to_string();
    match text.matches(PRINCIPAL).count() {
        0 => Ok(Workspace::At(path)),
        1 if path
            .parent()
            .is_some_and(|parent| !parent.display().to_string().contains(PRINCIPAL)) =>
        {
            Ok(Workspace::PerPrincipal(text))
        }
        _ => Err(Complaint::new(
            "`{principal}` may stand once, in the last part of the path",
        )),
    }
}

fn environment(section: &mut Section<'_>, around: &Surroundings) -> Environment {
    let Some(entry) = section.entry("env") else {
        return Environment::default();
    };
    let Some(mut table) = entry.into_section() else {
        return Environment::default();
    };
    let mut variables = Environment::default();
    for (name, value) in table.remaining() {
        if let Ok(Some(Reference::Plain(plain))) = value.text().map(Reference::parse) {
            variables.plain.insert(name, plain.to_owned());
            continue;
        }
        let secret = secret(&value, around).map_err(|complaint| complaint.hint(Reference::HINT));
        variables
            .secret
            .extend(value.accept(secret).map(|secret| (name, secret)));
    }
    variables
}

/// Said or not: without a word they are there where nobody else could have put one.
fn unix_sockets(section: &mut Section<'_>) -> Option<UnixSockets> {
    if !section.has("unix_sockets") {
        return Some(UnixSockets::Offered);
    }
    section.read("unix_sockets", |value| match value.boolean()? {
        true => Ok(UnixSockets::Asked),
        false => Ok(UnixSockets::Denied),
    })
}

fn limits(mut section: Section<'_>) -> ResourceLimits {
    let usual = ResourceLimits::default();
    let memory = section.read("memory", Entry::size).unwrap_or(usual.memory);
    let processes = section.read("processes", |value| value.number(1..=65_536));
    let cpu_seconds = section
        .has("cpu_seconds")
        .then(|| section.read("cpu_seconds", |value| value.number(1..=1 << 32)));
    let workspace = section.has("workspace").then(|| section.read("workspace", Entry::size));
    let files = section
        .has("files")
        .then(|| section.read("files", |value| value.number(1..=1 << 32)));
    section.finish();
    ResourceLimits {
        memory,
        workspace: workspace.flatten(),
        files: files.flatten(),
        processes: processes
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(usual.processes),
        cpu_seconds: cpu_seconds.flatten(),
        ..usual
    }
}

/// What is the matter with sharing, said where a workspace of the operator's is shared by principals; of one of ours `check`
/// tells beside the warnings.
pub(super) fn warn_of_sharing(process: &Process, section: &Section<'_>) {
    if let Workspace::At(path) = &process.workspace {
        let place = quoted(&path.display().to_string());
        section.warn(
            "sandbox",
            Complaint::new(format!("the server's processes share {place}, whoever they are for"))
                .hint("put `{principal}` into `workspace` to give each principal one"),
        );
    }
}
