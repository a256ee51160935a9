//! What a server in tier A sees and may do.

use portreeve_sandbox::{Ending, FsPolicy, Launcher, Layer, LimitsKind, NetPolicy, Plan, Report, Tier};
use vocabulary::Secret;

use crate::bench::{Place, as_ordinary_user, draft, launcher, run, run_with, sabotaged, script, server_uid, walled};

// R146, R150, R203, R204
#[tokio::test]
async fn the_workspace_can_be_written_and_nothing_else_seen() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let secret = place.file("secret", "canary");
    std::os::unix::fs::symlink(&secret, workspace.join("link")).unwrap();
    let tries = format!(
        "echo kept > file; cat {0}; cat link; ls {1}; echo x > {1}/new; echo x > /etc/new; echo x > /usr/new; \
         ln {0} hard; mv {0} moved; cat /etc/shadow; cat /proc/self/root{0}; echo done",
        secret.display(),
        place.0.display()
    );
    let said = run(script(&workspace, &tries)).await;
    assert_eq!(said.ending, Ending::Exited(0), "{said:?}");
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "kept\n");
    assert_eq!(
        said.stdout, "workspace\ndone\n",
        "only the way to the workspace is there: {said:?}"
    );
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "canary");
    for path in [
        place.0.join("new"),
        "/etc/new".into(),
        "/usr/new".into(),
        workspace.join("hard"),
    ] {
        assert!(!path.exists(), "{}", path.display());
    }
    // The same script without walls gets at the secret: what held was the sandbox.
    let mut bare = script(&workspace, &tries);
    (bare.fs, bare.net) = (FsPolicy::Unconfined, NetPolicy::Unconfined);
    assert!(run(bare).await.stdout.contains("canary"));
}

#[tokio::test]
async fn read_only_means_no_lasting_write() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    std::fs::write(workspace.join("there"), "text").unwrap();
    let mut draft = script(
        &workspace,
        "cat there; echo x > new; echo x > /tmp/passing && cat /tmp/passing",
    );
    draft.fs = FsPolicy::ReadOnly;
    let said = run(draft).await;
    assert_eq!(said.stdout, "textx\n", "{said:?}");
    assert!(!workspace.join("new").exists());
    assert!(!std::path::Path::new("/tmp/passing").exists());
    assert_eq!(said.report.fs_policy, FsPolicy::ReadOnly);
}

#[tokio::test]
async fn a_path_of_read_is_seen_and_cannot_be_written_even_below_a_closed_directory() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let closed = place.directory("closed");
    let shown = place.directory("closed/shown");
    std::fs::write(shown.join("library"), "useful").unwrap();
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut draft = script(
        &workspace,
        &format!(
            "cat {0}/library; echo x > {0}/new; ls {1}",
            shown.display(),
            closed.display()
        ),
    );
    draft.read.push(shown.clone());
    let said = run(draft).await;
    assert_eq!(said.stdout, "usefulshown\n", "{said:?}");
    assert!(!shown.join("new").exists());
}

#[tokio::test]
async fn a_part_of_the_workspace_can_be_read_only() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let shared = place.directory("workspace/shared");
    std::fs::write(shared.join("file"), "text").unwrap();
    let mut draft = script(
        &workspace,
        "cat shared/file; echo x > shared/new; mv shared moved; echo x > beside",
    );
    draft.read.push(shared.clone());
    let said = run(draft).await;
    assert_eq!(said.stdout, "text", "{said:?}");
    assert!(!shared.join("new").exists() && shared.exists() && workspace.join("beside").exists());
}

#[tokio::test]
async fn a_link_in_read_is_shown_under_both_names_and_not_followed_elsewhere_later() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let real = place.directory("real");
    std::fs::write(real.join("file"), "text").unwrap();
    let link = place.0.join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let mut draft = script(
        &workspace,
        &format!("cat {}/file {}/file", link.display(), real.display()),
    );
    draft.read.push(link.clone());
    let plan = Plan::check(draft).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/root", &link).unwrap();
    let instance = launcher().await.start(&plan).await.unwrap().go().await.unwrap();
    assert_eq!(crate::bench::finish(instance).await.stdout, "texttext");
}

