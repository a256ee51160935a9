//! What a server keeps on disk, in sockets and of the processor's time, and what it sees of files of others.

use portreeve_sandbox::{Ending, Inotify, Launcher, Limit, PlanDraft, ResourceLimits};

use crate::bench::{Place, draft, launcher, run_with, sabotaged, script, walled};

async fn ends(launcher: &Launcher, draft: PlanDraft, limits: ResourceLimits) -> (String, Ending) {
    let said = run_with(launcher, PlanDraft { limits, ..draft }).await.unwrap();
    (said.stdout, said.ending)
}

async fn tier_b() -> Launcher {
    Launcher::probe_with(walled(), sabotaged("userns", 1)).await
}

fn python(place: &Place, program: &str) -> PlanDraft {
    draft(&place.0, &["/usr/bin/python3", "-c", program])
}

#[tokio::test]
async fn a_workspace_has_a_quota_of_bytes() {
    let quota = ResourceLimits {
        workspace: Some(8 << 20),
        ..ResourceLimits::default()
    };
    for launcher in [launcher().await, tier_b().await] {
        let place = Place::new();
        let much = script(&place.0, "head -c 20000000 /dev/zero > big; sleep 30; echo stayed");
        let ended = ends(&launcher, much, quota).await;
        assert_eq!(ended, (String::new(), Ending::Passed(Limit::Workspace)));
        std::fs::remove_file(place.0.join("big")).unwrap();
        let little = script(&place.0, "head -c 1000000 /dev/zero > small; sleep 2; echo stayed");
        assert_eq!(
            ends(&launcher, little, quota).await,
            ("stayed\n".to_owned(), Ending::Exited(0))
        );
    }
}

#[tokio::test]
async fn a_workspace_has_a_quota_of_files() {
    let quota = ResourceLimits {
        files: Some(50),
        ..ResourceLimits::default()
    };
    let place = Place::new();
    let many = "mkdir -p a/b; i=0; while [ $i -lt 100 ]; do : > a/b/$i; i=$((i+1)); done; sleep 30; echo stayed";
    let ended = ends(&launcher().await, script(&place.0, many), quota).await;
    assert_eq!(ended, (String::new(), Ending::Passed(Limit::Files)));
    let place = Place::new();
    let deep = "import os, time\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\ntime.sleep(30); print('stayed')";
    let most = ResourceLimits {
        files: Some(100_000),
        ..ResourceLimits::default()
    };
    let ended = ends(&launcher().await, python(&place, deep), most).await;
    assert_eq!(ended, (String::new(), Ending::Passed(Limit::Files)));
}

#[tokio::test]
async fn files_that_are_deleted_and_held_count_as_well() {
    let quota = ResourceLimits {
        workspace: Some(8 << 20),
        ..ResourceLimits::default()
    };
    let open = "f = open('big', 'wb'); f.write(bytes(20_000_000)); f.flush(); os.unlink('big')";
    let mapped = "f = open('big', 'w+b'); f.write(bytes(20_000_000)); f.flush(); m = mmap.mmap(f.fileno(), 0); f.close(); os.unlink('big')";
    for program in [open, mapped] {
        let place = Place::new();
        let program = format!("import mmap, os, time\n{program}\ntime.sleep(30); print('stayed')");
        let ended = ends(&launcher().await, python(&place, &program), quota).await;
        assert_eq!(ended, (String::new(), Ending::Passed(Limit::Workspace)), "{program}");
    }
}

/// Fills sockets until there is so much in them, and stays for a while.
const SOCKETS: &str = r#"
import socket, sys, time
held, kept = 0, []
while held < 400 << 20:
    near, far = socket.socketpair()
    near.setblocking(False)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 212992)
    try:
        while True: held += near.send(bytes(32768))
    except BlockingIOError: pass
    kept.append(far)
    if sys.argv[1] == "open": kept.append(near)
    else: near.close()
time.sleep(3)
print("stayed")
"#;

#[tokio::test]
async fn what_lies_in_sockets_is_memory_too() {
    let limits = ResourceLimits {
        memory: 256 << 20,
        ..ResourceLimits::default()
    };
    for how in ["open", "closed"] {
        for launcher in [launcher().await, tier_b().await] {
            let place = Place::new();
            let filling = draft(&place.0, &["/usr/bin/python3", "-c", SOCKETS, how]);
            let ended = ends(&launcher, filling, limits).await;
            assert_eq!(ended, (String::new(), Ending::Passed(Limit::Memory)), "{how}");
        }
    }
}

#[tokio::test]
async fn sockets_with_little_in_them_are_no_harm() {
    let limits = ResourceLimits {
        memory: 256 << 20,
        ..ResourceLimits::default()
    };
    let place = Place::new();
    let program = "import socket, time\nkept = [socket.socketpair() for _ in range(1000)]\n\
                   for near, far in kept: near.send(b'x')\ntime.sleep(2); print('stayed')";
    let ended = ends(&launcher().await, python(&place, program), limits).await;
    assert_eq!(ended, ("stayed\n".to_owned(), Ending::Exited(0)));
}

#[tokio::test]
async fn processor_time_is_counted_over_all_processes() {
    let limits = ResourceLimits {
        cpu_seconds: Some(3),
        ..ResourceLimits::default()
    };
    // None of them for itself uses as much.
    let waited = "import os, time\n\
                  def burn():\n    until = time.process_time() + 1\n    while time.process_time() < until: pass\n\
                  for _ in range(8):\n    if os.fork() == 0: burn(); os._exit(0)\n    os.wait()\nprint('stayed')";
    let unwaited = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
                    def burn():\n    until = time.process_time() + 1\n    while time.process_time() < until: pass\n\
                    for _ in range(8):\n    if os.fork() == 0: burn(); os._exit(0)\n    try: os.wait()\n    except ChildProcessError: pass\nprint('stayed')";
    for launcher in [launcher().await, tier_b().await] {
        for program in [waited, unwaited] {
            let place = Place::new();
            let ended = ends(&launcher, python(&place, program), limits).await;
            assert_eq!(ended, (String::new(), Ending::Passed(Limit::CpuSeconds)));
        }
    }
}

const WATCH: &str = r#"
import ctypes, errno, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
def told(name, answer): print(name, errno.errorcode[ctypes.get_errno()] if answer == -1 else "allowed")
watcher = libc.inotify_init1(0)
told("init", watcher)
told("add", libc.inotify_add_watch(watcher if watcher >= 0 else 0, b"/usr/bin", 0x20))
try: fcntl.fcntl(os.open("/usr/bin", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS); print("notify allowed")
except OSError as error: print("notify", errno.errorcode[error.errno])
"#;

#[tokio::test]
async fn what_others_do_to_files_is_not_seen() {
    for launcher in [launcher().await, tier_b().await] {
        let place = Place::new();
        let denied = run_with(&launcher, python(&place, WATCH)).await.unwrap();
        assert_eq!(denied.stdout, "init ENOSYS\nadd ENOSYS\nnotify EPERM\n", "{denied:?}");
        let asked = PlanDraft {
            inotify: Inotify::Allowed,
            ..python(&place, WATCH)
        };
        let allowed = run_with(&launcher, asked).await.unwrap();
        assert_eq!(
            allowed.stdout, "init allowed\nadd allowed\nnotify EPERM\n",
            "{allowed:?}"
        );
    }
}
