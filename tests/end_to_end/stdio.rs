//! Servers that are processes: whose they are, how they come back, and how they are given up.

use serde_json::{Value, json};

use crate::support::environment::repository;
use crate::support::{Agent, Gateway, Issuer, Setup, eventually};

/// A gateway in front of the diary, with further settings of it.
async fn town(settings: Value) -> (Gateway, Issuer) {
    let issuer = Issuer::start().await;
    let gateway = Setup::new()
        .issuer(&issuer)
        .set("servers.diary", diary(settings))
        .start()
        .await;
    (gateway, issuer)
}

fn diary(settings: Value) -> Value {
    let home = repository().join("tests/end_to_end/stdio");
    let mut server = json!({
        "command": ["/usr/bin/python3", home.join("diary.py")],
        "trust": "internal",
        "sandbox": {"read": [home]},
        "tools": {"tell": {"risk": "low"}, "end": {"risk": "low"}},
    });
    for (name, value) in settings.as_object().unwrap() {
        match (value, server.get_mut(name)) {
            (Value::Object(more), Some(Value::Object(known))) => known.extend(more.clone()),
            _ => server[name] = value.clone(),
        }
    }
    server
}

async fn agent(town: &(Gateway, Issuer), sub: &str) -> Agent {
    let agent = Agent::connect(&town.0, "/mcp/diary", &town.1.token(sub)).await;
    eventually("the diary is listed", 60, async || {
        agent.names().await.contains(&"tell".to_owned())
    })
    .await;
    agent
}

