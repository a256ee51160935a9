//! Whether a server may have Unix sockets. A socket of another program can be talked to wherever its path can be named, and
//! a read-only mount does not stop that; so it depends on what is shown. ADR 0057.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{FsPolicy, NetPolicy, PlanDraft, PlanFault};

/// Unix sockets of a server, in its workspace and in its own temporary directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnixSockets {
    /// None.
    Denied,
    /// Where the host gives them, and where nothing is shown in which others could have put a socket: the workspace and
    /// the paths to read are all the gateway's own.
    Offered,
    /// In any case: a host that cannot give them does not start the server.
    Asked,
}

/// What a draft comes to.
pub(super) fn check(draft: &PlanDraft, faults: &mut Vec<PlanFault>) -> UnixSockets {
    match draft.unix_sockets {
        UnixSockets::Asked if draft.fs == FsPolicy::Unconfined => {
            faults.push(PlanFault::SocketsOfTheHost);
            UnixSockets::Denied
        }
        UnixSockets::Offered if !shows_only_our_own(draft) => UnixSockets::Denied,
        asked @ (UnixSockets::Denied | UnixSockets::Offered | UnixSockets::Asked) => asked,
    }
}

/// The network counts as well: sockets without a path belong to it.
fn shows_only_our_own(draft: &PlanDraft) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let rooms: Vec<_> = draft.state_rooms.iter().map(|room| real(room)).collect();
    let ours = |path: &Path| {
        let path = real(path);
        rooms.iter().any(|room| path.starts_with(room) && path != *room)
    };
    draft.fs != FsPolicy::Unconfined
        && draft.net != NetPolicy::Unconfined
        && ours(&draft.workspace)
        && draft.read.iter().all(|path| ours(path))
}
