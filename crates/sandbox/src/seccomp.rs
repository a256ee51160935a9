//! The filters on system calls: what namespaces and Landlock leave open is closed here.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

use crate::plan::{Inotify, NetPolicy};
use crate::report::LimitsKind;

/// The sockets a server may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Internet sockets: the network they see is the sandbox's own, or was left open by the plan.
    Internet,
    /// Those, and Unix sockets: every path that can be named is the sandbox's own tree.
    InternetAndUnix,
    /// None: without a network of its own, denying sockets is what is left.
    Denied,
}

/// What the filters have to make up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ipc {
    /// Shared memory, queues and process numbers are the sandbox's own.
    Separate,
    /// They are the host's, and so is the file tree: memory and queues are denied, and so is doing anything to a process
    /// by its number, or to a file's attributes by its path.
    Shared,
}

/// Three programs, all in force at once; the strictest answer counts.
#[derive(Debug)]
pub(crate) struct Filters([BpfProgram; 3]);

impl Filters {
    /// Makes the programs; nothing is in force yet.
    pub(crate) fn compile(sockets: Sockets, ipc: Ipc, limits: LimitsKind, inotify: Inotify) -> io::Result<Self> {
        let mut denied = denials(sockets, ipc)?;
        // Its flags are in memory, where a filter cannot look; glibc falls back to `clone`, whose flags it can see.
        let mut absent = Rules::from([(libc::SYS_clone3, Vec::new())]);
        match inotify {
            Inotify::Allowed => {}
            // Which path is watched stands in memory; programs that find none look for themselves.
            Inotify::Denied => absent.extend(WATCHES.iter().map(|call| (*call, Vec::new()))),
        }
        match limits {
            LimitsKind::Cgroup => {}
            LimitsKind::Rlimit => {
                denied.insert(
                    libc::SYS_mmap,
                    UNSEEN_MAPPINGS
                        .map(|flags| has(3, flags))
                        .into_iter()
                        .collect::<io::Result<_>>()?,
                );
                absent.extend(UNSEEN_MEMORY.map(|call| (call, Vec::new())));
            }
        }
        Ok(Self([
            program(denied, libc::EPERM)?,
            program(absent, libc::ENOSYS)?,
            unknown_calls(),
        ]))
    }

    /// Puts them in force, for this thread and all it starts, for good.
    pub(crate) fn apply(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|filter| {
            apply_filter(filter).map_err(|error| match error {
                seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
                other @ (seccompiler::Error::Backend(_)
                | seccompiler::Error::EmptyFilter
                | seccompiler::Error::ThreadSync(_)) => io::Error::other(other),
            })
        })
    }
}

impl Sockets {
    /// Without a network namespace the plan's word decides.
    pub(crate) fn without_namespace(net: NetPolicy) -> Self {
        match net {
            NetPolicy::Unconfined => Self::Internet,
            NetPolicy::BlockAll | NetPolicy::Allowlist => Self::Denied,
        }
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn program(rules: Rules, errno: i32) -> io::Result<BpfProgram> {
    let errno = u32::try_from(errno).map_err(io::Error::other)?;
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), architecture)
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)
}

/// Refuses every call the kernel has got since this was written, and x32 calls, whose numbers lie above all others.
///
/// Four instructions: load the number; from `FIRST_UNKNOWN` on say ENOSYS; else allow. Foreign architectures were
/// killed by the other programs, which look at it first.
fn unknown_calls() -> BpfProgram {
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        instruction(0x20, 0, 0, 0),
        instruction(0x35, 0, 1, FIRST_UNKNOWN),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// `open_tree_attr` of Linux 6.15: the first call we have not judged. From 424 on, numbers are alike everywhere.
const FIRST_UNKNOWN: u32 = 467;

fn denials(sockets: Sockets, ipc: Ipc) -> io::Result<Rules> {
    let mut rules: Rules = DENIED
        .iter()
        .chain(DENIED_HERE)
        .map(|call| (*call, Vec::new()))
        .collect();
    if ipc == Ipc::Shared {
        rules.extend(SHARED_IPC.map(|call| (call, Vec::new())));
        rules.extend(neighbour_rules()?);
        rules.extend(ATTRIBUTES.iter().map(|call| (*call, Vec::new())));
        // Without a path it is about a file that was opened, which Landlock allowed.
        let by_path = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
        rules.insert(libc::SYS_utimensat, vec![all(&[by_path.map_err(io::Error::other)?])?]);
    }
    rules.insert(
        libc::SYS_clone,
        NAMESPACES
            .map(|flag| has(0, flag))
            .into_iter()
            .collect::<io::Result<_>>()?,
    );
    rules.insert(
        libc::SYS_ioctl,
        vec![all(&[is(1, TIOCSTI)?])?, all(&[is(1, TIOCLINUX)?])?],
    );
    // The older way to be told what others do in a directory.
    rules.insert(libc::SYS_fcntl, vec![all(&[is(1, libc::F_NOTIFY as u64)?])?]);
    rules.insert(libc::SYS_socket, socket_rules(sockets)?);
    rules.insert(libc::SYS_socketpair, socketpair_rules()?);
    Ok(rules)
}

/// Calls that change a process named by its number, which may be the gateway where both have one uid. Only "myself" is
/// left; Landlock keeps signals inside, but knows nothing of these.
fn neighbour_rules() -> io::Result<Rules> {
    let mut rules = Rules::new();
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        rules.insert(call, vec![all(&[is_not(0, 0)?])?]);
    }
    // Both could also mean all processes of a group or of a user.
    for (call, one_process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        rules.insert(call, vec![all(&[is_not(0, one_process)?])?, all(&[is_not(1, 0)?])?]);
    }
    Ok(rules)
}

