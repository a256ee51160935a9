//! The files that a command line names: the program, and the scripts among its words. Whoever changes one changes the server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sandbox::PlanDraft;
use vocabulary::Digest;

use crate::config::{Process, is_script};

/// Their digests, by the words that name them. `draft` is of the same process, for the principal whose workspace counts. Blocks.
pub(crate) fn named_files(process: &Process, draft: &PlanDraft) -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::new();
    let program = draft.program().ok_or("its program was not found")?;
    let word = process.command.first().cloned().unwrap_or_default();
    files.insert(word, told(&program)?);
    for (word, within) in process.command.iter().zip(&draft.command).skip(1) {
        // `--import=FILE` names a file too.
        let named = within.split_once('=').map_or(within.as_str(), |(_, file)| file);
        let path = draft.workspace.join(named);
        if path.is_file() && (is_script(named) || is_executable(&path)) {
            files.insert(word.clone(), told(&path)?);
        }
    }
    Ok(files)
}

fn told(path: &Path) -> Result<String, String> {
    let digest = digest(path).map_err(|error| format!("`{}` cannot be read: {error}", path.display()))?;
    Ok(digest.to_string())
}

/// The digest of a file that may be large.
fn digest(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut context = vocabulary::Hasher::default();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(context.finish()),
            read => context.update(piece.get(..read).unwrap_or_default()),
        }
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
}
