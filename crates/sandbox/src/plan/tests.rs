//! What a draft can get wrong.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use vocabulary::Secret;

use super::{DEDICATED_UID, FsPolicy, NetPolicy, Plan, PlanDraft, PlanFault};

struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/tmp/plan-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        set_mode(&path, 0o777);
        Self(path)
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        set_mode(&path, 0o777);
        path
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        set_mode(&path, 0o755);
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Whether this is root. Where everything must be there, it has to be.
#[expect(clippy::disallowed_methods, reason = "the tests are configured by their caller")]
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    assert!(root || std::env::var("CI").as_deref() != Ok("true"), "this takes root");
    root
}

fn draft(workspace: &Path) -> PlanDraft {
    PlanDraft::new(workspace, ["sh"])
}

fn faults(draft: PlanDraft) -> Vec<PlanFault> {
    Plan::check(draft).map(drop).err().unwrap_or_default()
}

#[test]
fn a_sound_draft_becomes_a_plan() {
    let place = Place::new();
    let plan = Plan::check(draft(&place.0)).unwrap();
    assert_eq!(plan.workspace(), place.0);
    assert_eq!(plan.program.file_name().unwrap(), "sh");
}

#[test]
fn all_faults_are_told_at_once() {
    let mut draft = draft(Path::new("/nowhere"));
    draft.command = vec!["no-such-program".to_owned()];
    draft.read.push(PathBuf::from("/nothing"));
    draft.env.insert("1BAD".to_owned(), Secret::new("x\0".to_owned()));
    draft.limits.memory = 0;
    assert_eq!(
        faults(draft),
        [
            PlanFault::WorkspaceMissing {
                path: PathBuf::from("/nowhere")
            },
            PlanFault::ReadMissing {
                path: PathBuf::from("/nothing")
            },
            PlanFault::ProgramMissing {
                program: "no-such-program".to_owned(),
                searched: "/usr/local/bin, /usr/bin, /bin".to_owned()
            },
            PlanFault::VariableName {
                name: "1BAD".to_owned()
            },
            PlanFault::Nul {
                what: "the value of `1BAD`".to_owned()
            },
            PlanFault::ZeroLimit { limit: "memory" },
        ]
    );
}

#[test]
fn a_workspace_behind_a_link_is_refused() {
    let place = Place::new();
    let real = place.directory("real");
    symlink(&real, place.0.join("link")).unwrap();
    place.directory("real/inner");
    for (written, leads) in [("link", "real"), ("link/inner", "real/inner")] {
        let (path, target) = (place.0.join(written), place.0.join(leads));
        assert_eq!(faults(draft(&path)), [PlanFault::WorkspaceSymlink { path, target }]);
    }
}

#[test]
fn a_directory_of_the_system_is_no_workspace() {
    for path in [
        "/", "/usr", "/etc", "/proc", "/sys", "/dev", "/var", "/tmp", "/etc/ssl", "/dev/shm",
    ] {
        let path = PathBuf::from(path);
        let told = faults(draft(&path));
        assert!(told.contains(&PlanFault::WorkspaceIsSystem { path }), "{told:?}");
    }
}

#[test]
fn the_gateways_state_is_never_shown_but_for_rooms_made_for_sandboxes() {
    let place = Place::new();
    let state = place.directory("state");
    let rooms = place.directory("state/workspaces");
    let own = place.directory("state/workspaces/files");
    let check = |workspace: &Path, read: &Path| {
        let mut draft = draft(workspace);
        draft.read.push(read.to_path_buf());
        draft.state_dir = Some(state.clone());
        draft.state_rooms = vec![rooms.clone()];
        faults(draft)
    };
    let shows = |path: &Path| PlanFault::ShowsState {
        path: path.to_path_buf(),
        state: state.clone(),
    };
    let harmless = Path::new("/usr/share");
    assert_eq!(check(&own, harmless), []);
    for path in [&place.0, &state, &rooms, &place.directory("state/ledger")] {
        assert_eq!(check(path, harmless), [shows(path)]);
        assert_eq!(check(&own, path), [shows(path)]);
    }
}

#[test]
fn never_shown_paths_are_refused_in_read() {
    let place = Place::new();
    for path in ["/", "/proc", "/run", "/etc", "/dev"] {
        let mut draft = draft(&place.0);
        draft.read.push(PathBuf::from(path));
        let told = faults(draft);
        assert!(
            told.contains(&PlanFault::ReadForbidden {
                path: PathBuf::from(path)
            }),
            "{told:?}"
        );
    }
}