async fn tell(agent: &Agent, what: &str) -> Value {
    let answer = agent.call("tell", json!({"what": what})).await;
    let result = answer.result();
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_one_principals_whatever_session_it_uses() {
    // R146
    let town = town(json!({})).await;
    let (first, second, other) = tokio::join!(agent(&town, "ann"), agent(&town, "ann"), agent(&town, "bob"));
    let one = tell(&first, "a").await;
    let two = tell(&second, "b").await;
    let bobs = tell(&other, "c").await;
    assert_eq!(one["me"], two["me"]);
    assert_eq!(two["told"], json!(["a", "b"]));
    assert_ne!(one["me"], bobs["me"]);
    assert_eq!(bobs["told"], json!(["c"]), "nothing of another's is seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_keeps_nothing_of_anybody_is_shared() {
    let town = town(json!({"isolation": "shared"})).await;
    let (ann, bob) = tokio::join!(agent(&town, "ann"), agent(&town, "bob"));
    assert_eq!(tell(&ann, "a").await["me"], tell(&bob, "b").await["me"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_principal_has_a_workspace_where_the_operator_says_so() {
    let place = tempfile::tempdir().unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let workspace = place.path().canonicalize().unwrap().join("{principal}");
    let town = town(json!({"sandbox": {"workspace": workspace}})).await;
    let (ann, bob) = tokio::join!(agent(&town, "ann"), agent(&town, "bob"));
    let (anns, bobs) = (tell(&ann, "a").await, tell(&bob, "b").await);
    assert_ne!(anns["where"], bobs["where"]);
    for place in [&anns["where"], &bobs["where"]] {
        let name = place.as_str().unwrap().rsplit('/').next().unwrap();
        assert!(
            name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ended_is_started_again_and_one_that_keeps_ending_is_not() {
    let town = town(json!({})).await;
    let ann = agent(&town, "ann").await;
    let before = tell(&ann, "a").await;
    let ended = ann.call("end", json!({})).await;
    assert_eq!(ended.error_code(), -32603, "{}", ended.text());
    assert_eq!(town.0.receipt_of(&ended)["outcome"]["executed"], Value::Null);
    let after = tell(&ann, "b").await;
    assert_ne!(before["me"], after["me"], "it is another process");
    assert_eq!(after["told"], json!(["b"]), "a request is never sent twice");
    ann.call("end", json!({})).await;
    let refused = ann.call("tell", json!({"what": "c"})).await;
    assert_eq!(refused.error_code(), -32603, "{}", refused.text());
    assert_eq!(
        town.0.receipt_of(&refused)["outcome"]["executed"],
        false,
        "it waits before it tries again"
    );
    let bob = agent(&town, "bob").await;
    tell(&bob, "d").await;
    eventually("the process is started again", 20, async || {
        ann.call("tell", json!({"what": "e"})).await.status == 200
            && ann.call("tell", json!({"what": "f"})).await.last()["result"].is_object()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_and_endings_are_on_record() {
    let town = town(json!({})).await;
    let ann = agent(&town, "ann").await;
    tell(&ann, "a").await;
    let home = town.0.stop().await;
    let listed = home
        .cli(&["activity", "list", "--type", "inventory", "--limit", "100", "--json"])
        .success();
    let actions: Vec<String> = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|record| record["subject"] == "diary")
        .map(|record| record["action"].as_str().unwrap().to_owned())
        .filter(|action| action.starts_with("sandbox."))
        .collect();
    let count = |wanted: &str| actions.iter().filter(|action| *action == wanted).count();
    // Two to see what clients are shown, with and without capabilities, and hers.
    assert_eq!((count("sandbox.start"), count("sandbox.end")), (3, 3), "{actions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_can_ask_for_a_sandbox() {
    // R149
    let issuer = Issuer::start().await;
    let walled = "@id(\"walled\") permit (principal, action, resource) when { resource.tier == \"A\" };";
    let gateway = Setup::new()
        .issuer(&issuer)
        .policy(walled)
        .set("servers.inside", diary(json!({})))
        .set(
            "servers.outside",
            diary(json!({"sandbox": {"fs": "none", "net": "none"}})),
        )
        .start()
        .await;
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    eventually("the walled one is listed", 60, async || {
        agent.names().await.contains(&"inside__tell".to_owned())
    })
    .await;
    let names = agent.names().await;
    assert!(names.iter().all(|name| name.starts_with("inside__")), "{names:?}");
    let refused = agent.call("outside__tell", json!({"what": "a"})).await;
    assert_eq!(refused.reason_codes(), ["DENY_TOOL_NOT_FOUND"]);
    let checked = gateway.home.cli(&["check"]);
    assert!(
        checked.stdout.contains("can read and write whatever its user can"),
        "{}",
        checked.stdout
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_complains_about_is_kept_without_secrets() {
    let town = town(json!({"tools": {"complain": {"risk": "low"}}})).await;
    let ann = agent(&town, "ann").await;
    let token = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");
    let (head, tail) = token.split_at(17);
    let (begin, end) = (
        concat!("-----BEGIN ", "PRIVATE KEY-----\n"),
        concat!("-----END ", "PRIVATE KEY-----\n"),
    );
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let pieces = json!([
        format!("cannot log in with {head}"),
        format!("{tail} here\n"),
        format!("\u{1b}[31m{head}\u{200b}{tail}\u{1b}[0m\n"),
        begin,
        format!("{body}\n{body}\n"),
        format!("{end}the last line\n"),
    ]);
    ann.call("complain", json!({"pieces": pieces})).await;
    let file = town.0.home.state().join("logs/diary.log");
    let kept = || std::fs::read_to_string(&file).unwrap_or_default();
    eventually("the complaints are kept", 30, async || kept().contains("the last line")).await;
    let kept = kept();
    assert!(
        kept.contains("cannot log in with [REDACTED:api_token] here\n"),
        "{kept}"
    );
    for gone in [head, tail, body, "\u{1b}", "\u{200b}"] {
        assert!(!kept.contains(gone), "{gone:?} in {kept}");
    }
    for file in town.0.home.state_files() {
        let bytes = std::fs::read(&file).unwrap_or_default();
        for gone in [token, head, tail, body] {
            let holds = bytes.windows(gone.len()).any(|window| window == gone.as_bytes());
            assert!(!holds, "{gone:?} is in {}", file.display());
        }
    }
}
