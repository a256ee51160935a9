//! Whom servers are started for: only those that an operator signed for, as they were then. A lock that was changed, signed by
//! somebody else, or is gone starts nothing; a registry's document is compared before anything is kept.

mod certificate;
mod identity;
mod import;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::setup::Home;
use crate::support::{Agent, Gateway, Issuer, Server, Setup, eventually, tool};

/// Makes a key beside the configuration; its public half.
fn key(home: &Home, name: &str) -> String {
    let file = home.path(&format!("{name}.pem"));
    let made = home.cli(&["keygen", "--name", name, "--out", file.to_str().unwrap()]);
    made.success().trim().to_owned()
}

fn key_file(home: &Home, name: &str) -> String {
    home.path(&format!("{name}.pem")).display().to_string()
}

fn sign(home: &Home, name: &str) -> String {
    home.cli(&["server", "sign", "--key", &key_file(home, name)]).success()
}

fn text(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Two servers, and the key `ops` that must have signed for them.
async fn two_servers() -> (Home, Issuer, [Server; 2]) {
    let issuer = Issuer::start().await;
    let (files, mail) = (
        Server::start(&[tool("read")]).await,
        Server::start(&[tool("send")]).await,
    );
    let setup = Setup::with(&issuer, &files).server("mail", &mail);
    let mut home = setup.home();
    let vkey = key(&home, "ops");
    home.rewrite(|setup| setup.set("trust.require_signed", true).set("trust.keys", [vkey]));
    (home, issuer, [files, mail])
}

/// The servers that are up, and why the others are not.
fn reach(gateway: &Gateway) -> Vec<(String, String)> {
    let listed = gateway.home.cli(&["server", "list", "--json"]).success();
    let rows = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told = |row: Value| {
        let reason = row["reason"].as_str().unwrap_or_default().to_owned();
        (
            format!("{} {}", row["id"].as_str().unwrap(), row["reach"].as_str().unwrap()),
            reason,
        )
    };
    rows.map(told).collect()
}

async fn until_reach(gateway: &Gateway, expected: [&str; 2]) -> Vec<(String, String)> {
    eventually("the servers are as they should be", 30, async || {
        reach(gateway).iter().map(|(state, _)| state.as_str()).eq(expected)
    })
    .await;
    reach(gateway)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_for_its_owner_alone_and_never_overwritten() {
    let home = Setup::new().home();
    let vkey = key(&home, "ops.example");
    assert!(
        vkey.starts_with("ops.example+") && vkey.split('+').count() >= 3,
        "{vkey}"
    );
    let file = home.path("ops.example.pem");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    let pem = text(file.clone());
    assert!(pem.contains("-----BEGIN PRIVATE KEY-----\n"), "a key in PEM");
    let again = home.cli(&["keygen", "--name", "other", "--out", file.to_str().unwrap()]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    assert_eq!(text(file), pem);
    for name in ["", "a b", "a+b", "a\u{1b}b"] {
        let out = home.path("none.pem").display().to_string();
        let refused = home.cli(&["keygen", "--name", name, "--out", &out]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(!home.path("none.pem").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_servers_that_somebody_signed_for_are_started() {
    // R212, R216
    let (home, issuer, [_files, mail]) = two_servers().await;
    let unsigned = home.cli(&["check"]);
    assert_eq!(unsigned.code, Some(1), "{unsigned:?}");
    assert!(
        unsigned.stdout.contains("there is no servers.lock"),
        "{}",
        unsigned.stdout
    );
    let mut gateway = home.serve().await;
    let down = until_reach(&gateway, ["files down", "mail down"]).await;
    assert!(
        down.iter().all(|(_, why)| why.contains("there is no servers.lock")),
        "{down:?}"
    );
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    assert!(agent.names().await.is_empty());
    let recorded = gateway
        .home
        .cli(&["activity", "list", "--type", "inventory", "--json"])
        .success();
    let refused = recorded.lines().filter(|line| line.contains("server.refused")).count();
    assert_eq!(refused, 2, "{recorded}");
    // Signed: the running gateway starts them.
    let told = sign(&gateway.home, "ops");
    assert!(
        told.contains("files is new") && told.contains("signed by ops+"),
        "{told}"
    );
    until_reach(&gateway, ["files up", "mail up"]).await;
    eventually("both are listed", 10, async || agent.names().await.len() == 2).await;
    assert_eq!(gateway.home.cli(&["check"]).code, Some(0));
    assert_eq!(gateway.home.cli(&["server", "verify"]).code, Some(0));
    // Another address under the same name: that server stops, the rest runs.
    let other = Server::start(&[tool("steal")]).await;
    gateway.home.rewrite(|setup| setup.set("servers.mail.url", other.url()));
    let state = until_reach(&gateway, ["files up", "mail down"]).await;
    assert!(state[1].1.contains("its `url` is another"), "{state:?}");
    let checked = gateway.home.cli(&["check"]);
    assert_eq!(checked.code, Some(1));
    assert!(
        checked
            .stdout
            .contains("servers.mail: is not started: servers.lock has it otherwise"),
        "{}",
        checked.stdout
    );
    assert!(!checked.stdout.contains("servers.files"), "{}", checked.stdout);
    // One that nobody signed for.
    gateway
        .home
        .rewrite(|setup| setup.server("mail", &mail).server("more", &other));
    eventually("the new one is not started", 30, async || {
        reach(&gateway)
            .iter()
            .any(|(state, why)| state == "more down" && why.contains("not in servers.lock"))
    })
    .await;
    sign(&gateway.home, "ops");
    eventually("the new one is started once it is signed for", 30, async || {
        reach(&gateway).iter().all(|(state, _)| state.ends_with(" up"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_touched_starts_nothing_and_says_why() {
    // R212
    let (home, _issuer, _servers) = two_servers().await;
    sign(&home, "ops");
    assert_eq!(home.cli(&["check"]).code, Some(0));
    let (lock, signature) = (text(home.path("servers.lock")), text(home.path("servers.lock.sig")));
    key(&home, "stranger");
    let changed = lock.replacen("http://", "http:/.", 1);
    let spaced = format!("{lock}\n");
    let empty = String::new();
    let garbage = "\u{1b}]0;owned\u{7} garbage\n".to_owned();
    let cases: [(&str, Option<&String>, Option<&String>, &str); 7] = [
        ("one byte", Some(&changed), Some(&signature), "was changed"),
        ("one line break", Some(&spaced), Some(&signature), "was changed"),
        ("no lock", None, Some(&signature), "there is no servers.lock"),
        ("no signature", Some(&lock), None, "there is no servers.lock.sig"),
        ("garbage", Some(&lock), Some(&garbage), "line 1 of its signatures"),
        ("garbage as a lock", Some(&garbage), Some(&signature), "servers.lock"),
        ("empty", Some(&lock), Some(&empty), "it has no signature"),
    ];
    let put = |name: &str, text: Option<&String>| match text {
        Some(text) => std::fs::write(home.path(name), text).unwrap(),
        None => drop(std::fs::remove_file(home.path(name))),
    };
    for (what, lock, signature, told) in cases {
        put("servers.lock", lock);
        put("servers.lock.sig", signature);
        let checked = home.cli(&["check"]);
        assert_eq!(checked.code, Some(1), "{what}: {checked:?}");
        assert!(checked.stdout.contains(told), "{what}: {}", checked.stdout);
        assert!(
            !checked.stdout.contains('\u{1b}') && !checked.stdout.contains("owned"),
            "{what}"
        );
        for server in ["servers.files", "servers.mail"] {
            assert!(checked.stdout.contains(server), "{what}: {}", checked.stdout);
        }
        assert_eq!(home.cli(&["server", "verify"]).code, Some(1), "{what}");
    }
    put("servers.lock", Some(&lock));
    put("servers.lock.sig", Some(&signature));
    // Somebody else's key signs as well as ours, and counts for nothing.
    let out = home.path("servers.lock.sig").display().to_string();
    home.cli(&["server", "sign", "--key", &key_file(&home, "stranger"), "--out", &out])
        .success();
    std::fs::write(
        &out,
        text(home.path("servers.lock.sig")).lines().next().unwrap().to_owned() + "\n",
    )
    .unwrap();
    let checked = home.cli(&["check"]);
    assert!(
        checked.stdout.contains("no key that is trusted here"),
        "{}",
        checked.stdout
    );
    let gateway = home.serve().await;
    let state = until_reach(&gateway, ["files down", "mail down"]).await;
    assert!(
        state.iter().all(|(_, why)| why.contains("no key that is trusted here")),
        "{state:?}"
    );
    // Nothing is lost: the right signature is all it takes.
    std::fs::write(gateway.home.path("servers.lock.sig"), &signature).unwrap();
    until_reach(&gateway, ["files up", "mail up"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_change_one_after_another_and_a_retired_one_counts_for_nothing() {
    // R212
    let (mut home, _issuer, _servers) = two_servers().await;
    sign(&home, "ops");
    let (old, new) = (key_of(&home, "ops"), key(&home, "next"));
    let keys = home.path("keys.txt");
    std::fs::write(
        &keys,
        format!("# the keys of the harbour\n{old} # until autumn\n\n{new}\n"),
    )
    .unwrap();
    home.rewrite(|setup| setup.set("trust.keys", ["file:keys.txt"]));
    assert_eq!(home.cli(&["check"]).code, Some(0), "the old key is still good");
    sign(&home, "next");
    let verified = home.cli(&["server", "verify"]).success();
    assert!(verified.contains("ops+") && verified.contains("next+"), "{verified}");
    std::fs::write(&keys, format!("{new}\n")).unwrap();
    assert_eq!(home.cli(&["check"]).code, Some(0), "signed by the new one too");
    // What only the retired key has signed is not started.
    std::fs::remove_file(home.path("servers.lock.sig")).unwrap();
    sign(&home, "ops");
    let retired = home.cli(&["check"]);
    assert_eq!(retired.code, Some(1));
    assert!(
        retired.stdout.contains("no key that is trusted here"),
        "{}",
        retired.stdout
    );
    for (broken, told) in [
        ("", "no public key"),
        ("nonsense\n", "line 1"),
        (&format!("{new} {old}\n"), "more than one"),
    ] {
        std::fs::write(&keys, broken).unwrap();
        let refused = home.cli(&["check"]);
        assert!(refused.code == Some(1) && refused.stdout.contains(told), "{refused:?}");
    }
    home.rewrite(|setup| setup.set("trust.keys", json!([])));
    assert!(home.cli(&["check"]).stdout.contains("needs a key"));
}

fn key_of(home: &Home, name: &str) -> String {
    let pem = text(home.path(&format!("{name}.pem")));
    pem.lines()
        .next()
        .unwrap()
        .trim_start_matches("vkey:")
        .trim()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_comes_from_a_file_or_a_variable_and_a_bad_one_signs_nothing() {
    let (mut home, _issuer, _servers) = two_servers().await;
    let pem = text(home.path("ops.pem"));
    home.rewrite(|setup| setup.variable("LOCK_KEY", &pem));
    home.cli(&["server", "sign", "--key", "env:LOCK_KEY"]).success();
    assert_eq!(home.cli(&["check"]).code, Some(0));
    let before = (text(home.path("servers.lock")), text(home.path("servers.lock.sig")));
    let half: String = pem.chars().take(pem.len() / 2).collect();
    std::fs::write(home.path("half.pem"), half).unwrap();
    let nameless: String = pem.lines().skip(1).map(|line| format!("{line}\n")).collect();
    std::fs::write(home.path("nameless.pem"), &nameless).unwrap();
    for (key, told) in [
        ("env:NOT_SET", "is not set"),
        ("absent.pem", "cannot be read"),
        ("half.pem", "no Ed25519 private key"),
        ("portreeve.toml", "no Ed25519 private key"),
    ] {
        let refused = home.cli(&["server", "sign", "--key", key]);
        assert_eq!(refused.code, Some(1), "{key}: {refused:?}");
        assert!(refused.stderr.contains(told), "{key}: {}", refused.stderr);
        assert!(!refused.stderr.contains("PRIVATE KEY-"), "{key}");
    }
    // One without a name has the name that the configuration gives it.
    home.cli(&["server", "sign", "--key", "nameless.pem"]).success();
    assert_eq!(
        (text(home.path("servers.lock")), text(home.path("servers.lock.sig"))),
        before
    );
    home.rewrite(|setup| setup.set("trust", json!({})));
    let refused = home.cli(&["server", "sign", "--key", "nameless.pem"]);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("without a name"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_or_script_that_changed_is_not_started() {
    // R216
    let (issuer, files) = (Issuer::start().await, Server::start(&[tool("read")]).await);
    let mut home = Setup::with(&issuer, &files).home();
    let vkey = key(&home, "ops");
    let diary = crate::support::environment::repository().join("tests/end_to_end/stdio/diary.py");
    let script = home.path("tools/diary.py");
    std::fs::create_dir(home.path("tools")).unwrap();
    std::fs::copy(diary, &script).unwrap();
    let server = json!({"command": ["/usr/bin/python3", script], "trust": "internal", "sandbox": {"read": [home.path("tools")]}});
    home.rewrite(|setup| {
        setup
            .set("servers.diary", server)
            .set("trust.require_signed", true)
            .set("trust.keys", [vkey])
    });
    sign(&home, "ops");
    let lock: toml::Table = text(home.path("servers.lock")).parse().unwrap();
    let entry = &lock["servers"]["diary"];
    assert_eq!(entry["command"][0].as_str(), Some("/usr/bin/python3"));
    assert_eq!(
        entry["files"].as_table().unwrap().len(),
        2,
        "the program and its script: {entry}"
    );
    let gateway = home.serve().await;
    until_reach(&gateway, ["diary up", "files up"]).await;
    // Nothing of the configuration changed, and no file that it reads: the next start looks all the same.
    let honest = text(script.clone());
    let tell = async |sub: &str| {
        let agent = Agent::connect(&gateway, "/mcp/diary", &issuer.token(sub)).await;
        agent.call("tell", json!({"what": "a"})).await
    };
    assert!(tell("ann").await.result()["content"].is_array());
    std::fs::write(&script, format!("{honest}\n# one line more\n")).unwrap();
    assert_eq!(tell("bob").await.error_code(), -32603);
    let recorded = gateway
        .home
        .cli(&["activity", "list", "--type", "inventory", "--json"])
        .success();
    let failed = recorded.lines().find(|line| line.contains("sandbox.fail"));
    assert!(failed.is_some_and(|line| line.contains("the digest of")), "{recorded}");
    let gateway = gateway.restart().await;
    let state = until_reach(&gateway, ["diary down", "files up"]).await;
    assert!(state[0].1.contains("the digest of"), "{state:?}");
    let checked = gateway.home.cli(&["check"]);
    assert!(
        checked.code == Some(1) && checked.stdout.contains("diary.py"),
        "{checked:?}"
    );
    std::fs::write(&script, honest).unwrap();
    assert_eq!(gateway.home.cli(&["check"]).code, Some(0));
    // Another command line over the same files.
    let mut home = gateway.stop().await;
    let more = json!(["/usr/bin/python3", "-u", script]);
    home.rewrite(|setup| setup.set("servers.diary.command", more));
    let checked = home.cli(&["check"]);
    assert!(checked.stdout.contains("its command line is another"), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn adding_and_removing_leaves_the_others_signed_for() {
    let (home, _issuer, [_files, mail]) = two_servers().await;
    sign(&home, "ops");
    let url = mail.url();
    let added = home.cli(&["server", "add", "more", &url, "--trust", "internal"]);
    assert!(
        added.code == Some(0) && added.stderr.contains("until somebody signs"),
        "{added:?}"
    );
    let checked = home.cli(&["check"]);
    assert!(
        checked.stdout.contains("servers.more: is not started"),
        "{}",
        checked.stdout
    );
    assert!(!checked.stdout.contains("servers.mail"), "{}", checked.stdout);
    home.cli(&["server", "remove", "more"]).success();
    let removed = home.cli(&["server", "remove", "mail"]);
    assert!(removed.stderr.contains("until it is signed again"), "{removed:?}");
    assert_eq!(home.cli(&["check"]).code, Some(0), "the other is still signed for");
    let told = sign(&home, "ops");
    assert!(told.contains("mail is gone"), "{told}");
}

/// The keys that `check --json` names as faults, in order of name.
fn faulty_keys(told: &str) -> Vec<String> {
    let faults = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let faults = faults.filter(|fault| fault["level"] == "fault");
    let mut keys: Vec<String> = faults.map(|fault| fault["key"].as_str().unwrap().to_owned()).collect();
    keys.sort();
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_between_a_configuration_and_production_is_said_at_once() {
    let files = Server::start(&[tool("read")]).await;
    let mut home = Setup::new().server("files", &files).home();
    home.rewrite(|setup| {
        setup
            .set("servers.files.trust", "unknown")
            .set(
                "servers.wild",
                json!({"command": ["/usr/bin/env", "npx", "-y", "@scope/server"], "trust": "community",
                "sandbox": {"fs": "none", "net": "none"}}),
            )
            .set(
                "servers.own",
                json!({"command": ["cat"], "trust": "internal", "sandbox": {"fs": "none", "net": "none"}}),
            )
    });
    assert_eq!(home.cli(&["check"]).code, Some(0), "good enough for a desk");
    let judged = home.cli(&["check", "--profile", "production", "--json"]);
    assert_eq!(judged.code, Some(1));
    let expected = [
        "listen.tls.mode",
        "servers.files.trust",
        "servers.wild.command",
        "servers.wild.sandbox.fs",
        "servers.wild.sandbox.net",
        "trust.require_signed",
    ];
    assert_eq!(faulty_keys(&judged.stdout), expected, "{}", judged.stdout);
    home.rewrite(|setup| setup.set("profile", "production"));
    let written = home.cli(&["check", "--json"]);
    assert_eq!(
        (written.code, faulty_keys(&written.stdout).len()),
        (Some(1), expected.len())
    );
    let refused = home.cli(&["serve"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(home.cli(&["check", "--profile", "prodution"]).code, Some(2));
    // What is left when all of it is done is fit for production.
    let vkey = key(&home, "ops");
    home.rewrite(|setup| {
        let setup = setup
            .unset("servers.wild")
            .unset("listen.tls")
            .set("servers.files.trust", "verified");
        setup.set("trust.require_signed", true).set("trust.keys", [vkey])
    });
    assert_eq!(home.cli(&["check"]).code, Some(1), "nobody has signed yet");
    sign(&home, "ops");
    let sound = home.cli(&["check"]);
    assert_eq!(sound.code, Some(0), "{sound:?}");
}
