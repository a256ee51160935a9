//! Agents of a pipeline hand each other validated outputs and nothing else; what would go around that is a fault. And what
//! `check` lets pass, `run` does not refuse for how it is written.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::workshop::Workshop;

const GIVE: &str = "echo '{\"verdict\":\"ok\"}' > \"$HARNESS_OUTPUT_FILE\"";
const PIPELINE: &str = "[pipelines.p]\nstages = [{ agent = \"first\" }, { agent = \"second\" }]\n";

fn directory(workshop: &Workshop, name: &str) {
    std::fs::create_dir_all(workshop.path(name)).unwrap();
    std::fs::set_permissions(workshop.path(name), std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// Two agents with these walls, in a harness that was not locked.
fn two(first: &str, second: &str, pipeline: &str) -> Workshop {
    let workshop = Workshop::new();
    for name in ["work", "work/inner", "other"] {
        directory(&workshop, name);
    }
    std::os::unix::fs::symlink(workshop.path("work"), workshop.path("link")).unwrap();
    workshop.write("work/key", "secret");
    let workshop = workshop
        .agent("first", GIVE, &format!("[AGENT.sandbox]\n{first}\n"))
        .agent("second", GIVE, &format!("[AGENT.sandbox]\n{second}\n"));
    let workshop = workshop.toml(pipeline);
    let text = workshop.written();
    workshop.write("harness.toml", &text);
    workshop
}

// R233, R246, R257
#[test]
fn what_one_agent_writes_no_other_of_the_pipeline_sees() {
    for (first, second) in [
        ("workspace = \"work\"", "workspace = \"work\""),
        ("workspace = \"work\"", "workspace = \"work/inner\""),
        ("workspace = \"work/inner\"", "workspace = \"work\"\nfs = \"read_only\""),
        ("workspace = \"work\"", "read = [\"work\"]"),
        ("workspace = \"work\"", "read = [\"link/inner\"]"),
        ("read = [\"work\"]", "workspace = \"work/inner\""),
    ] {
        let workshop = two(first, second, PIPELINE);
        for arguments in [&["lock"][..], &["check"], &["run", "first"], &["pipeline", "p"]] {
            let finished = workshop.harness(arguments);
            assert_eq!(
                finished.code,
                Some(3),
                "{first} and {second}: {arguments:?}: {}",
                finished.stderr
            );
            assert!(finished.stderr.contains("pipelines.p"), "{}", finished.stderr);
        }
        assert!(!workshop.path("state").exists(), "nothing ran");
    }
    for (first, second, pipeline) in [
        ("workspace = \"work\"", "workspace = \"other\"", PIPELINE),
        (
            "workspace = \"work\"\nfs = \"read_only\"",
            "workspace = \"work\"\nfs = \"read_only\"",
            PIPELINE,
        ),
        ("", "", PIPELINE),
        // Runs of their own are the caller's to order.
        ("workspace = \"work\"", "workspace = \"work\"", ""),
    ] {
        let workshop = two(first, second, pipeline);
        assert_eq!(workshop.harness(&["lock"]).code, Some(0), "{first} and {second}");
        let finished = workshop.harness(&["check"]);
        assert_eq!(finished.code, Some(0), "{first} and {second}: {}", finished.stderr);
    }
}

// R233
#[test]
fn neither_a_program_nor_a_variable_comes_from_where_another_agent_writes() {
    for change in [
        ("command = [\"agents/second.sh\"]", "command = [\"work/tool.sh\"]"),
        (
            "command = [\"agents/second.sh\"]",
            "command = [\"agents/second.sh\"]\nenv = { KEY = \"file:work/key\" }",
        ),
    ] {
        let workshop = two("workspace = \"work\"", "", PIPELINE).executable("work/tool.sh", "#!/bin/sh\n");
        let text = workshop.read("harness.toml");
        assert!(text.contains(change.0));
        workshop.write("harness.toml", &text.replace(change.0, change.1));
        let finished = workshop.harness(&["lock"]);
        assert_eq!(finished.code, Some(3), "{}: {}", change.1, finished.stderr);
    }
}

#[test]
fn check_and_lock_refuse_the_walls_that_run_refuses() {
    let root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    let mut cases = vec![
        "workspace = \"/\"",
        "workspace = \"/usr\"",
        "workspace = \"/etc\"",
        "workspace = \"state\"",
        "read = [\"/\"]",
        "read = [\"/proc\"]",
        "read = [\"state\"]",
        "net = \"allowlist\"\nallow = [\"http://x\"]",
    ];
    if root {
        // There the directories of other runs lie.
        cases.push("read = [\"/tmp\"]");
    }
    for walls in cases {
        let workshop = Workshop::new().agent("judge", GIVE, &format!("[AGENT.sandbox]\n{walls}\n"));
        std::fs::create_dir(workshop.path("state")).unwrap();
        let text = workshop.written();
        workshop.write("harness.toml", &text);
        for arguments in [&["lock"][..], &["check"], &["run", "judge"]] {
            let finished = workshop.harness(arguments);
            assert_eq!(finished.code, Some(3), "{walls} {arguments:?}: {}", finished.stderr);
        }
    }
    // What only this machine lacks is a warning.
    for walls in ["workspace = \"missing\"", "read = [\"/nowhere/at/all\"]"] {
        let workshop = Workshop::new()
            .agent("judge", GIVE, &format!("[AGENT.sandbox]\n{walls}\n"))
            .ready();
        let finished = workshop.harness(&["check"]);
        assert_eq!(finished.code, Some(0), "{walls}: {}", finished.stderr);
        assert!(finished.stderr.contains("warning: "), "{walls}: {}", finished.stderr);
    }
}