#[tokio::test]
async fn a_server_is_uid_1000_with_no_capability_no_descriptor_and_only_its_own_processes() {
    let place = Place::new();
    let said = run(script(
        &place.0,
        "id -u; id -g; hostname; test -d /proc/$$ && test ! -d /proc/1 && echo alone; grep -h Cap /proc/self/status | cut -f2 | sort -u; \
         grep NoNewPrivs /proc/self/status | cut -f2; ls /proc/self/fd; cat /proc/1/environ /proc/1/cmdline",
    ))
    .await;
    // 3 is the descriptor with which `ls` lists.
    assert_eq!(
        said.stdout, "1000\n1000\nsandbox\nalone\n0000000000000000\n1\n0\n1\n2\n3\n",
        "{said:?}"
    );
    assert_eq!(said.stderr.matches("No such file").count(), 2, "{said:?}");
}

#[tokio::test]
async fn a_descriptor_the_gateway_forgot_to_close_does_not_reach_the_server() {
    let place = Place::new();
    let leaking = std::fs::File::open("/etc/hostname").unwrap();
    rustix::io::fcntl_setfd(&leaking, rustix::io::FdFlags::empty()).unwrap();
    for (fs, net) in [
        (FsPolicy::WorkspaceOnly, NetPolicy::BlockAll),
        (FsPolicy::Unconfined, NetPolicy::Unconfined),
    ] {
        let mut draft = script(&place.0, "ls /proc/self/fd");
        (draft.fs, draft.net) = (fs, net);
        assert_eq!(run(draft).await.stdout, "0\n1\n2\n3\n");
    }
}

#[tokio::test]
async fn the_environment_is_exactly_what_the_plan_says() {
    let place = Place::new();
    let mut draft = draft(&place.0, &["env"]);
    draft
        .env
        .insert("API_KEY".to_owned(), Secret::new("swordfish".to_owned()));
    let said = run(draft).await;
    let mut lines: Vec<&str> = said.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "API_KEY=swordfish",
            "HOME=/home/sandbox",
            "LANG=C.UTF-8",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "TMPDIR=/tmp"
        ]
    );
}

// R182, R183
#[tokio::test]
async fn the_report_says_what_was_built() {
    let place = Place::new();
    let draft = script(&place.0, "true");
    let plan = Plan::check(script(&place.0, "true")).unwrap();
    let said = run(draft).await;
    let expected = Report {
        tier: Tier::A,
        fs_policy: FsPolicy::WorkspaceOnly,
        net_policy: NetPolicy::BlockAll,
        landlock_abi: launcher().await.strength().landlock_abi,
        limits: LimitsKind::Rlimit,
        policy_hash: plan.policy_hash().to_string(),
        instance: said.report.instance.clone(),
        uid: server_uid(),
        layers: vec![
            Layer::UserNamespace,
            Layer::MountNamespace,
            Layer::PidNamespace,
            Layer::IpcNamespace,
            Layer::UtsNamespace,
            Layer::CgroupNamespace,
            Layer::NetNamespace,
            Layer::EgressTap,
            Layer::Capabilities,
            Layer::NoNewPrivileges,
            Layer::Landlock,
            Layer::LandlockScope,
            Layer::Seccomp,
        ],
    };
    assert_eq!(said.report, expected);
    let json = serde_json::to_value(&said.report).unwrap();
    assert_eq!(json["fs_policy"], "workspace_only");
    assert_eq!(json["layers"][0], "userns");
    assert_eq!(json["limits"], "rlimit");
}

// R149
#[tokio::test]
async fn calls_that_lead_out_are_refused() {
    let place = Place::new();
    let tries = r#"
import ctypes, socket, os, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *arguments):
    libc.syscall(number, *arguments)
    print(name, errno.errorcode.get(ctypes.get_errno(), "0"))
    ctypes.set_errno(0)
def sock(name, *arguments):
    try: socket.socket(*arguments); print(name, "0")
    except OSError as e: print(name, errno.errorcode[e.errno])
def pair(name, *arguments):
    try: socket.socketpair(*arguments); print(name, "0")
    except OSError as e: print(name, errno.errorcode[e.errno])
