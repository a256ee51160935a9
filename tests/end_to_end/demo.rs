//! `portreeve demo`: everything in one command, with real calls, and nothing left behind.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::environment::{command, portreeve};

#[test]
fn the_demo_shows_itself_takes_its_tour_and_leaves_nothing_behind() {
    // R115
    let (place, output) = (
        tempfile::TempDir::new().unwrap(),
        tempfile::NamedTempFile::new().unwrap(),
    );
    let mut demo = command(portreeve());
    demo.arg("demo")
        .env("TMPDIR", place.path())
        .env("HOME", place.path())
        .current_dir(place.path());
    demo.stdout(File::create(output.path()).unwrap())
        .stderr(File::create(place.path().join("stderr")).unwrap());
    let mut child = demo.spawn().unwrap();
    let began = Instant::now();
    let told = loop {
        let text = std::fs::read_to_string(output.path()).unwrap();
        if text.contains("keeps running") {
            break text;
        }
        let ended = child.try_wait().unwrap();
        assert!(
            ended.is_none() && began.elapsed() < Duration::from_secs(60),
            "{ended:?}: {text}"
        );
        std::thread::sleep(Duration::from_millis(50));
    };
    for word in ["/mcp", "ptr_agt_", "mcpServers", "NODE_EXTRA_CA_CERTS"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    std::fs::remove_file(place.path().join("stderr")).unwrap();
    assert_eq!(
        std::fs::read_dir(place.path()).unwrap().count(),
        0,
        "the demo's directory is gone"
    );
}
