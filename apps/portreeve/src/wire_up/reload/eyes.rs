//! Watches the files of a configuration, and knows which of them somebody is writing to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{EventKind, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use vocabulary::lock;

/// The files that were written to and not closed since.
#[derive(Debug, Default)]
pub(in crate::wire_up) struct OpenFiles(Mutex<BTreeSet<PathBuf>>);

impl OpenFiles {
    /// Whether one of these is being written to.
    pub(super) fn any_of(&self, files: &[PathBuf]) -> bool {
        let open = lock(&self.0);
        files.iter().any(|file| open.contains(file))
    }

    /// Whether the event says that a file's contents may be others now; remembers who is not done yet.
    fn note(&self, event: &notify::Event) -> bool {
        match event.kind {
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any) => {
                lock(&self.0).extend(event.paths.iter().cloned());
                true
            }
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Remove(_) => {
                let mut open = lock(&self.0);
                event.paths.iter().for_each(|path| {
                    open.remove(path);
                });
                true
            }
            EventKind::Access(_) => false,
            EventKind::Modify(_) | EventKind::Any | EventKind::Other => true,
        }
    }
}

/// Watches the directories of these files, since editors replace files. `changed` is told when one may say something else.
pub(super) fn watch(
    files: Vec<PathBuf>,
    open: Arc<OpenFiles>,
    changed: mpsc::Sender<()>,
) -> Option<notify::RecommendedWatcher> {
    let mut directories: Vec<PathBuf> = files.iter().filter_map(|file| directory_of(file)).collect();
    directories.sort();
    directories.dedup();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let is_ours = |path: &PathBuf| files.iter().any(|file| path == file || path.parent() == Some(file));
        if event.is_ok_and(|event| event.paths.iter().any(is_ours) && open.note(&event)) {
            let _ = changed.try_send(());
        }
    })
    .ok()?;
    for directory in directories {
        if let Err(error) = watcher.watch(&directory, RecursiveMode::NonRecursive) {
            tracing::warn!(directory = %directory.display(), %error, "changes here are not noticed");
        }
    }
    Some(watcher)
}

fn directory_of(file: &Path) -> Option<PathBuf> {
    match file.is_dir() {
        true => Some(file.to_owned()),
        false => file.parent().map(Path::to_owned),
    }
}
