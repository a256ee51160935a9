//! The door for trusted commands on the host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use portreeve_sandbox::host::{HostCommand, HostFailure, Output, run_reaped_by};
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

/// The example beside this test is the reaper; cargo builds both.
fn reaper() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let directory = own.ancestors().nth(2).unwrap_or(&own);
    directory.join("examples/walled")
}

async fn run(command: HostCommand) -> Result<Output, HostFailure> {
    run_reaped_by(&reaper(), command, std::future::pending()).await
}

/// Whether the process lives whose number the command printed.
fn lives(number: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", number.trim())).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
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
    let killed = run(command(&["sh", "-c", "kill -9 $$"])).await.unwrap();
    assert_eq!(killed.code, None);
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
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn what_leaves_the_session_ends_with_the_command() {
    let begun = Instant::now();
    for script in [
        "setsid sleep 1000 & echo $!",
        // Twice forked, as daemons do, and with streams of its own.
        "(setsid sh -c 'echo $$; exec sleep 1000 > /dev/null 2>&1 < /dev/null' &)\nsleep 0.3",
        // A tree whose parts do not wait for each other.
        "setsid sh -c 'setsid sh -c \"setsid sleep 1000 & echo \\$!; sleep 1000\" & sleep 1000' &\nsleep 0.5",
    ] {
        let output = run(command(&["sh", "-c", script])).await.unwrap();
        assert_eq!(output.code, Some(0), "{script}");
        let number = String::from_utf8(output.stdout).unwrap();
        assert!(number.trim().parse::<u32>().is_ok(), "{script}: {number}");
        assert!(!lives(&number), "{script}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn a_command_nobody_wants_any_more_is_killed_with_all_it_started() {
    let place = format!("/tmp/host-stopped-{}", std::process::id());
    let script = format!("setsid sleep 1000 & echo $! > {place}; sleep 1000");
    let order = command(&["sh", "-c", &script]);
    let begun = Instant::now();
    let failure = run_reaped_by(&reaper(), order, tokio::time::sleep(Duration::from_millis(500))).await;
    assert!(matches!(failure, Err(HostFailure::Stopped { .. })), "{failure:?}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    let number = std::fs::read_to_string(&place).unwrap();
    std::fs::remove_file(&place).unwrap();
    assert!(!lives(&number));
}

#[tokio::test]
async fn a_command_that_is_not_there_is_told() {
    let failure = run(command(&["no-such-program"])).await.unwrap_err();
    assert!(
        failure.to_string().contains("could not be started on the host"),
        "{failure}"
    );
}

#[tokio::test]
async fn without_a_reaper_nothing_is_run() {
    let place = format!("/tmp/host-unkept-{}", std::process::id());
    let order = command(&["touch", &place]);
    let failure = run_reaped_by("/bin/true".as_ref(), order, std::future::pending()).await;
    assert!(matches!(failure, Err(HostFailure::Reaper { .. })), "{failure:?}");
    assert!(!std::path::Path::new(&place).exists());
}
