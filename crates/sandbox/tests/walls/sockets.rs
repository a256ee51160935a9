//! Unix sockets: the server's own where the plan gives them, never the host's by a path that is not shown.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use portreeve_sandbox::{FsPolicy, LaunchFailure, Launcher, NetPolicy, Plan, PlanDraft, PlanFault, UnixSockets};

use crate::bench::{Place, draft, launcher, run, sabotaged, walled};

/// Talks to itself by a socket at each path, and says what became of it.
const TALK: &str = r#"
import socket, sys
def talk(path, kind=socket.SOCK_STREAM):
    try:
        with socket.socket(socket.AF_UNIX, kind) as near, socket.socket(socket.AF_UNIX, kind) as far:
            far.bind(path)
            far.listen()
            near.connect(path)
            return "talked"
    except OSError as error:
        return error.strerror
def reach(path):
    try:
        with socket.socket(socket.AF_UNIX) as near:
            near.connect(path)
            return "reached"
    except OSError as error:
        return error.strerror
for path in ["own", "/tmp/own", "/home/sandbox/own", "\0own"]:
    print(path.strip("\0"), talk(path))
print("packets", talk("packets", socket.SOCK_SEQPACKET))
print("datagrams", talk("datagrams", socket.SOCK_DGRAM))
for path in sys.argv[1:]:
    print(path.rpartition("/")[2], reach(path.replace("@", "\0")))
"#;

fn talking(workspace: &Path, sockets: UnixSockets, others: &[&str]) -> PlanDraft {
    let mut words = vec!["python3", "-c", TALK];
    words.extend(others);
    PlanDraft {
        unix_sockets: sockets,
        ..draft(workspace, &words)
    }
}

const DENIED: &str = "Operation not permitted";

#[tokio::test]
async fn a_server_that_may_have_sockets_has_its_own_and_none_of_the_host() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let outside = place.0.join("host.sock");
    let _canary = UnixListener::bind(&outside).unwrap();
    let name = format!("walls-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let others = [outside.display().to_string(), format!("@{name}")];
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    for net in [NetPolicy::BlockAll, NetPolicy::Unconfined] {
        let mut asking = talking(&workspace, UnixSockets::Asked, &others);
        asking.net = net;
        let said = run(asking).await;
        let abstract_refusal = match net {
            NetPolicy::Unconfined => DENIED,
            NetPolicy::BlockAll | NetPolicy::Allowlist => "Connection refused",
        };
        let expected = format!(
            "own talked\n/tmp/own talked\n/home/sandbox/own talked\nown talked\npackets talked\ndatagrams {DENIED}\n\
             host.sock No such file or directory\n@{name} {abstract_refusal}\n"
        );
        assert_eq!(said.stdout, expected, "{said:?}");
        for left in ["own", "packets"] {
            std::fs::remove_file(workspace.join(left)).unwrap();
        }
    }
    let mut reading = talking(&workspace, UnixSockets::Asked, &[]);
    reading.fs = FsPolicy::ReadOnly;
    let said = run(reading).await;
    assert!(
        said.stdout.starts_with("own Read-only file system\n/tmp/own talked\n"),
        "{said:?}"
    );
}

#[tokio::test]
async fn sockets_are_offered_where_only_the_gateway_s_own_is_shown() {
    let place = Place::new();
    let (state, others) = (place.directory("state"), place.directory("others"));
    let [rooms, packages] = ["state/workspaces", "state/packages"].map(|name| place.directory(name));
    let workspace = place.directory("state/workspaces/one");
    let package = place.directory("state/packages/one");
    let _canary = UnixListener::bind(others.join("socket")).unwrap();
    let offered = |workspace: &Path, read: &[&Path]| PlanDraft {
        read: read.iter().map(|path| path.to_path_buf()).collect(),
        state_dir: Some(state.clone()),
        state_rooms: vec![rooms.clone(), packages.clone()],
        ..talking(workspace, UnixSockets::Offered, &[])
    };
    let said = run(offered(&workspace, &[&package])).await;
    assert!(said.stdout.starts_with("own talked\n/tmp/own talked\n"), "{said:?}");
    let mut open = offered(&workspace, &[]);
    open.net = NetPolicy::Unconfined;
    for draft in [offered(&others, &[]), offered(&workspace, &[&others]), open] {
        let said = run(draft).await;
        assert!(
            said.stdout.starts_with(&format!("own {DENIED}\n/tmp/own {DENIED}\n")),
            "{said:?}"
        );
    }
}

#[tokio::test]
async fn without_a_tree_of_its_own_a_server_gets_no_sockets() {
    let place = Place::new();
    let mut open = talking(&place.0, UnixSockets::Asked, &[]);
    open.fs = FsPolicy::Unconfined;
    assert_eq!(Plan::check(open).unwrap_err(), [PlanFault::SocketsOfTheHost]);
    let weak = Launcher::probe_with(walled(), sabotaged("userns", 1)).await;
    let asking = Plan::check(talking(&place.0, UnixSockets::Asked, &[])).unwrap();
    let failure = weak.start(&asking).await.map(drop).unwrap_err();
    assert!(matches!(failure, LaunchFailure::NoUnixSockets { .. }), "{failure}");
    assert!(failure.to_string().contains("portreeve doctor"), "{failure}");
    let strong = launcher().await;
    assert!(strong.start(&asking).await.is_ok());
}
