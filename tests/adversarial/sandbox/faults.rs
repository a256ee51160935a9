//! Configurations of servers that cannot work, or must not: each is a fault that `check` explains.

use std::path::Path;

use serde::Serialize;

use crate::support::Setup;

/// What `check` says of a server with one setting, and how it ends.
fn told(setting: &str, value: impl Serialize) -> String {
    told_of(|_, setup| setup.set(&format!("servers.files.sandbox.{setting}"), value))
}

fn told_of(change: impl FnOnce(&Path, Setup) -> Setup) -> String {
    let mut home = Setup::new()
        .set("servers.files.command", ["/usr/bin/python3", "server.py"])
        .home();
    let place = home.path("").canonicalize().unwrap();
    home.rewrite(|setup| change(&place, setup));
    let checked = home.cli(&["check"]);
    let said = checked.stdout + &checked.stderr;
    assert_eq!(checked.code, Some(1), "{said}");
    assert!(said.contains("files"), "it does not name the server: {said}");
    said
}

fn must_say(said: &str, words: &str) {
    assert!(said.contains(words), "no `{words}` in: {said}");
}

#[test]
fn a_workspace_that_cannot_be_one_is_a_fault() {
    // R146
    must_say(&told("workspace", "/srv/none/such"), "does not exist");
    must_say(&told("workspace", "/"), "directory of the system");
    must_say(&told("workspace", "/usr"), "directory of the system");
    must_say(&told("workspace", "/proc/self"), "directory of the system");
    let link = told_of(|place, setup| {
        std::fs::create_dir(place.join("real")).unwrap();
        std::os::unix::fs::symlink(place.join("real"), place.join("link")).unwrap();
        setup.set("servers.files.sandbox.workspace", place.join("link"))
    });
    must_say(&link, "symbolic link");
    let above = told_of(|place, setup| setup.set("servers.files.sandbox.workspace", place));
    must_say(&above, "would show the gateway's state");
    let inside = told_of(|place, setup| {
        std::fs::create_dir_all(place.join("state/ledger")).unwrap();
        setup.set("servers.files.sandbox.workspace", place.join("state/ledger"))
    });
    must_say(&inside, "would show the gateway's state");
    let file = told_of(|place, setup| {
        std::fs::write(place.join("file"), "").unwrap();
        setup.set("servers.files.sandbox.workspace", place.join("file"))
    });
    must_say(&file, "not a directory");
}

#[test]
fn a_path_to_read_that_must_not_be_shown_is_a_fault() {
    // R146
    must_say(&told("read", ["/"]), "never shown");
    must_say(&told("read", ["/etc"]), "never shown");
    must_say(&told("read", ["/run"]), "never shown");
    must_say(&told("read", ["/srv/none/such"]), "does not exist");
    let state = told_of(|place, setup| setup.set("servers.files.sandbox.read", [place]));
    must_say(&state, "would show the gateway's state");
}

#[test]
fn an_allowlist_with_anything_but_names_is_a_fault() {
    // R147
    let entries = [
        ("93.184.216.34:443", "is an address"),
        ("[::1]:443", "is an address"),
        ("2130706433", "is an address"),
        ("*", "allows every host"),
        ("*:443", "allows every host"),
        ("*.*", "has a `*` in a place"),
        ("https://good.test/", "is a URL"),
        ("good.test/path", "is a URL"),
        ("user@good.test", "is a URL"),
        ("good.test:0", "has no valid port"),
        ("good.test:70000", "has no valid port"),
        ("", "is no host name"),
    ];
    for (entry, why) in entries {
        let said = told_of(|_, setup| {
            setup
                .set("servers.files.sandbox.net", "allowlist")
                .set("servers.files.sandbox.allow", [entry])
        });
        must_say(&said, &format!("`{entry}` in `allow` {why}"));
    }
    must_say(&told("allow", ["good.test"]), "net = \"allowlist\"");
}

#[test]
fn a_program_or_interpreter_that_is_missing_is_a_fault() {
    // R149
    let program = told_of(|_, setup| setup.set("servers.files.command", ["no-such-program"]));
    must_say(&program, "`no-such-program` was not found");
    let interpreter = told_of(|place, setup| {
        use std::os::unix::fs::PermissionsExt;
        let script = place.join("workspace/server");
        std::fs::create_dir(place.join("workspace")).unwrap();
        std::fs::set_permissions(place.join("workspace"), PermissionsExt::from_mode(0o777)).unwrap();
        std::fs::write(&script, "#!/usr/bin/no-such-interpreter\n").unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        setup
            .set("servers.files.command", [script])
            .set("servers.files.sandbox.workspace", place.join("workspace"))
    });
    must_say(&interpreter, "no-such-interpreter");
}