call("unshare", 272, 0x10000000)
call("clone", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("mount", 165, 0, 0, 0, 0, 0)
call("ptrace", 101, 16, 1, 0, 0)
call("io_uring_setup", 425, 1, 0)
call("keyctl", 250, 0, 0)
call("unknown", 468, -1, 0, 0, 0, 0)
call("x32", 0x40000000 + 39)
call("setns", 308, 0, 0)
sock("unix", socket.AF_UNIX, socket.SOCK_STREAM)
sock("raw", socket.AF_INET, socket.SOCK_RAW, 1)
sock("packet", 17, socket.SOCK_DGRAM)
sock("netlink", socket.AF_NETLINK, socket.SOCK_RAW, 15)
sock("route", socket.AF_NETLINK, socket.SOCK_RAW, 0)
sock("tcp", socket.AF_INET, socket.SOCK_STREAM)
sock("udp6", socket.AF_INET6, socket.SOCK_DGRAM)
pair("stream-pair", socket.AF_UNIX, socket.SOCK_STREAM)
pair("datagram-pair", socket.AF_UNIX, socket.SOCK_DGRAM)
"#;
    if !crate::bench::is_installed("/usr/bin/python3") {
        return;
    }
    let said = run(draft(&place.0, &["/usr/bin/python3", "-c", tries])).await;
    let expected = "unshare EPERM\nclone EPERM\nclone3 ENOSYS\nmount EPERM\nptrace EPERM\nio_uring_setup EPERM\n\
                    keyctl EPERM\nunknown ENOSYS\nx32 ENOSYS\nsetns EPERM\nunix EPERM\nraw EPERM\npacket EPERM\n\
                    netlink EPERM\nroute 0\ntcp 0\nudp6 0\nstream-pair 0\ndatagram-pair EPERM\n";
    assert_eq!(said.stdout, expected, "{said:?}");
}

#[tokio::test]
async fn node_runs_unchanged() {
    let place = Place::new();
    if !crate::bench::is_installed("/usr/bin/node") {
        return;
    }
    let program = "require('fs').writeFileSync('made','by node');setTimeout(()=>console.log(6*7),10)";
    let said = run(draft(&place.0, &["node", "-e", program])).await;
    assert_eq!(
        (said.stdout.as_str(), said.ending),
        ("42\n", Ending::Exited(0)),
        "{said:?}"
    );
    assert!(place.0.join("made").exists());
}

#[tokio::test]
async fn git_makes_a_commit() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    std::os::unix::fs::chown(&workspace, Some(server_uid()), None).unwrap();
    let said = run(script(
        &workspace,
        "git init -q . && echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm x && git log --format=%s",
    ))
    .await;
    assert_eq!(
        (said.stdout.as_str(), said.ending),
        ("x\n", Ending::Exited(0)),
        "{said:?}"
    );
}

#[test]
fn an_ordinary_user_gets_the_same_walls() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let secret = place.file("secret", "canary");
    let output = as_ordinary_user(
        &place,
        &[
            "run",
            workspace.to_str().unwrap(),
            "sh",
            "-c",
            &format!("id -u; echo kept > file; cat {}; ls /proc/self/fd", secret.display()),
        ],
    );
    assert_eq!(output.stdout, "1000\n0\n1\n2\n3\n", "{}", output.complaints);
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "kept\n");
}

#[tokio::test]
async fn what_proc_tells_of_the_machine_is_hidden() {
    let place = Place::new();
    let program = r#"
import os
shown = {"cpuinfo", "filesystems", "meminfo", "stat", "sys", "sysvipc", "uptime", "version"}
for name in sorted(os.listdir("/proc")):
    path = "/proc/" + name
    if name.isdigit() or name in shown or os.path.islink(path): continue
    if os.path.isdir(path): told = os.listdir(path)
    else:
        try: told = open(path, "rb").read(1)
        except PermissionError: told = b""
    if told: print("tells", name)
print(len(os.listdir("/proc/sys/fs")), open("/proc/meminfo").read(8), open("/proc/self/status").read(5))
print(open("/proc/sys/vm/overcommit_memory").read().isspace(), len(os.listdir("/proc/self/fd")) > 2)
"#;
    let said = run(draft(&place.0, &["/usr/bin/python3", "-c", program])).await;
    assert_eq!(said.stdout, "0 MemTotal Name:\nFalse True\n", "{said:?}");
}

#[tokio::test]
async fn in_tier_b_the_host_s_network_tables_are_closed() {
    let place = Place::new();
    let weak = Launcher::probe_with(walled(), sabotaged("userns", 1)).await;
    let program = r#"
import os
for path in ["/proc/net/unix", "/proc/self/net/tcp", "/proc/thread-self/net/route", f"/proc/self/task/{os.getpid()}/net/unix"]:
    try: print(path, len(open(path).read()))
    except OSError as error: print(error.errno)
print(open("/proc/self/status").read(5), len(os.listdir("/proc/self/fd")) > 2, len(open("/proc/self/maps").read()) > 0)
"#;
    let said = run_with(&weak, draft(&place.0, &["/usr/bin/python3", "-c", program]))
        .await
        .unwrap();
    assert_eq!(said.stdout, "13\n13\n13\n13\nName: True True\n", "{said:?}");
}
