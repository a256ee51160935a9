//! All `unsafe` of the workspace: the system calls that neither std nor rustix wraps, each behind a safe function.

pub(crate) mod socket;
pub(crate) mod streams;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_long, c_uint, c_void};
use rustix::thread::UnshareFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Which side of a fork a process finds itself on.
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The old one, with the id of the new.
    Parent(rustix::process::Pid),
}

/// Makes a second process. Only for the launcher, which has one thread.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: `fork` asks of a threaded process that the child restricts itself to async-signal-safe calls. The
    // launcher never starts a thread (`launcher_main` runs before anything else in `main`), so no lock can be held by
    // a thread that does not exist in the child, and the child may go on as the parent could.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => rustix::process::Pid::from_raw(pid)
            .map(Forked::Parent)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Leaves a namespace for a new one.
pub(crate) fn unshare(namespace: UnshareFlags) -> io::Result<()> {
    if namespace.intersects(UnshareFlags::FILES) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: the danger of this call is CLONE_FILES, which splits the descriptor table between threads that believe
    // to share it; it was refused above. Namespaces change what names mean, not what memory or descriptors are.
    Ok(unsafe { rustix::thread::unshare_unsafe(namespace) }?)
}

/// What is done to a range of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// They are closed at once; the caller must own whatever is in the range, or nobody.
    Close,
    /// They are closed by `execve`.
    CloseOnExec,
}

/// Closes every descriptor from `first` to `last`, both included, now or at `execve`.
pub(crate) fn close_range(first: u32, last: u32, how: Range) -> io::Result<()> {
    let flags: c_int = match how {
        Range::Close => 0,
        // CLOSE_RANGE_CLOEXEC of <linux/close_range.h>.
        Range::CloseOnExec => 1 << 2,
    };
    // SAFETY: `close_range` touches no memory. Closing descriptors that an `OwnedFd` still holds would break io-safety;
    // the callers close ranges in which either nothing is owned any more or whose owners are never used or dropped
    // again, because the process only waits for its child and then ends by `exit_now`.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

/// Ends this process at once, without running what `main` or anyone else left to be done.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no requirement; it does not return and runs no destructors, so nothing can be used after it.
    unsafe { libc::_exit(code) }
}

/// Flags of a mount tree, set on the tree and on everything mounted below it; propagation is cut off as well.
pub(crate) fn confine_tree(tree: impl AsFd, flags: u64) -> io::Result<()> {
    set_mount_flags(tree, flags, libc::AT_RECURSIVE, libc::MS_PRIVATE)
}

/// Flags of one mount alone.
pub(crate) fn confine_mount(mount: impl AsFd, flags: u64) -> io::Result<()> {
    set_mount_flags(mount, flags, 0, 0)
}

fn set_mount_flags(mount: impl AsFd, flags: u64, recursive: c_int, propagation: u64) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: flags,
        attr_clr: 0,
        propagation,
        userns_fd: 0,
    };
    let size = size_of::<libc::mount_attr>();
    // SAFETY: `mount_setattr` reads a NUL-terminated path, here the empty literal, and `size` bytes at `attributes`,
    // a live, fully initialised `mount_attr` of exactly that size on our stack. It writes to neither.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            ptr::from_ref(&attributes),
            size,
        )
    })
    .map(drop)
}

/// Sets a socket option that is an integer and that rustix has no name for.
pub(crate) fn set_option(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the option is read from the address of a live `c_int`, and the length given is that of a `c_int`; the
    // kernel copies it and keeps no pointer.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            ptr::from_ref(&value).cast::<c_void>(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    check(c_long::from(done)).map(drop)
}

/// Lets the runtime watch a descriptor.
pub(crate) fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor must stay open, and the same, for as long as the `AsyncFd` lives. It owns the `OwnedFd`,
    // which closes only when dropped, always names the same descriptor, and cannot be exchanged from outside: nobody
    // in this crate asks the `AsyncFd` for a mutable reference.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, interest) }?)
}

/// One instruction of a classic packet filter.
pub(crate) type Instruction = libc::sock_filter;

/// Lets only those packets into `socket` that `program` accepts.
pub(crate) fn attach_filter(socket: impl AsFd, program: &[Instruction]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: SO_ATTACH_FILTER reads a `sock_fprog`, live on our stack with the length given, and through it `len`
    // instructions of the slice borrowed for this call. The kernel copies them, and despite the pointer's type it
    // never writes through it.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            ptr::from_ref(&program).cast::<c_void>(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    check(c_long::from(done)).map(drop)
}

/// Takes a capability out of the bounding set; `EINVAL` past the last one the kernel knows.
pub(crate) fn drop_from_bounding_set(capability: u32) -> io::Result<()> {
    // SAFETY: PR_CAPBSET_DROP takes an integer and no pointer.
    let done = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) };
    check(c_long::from(done)).map(drop)
}

/// The Landlock version of the running kernel.
pub(crate) fn landlock_abi() -> io::Result<u8> {
    const VERSION: c_uint = 1;
    // SAFETY: with LANDLOCK_CREATE_RULESET_VERSION the attribute must be null and its size 0, as here; nothing is read.
    let abi = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<c_void>(),
            0usize,
            VERSION,
        )
    })?;
    Ok(u8::try_from(abi).unwrap_or(u8::MAX))
}

/// Whether two threads have one memory. `false` if the kernel will not say.
pub(crate) fn share_memory(one: u32, other: u32) -> bool {
    // KCMP_VM of <linux/kcmp.h>.
    const MEMORY: c_int = 1;
    // SAFETY: `kcmp` takes five integers; with KCMP_VM the last two are not looked at and no memory is touched.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, MEMORY, 0, 0) == 0 }
}

/// Becomes another program; comes back only with the reason why not.
pub(crate) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let arguments = pointers(arguments);
    let environment = pointers(environment);
    // SAFETY: `execve` wants a NUL-terminated path and two arrays of NUL-terminated strings that end with a null
    // pointer: a `CStr` is the first, `pointers` makes the others, and all of them outlive the call, which either
    // replaces this process or changes nothing.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Puts every signal back to what programs expect: Rust's start ignores SIGPIPE, whoever started the gateway may
/// have had others ignored, and `execve` would pass that on.
pub(crate) fn restore_signals() -> io::Result<()> {
    for signal in (1..32).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
        // SAFETY: SIG_DFL is a valid disposition for every signal but the two left out, and no handler of ours can be
        // running while it is replaced: there is only this thread.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn check(returned: c_long) -> io::Result<c_long> {
    if returned < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(returned)
    }
}