/// Each rule is a reason to refuse.
fn socket_rules(sockets: Sockets) -> io::Result<Vec<SeccompRule>> {
    let (inet, inet6, netlink) = (libc::AF_INET as u64, libc::AF_INET6 as u64, libc::AF_NETLINK as u64);
    if sockets == Sockets::Denied {
        // An empty list of rules matches always.
        return Ok(Vec::new());
    }
    let mut rules = vec![all(&[is(0, netlink)?, is_not(2, libc::NETLINK_ROUTE as u64)?])?];
    let others = [is_not(0, inet)?, is_not(0, inet6)?, is_not(0, netlink)?];
    if sockets == Sockets::InternetAndUnix {
        let unix = libc::AF_UNIX as u64;
        let [a, b, c] = others;
        rules.push(all(&[a, b, c, is_not(0, unix)?])?);
        rules.extend(unconnected(Some(unix))?);
    } else {
        rules.push(all(&others)?);
    }
    for family in [inet, inet6] {
        // TCP and UDP are all a server needs, and all the tap can see.
        let protocols = [0, libc::IPPROTO_TCP as u64, libc::IPPROTO_UDP as u64];
        let [any, tcp, udp] = protocols.map(|protocol| is_not(2, protocol));
        rules.push(all(&[is(0, family)?, any?, tcp?, udp?])?);
        for kind in [
            libc::SOCK_RAW,
            libc::SOCK_RDM,
            libc::SOCK_SEQPACKET,
            libc::SOCK_DCCP,
            OLD_PACKET,
        ] {
            rules.push(all(&[is(0, family)?, kind_is(kind)?])?);
        }
    }
    Ok(rules)
}

/// Connected pairs of streams or of packets only: a datagram socket could be sent on to any path.
fn socketpair_rules() -> io::Result<Vec<SeccompRule>> {
    let mut rules = vec![all(&[is_not(0, libc::AF_UNIX as u64)?])?];
    rules.extend(unconnected(None)?);
    Ok(rules)
}

/// Every kind of socket, of one family or of all, that can send without being connected.
fn unconnected(family: Option<u64>) -> io::Result<Vec<SeccompRule>> {
    let connected = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET];
    (0..=0xf)
        .filter(|kind| !connected.contains(kind))
        .map(|kind| match family {
            Some(family) => all(&[is(0, family)?, kind_is(kind)?]),
            None => all(&[kind_is(kind)?]),
        })
        .collect()
}

fn is(argument: u8, value: u64) -> io::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: u64) -> io::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Ne, value)
}

/// The kind of a socket, without the flags that share its argument.
fn kind_is(kind: i32) -> io::Result<SeccompCondition> {
    condition(1, SeccompCmpOp::MaskedEq(0xf), kind as u64)
}

fn has(argument: u8, flag: i32) -> io::Result<SeccompRule> {
    let flag = u64::from(flag as u32);
    all(&[condition(argument, SeccompCmpOp::MaskedEq(flag), flag)?])
}

/// The kernel looks at the lower half of these arguments only, and so do we.
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).map_err(io::Error::other)
}

fn all(conditions: &[SeccompCondition]) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions.to_vec()).map_err(io::Error::other)
}

/// Typing on the terminal's behalf; libc gives them another type on each platform.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// SOCK_PACKET, which libc no longer wants named.
const OLD_PACKET: i32 = 10;

const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Being told when somebody opens, reads or changes a file: also files of the machine that others use, and neither mounts nor
/// Landlock stand in the way.
const WATCHES: &[i64] = &[
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
];

/// Memory that may lie where nobody has it mapped, and is then in no process's count. As if the kernel had none of
/// these: programs fall back to files, whose size is limited.
const UNSEEN_MEMORY: [i64; 6] = [
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    // Thousands of queues and sets, each as large as the kernel allows.
    libc::SYS_msgget,
    libc::SYS_semget,
    // Pages in a pipe stay when their process has let go of them, and a huge one stays whole.
    libc::SYS_vmsplice,
];

/// Flags of mappings that no limit holds. Shared memory without a file stays whole as long as one page of it is mapped,
/// and only that page is counted; what grows downwards is a stack, which is no data to RLIMIT_DATA.
const UNSEEN_MAPPINGS: [i32; 2] = [libc::MAP_SHARED | libc::MAP_ANONYMOUS, libc::MAP_GROWSDOWN];

/// Not only where one begins: whoever guesses a number needs no `get`.
const SHARED_IPC: [i64; 13] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Changes to mode, owner, times and attributes of a file that is named by a path. Landlock does not look at them, so
/// without a file tree of its own a server could change those of every file of its uid, the gateway's state included.
const ATTRIBUTES: &[i64] = &[
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Linux 6.6 and 6.13; alike on all architectures.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;

/// Calls that no server needs and that reach into other processes, into mounts, or deep into the kernel.
const DENIED: &[i64] = &[
    // other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // large parts of the kernel that have been ways out before
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    // mounts and namespaces
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    STATMOUNT,
    LISTMOUNT,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // the machine
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_settimeofday,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
];

/// Linux 6.8; alike on all architectures.
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_ustat,
    libc::SYS_sysfs,
];
#[cfg(target_arch = "aarch64")]
const DENIED_HERE: &[i64] = &[];
