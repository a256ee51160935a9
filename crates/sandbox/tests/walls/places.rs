//! Parts of the host beside the workspace, each with its own rights, and the gate to the gateway.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use portreeve_sandbox::{FsPolicy, GATE_PORT, Gate, NetPolicy, PlaceAccess, Plan, PlanFault};

use crate::bench::{Place, Said, draft, finish, launcher, open_to_all, script};

async fn run(plan: &Plan) -> Said {
    let starting = launcher().await.start(plan).await.unwrap();
    finish(starting.go().await.unwrap()).await
}

#[tokio::test]
async fn a_place_is_written_or_read_as_it_was_given_whatever_the_workspace_is() {
    let place = Place::new();
    let (work, out, given) = (
        place.directory("work"),
        place.directory("out"),
        place.directory("given"),
    );
    place.file("given/schema", "kept");
    place.directory("hidden");
    let words = format!(
        "cat {given}/schema; echo x >> {given}/schema; echo x > {given}/new; echo out > {out}/file; echo $PATH; ls {hidden}",
        given = given.display(),
        out = out.display(),
        hidden = place.0.join("hidden").display()
    );
    for fs in [FsPolicy::WorkspaceOnly, FsPolicy::ReadOnly] {
        let mut draft = script(&work, &words);
        draft.fs = fs;
        let plan = Plan::check(draft).unwrap();
        let before = plan.policy_hash();
        let plan = plan.with_place(given.clone(), PlaceAccess::Read).unwrap();
        let plan = plan.with_place(out.clone(), PlaceAccess::Write).unwrap();
        assert_ne!(plan.policy_hash(), before, "what is shown is part of the plan");
        let said = run(&plan).await;
        assert!(said.stdout.starts_with("kept"), "{said:?}");
        assert!(
            !said.stdout.contains(&given.display().to_string()),
            "no place is searched for programs"
        );
        assert!(said.stderr.contains("hidden"), "{said:?}");
        assert_eq!(std::fs::read_to_string(given.join("schema")).unwrap(), "kept");
        assert!(!given.join("new").exists());
        assert_eq!(std::fs::read_to_string(out.join("file")).unwrap(), "out\n");
        std::fs::remove_file(out.join("file")).unwrap();
    }
}

#[tokio::test]
async fn a_part_of_the_workspace_can_be_closed_to_writing() {
    let place = Place::new();
    let inner = place.directory("inner");
    let plan = Plan::check(script(&place.0, "echo x > inner/file; echo y > beside; echo done")).unwrap();
    let plan = plan.with_place(inner.clone(), PlaceAccess::Read).unwrap();
    let said = run(&plan).await;
    assert!(said.stdout.contains("done"), "{said:?}");
    assert!(!inner.join("file").exists() && place.0.join("beside").exists());
}

#[test]
fn what_must_not_be_shown_or_cannot_be_used_is_no_place() {
    let place = Place::new();
    let plan = || Plan::check(draft(&place.0, &["true"])).unwrap();
    let link = place.0.join("link");
    std::os::unix::fs::symlink("/usr", &link).unwrap();
    for (path, wanted) in [
        (PathBuf::from("/nowhere"), "does not exist"),
        (PathBuf::from("/etc"), "never shown"),
        (PathBuf::from("/"), "never shown"),
        (link, "symbolic link"),
    ] {
        let fault = plan().with_place(path, PlaceAccess::Read).unwrap_err();
        assert!(fault.to_string().contains(wanted), "{fault}");
    }
    let closed = place.directory("closed");
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
    let fault = plan().with_place(closed.clone(), PlaceAccess::Write).unwrap_err();
    assert!(matches!(fault, PlanFault::WorkspaceUnusable { .. }), "{fault}");
    open_to_all(&closed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_leads_to_one_address_also_where_everything_is_blocked() {
    if !crate::bench::is_installed("/usr/bin/python3") {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut word = [0u8; 5];
        stream.read_exact(&mut word).unwrap();
        stream.write_all(b"world").unwrap();
        word
    });
    let place = Place::new();
    let program = format!(
        r"
import socket
c = socket.create_connection(('127.0.0.1', {GATE_PORT}), timeout=5)
c.sendall(b'hello'); print(c.recv(5).decode())
for port in ({port}, 22):
    try:
        socket.create_connection(('127.0.0.1', port), timeout=2); print('reached', port)
    except OSError:
        print('refused', port)
",
        port = gateway.port()
    );
    let mut draft = draft(&place.0, &["/usr/bin/python3", "-c", &program]);
    draft.net = NetPolicy::BlockAll;
    let mut starting = launcher().await.start(&Plan::check(draft).unwrap()).await.unwrap();
    let mut doors = starting.take_doors().unwrap();
    let gate = Gate::serve(doors.gate.take().unwrap(), gateway).unwrap();
    let said = finish(starting.go().await.unwrap()).await;
    assert!(said.stdout.starts_with("world\n"), "{said:?}");
    assert!(!said.stdout.contains("reached"), "{said:?}");
    assert_eq!(&answering.join().unwrap(), b"hello");
    drop((gate, doors));
}

#[tokio::test]
async fn without_walls_for_files_a_workspace_below_a_closed_directory_is_reached_and_nothing_beside_it() {
    let place = Place::new();
    let state = place.directory("state");
    place.file("state/secret", "hidden");
    let [workspaces, packages] = ["state/workspaces", "state/packages"].map(|name| place.directory(name));
    let workspace = place.directory("state/workspaces/one");
    place.directory("state/workspaces/other");
    let package = place.directory("state/packages/one");
    place.file("state/packages/one/script", "echo from the package");
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&state, closed).unwrap();
    let words = format!(
        "pwd; echo $HOME; echo kept > {0}/file; cat file; sh {1}/script; cat {2}/secret; ls {3}",
        workspace.display(),
        package.display(),
        state.display(),
        workspaces.display()
    );
    let mut draft = script(&workspace, &words);
    draft.fs = FsPolicy::Unconfined;
    draft.read = vec![package];
    draft.state_dir = Some(state.clone());
    draft.state_rooms = vec![workspaces, packages];
    let said = run(&Plan::check(draft).unwrap()).await;
    let at = workspace.display();
    if rustix::process::geteuid().is_root() {
        assert_eq!(
            said.stdout,
            format!("{at}\n{at}\nkept\nfrom the package\none\n"),
            "{said:?}"
        );
        assert!(said.stderr.contains("secret: No such file"), "{said:?}");
    } else {
        assert!(
            said.stdout
                .starts_with(&format!("{at}\n{at}\nkept\nfrom the package\n")),
            "{said:?}"
        );
    }
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "kept\n");
    open_to_all(&state);
}
