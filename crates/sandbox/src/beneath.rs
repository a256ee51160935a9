//! Where a path leads that a caller named, seen from the directory it is to stay in: asked of the kernel, which follows links
//! as far as they stay beneath and no further. Nothing is opened but handles that can neither be read nor written.
//! ADR 0071: paths and hosts.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Whether a look may wait for a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// It answers from memory, or says that it would have to wait.
    None,
    /// It waits.
    Disk,
}

/// Where a path leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leads {
    /// To something beneath the directory, or to nothing yet there.
    Beneath,
    /// Elsewhere, or nobody can tell.
    Elsewhere,
    /// That cannot be said without waiting.
    Wait,
}

/// Why a directory cannot be looked into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoDirectory {
    /// There is nothing.
    Missing,
    /// It is a link or no directory, or lies behind one, or cannot be opened.
    Unusable,
    /// That cannot be said without waiting.
    Wait,
}

/// A directory that paths are followed in.
#[derive(Debug)]
pub struct Directory {
    handle: OwnedFd,
    patience: Patience,
}

impl Directory {
    /// A directory whose path holds no links: neither itself nor any above it.
    ///
    /// # Errors
    /// When it is gone, or has become something else.
    pub fn without_links(path: &Path, patience: Patience) -> Result<Self, NoDirectory> {
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Self::open(path, OFlags::DIRECTORY, resolve, patience)
    }

    /// What the operator named; links of the operator's are followed to it.
    ///
    /// # Errors
    /// When it is not there.
    pub fn as_named(path: &Path, patience: Patience) -> Result<Self, NoDirectory> {
        Self::open(path, OFlags::empty(), ResolveFlags::NO_MAGICLINKS, patience)
    }

