//! The paths of a draft: which of them a server may be shown, and whether its uid can use them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::{DEDICATED_UID, FsPolicy, PlanDraft, PlanFault, User};

/// Who the server is on the host; `None` if the gateway is an ordinary user and stays itself.
pub(super) fn user(draft: &PlanDraft, faults: &mut Vec<PlanFault>) -> Option<User> {
    if draft.uid == Some(0) {
        faults.push(PlanFault::RootUser);
    }
    if !geteuid().is_root() {
        if let Some(uid) = draft.uid.filter(|uid| *uid != 0 && *uid != geteuid().as_raw()) {
            faults.push(PlanFault::CannotChangeUser { uid });
        }
        return None;
    }
    let owner = fs::metadata(&draft.workspace)
        .ok()
        .map(|found| User {
            uid: found.uid(),
            gid: found.gid(),
        })
        .filter(|owner| owner.uid != 0);
    let user = match (draft.uid, owner) {
        (Some(uid), Some(owner)) if owner.uid == uid => owner,
        (Some(uid), _) => User { uid, gid: uid },
        (None, Some(owner)) => owner,
        (None, None) => User {
            uid: DEDICATED_UID,
            gid: DEDICATED_UID,
        },
    };
    // The group of root is as good as root on many hosts.
    let gid = if user.gid == 0 { user.uid } else { user.gid };
    Some(User { uid: user.uid, gid })
}

/// Finds what is wrong with the workspace and with `read`.
pub(super) fn check(draft: &PlanDraft, user: Option<User>, faults: &mut Vec<PlanFault>) {
    for path in std::iter::once(&draft.workspace).chain(&draft.read) {
        if path.to_str().is_none() {
            faults.push(PlanFault::NotText { path: path.clone() });
        } else if path.as_os_str().as_encoded_bytes().contains(&0) {
            faults.push(PlanFault::Nul {
                what: format!("`{}`", path.display()),
            });
        } else if !path.is_absolute() {
            faults.push(PlanFault::Relative { path: path.clone() });
        }
    }
    check_workspace(draft, user, faults);
    for path in &draft.read {
        check_read(draft, path, faults);
    }
}

fn check_workspace(draft: &PlanDraft, user: Option<User>, faults: &mut Vec<PlanFault>) {
    let path = draft.workspace.clone();
    let Ok(target) = path.canonicalize() else {
        faults.push(PlanFault::WorkspaceMissing { path });
        return;
    };
    if !target.is_dir() {
        faults.push(PlanFault::WorkspaceNotDirectory { path });
        return;
    }
    // Compared as text: `PathBuf` takes `/a/./b` and `/a/b` for equal, which is what we want here.
    if target != path {
        faults.push(PlanFault::WorkspaceSymlink {
            path: path.clone(),
            target: target.clone(),
        });
    }
    if draft.fs == FsPolicy::Unconfined {
        return;
    }
    if SYSTEM.iter().any(|system| target == Path::new(system)) || is_below_hidden(&target) {
        faults.push(PlanFault::WorkspaceIsSystem { path: path.clone() });
    }
    faults.extend(shows_state(draft, &target));
    let uid = user.map_or_else(|| geteuid().as_raw(), |user| user.uid);
    let needs = match draft.fs {
        FsPolicy::WorkspaceOnly => Access::Use,
        FsPolicy::ReadOnly | FsPolicy::Unconfined => Access::Look,
    };
    if !may(&target, needs, user) {
        faults.push(PlanFault::WorkspaceUnusable { path, uid });
    }
}

fn check_read(draft: &PlanDraft, path: &Path, faults: &mut Vec<PlanFault>) {
    let path = path.to_path_buf();
    let Ok(target) = path.canonicalize() else {
        faults.push(PlanFault::ReadMissing { path });
        return;
    };
    if target == Path::new("/") || is_below_hidden(&target) {
        faults.push(PlanFault::ReadForbidden { path });
        return;
    }
    faults.extend(shows_state(draft, &target));
}

/// The state directory must not be visible, neither as a whole nor in part; rooms made for sandboxes may be.
fn shows_state(draft: &PlanDraft, target: &Path) -> Option<PlanFault> {
    let state = draft.state_dir.as_ref()?;
    let state = state.canonicalize().unwrap_or_else(|_| state.clone());
    let rooms = draft
        .state_rooms
        .iter()
        .map(|room| room.canonicalize().unwrap_or_else(|_| room.clone()));
    let in_a_room = rooms
        .filter(|room| room.starts_with(&state) && *room != state)
        .any(|room| target.starts_with(&room) && target != room);
    let shows = state.starts_with(target) || (target.starts_with(&state) && !in_a_room);
    shows.then(|| PlanFault::ShowsState {
        path: target.to_path_buf(),
        state,
    })
}

pub(super) fn is_below_hidden(path: &Path) -> bool {
    HIDDEN.iter().any(|hidden| path.starts_with(hidden))
}

/// What a uid wants to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Enter and list a directory.
    Look,
    /// Enter, list and change a directory.
    Use,
    /// Execute a file, or pass through a directory.
    Execute,
}

/// Whether the server will be let at `path`.
///
/// For ourselves the kernel is asked. For a uid that root changes to, the mode is read; an access list that grants
/// more is not seen and then refused too much, which is the safe side.
pub(super) fn may(path: &Path, access: Access, user: Option<User>) -> bool {
    let bits = match access {
        Access::Look => 0o5,
        Access::Use => 0o7,
        Access::Execute => 0o1,
    };
    let Some(user) = user else {
        return rustix::fs::access(path, rustix::fs::Access::from_bits_retain(bits)).is_ok();
    };
    let Ok(found) = fs::metadata(path) else {
        return false;
    };
    let granted = if found.uid() == user.uid {
        found.mode() >> 6
    } else if found.gid() == user.gid {
        found.mode() >> 3
    } else {
        found.mode()
    };
    granted & bits == bits
}

/// Whether a uid that root changes to may pass through a directory.
pub(crate) fn may_pass(directory: &Path, user: User) -> bool {
    may(directory, Access::Execute, Some(user))
}

/// Directories that are themselves no workspace, though some below them may be.
const SYSTEM: [&str; 14] = [
    "/", "/usr", "/var", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/srv", "/root", "/home", "/tmp", "/mnt",
];

/// Directories of which no part is ever shown: devices, the kernel's own files, sockets of services, host settings.
const HIDDEN: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/boot", "/etc"];

/// Every directory between `root` and `path`, the latter left out.
pub(super) fn between<'a>(root: &'a Path, path: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    path.ancestors()
        .skip(1)
        .take_while(move |directory| directory.starts_with(root))
        .map(Path::to_path_buf)
}
