//! What can be wrong with a draft.

use std::path::PathBuf;

use thiserror::Error;

use crate::egress::AllowlistFault;

/// Something in a draft that cannot be carried out on this host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanFault {
    /// There is nothing to start.
    #[error("`command` is empty; name the program and its arguments")]
    EmptyCommand,
    /// A text cannot be passed to a program.
    #[error("{what} holds a NUL character, which no program can be given")]
    Nul {
        /// Where it stands.
        what: String,
    },
    /// A path is relative.
    #[error("`{}` is a relative path; write it from the root", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// A path is not UTF-8.
    #[error("`{}` is not UTF-8", path.display())]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// The workspace is not there.
    #[error("the workspace `{}` does not exist or cannot be looked at; create it", path.display())]
    WorkspaceMissing {
        /// The path.
        path: PathBuf,
    },
    /// The workspace is a file.
    #[error("the workspace `{}` is not a directory", path.display())]
    WorkspaceNotDirectory {
        /// The path.
        path: PathBuf,
    },
    /// The workspace's path leads elsewhere.
    #[error("the workspace `{}` leads through a symbolic link to `{}`; write the latter", path.display(), target.display())]
    WorkspaceSymlink {
        /// The path as written.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The workspace is a directory of the system.
    #[error("the workspace `{}` is a directory of the system; give the server a directory of its own", path.display())]
    WorkspaceIsSystem {
        /// The path.
        path: PathBuf,
    },
    /// A path shows the gateway's state.
    #[error("`{}` would show the gateway's state in `{}` to the server; choose a path that neither holds it nor lies in it", path.display(), state.display())]
    ShowsState {
        /// The path.
        path: PathBuf,
        /// The state directory.
        state: PathBuf,
    },
    /// The server's uid cannot use the workspace.
    #[error("uid {uid}, under which the server runs, cannot use the workspace `{}`; change its owner to {uid} or its mode", path.display())]
    WorkspaceUnusable {
        /// The path.
        path: PathBuf,
        /// The uid.
        uid: u32,
    },
    /// A path of `read` is not there.
    #[error("the path `{}` in `read` does not exist or cannot be looked at", path.display())]
    ReadMissing {
        /// The path.
        path: PathBuf,
    },
    /// A path of `read` must not be shown.
    #[error("the path `{}` in `read` is never shown to a server; name the directory below it that is needed", path.display())]
    ReadForbidden {
        /// The path.
        path: PathBuf,
    },
    /// The program was not found.
    #[error(
        "`{program}` was not found in {searched}; install it there, or write its full path and add its directory to `read`"
    )]
    ProgramMissing {
        /// The program as written.
        program: String,
        /// The places that were searched.
        searched: String,
    },
    /// The program is there but cannot be seen from inside.
    #[error("`{program}` leads to `{}`, which is neither below /usr nor in `read` nor in the workspace; add its directory to `read`", target.display())]
    ProgramHidden {
        /// The program as written.
        program: String,
        /// The file it stands for.
        target: PathBuf,
    },
    /// The program cannot be executed.
    #[error("`{}` is not a file that uid {uid}, under which the server runs, may execute; change its mode or that of the directories above it", path.display())]
    ProgramNotExecutable {
        /// The file.
        path: PathBuf,
        /// The uid.
        uid: u32,
    },
    /// Unix sockets where every socket of the host could be reached.
    #[error(
        "`unix_sockets` cannot be had with `fs = \"none\"`, where it would open every socket of this machine; remove one of them"
    )]
    SocketsOfTheHost,
    /// A variable cannot have this name.
    #[error("`{name}` is no name for a variable; use letters, digits and `_`, not starting with a digit")]
    VariableName {
        /// The name.
        name: String,
    },
    /// A limit of nothing.
    #[error("the limit `{limit}` is 0, with which nothing can run; raise it")]
    ZeroLimit {
        /// The limit.
        limit: &'static str,
    },
    /// Root was asked for.
    #[error("servers are never run as uid 0; choose another uid")]
    RootUser,
    /// Another uid cannot be had.
    #[error("uid {uid} was asked for, but the gateway is not root and cannot change to it; leave `uid` out")]
    CannotChangeUser {
        /// The uid that was asked for.
        uid: u32,
    },
    /// An entry of `allow` or `private` cannot be used.
    #[error("{0}")]
    Egress(AllowlistFault),
}

impl PlanFault {
    /// Whether it is something this host lacks, rather than something no host would carry out.
    #[must_use]
    pub fn is_of_host(&self) -> bool {
        match self {
            Self::WorkspaceMissing { .. }
            | Self::WorkspaceNotDirectory { .. }
            | Self::WorkspaceUnusable { .. }
            | Self::ReadMissing { .. }
            | Self::ProgramMissing { .. }
            | Self::ProgramHidden { .. }
            | Self::ProgramNotExecutable { .. }
            | Self::CannotChangeUser { .. } => true,
            Self::EmptyCommand
            | Self::Nul { .. }
            | Self::Relative { .. }
            | Self::NotText { .. }
            | Self::WorkspaceSymlink { .. }
            | Self::WorkspaceIsSystem { .. }
            | Self::ShowsState { .. }
            | Self::ReadForbidden { .. }
            | Self::SocketsOfTheHost
            | Self::VariableName { .. }
            | Self::ZeroLimit { .. }
            | Self::RootUser
            | Self::Egress(_) => false,
        }
    }
}
