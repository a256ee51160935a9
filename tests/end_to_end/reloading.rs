//! Reloads that meet files while they are written, and what the log says of a reload that loosens something.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::setup::PERMIT_ALL;
use crate::support::{Agent, Ask, Gateway, Server, Town, eventually, tool};

const FORBID_WRITE: &str = r#"
@id("no-write") forbid (principal, action, resource == Tool::"files/write");
"#;

/// Ways to ask for a reload.
#[derive(Clone, Copy, Debug)]
enum Way {
    Watch,
    Signal,
    Command,
}

async fn ask_for_reload(gateway: &Gateway, way: Way) {
    match way {
        Way::Watch => {}
        Way::Signal => gateway.signal(Signal::HUP),
        Way::Command => {
            let reply = gateway.ask_admin(Ask::post("/api/v1/reload", "{}")).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
    }
}

/// Opens a file as an editor does that writes in place, and leaves it half written.
fn begin(path: std::path::PathBuf, first: &str) -> File {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_being_written_never_loses_its_forbids() {
    // R115, R119
    for way in [Way::Watch, Way::Signal, Way::Command] {
        let town = Town::with(&["read", "write"], |setup| {
            setup.policy(&format!("{PERMIT_ALL}{FORBID_WRITE}"))
        })
        .await;
        let agent = town.agent("ann").await;
        assert_eq!(agent.names().await, ["read"], "{way:?}");
        let mut half = begin(town.gateway.home.path("policies/main.cedar"), PERMIT_ALL);
        let reload = ask_for_reload(&town.gateway, way);
        let looking = async {
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert_eq!(
                    agent.names().await,
                    ["read"],
                    "{way:?}: the beginning of the file is in force"
                );
            }
            half.write_all(FORBID_WRITE.as_bytes()).unwrap();
            half.write_all(br#"@id("no-read") forbid (principal, action, resource == Tool::"files/read");"#)
                .unwrap();
            drop(half);
        };
        tokio::join!(reload, looking);
        eventually("the whole file is in force", 15, async || {
            agent.names().await.is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_is_being_written_never_loses_its_end() {
    // R115, R119
    let mail = Server::start(&[tool("send")]).await;
    let town = Town::with(&["read"], |setup| setup.server("mail", &mail)).await;
    let agent = Agent::connect(&town.gateway, "/mcp", &town.issuer.token("ann")).await;
    let both = ["files__read", "mail__send"];
    assert_eq!(agent.names().await, both);
    let whole = std::fs::read_to_string(town.gateway.home.config()).unwrap();
    let (first, rest) = whole.split_at(whole.find("[servers.mail]").unwrap());
    let mut half = begin(town.gateway.home.config(), first);
    town.gateway.signal(Signal::HUP);
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(agent.names().await, both, "the beginning of the file is in force");
    }
    let post = rest
        .split("\n[")
        .next()
        .unwrap()
        .replace("servers.mail", "servers.post");
    half.write_all(format!("{rest}\n{post}\n").as_bytes()).unwrap();
    drop(half);
    eventually("the whole file is in force", 15, async || {
        agent.names().await == ["files__read", "mail__send", "post__send"]
    })
    .await;
}

/// What the log says of reloads, newest first.
fn reloads(gateway: &Gateway) -> Vec<String> {
    let listed = gateway.home.cli(&["activity", "list", "--type", "admin", "--json"]);
    let records = listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let records = records.filter(|record: &serde_json::Value| record["action"] == "gateway.reload");
    records
        .map(|record| record["message"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reload_loosens_is_recorded_by_its_keys() {
    // R119
    let mut town = Town::with(&["read", "write"], |setup| {
        setup
            .policy(&format!("{PERMIT_ALL}{FORBID_WRITE}"))
            .set("detection.arguments", "block")
            .set("servers.files.trust", "community")
    })
    .await;
    town.gateway.home.rewrite(|setup| {
        setup
            .policy(PERMIT_ALL)
            .set("detection.arguments", "off")
            .set("servers.files.trust", "internal")
    });
    eventually("the loosening is told", 15, async || {
        let told = reloads(&town.gateway).first().cloned().unwrap_or_default();
        [
            "forbid `no-write` is gone or changed",
            "detection.arguments",
            "servers.files.trust",
        ]
        .iter()
        .all(|key| told.contains(key))
    })
    .await;
    town.gateway
        .home
        .rewrite(|setup| setup.policy(&format!("{PERMIT_ALL}{FORBID_WRITE}")));
    eventually("what tightens is not called looser", 15, async || {
        reloads(&town.gateway)
            .first()
            .is_some_and(|told| told == "the configuration was read again and is in force")
    })
    .await;
}
