//! A configuration that is not sound keeps nobody from reading the log, looking at tools or taking a token back, and a server
//! that cannot start keeps no other from anything.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::setup::{Home, PERMIT_ALL};
use crate::support::{Agent, Issuer, Server, Setup, Town, eventually, tool};

/// Mistakes that keep a gateway from starting.
fn mistakes(home: &Home) -> [(&'static str, String); 4] {
    let good = std::fs::read_to_string(home.config()).unwrap();
    [
        ("a key that is not known", format!("flavour = \"vanilla\"\n{good}")),
        (
            "a broken table",
            good.replace("[servers.files]", "[servers.files\n[servers.files]"),
        ),
        (
            "a server without reach",
            good.replace(
                "[servers.files]",
                "[servers.nowhere]\ntrust = \"internal\"\n[servers.files]",
            ),
        ),
        ("a wrong limit", good.replace("calls = 1000000", "calls = \"many\"")),
    ]
}

fn commands_work(home: &Home, what: &str) {
    let token = home.agent_token(&["--sub", "bot"]);
    let id = token["id"].as_str().unwrap();
    let revoked = home.cli(&["token", "revoke", id, "--json"]);
    assert_eq!(revoked.code, Some(0), "{what}: {revoked:?}");
    assert!(revoked.stderr.contains("portreeve check"), "{what}: {revoked:?}");
    let listed: Vec<Value> = home
        .cli(&["token", "list", "--json"])
        .success()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let standing = listed
        .iter()
        .find(|token| token["id"] == id)
        .map(|token| token["standing"].clone());
    assert_eq!(standing, Some(json!("revoked")), "{what}");
    let log = home.cli(&["activity", "list", "--type", "admin", "--json"]).success();
    assert!(log.contains(id), "{what}: the revocation is in the log");
    assert!(
        home.cli(&["tool", "list", "--json"]).success().contains("files/read"),
        "{what}"
    );
    assert!(
        home.cli(&["server", "list", "--json"]).success().contains("files"),
        "{what}"
    );
    assert_eq!(home.cli(&["check"]).code, Some(1), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_work_while_the_configuration_does_not() {
    // R103
    let town = Town::with(&["read"], |setup| setup).await;
    town.agent("ann").await.names().await;
    let (home, good) = (
        &town.gateway.home,
        std::fs::read_to_string(town.gateway.home.config()).unwrap(),
    );
    for (what, broken) in mistakes(home) {
        home.write_config(&broken);
        commands_work(home, what);
    }
    home.write_config(&good);
    let policy = home.path("policies/main.cedar");
    std::fs::write(&policy, "permit (nonsense").unwrap();
    commands_work(home, "a policy that cannot be read");

    let home = town.gateway.stop().await;
    commands_work(&home, "a policy that cannot be read, no gateway");
    std::fs::write(&policy, PERMIT_ALL).unwrap();
    for (what, broken) in mistakes(&home) {
        home.write_config(&broken);
        commands_work(&home, what);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_program_is_gone_stops_no_other_and_no_reload() {
    // R119
    let (issuer, files) = (Issuer::start().await, Server::start(&[tool("read")]).await);
    let program = tempfile::TempDir::new().unwrap();
    let gone = program.path().join("server");
    std::fs::copy("/bin/cat", &gone).unwrap();
    let setup = Setup::with(&issuer, &files)
        .set("servers.local.command", json!([gone]))
        .set("servers.local.sandbox.read", json!([program.path()]));
    let home = setup.home();
    assert_eq!(home.cli(&["check"]).code, Some(0));
    let gateway = home.serve().await;
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["read"]);

    std::fs::remove_file(&gone).unwrap();
    let checked = gateway.home.cli(&["check"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(
        checked.stdout.contains("fault: ") && checked.stdout.contains("servers.local"),
        "{checked:?}"
    );
    std::fs::write(gateway.home.path("policies/main.cedar"), "").unwrap();
    gateway.signal(Signal::HUP);
    eventually("the tighter policy is in force", 15, async || {
        agent.names().await.is_empty()
    })
    .await;

    std::fs::write(gateway.home.path("policies/main.cedar"), PERMIT_ALL).unwrap();
    let gateway = gateway.restart().await;
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["read"], "the others start");
    eventually("it is told why the server does not", 15, async || {
        let listed = gateway.home.cli(&["server", "list", "--json"]).success();
        let mut servers = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let local = servers.find(|server| server["id"] == "local").unwrap();
        local["reach"] == "down" && local["reason"].as_str().is_some_and(|why| why.contains("server"))
    })
    .await;
}
