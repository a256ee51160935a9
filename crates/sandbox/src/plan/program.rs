//! The program of a draft: where it is, and whether the server's uid will find and may execute it from inside.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::paths::{Access, between, may};
use super::{FsPolicy, PlanDraft, PlanFault, User};
use crate::environment::search_path;

/// The file to execute, as it is called inside.
pub(super) fn find(draft: &PlanDraft, user: Option<User>, faults: &mut Vec<PlanFault>) -> Option<PathBuf> {
    let Some(word) = draft.command.first().filter(|word| !word.is_empty()) else {
        faults.push(PlanFault::EmptyCommand);
        return None;
    };
    let Some(found) = locate(draft, word) else {
        faults.push(PlanFault::ProgramMissing {
            program: word.clone(),
            searched: search_path(draft.read.iter().map(PathBuf::as_path)).replace(':', ", "),
        });
        return None;
    };
    let before = faults.len();
    check(draft, user, word, &found, faults);
    if let Some(interpreter) = interpreter(&found) {
        match locate(draft, &interpreter) {
            Some(path) => check(draft, user, &interpreter, &path, faults),
            None => faults.push(PlanFault::ProgramMissing {
                program: interpreter,
                searched: search_path(draft.read.iter().map(PathBuf::as_path)).replace(':', ", "),
            }),
        }
    }
    (faults.len() == before).then_some(found)
}

impl PlanDraft {
    /// The file that would be executed, if there is one; whether it may be is for [`super::Plan::check`] to say.
    #[must_use]
    pub fn program(&self) -> Option<PathBuf> {
        locate(self, self.command.first()?)
    }
}

/// The file a word of a command line stands for.
fn locate(draft: &PlanDraft, word: &str) -> Option<PathBuf> {
    if word.contains('/') {
        // A relative path starts at the working directory, which is the workspace.
        let path = draft.workspace.join(word);
        return path.is_file().then_some(path);
    }
    search_path(draft.read.iter().map(PathBuf::as_path))
        .split(':')
        .map(|directory| Path::new(directory).join(word))
        .find(|path| path.is_file())
}

fn check(draft: &PlanDraft, user: Option<User>, word: &str, path: &Path, faults: &mut Vec<PlanFault>) {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let root = visible_root(draft, &target);
    if draft.fs != FsPolicy::Unconfined && (root.is_none() || visible_root(draft, path).is_none()) {
        faults.push(PlanFault::ProgramHidden {
            program: word.to_owned(),
            target,
        });
        return;
    }
    // Trees are taken hold of before root is given up, so only directories inside them have to be passable.
    let root = root.unwrap_or_else(|| PathBuf::from("/"));
    let passable = between(&root, &target).all(|directory| may(&directory, Access::Execute, user));
    if !passable || !may(&target, Access::Execute, user) {
        faults.push(PlanFault::ProgramNotExecutable {
            path: target,
            uid: user.map_or_else(|| geteuid().as_raw(), |user| user.uid),
        });
    }
}

/// The tree through which `path` can be seen from inside.
fn visible_root(draft: &PlanDraft, path: &Path) -> Option<PathBuf> {
    let mut roots: Vec<PathBuf> = draft.read.clone();
    roots.extend(draft.read.iter().filter_map(|read| read.canonicalize().ok()));
    roots.push(draft.workspace.clone());
    roots.push(PathBuf::from("/usr"));
    // Whole trees on hosts where they are no links into /usr.
    roots.extend(["/bin", "/sbin", "/lib", "/lib64"].map(PathBuf::from));
    roots.into_iter().find(|root| path.starts_with(root))
}

/// What a script's first line names: its interpreter, or what `env` is to find.
fn interpreter(path: &Path) -> Option<String> {
    let mut head = [0u8; 256];
    let read = File::open(path).and_then(|mut file| file.read(&mut head)).ok()?;
    let line = head
        .get(..read)?
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let first = words.next()?;
    if Path::new(first).file_name()? != "env" {
        return Some(first.to_owned());
    }
    words
        .find(|word| !word.starts_with('-') && !word.contains('='))
        .map(str::to_owned)
}
