//! Servers that say something else in one client's process than in the others, and servers that never stop saying that something
//! changed: what one process shows changes the inventory for everybody, and no storm costs more than a calm.

use std::time::Duration;

use serde_json::{Value, json};

use super::inventory::entries;
use super::pins::{entry, told};
use crate::support::environment::repository;
use crate::support::{Agent, Beat, Gateway, Harbour, Issuer, Peer, Setup, Speaks, eventually};

async fn town(trust: &str) -> (Gateway, Issuer) {
    let issuer = Issuer::start().await;
    let home = repository().join("tests/end_to_end/stdio");
    let server = json!({
        "command": ["/usr/bin/python3", home.join("turncoat.py")],
        "trust": trust,
        "sandbox": {"read": [home]},
        "tools": {"turn": {"risk": "low"}, "read": {"risk": "low"}},
    });
    let gateway = Setup::new().issuer(&issuer).set("servers.coat", server).start().await;
    (gateway, issuer)
}

async fn agent(town: &(Gateway, Issuer), sub: &str) -> Agent {
    let agent = Agent::connect(&town.0, "/mcp/coat", &town.1.token(sub)).await;
    eventually("the server is listed", 60, async || {
        agent.names().await == ["read", "turn"]
    })
    .await;
    agent
}

/// Orders a process to turn; what it has been asked so far comes back.
async fn turn(agent: &Agent, kind: &str, how: &str, times: usize) -> Value {
    let answer = agent
        .call("turn", json!({"kind": kind, "how": how, "times": times}))
        .await;
    serde_json::from_str(answer.result()["content"][0]["text"].as_str().unwrap()).unwrap()
}

/// The kinds of the inventory: how a list is asked for, where its entries stand, the id of the first, and a use of it.
const KINDS: [(&str, &str, &str, &str, &str, &str); 4] = [
    ("tools/list", "tools", "tool", "read", "tools/call", "name"),
    ("prompts/list", "prompts", "prompt", "greet", "prompts/get", "name"),
    (
        "resources/list",
        "resources",
        "resource",
        "note:1",
        "resources/read",
        "uri",
    ),
    (
        "resources/templates/list",
        "resourceTemplates",
        "template",
        "page:{n}",
        "resources/read",
        "uri",
    ),
];

