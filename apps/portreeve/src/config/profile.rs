//! `profile`: what an installation is for, and what it must be for that. Everything that stands between a configuration and
//! production is said at once.

use std::collections::BTreeMap;

use sandbox::{FsPolicy, NetPolicy};
use settings::{Complaint, Outline, Section};
use vocabulary::{ServerId, Trust};

use super::floating::floats;
use super::raw::Surroundings;
use super::{Anchors, Listen, Process, Reach, Server, Tls};

vocabulary::words! {
    /// What an installation is for.
    pub enum Profile {
        /// Agents depend on it, and others on what they do.
        Production = "production",
    }
}

/// The parts that are judged, as far as they are sound.
pub(super) struct Parts<'a> {
    pub(super) listen: Option<&'a Listen>,
    pub(super) anchors: Option<&'a Anchors>,
    pub(super) servers: &'a BTreeMap<ServerId, Server>,
}

impl Profile {
    /// The profile that counts: the one somebody asks about, else the one that is written.
    pub(super) fn check(root: &mut Section<'_>, around: &Surroundings) -> Option<Self> {
        let written = root.read("profile", |value| value.word(Self::ALL, Self::as_str));
        around.profile().or(written)
    }

    /// Notes everything that does not fit.
    pub(super) fn judge(self, parts: &Parts<'_>, outline: &Outline<'_>) {
        let Self::Production = self;
        let refuse = |key: &str, what: &str, hint: &str| {
            let complaint = Complaint::new(format!("{what}, which `production` refuses"));
            outline.fault(key, complaint.hint(hint));
        };
        if parts.listen.is_some_and(|listen| matches!(listen.tls, Tls::Off)) {
            refuse("listen.tls.mode", "TLS is off", "write `auto` or `files`");
        }
        if parts.anchors.is_some_and(|anchors| !anchors.require_signed) {
            let hint = "write `require_signed = true` and your public key into `keys` of `[trust]`, then `portreeve server sign`";
            refuse(
                "trust.require_signed",
                "servers are started that nobody signed for",
                hint,
            );
        }
        for (id, server) in parts.servers {
            let key = format!("servers.{id}");
            if server.trust == Trust::Unknown {
                let hint = "look at the server, and write `internal`, `verified` or `community`";
                refuse(&format!("{key}.trust"), "nobody said how far it is trusted", hint);
            }
            if let Reach::Process(process) = &server.reach {
                judge_process(&key, process, server.trust, &refuse);
            }
        }
    }
}

fn judge_process(key: &str, process: &Process, trust: Trust, refuse: &dyn Fn(&str, &str, &str)) {
    let is_stranger = matches!(trust, Trust::Community | Trust::Unknown);
    if is_stranger && process.fs == FsPolicy::Unconfined {
        let what = "a server that is not known well can reach every file";
        refuse(
            &format!("{key}.sandbox.fs"),
            what,
            "write `workspace_only` or `read_only`",
        );
    }
    if is_stranger && process.net == NetPolicy::Unconfined {
        let what = "a server that is not known well can reach every host";
        let hint = "write `block_all`, or `allowlist` and name what it needs in `allow`";
        refuse(&format!("{key}.sandbox.net"), what, hint);
    }
    if floats(&process.command) {
        let what = "it starts whatever version is the newest";
        let hint = "install one version with `portreeve server add`, or name it exactly";
        refuse(&format!("{key}.command"), what, hint);
    }
}
