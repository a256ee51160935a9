//! What all processes of a server hold together, where no control group counts it.

use portreeve_sandbox::{Ending, Launcher, Limit, PlanDraft, ResourceLimits};

use crate::bench::{Place, Said, among_hidden_processes, draft, launcher, run_with, sabotaged, walled};

/// A Python program with 256 MiB for it and all it starts; `None` where there is no Python.
async fn python(launcher: &Launcher, program: &str) -> Option<Said> {
    let place = Place::new();
    if !crate::bench::is_installed("/usr/bin/python3") {
        return None;
    }
    let limits = ResourceLimits {
        memory: 256 << 20,
        ..ResourceLimits::default()
    };
    let program = format!("{SETTING}\n{program}");
    let draft = PlanDraft {
        limits,
        ..draft(&place.0, &["/usr/bin/python3", "-c", &program])
    };
    Some(run_with(launcher, draft).await.unwrap())
}

/// A launcher of a host without user namespaces.
async fn tier_b() -> Launcher {
    Launcher::probe_with(walled(), sabotaged("userns", 1)).await
}

async fn must_be_ended(launcher: &Launcher, program: &str) {
    if let Some(said) = python(launcher, program).await {
        assert_eq!(said.ending, Ending::Passed(Limit::Memory), "{said:?}");
        assert_eq!(said.stdout, "", "{said:?}");
    }
}

async fn must_work(launcher: &Launcher, program: &str) {
    if let Some(said) = python(launcher, program).await {
        let heard = (said.stdout.as_str(), said.ending);
        assert_eq!(heard, ("done\n", Ending::Exited(0)), "{said:?}");
    }
}

/// `hold` has so much memory for a second; `each` does something in so many processes and waits for them.
const SETTING: &str = r#"
import ctypes, mmap, os, subprocess, threading, time
M = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
def memory(size):
    view = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size, 4096): view[at] = 1
    return view
def hold(size):
    view = memory(size)
    time.sleep(1)
def each(count, what):
    for _ in range(count):
        if os.fork() == 0:
            what()
            os._exit(0)
    for _ in range(count): os.wait()
"#;

#[tokio::test]
async fn memory_is_counted_over_all_processes() {
    let program = "each(6, lambda: hold(100 * M)); print('done')";
    must_be_ended(&launcher().await, program).await;
    must_be_ended(&tier_b().await, program).await;
}

#[tokio::test]
async fn as_much_in_one_process_after_the_other_is_no_harm() {
    let program = "for _ in range(4): each(2, lambda: hold(70 * M))\nprint('done')";
    must_work(&launcher().await, program).await;
    must_work(&tier_b().await, program).await;
}

#[tokio::test]
async fn memory_of_orphans_and_of_children_of_threads_is_counted() {
    let orphans =
        "each(6, lambda: os.fork() == 0 and (os.setsid(), hold(100 * M), os._exit(0)))\ntime.sleep(3)\nprint('done')";
    must_be_ended(&launcher().await, orphans).await;
    let threads = "started = [threading.Thread(target=each, args=(1, lambda: hold(100 * M))) for _ in range(6)]\n\
                   [one.start() for one in started]\n[one.join() for one in started]\nprint('done')";
    must_be_ended(&launcher().await, threads).await;
}

#[tokio::test]
async fn memory_of_a_process_without_its_first_thread_is_counted() {
    let program = "def leave():\n    threading.Thread(target=lambda: (hold(100 * M), os._exit(0))).start()\n    libc.syscall(60, 0)\n\
                   each(6, leave); print('done')";
    must_be_ended(&launcher().await, program).await;
}

#[tokio::test]
async fn memory_of_a_process_whose_name_is_no_text_is_counted() {
    let program = "each(6, lambda: (libc.prctl(15, b'\\xff'), hold(100 * M))); print('done')";
    must_be_ended(&launcher().await, program).await;
}

#[tokio::test]
async fn memory_that_processes_share_by_forking_is_counted_once() {
    let program = "kept = memory(150 * M)\neach(5, lambda: time.sleep(1)); print('done')";
    must_work(&launcher().await, program).await;
    let written = "kept = memory(100 * M)\ndef write():\n    for at in range(0, 100 * M, 4096): kept[at] = 2\n    time.sleep(1)\n\
                   each(5, write); print('done')";
    must_be_ended(&launcher().await, written).await;
}

