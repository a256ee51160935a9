//! Directories and files that a sandbox gets beside its workspace, each with its own rights: where the harness hands
//! things to an agent's runtime, and where it takes them from.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vocabulary::Digest;

use super::paths::{Access, is_below_hidden, may};
use super::{FsPolicy, Plan, PlanFault};

/// What may be done in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceAccess {
    /// Look, and nothing else.
    Read,
    /// Look and write, whatever `fs` says of the workspace.
    Write,
}

/// A part of the host that is shown at its own path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) access: PlaceAccess,
}

impl Plan {
    /// Shows one more part of the host, at the same path inside. It is not searched for programs. A part of the
    /// workspace may be made read-only by this; a plan without walls for files shows everything anyway.
    ///
    /// # Errors
    /// When the path is not there, leads through a link, must never be shown, or cannot be used by the server's uid.
    pub fn with_place(mut self, path: PathBuf, access: PlaceAccess) -> Result<Self, PlanFault> {
        let Ok(target) = path.canonicalize() else {
            return Err(PlanFault::ReadMissing { path });
        };
        if target != path || path.to_str().is_none() {
            return Err(PlanFault::WorkspaceSymlink { path, target });
        }
        if self.fs != FsPolicy::Unconfined && (path == Path::new("/") || is_below_hidden(&path)) {
            return Err(PlanFault::ReadForbidden { path });
        }
        if access == PlaceAccess::Write && !may(&path, Access::Use, self.user) {
            let uid = self
                .user
                .map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
            return Err(PlanFault::WorkspaceUnusable { path, uid });
        }
        let word = match access {
            PlaceAccess::Read => b"read".as_slice(),
            PlaceAccess::Write => b"write",
        };
        self.policy_hash = Digest::of_pieces([
            self.policy_hash.as_bytes().as_slice(),
            word,
            path.as_os_str().as_encoded_bytes(),
        ]);
        self.places.push(Place { path, access });
        Ok(self)
    }
}
