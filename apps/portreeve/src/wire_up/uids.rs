//! A user of its own for each workspace, if the gateway is root: what the kernel counts for a user (descriptors on their way,
//! processes, watches) is then counted for one server alone. ADR 0064.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gateway::edge::tls::write_whole;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, openat, statat};
use vocabulary::{PrincipalKey, ServerId, lock};

/// Hands out users, each to one server, or to one principal of it, for good.
#[derive(Clone, Debug)]
pub(crate) struct Uids(Arc<Book>);

#[derive(Debug)]
struct Book {
    range: Option<RangeInclusive<u32>>,
    file: PathBuf,
    /// One at a time writes.
    writing: Mutex<()>,
}

/// Whose user it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) server: &'a ServerId,
    /// None where all processes of the server share one workspace, and for the gateway's own process.
    pub(crate) principal: Option<&'a PrincipalKey>,
}

impl Uids {
    /// Users of `range`, written down in the state directory; none where the gateway is not root or has no range.
    pub(crate) fn of(range: Option<&RangeInclusive<u32>>, state: &Path) -> Self {
        let range = range.filter(|_| rustix::process::geteuid().is_root()).cloned();
        Self(Arc::new(Book {
            range,
            file: state.join("sandbox.uids"),
            writing: Mutex::new(()),
        }))
    }

    /// The user of a server, or of a principal of it; the same one every time.
    pub(crate) fn user(&self, holder: Holder<'_>) -> Result<Option<u32>, String> {
        let Some(range) = &self.0.range else {
            return Ok(None);
        };
        let _one = lock(&self.0.writing);
        let mut book = self.read()?;
        let name = match holder.principal {
            Some(principal) => format!("{} {}", holder.server, principal.digest()),
            None => holder.server.to_string(),
        };
        if let Some(uid) = book.get(&name).filter(|uid| range.contains(uid)) {
            return Ok(Some(*uid));
        }
        let taken: std::collections::BTreeSet<u32> = book.values().copied().collect();
        let uid = range.clone().find(|uid| !taken.contains(uid)).ok_or_else(|| {
            format!(
                "all users of `[sandbox] uids` ({}-{}) are taken; widen the range",
                range.start(),
                range.end()
            )
        })?;
        book.insert(name, uid);
        let lines: String = book.iter().map(|(name, uid)| format!("{uid} {name}\n")).collect();
        write_whole(&self.0.file, lines.as_bytes(), 0o600)
            .map_err(|error| format!("its user cannot be written down: {error}"))?;
        Ok(Some(uid))
    }

    fn read(&self) -> Result<BTreeMap<String, u32>, String> {
        let text = match fs::read_to_string(&self.0.file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            other => other.map_err(|error| format!("`{}` cannot be read: {error}", self.0.file.display()))?,
        };
        let entry = |line: &str| {
            let (uid, name) = line.split_once(' ')?;
            Some((name.to_owned(), uid.parse().ok()?))
        };
        let entries: Option<BTreeMap<_, _>> = text.lines().map(entry).collect();
        entries.ok_or_else(|| format!("`{}` is not what was written there; remove it", self.0.file.display()))
    }
}

/// Gives a workspace of ours, with all that is in it, to its user. Links are given away themselves, never what they lead to.
pub(crate) fn give(workspace: &Path, uid: u32) -> std::io::Result<()> {
    if fs::symlink_metadata(workspace)?.uid() == uid {
        return Ok(());
    }
    let top = openat(CWD, workspace, DIRECTORY, Mode::empty())?;
    give_below(&top, uid, 0)?;
    rustix::fs::fchown(&top, Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)))?;
    Ok(())
}

fn give_below(directory: &rustix::fd::OwnedFd, uid: u32, depth: usize) -> std::io::Result<()> {
    if depth > DEEPEST {
        return Err(std::io::Error::other("its directories are nested too deep"));
    }
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            give_below(&openat(directory, name, DIRECTORY, Mode::empty())?, uid, depth + 1)?;
        }
        let (user, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)));
        chownat(directory, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Each level takes a descriptor.
const DEEPEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use vocabulary::{ActorType, Authn, Principal, ServerScope};

    /// Whether this is root. Where everything must be there, it has to be.
    fn is_root() -> bool {
        let root = rustix::process::geteuid().is_root();
        assert!(
            root || crate::config::variable("CI").as_deref() != Some("true"),
            "this takes root"
        );
        root
    }

    fn server(name: &str) -> ServerId {
        ServerId::parse(name).unwrap()
    }

    #[test]
    fn everybody_has_one_user_and_keeps_it() {
        if !is_root() {
            return;
        }
        let state = tempfile::tempdir().unwrap();
        let range = 1_900_000_000..=1_900_000_002;
        let (one, two) = (server("one"), server("two"));
        let anna = PrincipalKey::of(&Principal {
            sub: "anna".to_owned(),
            actor_type: ActorType::User,
            client_id: None,
            org_id: None,
            issuer: "https://idp.example".to_owned(),
            authn: Authn::Jwt,
            act: Vec::new(),
            run: None,
            groups: Default::default(),
            claims: Default::default(),
            servers: ServerScope::Every,
        });
        let asked = |uids: &Uids| {
            [(&one, None), (&one, Some(&anna)), (&two, None)]
                .map(|(server, principal)| uids.user(Holder { server, principal }).unwrap().unwrap())
        };
        let first = asked(&Uids::of(Some(&range), state.path()));
        assert_eq!(first, [1_900_000_000, 1_900_000_001, 1_900_000_002]);
        let again = Uids::of(Some(&range), state.path());
        assert_eq!(asked(&again), first);
        let full = again
            .user(Holder {
                server: &server("three"),
                principal: None,
            })
            .unwrap_err();
        assert!(full.contains("widen the range"), "{full}");
        fs::write(state.path().join("sandbox.uids"), "nonsense\n").unwrap();
        assert!(
            again
                .user(Holder {
                    server: &one,
                    principal: None
                })
                .is_err()
        );
    }

    #[test]
    fn a_workspace_changes_hands_without_what_its_links_lead_to() {
        if !is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let (workspace, outside) = (place.path().join("workspace"), place.path().join("outside"));
        fs::create_dir_all(workspace.join("deep/er")).unwrap();
        fs::write(workspace.join("deep/er/file"), "").unwrap();
        fs::write(&outside, "").unwrap();
        std::os::unix::fs::symlink(&outside, workspace.join("deep/link")).unwrap();
        give(&workspace, 1_900_000_007).unwrap();
        for name in ["", "deep", "deep/er", "deep/er/file", "deep/link"] {
            let owner = fs::symlink_metadata(workspace.join(name)).unwrap().uid();
            assert_eq!(owner, 1_900_000_007, "{name}");
        }
        assert_eq!(outside.metadata().unwrap().uid(), 0);
    }
}
