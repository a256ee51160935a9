//! Landlock: the same lists as the mounts, enforced a second time, and without mounts the only ones.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::{DEVICES, FROM_ETC, INTO_USR, TEMPORARY};
use crate::launch::orders::{Orders, Walls};
use crate::plan::{FsPolicy, PlaceAccess};
use crate::report::LimitsKind;
use crate::sys;

/// The version to use: the kernel's, as far as we know what is in it.
pub(crate) fn abi() -> io::Result<u8> {
    Ok(sys::landlock_abi()?.min(NEWEST))
}

/// Restricts this thread and all it starts, for good. Nothing less than everything will do.
pub(crate) fn apply(orders: &Orders, abi: u8) -> io::Result<()> {
    let version = version(abi).ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
    let everything = AccessFs::from_all(version);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(everything)
        .map_err(other)?;
    if abi >= SCOPES {
        rules = rules.scope(Scope::from_all(version)).map_err(other)?;
    }
    let rules = rules
        .create()
        .map_err(other)?
        .set_compatibility(CompatLevel::HardRequirement);
    let status = add(rules, orders, version)?.restrict_self().map_err(other)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
        }
    }
}

/// The Landlock version from which on signals and abstract sockets stay inside.
pub(crate) const SCOPES: u8 = 6;

/// The newest version whose access rights we have looked at.
const NEWEST: u8 = 7;

fn version(abi: u8) -> Option<ABI> {
    match abi {
        3 => Some(ABI::V3),
        4 => Some(ABI::V4),
        5 => Some(ABI::V5),
        6 => Some(ABI::V6),
        7 => Some(ABI::V7),
        _ => None,
    }
}

fn add(rules: RulesetCreated, orders: &Orders, version: ABI) -> io::Result<RulesetCreated> {
    let read = AccessFs::from_read(version);
    // No nodes: devices are shown by us, and sockets mostly cannot be used.
    let mut nodes = AccessFs::MakeChar | AccessFs::MakeBlock;
    if !orders.has_unix_sockets() {
        nodes |= AccessFs::MakeSock;
    }
    let mut write = AccessFs::from_all(version) & !nodes;
    let mut device = AccessFs::ReadFile | AccessFs::WriteFile;
    if version >= ABI::V5 {
        write &= !BitFlags::from(AccessFs::IoctlDev);
        device |= AccessFs::IoctlDev;
    }
    let workspace = match orders.fs {
        FsPolicy::WorkspaceOnly => write,
        FsPolicy::ReadOnly | FsPolicy::Unconfined => read,
    };
    let fixed = ["/usr"].iter().chain(INTO_USR).chain(FROM_ETC);
    let mut list: Vec<(&Path, BitFlags<AccessFs>)> = fixed.map(|path| (Path::new(*path), read)).collect();
    // Who may write to it may have shared memory from it, which only a control group counts.
    let is_read_only = |path: &str| path == "/dev/zero" && orders.limits_kind == LimitsKind::Rlimit;
    list.extend(DEVICES.map(|path| match is_read_only(path) {
        true => (Path::new(path), device & !BitFlags::from(AccessFs::WriteFile)),
        false => (Path::new(path), device),
    }));
    if orders.walls() == Walls::Namespaces {
        // The tree is our own: nothing in these was the host's.
        list.extend(orders.read.iter().map(|shown| (shown.at.as_path(), read)));
        list.extend(["/etc", "/proc"].map(|path| (Path::new(path), read)));
        list.extend(TEMPORARY.map(|(path, _)| (Path::new(path), write)));
    } else {
        list.extend(orders.read.iter().map(|shown| (shown.source.as_path(), read)));
        list.extend(HOST_FILES.map(|path| (Path::new(path), read)));
    }
    list.push((&orders.workspace, workspace));
    list.extend(orders.places.iter().map(|place| {
        let access = match place.access {
            PlaceAccess::Read => read,
            PlaceAccess::Write => write,
        };
        (place.path.as_path(), access)
    }));
    list.into_iter()
        .try_fold(rules, |rules, (path, access)| beneath(rules, path, access, version))
}

fn beneath(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>, version: ABI) -> io::Result<RulesetCreated> {
    let descriptor = match PathFd::new(path) {
        Ok(descriptor) => descriptor,
        // What the host does not have needs no rule. Paths of the plan were opened before and are there.
        Err(PathFdError::OpenCall { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(rules),
        Err(error) => return Err(other(error)),
    };
    // Rights over directories mean nothing on a file, and asking for them is an error.
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(version)
    };
    rules.add_rule(PathBeneath::new(descriptor, access)).map_err(other)
}

/// An error of the library; the kernel's number is kept where there is one.
fn other(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(current) = cause {
        if let Some(number) = current.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(number);
        }
        cause = current.source();
    }
    io::Error::other(error)
}

/// Without a file tree of its own, a server needs these of the host's; none of them tells of other processes. Of its own process
/// not `net`, which is the host's network.
const HOST_FILES: [&str; 24] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/passwd",
    "/etc/group",
    "/proc/self/auxv",
    "/proc/self/cgroup",
    "/proc/self/cmdline",
    "/proc/self/comm",
    "/proc/self/environ",
    "/proc/self/fd",
    "/proc/self/fdinfo",
    "/proc/self/limits",
    "/proc/self/maps",
    "/proc/self/mountinfo",
    "/proc/self/mounts",
    "/proc/self/oom_score_adj",
    "/proc/self/smaps",
    "/proc/self/stat",
    "/proc/self/statm",
    "/proc/self/status",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/stat",
    "/proc/sys/vm",
];