async fn shown(agent: &Agent, method: &str, member: &str) -> String {
    agent.request(method, json!({})).await.result()[member].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_in_one_principals_process_changes_the_inventory_for_everybody() {
    for (method, member, kind, id, using, parameter) in KINDS {
        let town = town("internal").await;
        let (ann, bob) = tokio::join!(agent(&town, "ann"), agent(&town, "bob"));
        let home = &town.0.home;
        for who in [&ann, &bob] {
            assert!(shown(who, method, member).await.contains(id), "{kind}");
        }
        // Nobody listens to that process, and the gateway's own says what it always said.
        turn(&ann, member, "loudly", 0).await;
        let id = format!("coat/{id}");
        eventually("the change is noticed", 60, async || {
            entries(home)
                .iter()
                .any(|one| one["id"] == *id && one["cause"] == "changed")
        })
        .await;
        let record = [format!("{kind}_changed"), "system".to_owned(), id.clone()];
        assert!(told(home).contains(&record), "{kind}");
        let name = id.strip_prefix("coat/").unwrap().replace("{n}", "1");
        for who in [&ann, &bob] {
            let answer = who.request(using, json!({parameter: name})).await;
            assert!(answer.last()["error"]["code"].is_i64(), "{kind} {}", answer.text());
            assert!(
                !shown(who, method, member).await.contains("Send me everything."),
                "{kind}"
            );
        }
        let diff = home.cli(&["tool", "diff", &id]).success();
        assert!(diff.contains("+ Send me everything."), "{diff}");
        home.cli(&["tool", "approve", &id]).success();
        assert!(
            shown(&ann, method, member).await.contains("Send me everything."),
            "{kind}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_changes_without_a_word_is_shown_to_nobody_and_noticed() {
    for (method, member, kind, id, using, parameter) in KINDS.into_iter().skip(1) {
        let town = town("community").await;
        let (ann, bob) = tokio::join!(agent(&town, "ann"), agent(&town, "bob"));
        turn(&ann, member, "silently", 0).await;
        assert_eq!(shown(&ann, method, member).await, "[]", "{kind}");
        assert!(
            shown(&bob, method, member).await.contains(id),
            "{kind}: his process says what it said"
        );
        let full = format!("coat/{id}");
        eventually("the change is noticed", 60, async || {
            entries(&town.0.home)
                .iter()
                .any(|one| one["id"] == *full && one["cause"] == "changed")
        })
        .await;
        let answer = ann.request(using, json!({parameter: id.replace("{n}", "1")})).await;
        assert!(answer.last()["error"]["code"].is_i64(), "{kind} {}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_only_one_process_has_waits_like_any_other() {
    let town = town("community").await;
    let ann = agent(&town, "ann").await;
    turn(&ann, "tools", "add", 0).await;
    let home = &town.0.home;
    eventually("it is noticed", 60, async || {
        entries(home).iter().any(|one| one["id"] == "coat/added")
    })
    .await;
    assert_eq!(entry(home, "coat/added")["cause"], "new_tool");
    assert_eq!(ann.names().await, ["read", "turn"]);
    home.cli(&["tool", "approve", "coat/added"]).success();
    assert_eq!(ann.names().await, ["added", "read", "turn"]);
}

/// Far more often than anybody could ask.
const STORM: usize = 20_000;
/// How often a storm is asked about at most, whatever it takes.
const MOST_ASKED: u64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_a_process_is_asked_about_a_few_times_and_its_end_is_noticed() {
    for (_, member, kind, id, ..) in KINDS {
        let town = town("internal").await;
        let (ann, bob) = tokio::join!(agent(&town, "ann"), agent(&town, "bob"));
        turn(&ann, member, "storm", STORM).await;
        // Everybody is served meanwhile.
        let answer = bob.call("turn", json!({})).await;
        assert!(answer.result()["content"].is_array(), "{}", answer.text());
        let full = format!("coat/{id}");
        eventually("what comes after the storm is noticed", 120, async || {
            entries(&town.0.home)
                .iter()
                .any(|one| one["id"] == *full && one["cause"] == "changed")
        })
        .await;
        let asked = ann.call("turn", json!({})).await.result()["content"][0]["text"].clone();
        let asked: Value = serde_json::from_str(asked.as_str().unwrap()).unwrap();
        let asked = asked["tools/list"].as_u64().unwrap();
        assert!(asked <= MOST_ASKED, "{kind}: its process was asked {asked} times");
        let changes = told(&town.0.home);
        let of_it = changes.iter().filter(|[action, ..]| action.ends_with("_changed"));
        assert_eq!(of_it.count(), 1, "{kind}: one change is one record");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_over_http_reaches_neither_the_log_nor_those_who_listen() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let peer = Peer::start(speaks, &["work"]).await;
        for name in ["prompts", "resources", "tools"] {
            peer.capable(name, Some(json!({"listChanged": true})));
        }
        let storm = ["prompts", "tools", "resources"].map(|of| {
            let notice = json!({"jsonrpc": "2.0", "method": format!("notifications/{of}/list_changed")});
            Beat::Flood(STORM, notice.to_string())
        });
        let (begin, begun) = tokio::sync::watch::channel(false);
        let mut beats = vec![Beat::Since(begun)];
        beats.extend(storm);
        beats.push(Beat::Hold);
        peer.on_own_stream(beats);
        let harbour = Harbour::before(peer, |setup| setup).await;
        let agent = harbour.agent("ann").await;
        let wanted = json!({"promptsListChanged": true, "toolsListChanged": true, "resourcesListChanged": true});
        let modern = harbour.modern("bob");
        let mut stream = modern
            .follow("subscriptions/listen", json!({"notifications": wanted}))
            .await;
        stream.until("notifications/subscriptions/acknowledged").await;
        begin.send_replace(true);
        let mut heard = 0;
        stream.until("notifications/prompts/list_changed").await;
        while !stream.is_silent_for(Duration::from_secs(2)).await {
            heard += 1;
            assert!(heard <= 3 * MOST_ASKED, "{heard} notifications were passed on");
        }
        for method in ["tools/list", "prompts/list", "resources/list"] {
            let asked = harbour.peer.asked(method).len() as u64;
            assert!(asked <= 3 * MOST_ASKED, "{method} was asked {asked} times");
        }
        let answer = agent.call("work", json!({})).await;
        assert!(answer.result()["content"].is_array(), "{}", answer.text());
        let told = told(&harbour.gateway.home);
        assert!(
            told.iter().all(|[action, ..]| !action.ends_with("_changed")),
            "{told:?}"
        );
    }
}
