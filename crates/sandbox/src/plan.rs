//! From what configuration says to a plan that can be carried out; every fault is found before anything starts.
//! ADR 0042: places beside the workspace.

mod fault;
mod paths;
mod places;
mod program;
mod sockets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vocabulary::{Digest, Masks, Secret};

use crate::egress::Allowlist;
use crate::limits::ResourceLimits;
use crate::probe::Tier;

pub use self::fault::PlanFault;
pub(crate) use self::paths::may_pass;
pub(crate) use self::places::Place;
pub use self::places::PlaceAccess;
pub use self::sockets::UnixSockets;

/// The uid and gid of servers of a gateway that runs as root, unless the workspace has an owner of its own.
///
/// Just below `nobody`, which other services share; nothing on a usual host belongs to it.
pub const DEDICATED_UID: u32 = 65_533;

vocabulary::words! {
    /// How a server's files are confined, with its word on receipts and in configuration.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FsPolicy {
        /// Writes in the workspace, reads there and in the runtime's paths.
        WorkspaceOnly = "workspace_only",
        /// Reads in the workspace and in the runtime's paths; no lasting write.
        ReadOnly = "read_only",
        /// Not confined.
        #[serde(rename = "none")]
        Unconfined = "none",
    }
}

vocabulary::words! {
    /// How a server's network is confined, with its word on receipts and in configuration.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum NetPolicy {
        /// Nothing.
        BlockAll = "block_all",
        /// Only what the allowlist names.
        Allowlist = "allowlist",
        /// Not confined: the host's network.
        #[serde(rename = "none")]
        Unconfined = "none",
    }
}

/// Whether a server may be told what happens to files (inotify).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inotify {
    /// It may not.
    Denied,
    /// It may, of everything it can name: what others do in `/usr` and in the paths to read is then seen as well.
    Allowed,
}

/// What configuration says about one server; nothing in it has been looked at.
#[derive(Debug)]
pub struct PlanDraft {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How files are confined.
    pub fs: FsPolicy,
    /// How the network is confined.
    pub net: NetPolicy,
    /// The server's directory, at the same path inside; also its working directory.
    pub workspace: PathBuf,
    /// Further paths the server may read.
    pub read: Vec<PathBuf>,
    /// Variables of the server's environment, beside those every sandbox has.
    pub env: BTreeMap<String, Secret>,
    /// Those of their values that nobody may read in what the server says.
    pub masks: Masks,
    /// Hosts and ports that may be reached; used with [`NetPolicy::Allowlist`].
    pub allow: Vec<String>,
    /// Ranges that are not public and into which allowed names may resolve.
    pub private: Vec<String>,
    /// Whether the server may have Unix sockets.
    pub unix_sockets: UnixSockets,
    /// Whether the server may watch files.
    pub inotify: Inotify,
    /// What the server may use.
    pub limits: ResourceLimits,
    /// The weakest walls the server may be started in; without it whatever offers `fs` and `net`.
    pub tier: Option<Tier>,
    /// The uid to run under if the gateway is root; without it the workspace's owner, or [`DEDICATED_UID`] if that is root.
    pub uid: Option<u32>,
    /// The gateway's state directory, which no server may see.
    pub state_dir: Option<PathBuf>,
    /// Directories below `state_dir` that were made for sandboxes and may be seen, such as `workspaces`.
    pub state_rooms: Vec<PathBuf>,
}

impl PlanDraft {
    /// A draft that says nothing but what to run and where: writes in the workspace, no network, the usual limits.
    pub fn new(workspace: impl Into<PathBuf>, command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            fs: FsPolicy::WorkspaceOnly,
            net: NetPolicy::BlockAll,
            workspace: workspace.into(),
            read: Vec::new(),
            env: BTreeMap::new(),
            masks: Masks::default(),
            allow: Vec::new(),
            private: Vec::new(),
            unix_sockets: UnixSockets::Denied,
            inotify: Inotify::Denied,
            limits: ResourceLimits::default(),
            tier: None,
            uid: None,
            state_dir: None,
            state_rooms: Vec::new(),
        }
    }
}

/// A draft that was checked: the paths exist, the program is there and can be seen from inside.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) command: Vec<String>,
    pub(crate) program: PathBuf,
    pub(crate) fs: FsPolicy,
    pub(crate) net: NetPolicy,
    pub(crate) workspace: PathBuf,
    pub(crate) read: Vec<Shown>,
    pub(crate) places: Vec<Place>,
    pub(crate) env: BTreeMap<String, Secret>,
    masks: Masks,
    pub(crate) unix_sockets: UnixSockets,
    pub(crate) inotify: Inotify,
    pub(crate) limits: ResourceLimits,
    pub(crate) tier: Option<Tier>,
    pub(crate) user: Option<User>,
    allowlist: Arc<Allowlist>,
    policy_hash: Digest,
}

/// A path of `read`: what is shown, and where inside.
///
/// What it is was settled when the plan was checked; a link that is put in its place later is not followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) at: PathBuf,
    pub(crate) source: PathBuf,
}

impl Shown {
    /// Under its written name and under its real one, which programs find out and use.
    fn of(path: &Path) -> Vec<Self> {
        let source = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let mut names = vec![path.to_path_buf(), source.clone()];
        names.dedup();
        let shown = names.into_iter().map(|at| Self {
            at,
            source: source.clone(),
        });
        shown.collect()
    }
}

