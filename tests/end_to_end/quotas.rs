//! Quotas across runs and crashes, limits by every key, and who has used how much.

use std::time::Duration;

use serde_json::{Value, json};

use super::limits::over_limit;
use crate::support::environment::{Finished, command, portreeve};
use crate::support::issuer::{but, claims};
use crate::support::setup::Home;
use crate::support::{Act, Agent, Answer, Ask, Gateway, Modern, Reply, Server, Town, eventually, tool};

fn quota(per: Value, calls: u32) -> Value {
    json!([{"per": per, "calls": calls, "window": "1d"}])
}

async fn passes(agent: &Agent, name: &str) {
    let answer = agent.call(name, json!({})).await;
    assert!(answer.result()["content"].is_array(), "{}", answer.text());
    assert_eq!(code(&answer), None, "{}", answer.text());
}

/// What a request was refused with.
fn code(answer: &Answer) -> Option<String> {
    let json = answer.last();
    let codes = &json["error"]["data"]["reason_codes"];
    Some(codes[0].as_str()?.to_owned())
}

/// Waits until the server's tools are known, on a machine that is busy.
async fn ready(agent: &Agent) {
    eventually("the tools are known", 60, async || !agent.names().await.is_empty()).await;
}

fn usage(home: &Home) -> Vec<Value> {
    let told = home.cli(&["limits", "show", "--json"]).success();
    told.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How much of the one quota somebody has used.
fn used(home: &Home, key: &str) -> u64 {
    let rows = usage(home);
    let row = rows.iter().find(|row| row["kind"] == "quota" && row["key"] == key);
    row.map_or(0, |row| row["used"].as_u64().unwrap())
}

// R140, R145
#[tokio::test(flavor = "multi_thread")]
async fn rates_quotas_places_and_time_each_refuse_what_is_too_much() {
    let rate = json!([
        {"per": "principal", "calls": 5, "window": "1h"},
        {"per": "tool", "calls": 7, "window": "1h"},
    ]);
    let town = Town::with(&["read", "slow", "hang"], |setup| {
        setup
            .set("limits.rate", rate)
            .set("limits.quota", quota(json!("principal"), 6))
            .set("limits.concurrency", json!({"per_principal": 1, "per_server": 9}))
            .set("limits.timeout", "8s")
    })
    .await;
    town.files.on("hang", Act::Hang);
    town.files.on("slow", Act::Wait(Duration::from_secs(2)));
    let (ann, bob) = (town.agent("ann").await, town.agent("bob").await);
    for _ in 0..5 {
        passes(&ann, "read").await;
    }
    over_limit(&town, &ann.call("read", json!({})).await, "DENY_RATE_LIMIT");
    assert_eq!(
        town.files.calls().len(),
        5,
        "the call after the last per principal never left"
    );
    passes(&bob, "read").await;
    passes(&bob, "read").await;
    over_limit(&town, &bob.call("read", json!({})).await, "DENY_RATE_LIMIT");
    assert_eq!(town.files.calls().len(), 7, "nor the one after the last per tool");

    let busy = tokio::spawn({
        let bob = bob.clone();
        async move { bob.call("slow", json!({})).await }
    });
    eventually("the slow one is under way", 10, async || town.files.calls().len() == 8).await;
    over_limit(&town, &bob.call("slow", json!({})).await, "DENY_CONCURRENCY");
    assert!(busy.await.unwrap().result()["content"].is_array());

    let late = bob.call("hang", json!({})).await;
    assert_eq!(
        (late.error_code(), late.reason_codes()),
        (-32603, vec!["ERROR_TIMEOUT".to_owned()])
    );
    assert_eq!(town.gateway.receipt_named_by(&late)["outcome"]["status"], "timeout");

    // Rates begin anew with a run; the quota goes on: five of six are used.
    let town = town.restarted().await;
    let ann = town.agent("ann").await;
    passes(&ann, "read").await;
    over_limit(&town, &ann.call("read", json!({})).await, "DENY_QUOTA");
    let town = town.restarted().await;
    over_limit(
        &town,
        &town.agent("ann").await.call("slow", json!({})).await,
        "DENY_QUOTA",
    );
    assert_eq!(town.files.calls().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_survives_being_killed_and_never_allows_more() {
    let mut town = Town::with(&["read"], |setup| {
        setup.set("limits.quota", quota(json!("principal"), 12))
    })
    .await;
    let mut allowed = 0;
    for round in 0..20 {
        let agent = town.agent("ann").await;
        ready(&agent).await;
        for _ in 0..2 {
            let answer = agent.call("read", json!({})).await;
            match code(&answer) {
                None => allowed += 1,
                Some(refused) => assert_eq!(refused, "DENY_QUOTA"),
            }
        }
        let home = town.gateway.kill().await;
        if round == 0 {
            let counted = used(&home, "ann");
            assert!((2..=3).contains(&counted), "{counted} of 2 calls after a crash");
        }
        let gateway = home.serve().await;
        assert!(used(&gateway.home, "ann") >= allowed, "less is counted than was called");
        town = Town { gateway, ..town };
        if allowed + 1 >= 12 || used(&town.gateway.home, "ann") >= 12 {
            break;
        }
    }
    let agent = town.agent("ann").await;
    ready(&agent).await;
    while code(&agent.call("read", json!({})).await).is_none() {
        allowed += 1;
        assert!(allowed <= 12);
    }
    assert_eq!(town.files.calls().len() as u64, allowed, "what the server saw");
    // Each crash costs at most what was put on disk ahead: one call of twelve.
    assert!((6..=12).contains(&allowed), "{allowed}");
    assert_eq!(used(&town.gateway.home, "ann"), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_so_many_of_sixty_four_clients_at_once_get_through() {
    let limits = [("limits.rate", "DENY_RATE_LIMIT"), ("limits.quota", "DENY_QUOTA")];
    for (key, expected) in limits {
        let rule = json!([{"per": ["principal", "tool"], "calls": 100, "window": "1d"}]);
        let town = Town::with(&["read"], |setup| setup.set(key, rule)).await;
        ready(&town.agent("ann").await).await;
        let mut clients = Vec::new();
        for _ in 0..64 {
            clients.push(town.agent("ann").await);
        }
        let calls = clients.into_iter().map(|client| {
            tokio::spawn(async move {
                let mut codes = Vec::new();
                for _ in 0..4 {
                    let answer = client.call("read", json!({})).await;
                    codes.push(code(&answer));
                }
                codes
            })
        });
        let mut refused = 0;
        for client in calls.collect::<Vec<_>>() {
            refused += client
                .await
                .unwrap()
                .iter()
                .filter(|given| given.as_deref() == Some(expected))
                .count();
        }
        assert_eq!((refused, town.files.calls().len()), (64 * 4 - 100, 100), "{key}");
    }
}

/// Waits for the next day where this one is about to end: its counts would with it.
async fn away_from_midnight() {
    let left = 86_400 - jiff::Timestamp::now().as_second().rem_euclid(86_400);
    if left < 90 {
        tokio::time::sleep(Duration::from_secs(left.unsigned_abs() + 1)).await;
    }
}

/// Whoever asks is told apart by this.
struct Apart<'a> {
    per: Value,
    /// Uses up what there is.
    first: &'a Agent,
    /// Counted with the first.
    same: &'a Agent,
    /// Counted apart.
    other: &'a Agent,
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_after_the_last_is_refused_by_every_key_and_pair() {
    let (second, names) = (Server::start(&[tool("read")]).await, ["read", "write"]);
    let any = json!([{"per": "principal", "calls": 1_000, "window": "1h"}]);
    let town = Town::with(&names, |setup| setup.set("limits.rate", any).server("web", &second)).await;
    let by = |changes: Value| town.issuer.sign(&but(claims("ann"), changes));
    let at = async |route: &str, token: &str| Agent::connect(&town.gateway, route, token).await;
    let ann = at("/mcp/files", &by(json!({}))).await;
    let again = at("/mcp/files", &by(json!({}))).await;
    let elsewhere = at("/mcp/files", &by(json!({"azp": "client-8"}))).await;
    let bob = at("/mcp/files", &by(json!({"sub": "bob"}))).await;
    let bob_elsewhere = at("/mcp/files", &by(json!({"sub": "bob", "azp": "client-8"}))).await;
    let on_web = at("/mcp/web", &by(json!({}))).await;
    let cases = [
        Apart {
            per: json!("principal"),
            first: &ann,
            same: &elsewhere,
            other: &bob,
        },
        Apart {
            per: json!("client"),
            first: &ann,
            same: &bob,
            other: &elsewhere,
        },
        Apart {
            per: json!("session"),
            first: &ann,
            same: &ann,
            other: &again,
        },
        Apart {
            per: json!("server"),
            first: &ann,
            same: &bob_elsewhere,
            other: &on_web,
        },
        Apart {
            per: json!("tool"),
            first: &ann,
            same: &bob_elsewhere,
            other: &on_web,
        },
        Apart {
            per: json!(["principal", "client"]),
            first: &ann,
            same: &again,
            other: &elsewhere,
        },
        Apart {
            per: json!(["tool", "principal"]),
            first: &ann,
            same: &elsewhere,
            other: &bob,
        },
        Apart {
            per: json!(["session", "server"]),
            first: &ann,
            same: &ann,
            other: &again,
        },
    ];
    ready(&ann).await;
    ready(&on_web).await;
    let seen = || town.files.calls().len() + second.calls().len();
    // Each rule is a new one to the running gateway: another window.
    for (
        number,
        Apart {
            per,
            first,
            same,
            other,
        },
    ) in (1..).zip(cases)
    {
        let rule = json!([{"per": per, "calls": 3, "window": format!("{number}h")}]);
        reload(&town.gateway, "limits.rate", rule).await;
        let before = seen();
        for _ in 0..3 {
            passes(first, "read").await;
        }
        for agent in [first, same] {
            let refused = agent.call("read", json!({})).await;
            assert_eq!(
                (refused.error_code(), refused.reason_codes()),
                (-32003, vec!["DENY_RATE_LIMIT".into()]),
                "{per}"
            );
            let wait = refused.decision()["retry_after_ms"].as_u64().unwrap();
            assert!(wait > 0 && wait <= number * 3_600_000, "{per}: {wait}");
        }
        assert_eq!(seen(), before + 3, "{per}: what the servers saw");
        passes(other, "read").await;
    }
}

/// Puts a setting in force.
async fn reload(gateway: &Gateway, key: &str, value: Value) {
    let told = ask_to_reload(gateway, key, value).await;
    assert_eq!(told.status, 200, "{}", String::from_utf8_lossy(&told.body));
}

/// Writes a setting and asks for it to be in force.
async fn ask_to_reload(gateway: &Gateway, key: &str, value: Value) -> Reply {
    let file = gateway.home.config();
    let mut table: toml::Table = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    let (section, name) = key.split_once('.').unwrap();
    let section = table.entry(section).or_insert_with(|| toml::Table::new().into());
    section
        .as_table_mut()
        .unwrap()
        .insert(name.to_owned(), toml::Value::try_from(value).unwrap());
    gateway.home.write_config(&toml::to_string(&table).unwrap());
    let ask = Ask::post("/api/v1/reload", "{}");
    gateway.ask_admin(ask).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_or_missing_session_is_no_way_round_a_limit() {
    let rate = json!([{"per": "session", "calls": 2, "window": "1h"}]);
    let town = Town::with(&["read"], |setup| setup.set("limits.rate", rate)).await;
    let (ann, bob) = (town.agent("ann").await, town.agent("bob").await);
    for _ in 0..2 {
        passes(&ann, "read").await;
    }
    over_limit(&town, &ann.call("read", json!({})).await, "DENY_RATE_LIMIT");
    let mut forged = ann.clone();
    for session in [Some("0".repeat(64)), bob.session.clone(), None] {
        forged.session = session;
        let answer = forged.call("read", json!({})).await;
        assert!(matches!(answer.status, 400 | 404), "{}", answer.text());
    }
    // Without a session one counts under one's principal, whatever one says of a session.
    let modern = Modern::new(&town.gateway, "/mcp/files", &town.issuer.token("ann"));
    for _ in 0..2 {
        assert_eq!(modern.call("read", json!({})).await.result()["isError"], false);
    }
    let body = modern.body("tools/call", json!({"name": "read", "arguments": {}}));
    let ask = modern
        .ask(&body)
        .header("Mcp-Session-Id", bob.session.as_deref().unwrap());
    assert_eq!(modern.submit(ask).await.reason_codes(), ["DENY_RATE_LIMIT"]);
    assert_eq!(town.files.calls().len(), 4);
    passes(&bob, "read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_limits_of_their_own() {
    let rate = json!([
        {"per": "principal", "calls": 2, "window": "1h"},
        {"per": "principal", "calls": 4, "window": "1h", "methods": "lists"},
        {"per": "server", "calls": 5, "window": "1h", "methods": "all"},
    ]);
    let town = Town::with(&["read"], |setup| setup.set("limits.rate", rate)).await;
    // Opening the session is one of the four.
    let ann = town.agent("ann").await;
    for _ in 0..3 {
        ann.request("tools/list", json!({})).await.result();
    }
    let refused = ann.request("tools/list", json!({})).await;
    assert_eq!(
        (refused.error_code(), refused.reason_codes()),
        (-32003, vec!["DENY_RATE_LIMIT".to_owned()])
    );
    assert!(
        refused.decision()["retry_after_ms"]
            .as_u64()
            .is_some_and(|wait| wait <= 3_600_000)
    );
    passes(&ann, "read").await;
    // The server has used up its five, by lists and calls alike; what names no server of ours is no way round.
    over_limit(&town, &ann.call("read", json!({})).await, "DENY_RATE_LIMIT");
    let bob = town.issuer.token("bob");
    let mut statuses = Vec::new();
    for route in ["/mcp/files", "/mcp/nowhere", "/mcp/elsewhere", "/mcp"] {
        let modern = Modern::new(&town.gateway, route, &bob);
        statuses.push(code(&modern.request("tools/list", json!({})).await));
    }
    assert_eq!(statuses[0].as_deref(), Some("DENY_RATE_LIMIT"), "{statuses:?}");
    assert_eq!(town.files.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_has_limits_of_its_own() {
    let limits = json!({
        "rate": [{"calls": 3, "window": "1h"}, {"per": "principal", "calls": 2, "window": "1h"}],
        "concurrency": 1, "timeout": "2s",
    });
    let town = Town::with(&["read", "write"], |setup| {
        setup.set("servers.files.tools.read.limits", limits)
    })
    .await;
    let (ann, bob) = (town.agent("ann").await, town.agent("bob").await);
    ready(&ann).await;
    town.files.on("read", Act::Hang);
    let began = std::time::Instant::now();
    let hanging = tokio::spawn({
        let ann = ann.clone();
        async move { ann.call("read", json!({})).await }
    });
    eventually("the call is under way", 10, async || town.files.calls().len() == 1).await;
    over_limit(&town, &bob.call("read", json!({})).await, "DENY_CONCURRENCY");
    let late = hanging.await.unwrap();
    assert_eq!(late.reason_codes(), ["ERROR_TIMEOUT"]);
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "not the minute that others have"
    );
    let duration = town.gateway.receipt_named_by(&late)["outcome"]["duration_us"]
        .as_u64()
        .unwrap();
    assert!(duration >= 2_000_000, "{duration}");
    town.files.on("read", Act::Wait(Duration::ZERO));
    passes(&ann, "read").await;
    over_limit(&town, &ann.call("read", json!({})).await, "DENY_RATE_LIMIT");
    passes(&bob, "read").await;
    over_limit(&town, &bob.call("read", json!({})).await, "DENY_RATE_LIMIT");
    for _ in 0..5 {
        passes(&bob, "write").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_counted_goes_on_through_reloads_where_the_rule_is_the_same() {
    let town = Town::with(&["read"], |setup| {
        setup.set("limits.quota", quota(json!("principal"), 4))
    })
    .await;
    let ann = town.agent("ann").await;
    ready(&ann).await;
    for _ in 0..3 {
        passes(&ann, "read").await;
    }
    reload(&town.gateway, "limits.quota", quota(json!("principal"), 3)).await;
    over_limit(&town, &ann.call("read", json!({})).await, "DENY_QUOTA");
    let twice =
        json!([{"per": "principal", "calls": 9, "window": "1d"}, {"per": ["principal"], "calls": 5, "window": "24h"}]);
    assert_eq!(
        ask_to_reload(&town.gateway, "limits.quota", twice).await.status,
        422,
        "the same rule twice"
    );
    over_limit(&town, &ann.call("read", json!({})).await, "DENY_QUOTA");
    reload(&town.gateway, "limits.quota", quota(json!("principal"), 5)).await;
    for _ in 0..2 {
        passes(&ann, "read").await;
    }
    over_limit(&town, &ann.call("read", json!({})).await, "DENY_QUOTA");
    assert_eq!(town.files.calls().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_used_how_much_is_shown_with_and_without_a_gateway() {
    away_from_midnight().await;
    let secret = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");
    let rules = json!([
        {"per": "principal", "calls": 10, "window": "day"},
        {"per": ["principal", "tool"], "calls": 1_000, "window": "month"},
    ]);
    let town = Town::with(&["read"], |setup| setup.set("limits.quota", rules)).await;
    for (who, calls) in [("ann", 3), ("bob", 1), (secret, 1)] {
        let agent = town.agent(who).await;
        for _ in 0..calls {
            passes(&agent, "read").await;
        }
    }
    let quotas = |home: &Home| -> Vec<Value> {
        let rows = usage(home);
        rows.into_iter().filter(|row| row["kind"] == "quota").collect()
    };
    let told = quotas(&town.gateway.home);
    let first = &told[0];
    assert_eq!(
        [
            &first["per"],
            &first["key"],
            &first["used"],
            &first["calls"],
            &first["window"],
            &first["methods"]
        ],
        [
            &json!("principal"),
            &json!("ann"),
            &json!(3),
            &json!(10),
            &json!("day"),
            &json!("calls")
        ]
    );
    assert!(
        first["resets"].as_str().unwrap().ends_with("T00:00:00.000000Z"),
        "{first}"
    );
    let pair = told
        .iter()
        .find(|row| row["key"] == json!(["ann", "files/read"]))
        .unwrap();
    assert_eq!(
        (&pair["per"], &pair["used"]),
        (&json!(["principal", "tool"]), &json!(3))
    );
    assert_eq!(told.len(), 6);
    let home = &town.gateway.home;
    let table = home.cli(&["limits", "show"]).success();
    assert!(table.contains("3 of 10") && table.contains("ann"), "{table}");
    assert_eq!(
        home.cli(&["limits", "show", "--json", "--limit", "1"])
            .success()
            .lines()
            .count(),
        1
    );
    let everything = format!("{table}{}", home.cli(&["limits", "show", "--json"]).success());
    assert!(!everything.contains(secret), "{everything}");
    let home = town.gateway.stop().await;
    let mut after = quotas(&home);
    let mut before = told;
    for rows in [&mut after, &mut before] {
        rows.sort_by_key(ToString::to_string);
    }
    assert_eq!(after, before, "an orderly end keeps exactly what was counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_later_release_starts_nothing_and_loses_nothing() {
    let town = Town::with(&["read"], |setup| {
        setup.set("limits.quota", quota(json!("principal"), 3))
    })
    .await;
    let ann = town.agent("ann").await;
    ready(&ann).await;
    passes(&ann, "read").await;
    let home = town.gateway.stop().await;
    // Whoever closes the store last puts all of it into one file.
    assert_eq!(used(&home, "ann"), 1);
    let file = home.state().join("state.db");
    assert!(!home.state().join("state.db-wal").exists());
    let ours = std::fs::read(&file).unwrap();
    // Where SQLite keeps `user_version`.
    let mut theirs = ours.clone();
    theirs[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(&file, &theirs).unwrap();
    for words in [&["serve"][..], &["limits", "show"]] {
        let mut start = command(portreeve());
        start
            .current_dir(home.path(""))
            .args(words)
            .arg("--config")
            .arg(home.config());
        let refused = Finished::of(&mut start);
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("the store is at version 99"),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains("use the newer release"), "{}", refused.stderr);
    }
    assert!(std::fs::read(&file).unwrap() == theirs, "not a byte was written");
    std::fs::write(&file, &ours).unwrap();
    assert_eq!(used(&home, "ann"), 1);
    let gateway = home.serve().await;
    let agent = Agent::connect(&gateway, "/mcp/files", &town.issuer.token("ann")).await;
    ready(&agent).await;
    for _ in 0..2 {
        passes(&agent, "read").await;
    }
    assert_eq!(
        code(&agent.call("read", json!({})).await).as_deref(),
        Some("DENY_QUOTA")
    );
}

// A process that is stopped cannot write: what it promised is on disk before it called.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_saw_is_on_disk_at_every_moment() {
    let town = Town::with(&["read"], |setup| {
        setup.set("limits.quota", quota(json!("principal"), 500))
    })
    .await;
    let agent = town.agent("ann").await;
    let calling = tokio::spawn(async move {
        for _ in 0..200 {
            if agent
                .door()
                .try_ask(&agent.ask(crate::support::agent::call_body("read", "{}")))
                .await
                .is_err()
            {
                break;
            }
        }
    });
    eventually("some calls were made", 20, async || town.files.calls().len() >= 37).await;
    let home = town.gateway.kill().await;
    let _ = calling.await;
    let seen = town.files.calls().len() as u64;
    let counted = used(&home, "ann");
    assert!(
        counted >= seen && counted <= seen + 5 + 1,
        "{counted} counted, {seen} seen"
    );
}
