//! `servers.lock` as a configuration sees it: what servers are there, and who stands for them.

use std::path::Path;

use settings::Section;
use vocabulary::ServerId;

use super::process::packages;
use super::raw::Surroundings;
use super::servers::Reach;
use super::state::State;
use super::trust::Anchors;
use crate::servers_lock::{Entry, LOCK_FILE, SIGNATURE_FILE, ServersLock, Signed, signed};

/// What is said of a server that nobody stands for, before the reason.
pub(super) const NOT_STARTED: &str = "is not started: ";

/// What is known of a server beside its own table.
pub(super) struct Place<'a> {
    pub(super) id: &'a ServerId,
    pub(super) state: &'a Path,
    pub(super) lock: &'a ServersLock,
    pub(super) signed: &'a Signed,
}

impl Place<'_> {
    /// Why nobody stands for this server, where somebody has to.
    pub(super) fn stranger(&self, reach: &Reach) -> Option<String> {
        Some(match self.signed {
            Signed::NotAsked => return None,
            Signed::No(why) => why.clone(),
            Signed::Yes => match (self.lock.get(self.id.as_str()), Entry::of(self.id, reach, self.state)) {
                (None, _) => "it is not in servers.lock".to_owned(),
                (Some(_), Err(why)) => format!("it cannot be compared with servers.lock: {why}"),
                (Some(locked), Ok(found)) => format!("servers.lock has it otherwise: {}", locked.difference(&found)?),
            },
        })
    }
}

/// As [`lock`], or what is installed where the lock is about to be written.
pub(super) fn read(
    root: &Section<'_>,
    (state, anchors): (Option<&State>, Option<&Anchors>),
    around: &Surroundings,
) -> (ServersLock, Signed) {
    match (around.locks_anew(), state) {
        (true, Some(state)) => (ServersLock::installed(&packages(&state.dir)), Signed::NotAsked),
        (false, _) | (true, None) => lock(root, anchors, around),
    }
}

/// What servers are and were installed from, and whether somebody stands for it. Empty where nothing is written, and where it
/// cannot be read: then a fault is noted, or where a signature is asked for, nobody stands for it.
fn lock(root: &Section<'_>, anchors: Option<&Anchors>, around: &Surroundings) -> (ServersLock, Signed) {
    let file = around.resolve(LOCK_FILE);
    let (text, mut why) = match around.text_if_there(&file) {
        Ok(text) => (text, None),
        Err(complaint) => (None, Some(complaint.to_line())),
    };
    let parsed = text
        .as_deref()
        .map(ServersLock::parse)
        .unwrap_or_else(|| Ok(ServersLock::default()));
    let lock = parsed.unwrap_or_else(|unreadable| {
        why = Some(unreadable);
        ServersLock::default()
    });
    let signed = match anchors {
        Some(anchors) if anchors.require_signed => {
            let signatures = around.text_if_there(&around.resolve(SIGNATURE_FILE));
            let judged = signatures
                .map_err(|complaint| complaint.to_line())
                .and_then(|signatures| signed(text.as_deref(), signatures.as_deref(), &anchors.keys).map(drop));
            judged.map_or_else(Signed::No, |()| Signed::Yes)
        }
        Some(_) | None => Signed::NotAsked,
    };
    match (why, signed) {
        (Some(why), Signed::No(_)) => (lock, Signed::No(format!("servers.lock {why}"))),
        (why, signed) => {
            if let Some(why) = why {
                root.notes().fault_in(&file, 0, why);
            }
            (lock, signed)
        }
    }
}
