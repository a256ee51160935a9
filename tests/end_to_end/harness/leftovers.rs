//! Directories of a run: nobody else looks into them, and nothing of them stays.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::environment::{Finished, command, not_here, portreeve};
use crate::support::workshop::{GOOD, Workshop, names};

/// The directories of runs that a user other than root would have elsewhere.
fn arenas(temporary: &Path) -> Vec<String> {
    names(temporary)
        .into_iter()
        .filter(|name| name.starts_with("portreeve-run_"))
        .collect()
}

/// A temporary directory of the test's own, as open as the real one.
fn temporary(workshop: &Workshop) -> PathBuf {
    let path = workshop.path("tmp");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o1777)).unwrap();
    path
}

// R237
#[test]
fn nobody_else_on_the_machine_reads_what_a_run_is_given() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return not_here("only root runs agents under another uid, in a directory outside its own");
    }
    for walls in ["", "[AGENT.sandbox]\nfs = \"none\"\nnet = \"none\"\n"] {
        let script = format!(
            "cat \"$HARNESS_INPUT_DIR/issue.txt\" > /dev/null || exit 4\nchmod 777 \"$HARNESS_INPUT_DIR\" 2>/dev/null && exit 6\ntouch \"$HARNESS_INPUT_DIR/new\" 2>/dev/null && exit 7\ncat \"$HARNESS_SCHEMA\" > /dev/null || exit 5\necho secret > \"$HARNESS_OUTPUT_DIR/draft\"; sleep 4\necho '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""
        );
        let workshop = Workshop::new().agent("judge", &script, walls).ready();
        workshop.write("issue.txt", "a secret of the caller's");
        let place = temporary(&workshop);
        let mut harness = workshop.command(&["run", "judge", "--input", "issue.txt=issue.txt"]);
        let mut child = harness.env("TMPDIR", &place).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let arena = loop {
            let drafts = arenas(&place).into_iter().map(|name| place.join(name));
            if let Some(arena) = drafts.into_iter().find(|arena| arena.join("output-1/draft").exists()) {
                break arena;
            }
            assert!(Instant::now() < until, "the agent never started");
            std::thread::sleep(Duration::from_millis(20));
        };
        for name in ["inputs/issue.txt", "given/verdict.v1.json", "output-1/draft"] {
            let path = arena.join(name);
            assert!(path.exists(), "{name}");
            for who in [["4321", "4321"], ["4321", "100"]] {
                let mut stranger = command("setpriv");
                stranger.args(["--reuid", who[0], "--regid", who[1], "--clear-groups", "--", "cat"]);
                let finished = Finished::of(stranger.arg(&path));
                assert_ne!(finished.code, Some(0), "{name} was read by {who:?} under {walls:?}");
            }
        }
        assert_eq!(child.wait().unwrap().code(), Some(0), "{walls:?}");
        assert_eq!(arenas(&place), Vec::<String>::new());
    }
}

