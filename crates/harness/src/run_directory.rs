//! The directories of a run. What a runtime can see lies in the directory of its agent, made anew and taken away afterwards; what it must
//! never see, such as validated files and quarantined ones, lies in the run's own directory.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown, symlink,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, fstat, renameat_with};
use rustix::io::Errno;

use crate::contract::Validated;
use crate::removal;

/// The directory of one run: `run.json`, `validated/`, `quarantine/`, `hooks/`.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
    run: String,
}

impl RunDirectory {
    /// Makes the directory of a run below the state directory.
    ///
    /// # Errors
    /// When it cannot be made, or is there already.
    pub fn make(state: &Path, run: &str) -> io::Result<Self> {
        let runs = state.join("harness").join("runs");
        DirBuilder::new().recursive(true).mode(0o700).create(&runs)?;
        let path = runs.join(run);
        DirBuilder::new().mode(0o700).create(&path)?;
        for name in ["validated", "quarantine", "hooks"] {
            DirBuilder::new().mode(0o700).create(path.join(name))?;
        }
        Ok(Self {
            path,
            run: run.to_owned(),
        })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's name.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Keeps bytes that went no further, for whoever looks into a failure.
    pub(crate) fn quarantine(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join("quarantine").join(name);
        write_new(&path, bytes, 0o600)?;
        Ok(path)
    }

    /// Keeps what a hook said.
    pub(crate) fn keep_words(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join("hooks").join(name);
        write_new(&path, bytes, 0o600)?;
        Ok(path)
    }

    /// Says how the run stands; the last word is the final one.
    pub(crate) fn note(&self, text: &str) -> io::Result<()> {
        let place = self.path.join(".run.json.new");
        let _ = fs::remove_file(&place);
        write_new(&place, text.as_bytes(), 0o600)?;
        fs::rename(&place, self.path.join("run.json"))
    }

    /// Puts validated bytes in their place: whole or not at all.
    pub(crate) fn publish(&self, agent: &str, validated: &Validated) -> io::Result<PathBuf> {
        let folder = self.path.join("validated");
        let path = folder.join(format!("{agent}.json"));
        let place = folder.join(format!(".{agent}.json.new"));
        let _ = fs::remove_file(&place);
        // Only what others rely on after a crash has to be on the disk.
        write_new(&place, validated.bytes(), 0o444)?.sync_all()?;
        renameat_with(CWD, &place, CWD, &path, RenameFlags::NOREPLACE)?;
        fs::File::open(&folder)?.sync_all()?;
        Ok(path)
    }
}

/// Writes a file that was not there.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Who a runtime is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Whoever runs the harness.
    Ours,
    /// A user of its own: the harness is root.
    Other {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
}

/// What one agent's runtime is given and where it leaves its output. Held by a lock for as long as somebody is at work in it.
#[derive(Debug)]
pub(crate) struct AgentDirectory {
    base: PathBuf,
    held: OwnedFd,
}

/// Where the directories of agents are made: started as root, where another uid can pass; else below the state directory.
pub(crate) fn parent_of(state: &Path) -> PathBuf {
    match rustix::process::geteuid().is_root() {
        true => {
            let place = std::env::temp_dir();
            place.canonicalize().unwrap_or(place)
        }
        false => state.join(AGENT_DIRECTORIES),
    }
}

impl AgentDirectory {
    /// Makes the directory of one agent, closed to everybody else.
    pub(crate) fn make(state: &Path, name: &str, agent: &str) -> io::Result<Self> {
        let parent = parent_of(state);
        DirBuilder::new().recursive(true).mode(0o700).create(&parent)?;
        let base = parent.canonicalize()?.join(format!("{PREFIX}{name}-{agent}"));
        let held = claim(&base)?;
        let made = Self { base, held };
        made.folder("given", 0o755)?;
        made.folder("bin", 0o755)?;
        Ok(made)
    }

