//! Why a server does not start is told where one looks: how its process ended, what it said last, and what is missing.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::environment::{Finished, command, portreeve};
use crate::support::setup::Home;
use crate::support::{Gateway, Setup, eventually};

/// A server whose program is this shell script.
fn script(home: &Path, name: &str, text: &str) -> Value {
    std::fs::write(home.join(name), text).unwrap();
    json!({"command": ["/bin/sh", home.join(name)], "trust": "internal", "sandbox": {"read": [home]}})
}

fn shown(home: &Home, id: &str) -> Value {
    serde_json::from_str(&home.cli(&["server", "show", id, "--json"]).success()).unwrap()
}

async fn until_down(gateway: &Gateway, id: &str) {
    eventually("the server is down", 60, async || {
        shown(&gateway.home, id)["reach"] == "down"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_is_told_with_its_code_and_its_last_words() {
    let place = tempfile::tempdir().unwrap();
    open(place.path());
    let token = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");
    let complaint = format!("echo one >&2; printf '\\033[31mno database at {token}\\n' >&2");
    let gateway = Setup::new()
        .set(
            "servers.coded",
            script(place.path(), "coded.sh", &format!("{complaint}; exit 3")),
        )
        .set(
            "servers.shot",
            script(place.path(), "shot.sh", &format!("{complaint}; kill -9 $$")),
        )
        .start()
        .await;
    let home = &gateway.home;
    for (id, how) in [("coded", "exited with code 3"), ("shot", "signal 9 (SIGKILL)")] {
        until_down(&gateway, id).await;
        let server = shown(home, id);
        assert!(server["ending"].as_str().unwrap().contains(how), "{server}");
        let last = server["stderr"].as_array().unwrap().last().unwrap();
        assert_eq!(last, "no database at [REDACTED:api_token]", "{server}");
        let log = server["log"].as_str().unwrap();
        assert!(
            log.ends_with(&format!("logs/{id}.log")) && Path::new(log).exists(),
            "{log}"
        );
        for words in [
            &["server", "list"][..],
            &["server", "show", id],
            &["server", "refresh", id],
            &["doctor"],
        ] {
            let finished = home.cli(words);
            let told = format!("{}{}", finished.stdout, finished.stderr);
            for part in [how, "no database at [REDACTED:api_token]", log] {
                assert!(told.contains(part), "{words:?} without {part:?}: {told}");
            }
            assert!(!told.contains(token) && !told.contains('\u{1b}'), "{words:?}: {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_the_sandbox_does_not_show_is_named() {
    let place = tempfile::tempdir().unwrap();
    open(place.path());
    let hidden = place.path().join("server.py");
    std::fs::write(&hidden, "print('never')").unwrap();
    let gateway = Setup::new().start().await;
    let add = |words: &[&str]| {
        let mut cli = command(portreeve());
        cli.current_dir(gateway.home.path(""))
            .arg("--config")
            .arg(gateway.home.config());
        Finished::of(cli.args(["server", "add"]).args(words))
    };
    let hidden = hidden.to_str().unwrap();
    let added = add(&["mine", "--trust", "internal", "--", "/usr/bin/python3", hidden]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let sentence = format!("`{hidden}`, named among its arguments, cannot be read inside its sandbox");
    assert!(added.stderr.contains(&sentence), "{}", added.stderr);
    assert!(added.stderr.contains("servers.mine.sandbox.read"), "{}", added.stderr);
    assert!(
        added
            .stderr
            .contains("mine is down: the server's process exited with code 2"),
        "{}",
        added.stderr
    );
    assert!(
        added.stderr.contains("can't open file"),
        "its own words: {}",
        added.stderr
    );
    for words in [&["check"][..], &["doctor"], &["server", "list"]] {
        let finished = gateway.home.cli(words);
        let told = format!("{}{}", finished.stdout, finished.stderr);
        assert!(told.contains(&sentence), "{words:?}: {told}");
    }
    let shown = add(&[
        "seen",
        "--trust",
        "internal",
        "--read",
        hidden,
        "--",
        "/usr/bin/python3",
        hidden,
    ]);
    assert!(!shown.stderr.contains("cannot be read"), "{}", shown.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_went_missing_is_named() {
    let place = tempfile::tempdir().unwrap();
    open(place.path());
    let extra = place.path().join("extra");
    std::fs::create_dir(&extra).unwrap();
    let home = Setup::new()
        .set(
            "servers.mine",
            json!({"command": ["/bin/cat"], "trust": "internal", "sandbox": {"read": [extra]}}),
        )
        .home();
    let gateway = home.serve().await;
    std::fs::remove_dir(&extra).unwrap();
    for words in [
        &["check"][..],
        &["doctor"],
        &["server", "list"],
        &["server", "refresh", "mine"],
    ] {
        let finished = gateway.home.cli(words);
        let told = format!("{}{}", finished.stdout, finished.stderr);
        assert!(told.contains(extra.to_str().unwrap()), "{words:?}: {told}");
    }
}

/// Servers may run as somebody else.
fn open(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