#[test]
fn a_harness_that_was_killed_is_cleaned_up_after_by_the_next() {
    let script = format!(
        "mkdir -p deep/er; chmod 0 deep; touch \"$STARTED\"; sleep \"$SLEEP\"; echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""
    );
    let more = "env = { SLEEP = \"env:SLEEP\" }\n";
    let script = script.replace("touch \"$STARTED\"", "touch \"$HARNESS_OUTPUT_DIR/started\"");
    let workshop = Workshop::of(&script)
        .insert("prompt = \"prompts/verdict.md\"\n", more)
        .ready();
    let place = temporary(&workshop);
    let started = || {
        let rooms = [place.clone(), workshop.path("state/harness/arenas")];
        rooms
            .iter()
            .flat_map(|room| arenas(room).into_iter().map(|name| room.join(name)))
            .collect::<Vec<_>>()
    };
    let run = |seconds: &str| {
        let mut harness = workshop.command(&["run", "judge"]);
        harness.env("TMPDIR", &place).env("SLEEP", seconds);
        harness
    };
    let wait = |known: &[PathBuf]| {
        let until = Instant::now() + Duration::from_secs(20);
        let new = |arena: &PathBuf| !known.contains(arena) && arena.join("output-1/started").exists();
        while !started().iter().any(new) {
            assert!(Instant::now() < until, "the agent never started");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let mut killed = run("60").spawn().unwrap();
    wait(&[]);
    let stale = started();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(stale[0].exists(), "nobody could clean up");
    // What belongs to somebody else, or is no directory, is left alone.
    std::os::unix::fs::symlink(workshop.path("prompts"), place.join("portreeve-run_link-x")).unwrap();
    let mut living = run("3").spawn().unwrap();
    wait(&stale);
    assert!(!stale[0].exists(), "{stale:?}");
    assert_eq!(Finished::of(&mut run("0")).code, Some(0));
    assert_eq!(
        living.wait().unwrap().code(),
        Some(0),
        "a run that goes on is not in the way"
    );
    assert!(workshop.path("prompts/verdict.md").exists());
    let left: Vec<_> = started().into_iter().filter(|path| !path.is_symlink()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

#[test]
fn directories_that_an_agent_closed_or_nested_are_removed_all_the_same() {
    let script = format!(
        "mkdir -p a/b/c; touch a/b/c/f; ln -s \"$HARNESS_SCHEMA\" a/b/link; ln -s /tmp a/b/out; chmod 0 a/b/c a/b a\nmkdir \"$HARNESS_OUTPUT_DIR/x\" \"$HARNESS_OUTPUT_DIR/x/y\"; chmod 0 \"$HARNESS_OUTPUT_DIR/x\"\nmkdir deep; cd deep; i=0; while [ $i -lt 1200 ]; do mkdir d; cd d; i=$((i+1)); done\necho '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""
    );
    let workshop = Workshop::of(&script).ready();
    std::fs::remove_file(workshop.path("portreeve.toml")).unwrap();
    let place = temporary(&workshop);
    let done = Finished::of(command("chown").args(["-R", "4321:4321"]).arg(workshop.path("")));
    let root = done.code == Some(0);
    let run = |mut harness: std::process::Command| {
        harness.args(["harness", "run", "judge"]).current_dir(workshop.path(""));
        harness
            .env("HOME", workshop.path(""))
            .env("TMPDIR", &place)
            .env_remove("XDG_STATE_HOME");
        let finished = Finished::of(&mut harness);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    };
    if root {
        let mut user = command("setpriv");
        user.args(["--reuid", "4321", "--regid", "4321", "--clear-groups", "--"])
            .arg(portreeve());
        run(user);
        // A state directory of somebody else's would be refused.
        Finished::of(command("chown").args(["-R", "0:0"]).arg(workshop.path(""))).success();
    }
    run(command(portreeve()));
    let state = workshop.path(".local/state/portreeve/harness");
    assert_eq!(arenas(&place), Vec::<String>::new());
    assert_eq!(names(&state.join("arenas")), Vec::<String>::new());
    for run in names(&state.join("runs")) {
        let left = names(&state.join("runs").join(&run));
        assert_eq!(left, ["hooks", "quarantine", "run.json", "validated"], "{run}");
    }
}

#[test]
fn a_file_that_is_a_link_is_watched_like_any_other() {
    let script = format!("[ -z \"$CHANGE\" ] || echo >> \"$CHANGE\"; echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\"");
    let workshop = Workshop::of(&script)
        .insert(
            "prompt = \"prompts/verdict.md\"\n",
            "env = { CHANGE = \"file:change\" }\nsandbox = { fs = \"none\", net = \"none\" }\n",
        )
        .ready();
    workshop.write("change", "");
    let real = workshop.path("real.toml");
    std::fs::rename(workshop.path("harness.toml"), &real).unwrap();
    std::os::unix::fs::symlink(&real, workshop.path("harness.toml")).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(workshop.judge().code, 0);
    workshop.write("change", &real.display().to_string());
    assert_eq!(workshop.judge().code, 14);
}

#[test]
fn a_file_that_became_a_pipe_is_a_changed_file() {
    for target in ["prompts/verdict.md", "schemas/verdict.v1.json"] {
        let workshop = Workshop::new();
        let path = workshop.path(target).display().to_string();
        let script = format!("rm {path}; mkfifo {path}; echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\"");
        let workshop = workshop
            .agent("judge", &script, "[AGENT.sandbox]\nfs = \"none\"\nnet = \"none\"\n")
            .ready();
        let folder = workshop.path(target).parent().unwrap().to_owned();
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut child = workshop.spawn(&["run", "judge"]);
        let until = Instant::now() + Duration::from_secs(20);
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() >= until => {
                    child.kill().unwrap();
                    panic!("{target}: it hangs");
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        assert_eq!(status.code(), Some(14), "{target}");
    }
}
