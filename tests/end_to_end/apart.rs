//! What keeps servers of one gateway apart from each other.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::environment::{not_here, repository};
use crate::support::{Agent, Issuer, Peer, Setup, Speaks, eventually, tool};

fn diary(sandbox: Value) -> Value {
    let home = repository().join("tests/end_to_end/stdio");
    let mut server = json!({
        "command": ["/usr/bin/python3", home.join("diary.py")],
        "trust": "internal",
        "sandbox": {"read": [home]},
        "tools": {"tell": {"risk": "low"}, "end": {"risk": "low"}},
    });
    server["sandbox"]
        .as_object_mut()
        .unwrap()
        .extend(sandbox.as_object().unwrap().clone());
    server
}

async fn tell(agent: &Agent, tool: &str) -> Value {
    eventually("the diary is listed", 60, async || {
        agent.names().await.contains(&tool.to_owned())
    })
    .await;
    let answer = agent.call(tool, json!({"what": "a"})).await;
    serde_json::from_str(answer.result()["content"][0]["text"].as_str().unwrap()).unwrap()
}

fn owner(path: &Path) -> u32 {
    path.metadata().unwrap().uid()
}

#[tokio::test(flavor = "multi_thread")]
async fn as_root_servers_and_principals_have_users_of_their_own() {
    if !rustix::process::geteuid().is_root() {
        return not_here("it takes root to give servers users of their own");
    }
    let place = tempfile::tempdir().unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let each = place.path().canonicalize().unwrap().join("{principal}");
    let issuer = Issuer::start().await;
    let gateway = Setup::new()
        .issuer(&issuer)
        .set("sandbox.uids", json!("1900000100-1900000199"))
        .set("servers.one", diary(json!({})))
        .set("servers.two", diary(json!({})))
        .set("servers.each", diary(json!({"workspace": each})))
        .start()
        .await;
    let ann = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    let bob = Agent::connect(&gateway, "/mcp", &issuer.token("bob")).await;
    let mut users = Vec::new();
    for (agent, tool) in [
        (&ann, "one__tell"),
        (&ann, "two__tell"),
        (&ann, "each__tell"),
        (&bob, "each__tell"),
    ] {
        let told = tell(agent, tool).await;
        users.push(owner(Path::new(told["where"].as_str().unwrap())));
    }
    assert!(
        users.iter().all(|user| (1_900_000_100..=1_900_000_199).contains(user)),
        "{users:?}"
    );
    let apart: std::collections::BTreeSet<u32> = users.iter().copied().collect();
    assert_eq!(apart.len(), 4, "{users:?}");
    // One user for all who share a workspace.
    let shared = tell(&bob, "one__tell").await;
    assert_eq!(owner(Path::new(shared["where"].as_str().unwrap())), users[0]);
    let remembered = std::fs::read_to_string(gateway.home.state().join("sandbox.tier")).unwrap();
    assert_eq!(remembered, "A\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_with_one_side_open_is_of_no_tier() {
    let issuer = Issuer::start().await;
    let gateway = Setup::new()
        .issuer(&issuer)
        .policy("@id(\"walled\") permit (principal, action, resource) when { resource.tier == \"A\" };")
        .set("servers.inside", diary(json!({})))
        .set("servers.files", diary(json!({"fs": "none"})))
        .set("servers.network", diary(json!({"net": "none"})))
        .start()
        .await;
    let ann = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    tell(&ann, "inside__tell").await;
    let names = ann.names().await;
    assert!(names.iter().all(|name| name.starts_with("inside__")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_was_given_in_secret_is_not_in_its_log() {
    let place = tempfile::tempdir().unwrap();
    // No rule could know it for a secret.
    let secret = "the heron stands in the reeds";
    let file = place.path().join("secret");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let issuer = Issuer::start().await;
    let mut server = diary(json!({"env": {"WORDS": format!("file:{}", file.display())}}));
    server["tools"]["complain"] = json!({"risk": "low"});
    let gateway = Setup::new().issuer(&issuer).set("servers.diary", server).start().await;
    let ann = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    tell(&ann, "diary__tell").await;
    let (head, tail) = secret.split_at(9);
    let pieces = json!([
        format!("cannot log in with {head}"),
        format!("{tail}.\n"),
        "the last line\n"
    ]);
    ann.call("diary__complain", json!({"pieces": pieces})).await;
    let log = gateway.home.state().join("logs/diary.log");
    let kept = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("the complaint is kept", 30, async || kept().contains("the last line")).await;
    assert!(kept().contains("cannot log in with [REDACTED:secret]."), "{}", kept());
    assert!(!kept().contains(secret), "{}", kept());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_directory_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let gateway = Setup::new().start().await;
    let home = gateway.stop().await;
    std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o770)).unwrap();
    let refused = home.cli(&["serve"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("can be written by others"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_unknown_server_offers_beside_its_tools_waits_for_approval() {
    let issuer = Issuer::start().await;
    let peer = Peer::start(Speaks::Legacy, &[]).await;
    peer.list("tools", &[tool("work")]);
    peer.list("prompts", &[json!({"name": "greet"})]);
    peer.list("resources", &[json!({"name": "note", "uri": "note:1"})]);
    let gateway = Setup::new()
        .issuer(&issuer)
        .peer("shady", &peer)
        .set("servers.shady.trust", "unknown")
        .start()
        .await;
    let ann = Agent::connect(&gateway, "/mcp/shady", &issuer.token("ann")).await;
    let names = async |kind: &str| {
        let answer = ann.request(&format!("{kind}/list"), json!({})).await;
        let listed = answer.result()[kind].as_array().cloned().unwrap_or_default();
        listed
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    eventually("the server is discovered", 60, async || {
        gateway.home.cli(&["tool", "list"]).stdout.contains("shady/work")
    })
    .await;
    assert_eq!((names("prompts").await, names("resources").await), (vec![], vec![]));
    let refused = ann.request("prompts/get", json!({"name": "greet"})).await;
    assert!(!refused.last()["error"].is_null(), "{}", refused.text());
    gateway.home.cli(&["tool", "approve", "shady/work"]).success();
    assert_eq!(
        (names("prompts").await, names("resources").await),
        (vec![], vec![]),
        "each is approved for itself"
    );
    gateway.home.cli(&["tool", "approve", "shady/*"]).success();
    eventually("they are listed", 20, async || {
        names("prompts").await == ["greet"] && names("resources").await == ["note"]
    })
    .await;
}