    fn folder(&self, name: &str, mode: u32) -> io::Result<PathBuf> {
        let path = self.base.join(name);
        DirBuilder::new().mode(mode).create(&path)?;
        // The caller's mask must not close it.
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// Lets the runtime in, and nobody else: it may pass through it and look into what it is given. One that is
    /// not another user has made all this.
    pub(crate) fn open_to(&self, owner: Owner) -> io::Result<()> {
        let Owner::Other { gid, .. } = owner else {
            return Ok(());
        };
        chown(&self.base, None, Some(gid))?;
        fs::set_permissions(&self.base, Permissions::from_mode(0o710))?;
        let given = ["given", "bin", "inputs"].map(|name| self.base.join(name));
        given.iter().try_for_each(|path| show_to(path, owner))
    }

    /// Where the schema, feedback and the like lie.
    pub(crate) fn given(&self) -> PathBuf {
        self.base.join("given")
    }

    /// Where the self-check is found.
    pub(crate) fn bin(&self) -> PathBuf {
        self.base.join("bin")
    }

    /// Makes the directory of inputs, still open to whoever prepares them.
    pub(crate) fn inputs(&self) -> io::Result<PathBuf> {
        self.folder("inputs", 0o755)
    }

    /// Makes a fresh workspace.
    pub(crate) fn workspace(&self) -> io::Result<PathBuf> {
        let path = self.folder("workspace", 0o700)?;
        if rustix::process::geteuid().is_root() {
            hand_over(&path, sandbox::DEDICATED_UID)?;
        }
        Ok(path)
    }

    /// Where the output directory of one attempt is or will be.
    pub(crate) fn output_path(&self, attempt: u32) -> PathBuf {
        self.base.join(format!("output-{attempt}"))
    }

    /// Makes the output directory of one attempt, empty and the runtime's own.
    pub(crate) fn output(&self, attempt: u32, owner: Owner) -> io::Result<PathBuf> {
        let path = self.folder(&format!("output-{attempt}"), 0o700)?;
        if let Owner::Other { uid, .. } = owner {
            hand_over(&path, uid)?;
        }
        Ok(path)
    }

    /// Puts a file where the runtime can read it.
    pub(crate) fn give(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.given().join(name);
        write_new(&path, bytes, 0o444)?;
        Ok(path)
    }

    /// Names the harness's own binary, so that a runtime can check itself.
    pub(crate) fn show_program(&self, program: &Path) -> io::Result<()> {
        symlink(program, self.bin().join("portreeve"))
    }
}

impl Drop for AgentDirectory {
    fn drop(&mut self) {
        // Whatever a runtime left behind goes with it; what resists is not worth failing for.
        let _ = removal::remove_held(&self.held, &self.base);
    }
}

/// Makes a directory and locks it. A sweep may come between the two and take it away; then it is made again.
fn claim(base: &Path) -> io::Result<OwnedFd> {
    for attempt in 0..CLAIMS {
        match DirBuilder::new().mode(0o700).create(base) {
            Err(error) if attempt == 0 || error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // A file system that locks no directories is never swept, and needs no lock.
        let held = removal::enter(CWD, base).ok();
        let held = held.filter(|held| lock(held) != Err(Errno::WOULDBLOCK));
        let there = fs::symlink_metadata(base).map(|found| (found.dev(), found.ino()));
        if let (Some(held), Ok(there)) = (held, there)
            && fstat(&held).is_ok_and(|found| (found.st_dev, found.st_ino) == there)
        {
            return Ok(held);
        }
        std::thread::sleep(PAUSE);
    }
    Err(io::Error::from(io::ErrorKind::ResourceBusy))
}

fn lock(directory: &OwnedFd) -> rustix::io::Result<()> {
    flock(directory, FlockOperation::NonBlockingLockExclusive)
}

/// Takes directories of agents away whose harness was killed: ours, and held by nobody.
pub(crate) fn sweep(state: &Path) {
    let Ok(entries) = fs::read_dir(parent_of(state)) else {
        return;
    };
    let own = rustix::process::geteuid().as_raw();
    let ours = entries.flatten().filter(|entry| {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(SWEPT));
        named && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own)
    });
    for path in ours.map(|entry| entry.path()).take(MOST_SWEPT) {
        let held = removal::enter(CWD, &path).ok();
        if let Some(held) = held.filter(|held| lock(held).is_ok()) {
            let _ = removal::remove_held(&held, &path);
        }
    }
}

/// Below the state directory. The name is older than the words of this code; what an earlier version left there is still
/// swept.
pub(crate) const AGENT_DIRECTORIES: &str = "harness/arenas";
const PREFIX: &str = "portreeve-";
/// As runs are named.
const SWEPT: &str = "portreeve-run_";
const MOST_SWEPT: usize = 64;
const CLAIMS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

fn hand_over(path: &Path, uid: u32) -> io::Result<()> {
    chown(path, Some(uid), Some(uid))
}

/// Lets a runtime look into a directory, and nobody else. Where it has a group of its own the directory stays ours, so that
/// without confinement it cannot be changed either.
fn show_to(path: &Path, owner: Owner) -> io::Result<()> {
    let mode = match owner {
        Owner::Other { uid, gid } if uid == gid => {
            chown(path, Some(0), Some(gid))?;
            0o750
        }
        Owner::Other { uid, gid } => {
            chown(path, Some(uid), Some(gid))?;
            0o500
        }
        Owner::Ours => 0o500,
    };
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Puts an input into the directory of inputs.
pub(crate) fn put_input(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    write_new(&folder.join(name), bytes, 0o444).map(drop)
}

/// Makes whatever was prepared readable for the runtime, links left as they are, and closes it to everybody else.
pub(crate) fn seal_inputs(folder: &Path, owner: Owner) -> io::Result<()> {
    let mut open = vec![folder.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                let mode = entry.metadata()?.permissions().mode();
                fs::set_permissions(entry.path(), Permissions::from_mode(mode & 0o111 | 0o444))?;
            }
        }
        fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
    }
    show_to(folder, owner)
}