/// Who the server is on the host, if the gateway is root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Plan {
    /// Checks a draft against this host and says everything that is wrong with it.
    pub fn check(draft: PlanDraft) -> Result<Self, Vec<PlanFault>> {
        let mut faults = Vec::new();
        let user = paths::user(&draft, &mut faults);
        paths::check(&draft, user, &mut faults);
        let program = program::find(&draft, user, &mut faults);
        check_words(&draft, &mut faults);
        let allowlist = allowlist(&draft, &mut faults);
        let unix_sockets = sockets::check(&draft, &mut faults);
        match (program, allowlist) {
            (Some(program), Some(allowlist)) if faults.is_empty() => Ok(Self {
                policy_hash: policy_hash(&draft, user, unix_sockets),
                command: draft.command,
                program,
                fs: draft.fs,
                net: draft.net,
                workspace: draft.workspace,
                read: draft.read.iter().flat_map(|path| Shown::of(path)).collect(),
                places: Vec::new(),
                env: draft.env,
                masks: draft.masks,
                unix_sockets,
                inotify: draft.inotify,
                limits: draft.limits,
                tier: draft.tier,
                user,
                allowlist: Arc::new(allowlist),
            }),
            _ => Err(faults),
        }
    }

    /// The digest of everything the plan says but the values of variables.
    #[must_use]
    pub fn policy_hash(&self) -> Digest {
        self.policy_hash
    }

    /// What may be reached; empty, and thus nothing, unless the plan says `allowlist`.
    #[must_use]
    pub fn allowlist(&self) -> &Arc<Allowlist> {
        &self.allowlist
    }

    /// What nobody may read in what the server says.
    #[must_use]
    pub fn masks(&self) -> &Masks {
        &self.masks
    }

    /// How files are to be confined.
    #[must_use]
    pub fn fs(&self) -> FsPolicy {
        self.fs
    }

    /// How the network is to be confined.
    #[must_use]
    pub fn net(&self) -> NetPolicy {
        self.net
    }

    /// The server's directory.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Whether a part of the workspace is to be read-only, which takes a mount: Landlock only ever adds rights.
    pub(crate) fn shows_part_of_workspace(&self) -> bool {
        let writable = self.fs == FsPolicy::WorkspaceOnly;
        let read = self.read.iter().map(|shown| &shown.source);
        let places = self.places.iter().filter(|place| place.access == PlaceAccess::Read);
        writable
            && read
                .chain(places.map(|place| &place.path))
                .any(|path| path.starts_with(&self.workspace))
    }

    /// The host uid the server will run under, if the gateway is root and gives it up.
    #[must_use]
    pub fn uid(&self) -> Option<u32> {
        self.user.map(|user| user.uid)
    }

    /// That uid and its gid.
    #[must_use]
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.user.map(|user| (user.uid, user.gid))
    }
}

/// What may be reached. Entries are judged in any case, but only `allowlist` opens anything.
fn allowlist(draft: &PlanDraft, faults: &mut Vec<PlanFault>) -> Option<Allowlist> {
    let parsed = Allowlist::parse(&draft.allow, &draft.private)
        .map_err(|wrong| faults.extend(wrong.into_iter().map(PlanFault::Egress)))
        .ok()?;
    match draft.net {
        NetPolicy::Allowlist => Some(parsed),
        NetPolicy::BlockAll | NetPolicy::Unconfined => Allowlist::parse(&[], &[]).ok(),
    }
}

/// Everything that is said in words rather than paths.
fn check_words(draft: &PlanDraft, faults: &mut Vec<PlanFault>) {
    let nul = |what: &str| PlanFault::Nul { what: what.to_owned() };
    if draft.command.iter().any(|word| word.contains('\0')) {
        faults.push(nul("`command`"));
    }
    for (name, value) in &draft.env {
        let mut characters = name.chars();
        let starts = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !starts || !characters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            faults.push(PlanFault::VariableName { name: name.clone() });
        }
        if value.expose().contains('\0') {
            faults.push(nul(&format!("the value of `{name}`")));
        }
    }
    let zero = [
        ("memory", draft.limits.memory == 0),
        ("processes", draft.limits.processes == 0),
        ("cpu_seconds", draft.limits.cpu_seconds == Some(0)),
        ("temporary", draft.limits.temporary == 0),
        ("file", draft.limits.file == 0),
        ("workspace", draft.limits.workspace == Some(0)),
        ("files", draft.limits.files == Some(0)),
    ];
    faults.extend(
        zero.into_iter()
            .filter(|(_, is_zero)| *is_zero)
            .map(|(limit, _)| PlanFault::ZeroLimit { limit }),
    );
}

/// What the policy hash covers. Field order is part of the hash; values of variables are left out, names are not.
#[derive(Serialize)]
struct Image<'a> {
    allow: &'a [String],
    command: &'a [String],
    env: Vec<&'a str>,
    fs: FsPolicy,
    inotify: Inotify,
    limits: ResourceLimits,
    net: NetPolicy,
    private: &'a [String],
    read: Vec<&'a Path>,
    user: Option<User>,
    workspace: &'a Path,
    /// Left out where there are none, as it was before there could be any.
    #[serde(skip_serializing_if = "is_denied")]
    unix_sockets: UnixSockets,
}

fn is_denied(sockets: &UnixSockets) -> bool {
    *sockets == UnixSockets::Denied
}

fn policy_hash(draft: &PlanDraft, user: Option<User>, unix_sockets: UnixSockets) -> Digest {
    let mut read: Vec<&Path> = draft.read.iter().map(PathBuf::as_path).collect();
    read.sort();
    let image = Image {
        allow: &draft.allow,
        command: &draft.command,
        env: draft.env.keys().map(String::as_str).collect(),
        fs: draft.fs,
        inotify: draft.inotify,
        limits: draft.limits,
        net: draft.net,
        private: &draft.private,
        read,
        user,
        workspace: &draft.workspace,
        unix_sockets,
    };
    // INVARIANT: only called without faults, hence all paths are UTF-8 and the image can be written.
    Digest::of(&serde_json::to_vec(&image).unwrap_or_default())
}

#[cfg(test)]
mod tests;