    fn open(path: &Path, kind: OFlags, resolve: ResolveFlags, patience: Patience) -> Result<Self, NoDirectory> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | kind;
        match openat2(CWD, path, flags, Mode::empty(), resolve | patience.flags()) {
            Ok(handle) => Ok(Self { handle, patience }),
            Err(Errno::NOENT) => Err(NoDirectory::Missing),
            Err(Errno::AGAIN) if patience == Patience::None => Err(NoDirectory::Wait),
            Err(_) => Err(NoDirectory::Unusable),
        }
    }

    /// Follows a relative path. One that is not there yet leads where its deepest part leads that is; a link whose end is
    /// missing leads elsewhere.
    #[must_use]
    pub fn follow(&self, relative: &str) -> Leads {
        if relative == "." {
            return Leads::Beneath;
        }
        match self.look(relative, OFlags::empty()) {
            Found::There => Leads::Beneath,
            Found::Missing => self.deepest(relative),
            Found::Other(leads) => leads,
        }
    }

    /// Looks for the deepest part that is there. If a part is there, all those above it are.
    fn deepest(&self, relative: &str) -> Leads {
        let ends: Vec<usize> = ends_of_parts(relative).collect();
        let prefix = |parts: usize| {
            let end = parts.checked_sub(1).and_then(|last| ends.get(last)).copied();
            relative.get(..end.unwrap_or(0)).unwrap_or_default()
        };
        let (mut there, mut missing) = (0, ends.len() + 1);
        while there + 1 < missing {
            let middle = usize::midpoint(there, missing);
            match self.look(prefix(middle), OFlags::empty()) {
                Found::There => there = middle,
                Found::Missing => missing = middle,
                Found::Other(leads) => return leads,
            }
        }
        if there == ends.len() {
            return Leads::Beneath;
        }
        // What is there under this name and cannot be followed is a link.
        match self.look(prefix(there + 1), OFlags::NOFOLLOW) {
            Found::Missing => Leads::Beneath,
            Found::There => Leads::Elsewhere,
            Found::Other(leads) => leads,
        }
    }

    fn look(&self, relative: &str, more: OFlags) -> Found {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | self.patience.flags();
        let flags = OFlags::PATH | OFlags::CLOEXEC | more;
        for _ in 0..TRIES {
            match openat2(self.handle(), relative, flags, Mode::empty(), resolve) {
                Ok(_) => return Found::There,
                Err(Errno::NOENT | Errno::NOTDIR) => return Found::Missing,
                Err(Errno::AGAIN) if self.patience == Patience::None => return Found::Other(Leads::Wait),
                // Something was moved meanwhile.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        Found::Other(Leads::Elsewhere)
    }

    fn handle(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd as _;
        self.handle.as_fd()
    }
}

impl Patience {
    fn flags(self) -> ResolveFlags {
        match self {
            Self::None => ResolveFlags::CACHED,
            Self::Disk => ResolveFlags::empty(),
        }
    }
}

enum Found {
    There,
    Missing,
    Other(Leads),
}

/// Whoever keeps moving things must not keep us looking.
const TRIES: usize = 16;

/// Where each part ends.
fn ends_of_parts(relative: &str) -> impl Iterator<Item = usize> {
    let bytes = relative.as_bytes();
    let is_end = |index: usize| {
        let is_last = bytes.get(index + 1).is_none_or(|next| *next == b'/');
        bytes.get(index).is_some_and(|byte| *byte != b'/') && is_last
    };
    (0..bytes.len())
        .filter(move |index| is_end(*index))
        .map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A workspace beside something that is none of its business.
    struct Scene {
        place: PathBuf,
    }

    impl Scene {
        fn set() -> Self {
            let unique = format!("portreeve-beneath-{}", vocabulary::random_hex(8).unwrap());
            let place = std::env::temp_dir().canonicalize().unwrap().join(unique);
            fs::create_dir_all(place.join("workspace/a/b")).unwrap();
            fs::create_dir_all(place.join("outside")).unwrap();
            fs::write(place.join("outside/secret"), "hunter2").unwrap();
            fs::write(place.join("workspace/a/file"), "x").unwrap();
            Self { place }
        }

        fn workspace(&self) -> PathBuf {
            self.place.join("workspace")
        }

        fn link(&self, name: &str, target: &str) {
            symlink(target, self.workspace().join(name)).unwrap();
        }

        /// Both looks agree, where the first can tell.
        fn follow(&self, relative: &str) -> Leads {
            let at = |patience| {
                let directory = Directory::without_links(&self.workspace(), patience);
                directory.map(|directory| directory.follow(relative))
            };
            let waited = at(Patience::Disk).unwrap();
            match at(Patience::None) {
                Ok(Leads::Wait) | Err(NoDirectory::Wait) => {}
                quick => assert_eq!(quick, Ok(waited), "{relative}"),
            }
            waited
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.place);
        }
    }

    #[test]
    fn what_is_beneath_is_beneath_also_before_it_is_there() {
        let scene = Scene::set();
        scene.link("inner", "a/b");
        scene.link("a/up", "../a/file");
        for path in [
            ".",
            "a",
            "a/",
            "a/file",
            "./a//b",
            "inner",
            "a/up",
            "new",
            "new/",
            "a/new/deeper/still",
            "a/file/x",
            "inner/new",
            "a/./new/./x",
        ] {
            assert_eq!(scene.follow(path), Leads::Beneath, "{path}");
        }
        let deep = "x/".repeat(2000);
        assert_eq!(scene.follow(&deep), Leads::Beneath);
    }

    #[test]
    fn a_link_that_leads_out_is_not_followed() {
        let scene = Scene::set();
        scene.link("absolute", &scene.place.join("outside").display().to_string());
        scene.link("relative", "../outside");
        scene.link("a/far", "../../outside/secret");
        scene.link("chain", "relative");
        scene.link("etc", "/etc");
        scene.link("magic", "/proc/self/root");
        scene.link("loop", "loop");
        scene.link("dangling", "../outside/new");
        scene.link("nowhere", "a/missing");
        for path in [
            "absolute",
            "absolute/secret",
            "absolute/new",
            "relative",
            "relative/secret",
            "relative/new/deeper",
            "a/far",
            "chain/secret",
            "etc/passwd",
            "magic/etc/passwd",
            "loop",
            "loop/x",
            "dangling",
            "nowhere",
            "nowhere/x",
            "..",
            "../outside",
            "a/../../outside",
            "/etc/passwd",
        ] {
            assert_eq!(scene.follow(path), Leads::Elsewhere, "{path}");
        }
    }

    #[test]
    fn a_workspace_that_is_gone_or_a_link_is_none() {
        let scene = Scene::set();
        let open = |path: &Path| Directory::without_links(path, Patience::Disk).err();
        assert_eq!(open(&scene.workspace()), None);
        assert_eq!(open(&scene.place.join("none")), Some(NoDirectory::Missing));
        assert_eq!(open(&scene.place.join("outside/secret")), Some(NoDirectory::Unusable));
        fs::rename(scene.workspace(), scene.place.join("moved")).unwrap();
        symlink(scene.place.join("outside"), scene.workspace()).unwrap();
        assert_eq!(open(&scene.workspace()), Some(NoDirectory::Unusable));
        assert_eq!(
            open(&scene.workspace().join("deeper")),
            Some(NoDirectory::Unusable),
            "a link above it"
        );
        assert!(Directory::as_named(&scene.workspace(), Patience::Disk).is_ok());
    }
}
