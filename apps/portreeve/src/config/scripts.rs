//! Scripts that a server's command names and its sandbox does not show: the most common reason why one does not start, and
//! one that its interpreter tells in words of its own.

use std::path::{Path, PathBuf};

use sandbox::{FsPolicy, PlanDraft};
use vocabulary::ServerId;

use super::process::Process;

/// What interpreters are given to run.
const ENDINGS: [&str; 9] = ["js", "mjs", "cjs", "ts", "py", "sh", "rb", "pl", "php"];

/// Every script among the arguments that cannot be read inside, with what to do about it.
pub(super) fn unreadable(process: &Process, draft: &PlanDraft, id: &ServerId) -> Vec<String> {
    let words = draft.command.iter().skip(1);
    let scripts = words
        .filter(|word| is_script(word))
        .map(|word| draft.workspace.join(word));
    scripts
        .filter_map(|script| told(process, &draft.workspace, &script, id))
        .collect()
}

/// Whether a word names something that an interpreter would run.
pub(crate) fn is_script(word: &str) -> bool {
    let path = Path::new(word);
    let ends = path.extension().and_then(|ending| ending.to_str());
    !word.starts_with('-') && ends.is_some_and(|ending| ENDINGS.contains(&ending))
}

fn told(process: &Process, workspace: &Path, script: &Path, id: &ServerId) -> Option<String> {
    let shown = process.fs == FsPolicy::Unconfined || is_shown(process, workspace, script);
    let named = format!("`{}`, named among its arguments,", script.display());
    match (script.exists(), shown) {
        (true, true) => None,
        (false, _) if script.starts_with(workspace) => Some(format!(
            "{named} is not in its workspace; name the script from the root"
        )),
        (false, _) => Some(format!("{named} does not exist")),
        (true, false) => Some(format!(
            "{named} cannot be read inside its sandbox; add it or its directory to `servers.{id}.sandbox.read`"
        )),
    }
}

/// Whether the sandbox shows a path: as it is written, or where it leads.
fn is_shown(process: &Process, workspace: &Path, script: &Path) -> bool {
    let places: Vec<PathBuf> = ["/usr", "/bin", "/lib", "/lib64"]
        .into_iter()
        .map(PathBuf::from)
        .chain(process.read.iter().cloned())
        .chain([workspace.to_owned()])
        .collect();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let target = real(script);
    let mut places = places.iter();
    places.any(|place| script.starts_with(place) || target.starts_with(real(place)))
}
