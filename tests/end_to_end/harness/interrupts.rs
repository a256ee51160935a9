//! Whatever a hook leaves behind or an input waits for, a run ends in time and when it is told to.

use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use crate::support::environment::{Finished, command, portreeve};
use crate::support::workshop::{GOOD, Workshop, names};

/// Says who it is and stays, out of its parent's session and group, with its parent's streams open.
const RUNAWAY: &str =
    "setsid sh -c 'echo $$ > \"$TRACE\"; exec sleep 300' &\nwhile ! [ -s \"$TRACE\" ]; do sleep 0.05; done\n";

fn workshop(pre: &str, post: &str) -> Workshop {
    let workshop = Workshop::new()
        .executable("hooks/pre", &format!("#!/bin/sh\n{pre}\n"))
        .executable("hooks/post", &format!("#!/bin/sh\n{post}\n"))
        .agent(
            "judge",
            &format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""),
            "[AGENT.hooks]\npre = [[\"hooks/pre\"]]\npost = [[\"hooks/post\"]]\n[AGENT.limits]\ntimeout = \"10s\"\ntotal_timeout = \"30s\"\n",
        );
    let trace = workshop.path("trace").display().to_string();
    workshop.variable("TRACE", &trace).ready()
}

/// How it ended, if it did so in time; else it is killed.
fn within(child: &mut Child, seconds: u64) -> Option<ExitStatus> {
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

fn wait_for(path: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(path).unwrap_or_default().is_empty() {
        assert!(Instant::now() < until, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the process that wrote its number into `trace` lives; it is killed if it does.
fn outlived(workshop: &Workshop) -> bool {
    let number = workshop.read("trace").trim().to_owned();
    let state = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let lives = !state.is_empty() && !state.contains(") Z ");
    if lives {
        Finished::of(command("kill").args(["-9", &number]));
    }
    lives
}

fn signal(child: &Child, name: &str) {
    Finished::of(command("kill").args(["-s", name, &child.id().to_string()])).success();
}

#[test]
fn what_a_hook_leaves_behind_neither_keeps_the_run_nor_outlives_it() {
    for (pre, post) in [(RUNAWAY, ""), ("", RUNAWAY)] {
        let workshop = workshop(pre, post);
        let mut child = workshop.spawn(&["run", "judge"]);
        let status = within(&mut child, 15);
        assert!(!outlived(&workshop), "{pre:?}: a child outlived its hook");
        assert_eq!(status.and_then(|status| status.code()), Some(0), "{pre:?}");
    }
}

#[test]
fn a_hook_whose_time_is_over_is_killed_with_all_it_started() {
    let workshop = Workshop::new()
        .executable("hooks/pre", &format!("#!/bin/sh\n{RUNAWAY}sleep 60\n"))
        .agent(
            "judge",
            "true",
            "[AGENT.hooks]\npre = [[\"hooks/pre\"]]\n[AGENT.limits]\ntimeout = \"2s\"\ntotal_timeout = \"2s\"\n",
        );
    let trace = workshop.path("trace").display().to_string();
    let workshop = workshop.variable("TRACE", &trace).ready();
    let mut child = workshop.spawn(&["run", "judge"]);
    let status = within(&mut child, 15);
    assert!(!outlived(&workshop));
    assert_eq!(status.and_then(|status| status.code()), Some(15));
}

#[test]
fn a_signal_ends_a_run_while_a_hook_is_at_work() {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for (pre, post) in [("MAIN", ""), ("", "MAIN")] {
            let main = format!("{RUNAWAY}sleep 20");
            let workshop = workshop(&pre.replace("MAIN", &main), &post.replace("MAIN", &main));
            let mut child = workshop.spawn(&["run", "judge", "--json"]);
            wait_for(&workshop.path("trace"));
            signal(&child, name);
            let status = within(&mut child, 8);
            assert!(!outlived(&workshop), "{name} {pre:?}");
            assert_eq!(status.and_then(|status| status.code()), Some(code), "{name} {pre:?}");
            let output = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
            assert_eq!(output, "", "{name} {pre:?}");
            // Published before the hook, or never begun; either way the record says how it was.
            let reason = &workshop.records("harness_result")[0]["reason"];
            assert_eq!(reason, if post.is_empty() { "stopped" } else { "valid" });
        }
    }
}

#[test]
fn a_harness_that_is_killed_takes_its_hook_with_it() {
    let workshop = workshop(&format!("{RUNAWAY}sleep 20"), "");
    let mut child = workshop.spawn(&["run", "judge"]);
    wait_for(&workshop.path("trace"));
    child.kill().unwrap();
    child.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let number = workshop.read("trace").trim().to_owned();
    while Path::new(&format!("/proc/{number}")).exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!outlived(&workshop));
}

#[test]
fn an_input_that_nobody_writes_can_be_given_up() {
    let workshop = workshop("", "");
    Finished::of(command("mkfifo").arg(workshop.path("pipe"))).success();
    let mut child = workshop.spawn(&["run", "judge", "--input", "a.txt=pipe"]);
    std::thread::sleep(Duration::from_millis(700));
    assert!(child.try_wait().unwrap().is_none(), "it waits for a writer");
    signal(&child, "TERM");
    assert_eq!(within(&mut child, 5).and_then(|status| status.code()), Some(143));
    assert_eq!(names(&workshop.path("state")), Vec::<String>::new(), "nothing ran");
}

#[test]
fn inputs_are_files_or_pipes_and_nothing_else() {
    let script = format!(
        "[ \"$(cat \"$HARNESS_INPUT_DIR/a.txt\")\" = \"$(cat \"$HARNESS_INPUT_DIR/b.txt\")\" ] && echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""
    );
    let workshop = Workshop::of(&script).ready();
    workshop.write("b.txt", "from afar");
    for source in [
        "<(sleep 0.5; echo from afar)",
        "<(echo from; exit 1) --input c.txt=<(true)",
    ] {
        let line = format!(
            "{} harness run judge --input a.txt={source} --input b.txt=",
            portreeve().display()
        );
        let line = match source.contains("afar") {
            true => format!("{line}b.txt"),
            false => format!("{line}<(echo from)"),
        };
        let mut shell = command("bash");
        let finished = Finished::of(shell.args(["-c", &line]).current_dir(workshop.path("")));
        assert_eq!(finished.code, Some(0), "{source}: {}", finished.stderr);
    }
    for wrong in ["a.txt=/dev/zero", "a.txt=schemas"] {
        let mut child = workshop.spawn(&["run", "judge", "--input", wrong]);
        assert_eq!(
            within(&mut child, 5).and_then(|status| status.code()),
            Some(2),
            "{wrong}"
        );
    }
}

#[test]
fn schemas_and_configuration_are_regular_files() {
    let workshop = workshop("", "");
    workshop.write("good.json", GOOD);
    Finished::of(command("mkfifo").arg(workshop.path("pipe"))).success();
    for schema in ["pipe", "/dev/zero", "schemas"] {
        let mut child = workshop.spawn(&["validate", "--schema", schema, "good.json"]);
        assert_eq!(
            within(&mut child, 5).and_then(|status| status.code()),
            Some(3),
            "{schema}"
        );
        let told = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(told.contains("is not a regular file"), "{schema}: {told}");
    }
    for file in ["harness.toml", "harness.lock", "prompts/verdict.md"] {
        let text = workshop.read(file);
        std::fs::remove_file(workshop.path(file)).unwrap();
        Finished::of(command("mkfifo").arg(workshop.path(file))).success();
        let mut child = workshop.spawn(&["check"]);
        assert_eq!(
            within(&mut child, 5).and_then(|status| status.code()),
            Some(3),
            "{file}"
        );
        std::fs::remove_file(workshop.path(file)).unwrap();
        workshop.write(file, &text);
    }
}

#[test]
fn a_variable_from_a_file_is_read_from_a_regular_one() {
    let workshop = Workshop::of("true")
        .insert("prompt = \"prompts/verdict.md\"\n", "env = { KEY = \"file:pipe\" }\n")
        .ready();
    Finished::of(command("mkfifo").arg(workshop.path("pipe"))).success();
    let mut child = workshop.spawn(&["run", "judge"]);
    assert_eq!(within(&mut child, 5).and_then(|status| status.code()), Some(3));
}

#[test]
fn an_attempt_that_was_stopped_is_on_record_as_made() {
    let workshop = Workshop::new().agent(
        "judge",
        "echo started > \"$HARNESS_OUTPUT_DIR/x\"; cp \"$HARNESS_OUTPUT_DIR/x\" trace; sleep 60",
        "[AGENT.sandbox]\nworkspace = \"work\"\n",
    );
    std::fs::create_dir(workshop.path("work")).unwrap();
    open_to_all(&workshop.path("work"));
    let workshop = workshop.ready();
    let mut child = workshop.spawn(&["run", "judge", "--json"]);
    wait_for(&workshop.path("work/trace"));
    signal(&child, "TERM");
    assert_eq!(within(&mut child, 10).and_then(|status| status.code()), Some(143));
    let attempts = workshop.records("harness_attempt");
    let classes: Vec<&str> = attempts
        .iter()
        .map(|record| record["class"].as_str().unwrap())
        .collect();
    assert_eq!(classes, ["stopped"]);
    let result = &workshop.records("harness_result")[0];
    assert_eq!((&result["reason"], &result["attempts"]), (&"stopped".into(), &1.into()));
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}