#[test]
fn a_program_must_be_visible_from_inside() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let tools = place.directory("tools");
    let program = place.program("tools/server", "#!/bin/sh\n");
    let mut hidden = draft(&workspace);
    hidden.command = vec![program.to_str().unwrap().to_owned()];
    let told = faults(hidden);
    assert_eq!(
        told,
        [PlanFault::ProgramHidden {
            program: program.to_str().unwrap().to_owned(),
            target: program.clone()
        }]
    );
    assert!(
        told.first()
            .unwrap()
            .to_string()
            .contains("add its directory to `read`")
    );

    let mut shown = draft(&workspace);
    shown.command = vec!["server".to_owned()];
    shown.read.push(tools.clone());
    assert_eq!(Plan::check(shown).unwrap().program, program);
    // A link out of a visible directory is as hidden as what it leads to.
    place.program("elsewhere", "#!/bin/sh\n");
    symlink(place.0.join("elsewhere"), tools.join("linked")).unwrap();
    let mut linked = draft(&workspace);
    linked.command = vec!["linked".to_owned()];
    linked.read.push(tools);
    assert_eq!(
        faults(linked),
        [PlanFault::ProgramHidden {
            program: "linked".to_owned(),
            target: place.0.join("elsewhere")
        }]
    );
}

#[test]
fn a_scripts_interpreter_is_looked_for_as_well() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    for (line, missing) in [
        ("#!/opt/none/python\n", "/opt/none/python"),
        ("#!/usr/bin/env no-such\n", "no-such"),
    ] {
        place.program("workspace/server", line);
        let mut draft = draft(&workspace);
        draft.command = vec!["./server".to_owned()];
        let told = faults(draft);
        assert!(
            matches!(told.as_slice(), [PlanFault::ProgramMissing { program, .. }] if program == missing),
            "{told:?}"
        );
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_told() {
    let place = Place::new();
    let program = place.program("server", "#!/bin/sh\n");
    set_mode(&program, 0o644);
    let mut draft = draft(&place.0);
    draft.command = vec!["./server".to_owned()];
    assert!(matches!(
        faults(draft).as_slice(),
        [PlanFault::ProgramNotExecutable { .. }]
    ));
}

#[test]
fn as_root_the_server_is_the_workspaces_owner_or_the_dedicated_uid() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    assert_eq!(Plan::check(draft(&place.0)).unwrap().uid(), Some(DEDICATED_UID));
    chown(&place.0, Some(1234), Some(1234)).unwrap();
    assert_eq!(Plan::check(draft(&place.0)).unwrap().uid(), Some(1234));
    let mut named = draft(&place.0);
    named.uid = Some(4321);
    assert_eq!(Plan::check(named).unwrap().uid(), Some(4321));
    let mut root = draft(&place.0);
    root.uid = Some(0);
    assert!(faults(root).contains(&PlanFault::RootUser));
}

#[test]
fn a_workspace_its_uid_cannot_write_is_told() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    set_mode(&place.0, 0o755);
    assert_eq!(
        faults(draft(&place.0)),
        [PlanFault::WorkspaceUnusable {
            path: place.0.clone(),
            uid: DEDICATED_UID
        }]
    );
    let mut read_only = draft(&place.0);
    read_only.fs = FsPolicy::ReadOnly;
    assert_eq!(faults(read_only), []);
}

#[test]
fn the_policy_hash_covers_the_policy_and_no_secret() {
    let place = Place::new();
    let hash = |change: &dyn Fn(&mut PlanDraft)| {
        let mut draft = draft(&place.0);
        draft.env.insert("KEY".to_owned(), Secret::new("first".to_owned()));
        change(&mut draft);
        Plan::check(draft).unwrap().policy_hash()
    };
    let plain = hash(&|_| {});
    assert_eq!(plain, hash(&|_| {}));
    assert_eq!(
        plain,
        hash(&|draft| {
            draft.env.insert("KEY".to_owned(), Secret::new("second".to_owned()));
        })
    );
    assert_ne!(plain, hash(&|draft| draft.net = NetPolicy::Allowlist));
    assert_ne!(plain, hash(&|draft| draft.fs = FsPolicy::ReadOnly));
    assert_ne!(plain, hash(&|draft| draft.allow.push("example.org:443".to_owned())));
    assert_ne!(plain, hash(&|draft| draft.command.push("-x".to_owned())));
    assert_ne!(
        plain,
        hash(&|draft| drop(draft.env.insert("OTHER".to_owned(), Secret::new(String::new()))))
    );
    assert_ne!(plain, hash(&|draft| draft.limits.processes = 5));
}

#[test]
fn a_secret_is_not_in_the_debug_text_of_a_plan() {
    let place = Place::new();
    let mut draft = draft(&place.0);
    draft.env.insert("KEY".to_owned(), Secret::new("swordfish".to_owned()));
    assert!(!format!("{:?}", Plan::check(draft).unwrap()).contains("swordfish"));
}
