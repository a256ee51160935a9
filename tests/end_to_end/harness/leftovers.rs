//! Directories of a run: nobody else looks into them, and nothing of them stays.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::support::workshop::{GOOD, Workshop};

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