#[tokio::test]
async fn a_child_that_still_has_its_parents_memory_is_not_counted_twice() {
    // The child of `vfork` waits here for a reader of the pipe before it can be executed, so that looks fall into it.
    let program = "os.mkfifo('/tmp/slow')\n\
                   if os.fork() == 0: time.sleep(1); open('/tmp/slow').close(); os._exit(0)\n\
                   kept = memory(150 * M)\n\
                   os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 9, '/tmp/slow', os.O_WRONLY, 0)])\n\
                   os.wait(); os.wait(); print('done')";
    must_work(&launcher().await, program).await;
}

#[tokio::test]
async fn page_tables_are_memory_too() {
    let program = |tables: u32| {
        format!(
            "libc.mmap.restype = ctypes.c_void_p\nlibc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]\n\
             libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\n\
             size = {tables} * 2 * M\nat = libc.mmap(None, size, 1, 0x22, -1, 0)\nlibc.madvise(at, size, 15)\n\
             for each in range(at, at + size, 2 * M): ctypes.string_at(each, 1)\ntime.sleep(1)\nprint('done')"
        )
    };
    must_be_ended(&launcher().await, &program(100_000)).await;
    must_work(&launcher().await, &program(1000)).await;
}

#[tokio::test]
async fn memory_that_could_not_be_counted_is_denied() {
    let program = r#"
import errno
libc.mmap.restype = ctypes.c_ssize_t
def call(name, answer):
    print(name, errno.errorcode.get(ctypes.get_errno(), "?") if answer == -1 else "0")
call("shared", libc.mmap(None, ctypes.c_size_t(4096), 3, 0x21, -1, 0))
call("validated", libc.mmap(None, ctypes.c_size_t(4096), 3, 0x23, -1, 0))
call("stack", libc.mmap(None, ctypes.c_size_t(4096), 3, 0x122, -1, 0))
call("private", libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, 0))
call("memfd_create", libc.syscall(319, b"x", 0))
call("memfd_secret", libc.syscall(447, 0))
call("shmget", libc.syscall(29, 0, 4096, 0o1600))
call("msgget", libc.syscall(68, 0, 0o1600))
call("semget", libc.syscall(64, 0, 1, 0o1600))
call("vmsplice", libc.syscall(278, 1, None, 0, 0))
for flags in (os.O_RDONLY, os.O_RDWR):
    try: os.open("/dev/zero", flags); print("zero 0")
    except OSError as e: print("zero", errno.errorcode[e.errno])
"#;
    let refused = |queues: &str| {
        format!(
            "shared EPERM\nvalidated EPERM\nstack EPERM\nprivate 0\nmemfd_create ENOSYS\nmemfd_secret ENOSYS\n\
             shmget {queues}\nmsgget {queues}\nsemget {queues}\nvmsplice ENOSYS\nzero 0\nzero EACCES\n"
        )
    };
    for launcher in [launcher().await, tier_b().await] {
        if let Some(said) = python(&launcher, program).await {
            assert_eq!(said.stdout, refused("ENOSYS"), "{said:?}");
        }
    }
}

#[tokio::test]
async fn shared_memory_in_files_works() {
    let program = r#"
import multiprocessing, sqlite3
from multiprocessing import shared_memory
def square(number): return number * number
multiprocessing.set_start_method("fork")
number, lock, queue = multiprocessing.Value("i", 0), multiprocessing.Lock(), multiprocessing.Queue()
with multiprocessing.Pool(2) as pool: assert pool.map(square, [2, 3]) == [4, 9]
shared = shared_memory.SharedMemory(create=True, size=8 * M)
shared.buf[5] = 7
def tell(): queue.put(shared.buf[5])
asked = multiprocessing.Process(target=tell)
asked.start()
assert queue.get() == 7
asked.join()
shared.close(); shared.unlink()
base = sqlite3.connect("/tmp/base"); base.execute("pragma journal_mode = wal"); base.execute("create table t (x)")
print("done")
"#;
    must_work(&launcher().await, program).await;
}

#[test]
fn where_processes_cannot_be_seen_nothing_is_started() {
    if !crate::bench::is_root() {
        return;
    }
    let place = Place::new();
    let workspace = place.directory("workspace");
    let output = among_hidden_processes(&place, &["run", workspace.to_str().unwrap(), "sh", "-c", "echo ran"]);
    assert_eq!(output.stdout, "", "{output:?}");
    assert!(
        output.complaints.contains("nobody would count its memory"),
        "{output:?}"
    );
}
