//! The door for trusted commands on the host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use portreeve_sandbox::host::{HostCommand, HostFailure, Output, run};
use vocabulary::Secret;

fn command(words: &[&str]) -> HostCommand {
    HostCommand {
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        directory: PathBuf::from("/tmp"),
        env: BTreeMap::from([("KEY".to_owned(), Secret::new("value".to_owned()))]),
        timeout: Duration::from_secs(10),
        keep: 1000,
    }
}

#[tokio::test]
async fn the_environment_is_built_from_nothing() {
    let output = run(command(&["/usr/bin/env"])).await.unwrap();
    let mut lines: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "HOME=/tmp",
            "KEY=value",
            "LANG=C.UTF-8",
            "PATH=/usr/local/bin:/usr/bin:/bin"
        ]
    );
}

#[tokio::test]
async fn output_is_bounded_and_the_code_is_kept() {
    let mut flood = command(&["sh", "-c", "head -c 1000000 /dev/zero; echo oops >&2; exit 3"]);
    flood.keep = 10;
    let output = run(flood).await.unwrap();
    assert_eq!(
        output,
        Output {
            code: Some(3),
            stdout: vec![0; 10],
            stderr: b"oops\n".to_vec()
        }
    );
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_all_it_started() {
    let begun = Instant::now();
    let mut hanging = command(&["sh", "-c", "sleep 1000 & sleep 1000"]);
    hanging.timeout = Duration::from_millis(200);
    let failure = run(hanging).await.unwrap_err();
    assert!(matches!(failure, HostFailure::TimedOut { .. }), "{failure}");
    // A daemon that keeps the pipes open does not keep us.
    run(command(&["sh", "-c", "sleep 1000 & exit 0"])).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_command_that_is_not_there_is_told() {
    let failure = run(command(&["no-such-program"])).await.unwrap_err();
    assert!(
        failure.to_string().contains("could not be started on the host"),
        "{failure}"
    );
}
