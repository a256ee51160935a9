//! Incidents: what they take away, from whom, at once and for how long; on record, across restarts, and with everybody else down.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::environment::repository;
use crate::support::records::{fit_the_schema, list};
use crate::support::walk::{Block, Walk, blocks};
use crate::support::wire::Reply;
use crate::support::{Act, Agent, Answer, Ask, Gateway, Server, Setup, Town, eventually, tool};

const TOOLS: [(&str, &str); 4] = [
    ("read", "low"),
    ("write", "medium"),
    ("push", "high"),
    ("wipe", "critical"),
];

/// A server with a tool of every risk, on a gateway that permits everything.
async fn town(settings: &[(&str, Value)]) -> Town {
    Town::with(&TOOLS.map(|(name, _)| name), |setup| {
        let risks = TOOLS
            .iter()
            .fold(setup, |setup, (name, risk)| setup.risk(&format!("files/{name}"), risk));
        settings
            .iter()
            .fold(risks, |setup, (path, value)| setup.set(path, value.clone()))
    })
    .await
}

fn start(gateway: &Gateway, options: &[&str]) -> String {
    let mut arguments = vec!["incident", "start", "--reason", "odd deletions", "--json"];
    arguments.extend(options);
    let started: Value = serde_json::from_str(&gateway.home.cli(&arguments).success()).unwrap();
    started["id"].as_str().unwrap().to_owned()
}

fn end(gateway: &Gateway, id: &str) {
    gateway
        .home
        .cli(&["incident", "end", id, "--reason", "all is well"])
        .success();
}

fn status(gateway: &Gateway) -> Vec<Value> {
    let lines = gateway.home.cli(&["incident", "status", "--json"]).success();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What becomes of a call of each tool, in order of risk.
async fn outcomes(agent: &Agent) -> Vec<&'static str> {
    let mut outcomes = Vec::new();
    for (name, _) in TOOLS {
        outcomes.push(outcome(&agent.call(name, json!({})).await));
    }
    outcomes
}

fn outcome(answer: &Answer) -> &'static str {
    let last = answer.last();
    if last["error"]["code"] == -32003 {
        assert_eq!(answer.reason_codes(), ["DENY_KILL_SWITCH"], "{last}");
        return "denied";
    }
    match (last["result"]["isError"] == true, last.get("error")) {
        (_, Some(_)) => panic!("{last}"),
        (false, None) => "made",
        (true, None) => {
            assert_eq!(answer.decision()["decision"], "require_approval", "{last}");
            "asked"
        }
    }
}

// R209
#[tokio::test(flavor = "multi_thread")]
async fn each_stage_takes_away_what_it_says_and_gives_it_back() {
    let town = town(&[]).await;
    let agent = town.agent("ann").await;
    assert_eq!(outcomes(&agent).await, ["made", "made", "made", "made"]);
    for (stage, expected) in [
        ("heightened", ["made", "made", "asked", "asked"]),
        ("contain", ["made", "denied", "denied", "denied"]),
        ("lockdown", ["denied", "denied", "denied", "denied"]),
    ] {
        let calls = town.files.calls().len();
        let id = start(&town.gateway, &["--stage", stage]);
        assert_eq!(outcomes(&agent).await, expected, "{stage}");
        let made = expected.iter().filter(|outcome| **outcome == "made").count();
        assert_eq!(town.files.calls().len(), calls + made, "{stage}");
        let list = agent.request("tools/list", json!({})).await;
        assert_eq!(
            list.last().get("error").is_some(),
            stage == "lockdown",
            "{}",
            list.text()
        );
        end(&town.gateway, &id);
        assert_eq!(
            outcomes(&agent).await,
            ["made", "made", "made", "made"],
            "after {stage}"
        );
    }
    assert!(status(&town.gateway).is_empty());
}

// R209
#[tokio::test(flavor = "multi_thread")]
async fn a_scope_takes_away_from_whom_and_of_what_it_names_alone() {
    let (files, mail) = (
        Server::start(&[tool("read"), tool("wipe")]).await,
        Server::start(&[tool("wipe")]).await,
    );
    let issuer = crate::support::Issuer::start().await;
    let setup = Setup::with(&issuer, &files).server("mail", &mail);
    let setup = ["files/wipe", "mail/wipe"]
        .iter()
        .fold(setup, |setup, tool| setup.risk(tool, "critical"));
    let gateway = setup.risk("files/read", "low").start().await;
    let ann = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    let bob = Agent::connect(&gateway, "/mcp", &issuer.token("bob")).await;
    let client = issuer.sign(&crate::support::issuer::but(
        crate::support::issuer::claims("ann"),
        json!({"azp": "cli"}),
    ));
    let cli = Agent::connect(&gateway, "/mcp", &client).await;
    for (scope, denied) in [
        ("all", [true, true, true, true]),
        ("server:files", [true, false, true, true]),
        ("server:mail", [false, true, false, false]),
        ("tool:files/wipe", [true, false, true, true]),
        ("tool:files/read", [false, false, false, false]),
        ("principal:ann", [true, true, false, true]),
        ("principal:nobody", [false, false, false, false]),
        ("client:cli", [false, false, false, true]),
        ("risk:critical", [true, true, true, true]),
    ] {
        let id = start(&gateway, &["--scope", scope]);
        let mut found = Vec::new();
        for (agent, name) in [
            (&ann, "files__wipe"),
            (&ann, "mail__wipe"),
            (&bob, "files__wipe"),
            (&cli, "files__wipe"),
        ] {
            found.push(outcome(&agent.call(name, json!({})).await) == "denied");
        }
        assert_eq!(found, denied, "{scope}");
        end(&gateway, &id);
    }
    for wrong in ["moon:full", "server:", "risk:huge", "tool:files"] {
        let refused = gateway
            .home
            .cli(&["incident", "start", "--reason", "x", "--scope", wrong]);
        assert_eq!(refused.code, Some(1), "{wrong}");
        assert!(
            refused.stderr.contains("risk:low|medium|high|critical"),
            "{}",
            refused.stderr
        );
    }
    assert!(status(&gateway).is_empty());
}

// R158
#[tokio::test(flavor = "multi_thread")]
async fn every_receipt_between_start_and_end_says_so_and_none_outside_also_over_a_restart() {
    let town = town(&[]).await;
    let agent = town.agent("ann").await;
    outcomes(&agent).await;
    let id = start(&town.gateway, &["--stage", "heightened", "--scope", "tool:files/wipe"]);
    outcomes(&agent).await;
    let gateway = town.gateway.kill().await.serve().await;
    let town = Town { gateway, ..town };
    let agent = town.agent("ann").await;
    assert_eq!(
        outcomes(&agent).await,
        ["made", "made", "made", "asked"],
        "it is still on"
    );
    assert_eq!(status(&town.gateway)[0]["id"], id);
    end(&town.gateway, &id);
    outcomes(&agent).await;

    let records = crate::support::records::all(&town.gateway.home);
    let mut on = false;
    let (mut inside, mut outside) = (0, 0);
    let mut records = records;
    records.sort_by_key(|record| record["seq"].as_u64());
    for record in &records {
        match record["type"].as_str().unwrap() {
            "incident" => on = record["action"] != "ended",
            "request" if on => {
                inside += 1;
                assert_eq!(
                    record["incident"],
                    json!({"active": true, "id": id, "stage": "heightened"}),
                    "{record}"
                );
            }
            "request" => {
                outside += 1;
                assert_eq!(
                    record["incident"],
                    json!({"active": false, "id": null, "stage": "normal"}),
                    "{record}"
                );
            }
            _ => {}
        }
    }
    assert!(inside >= 8 && outside >= 8, "{inside} {outside}");
    let mut steps = list(&town.gateway.home, &["--type", "incident"]);
    steps.reverse();
    let told: Vec<(&str, &str)> = steps
        .iter()
        .map(|step| (step["action"].as_str().unwrap(), step["actor"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("started", "first-start"),
            ("continued", "system"),
            ("ended", "first-start")
        ]
    );
    fit_the_schema(&steps);
}

// R157
#[tokio::test(flavor = "multi_thread")]
async fn it_works_with_servers_and_identity_provider_down_and_without_the_api() {
    let town = town(&[]).await;
    let agent = town.agent("ann").await;
    outcomes(&agent).await;
    town.issuer.break_down();
    town.files.go_down().await;
    let id = start(&town.gateway, &[]);
    assert_eq!(outcome(&agent.call("wipe", json!({})).await), "denied");
    assert_eq!(status(&town.gateway)[0]["stage"], "contain");
    end(&town.gateway, &id);

    // A signal, and again: one incident.
    for _ in 0..2 {
        town.gateway.signal(Signal::USR2);
        eventually("a signal starts one", 60, async || status(&town.gateway).len() == 1).await;
    }
    assert_eq!(outcome(&agent.call("wipe", json!({})).await), "denied");
    let by_signal = status(&town.gateway);
    assert_eq!(
        (&by_signal[0]["scope"], &by_signal[0]["reason"]),
        (&json!("all"), &json!("started by SIGUSR2"))
    );
    end(&town.gateway, by_signal[0]["id"].as_str().unwrap());

    // A file, whose text is the reason, and which is removed once it was taken.
    let file = town.gateway.home.state().join("INCIDENT");
    std::fs::write(&file, "the pager\u{1b}[31m says so\n").unwrap();
    eventually("the file is taken", 60, async || !file.exists()).await;
    let by_file = status(&town.gateway);
    assert_eq!(by_file[0]["reason"], "the pager[31m says so");
    end(&town.gateway, by_file[0]["id"].as_str().unwrap());

    // While no gateway runs: the command, and the file, are in force from the first request on.
    let home = town.gateway.stop().await;
    let offline: Value = serde_json::from_str(
        &home
            .cli(&[
                "incident",
                "start",
                "--reason",
                "asleep",
                "--scope",
                "server:files",
                "--json",
            ])
            .success(),
    )
    .unwrap();
    std::fs::write(home.state().join("INCIDENT"), "").unwrap();
    let gateway = home.serve().await;
    eventually("both are on", 60, async || status(&gateway).len() == 2).await;
    assert_eq!(status(&gateway)[0]["id"], offline["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_way_is_cancelled_and_its_answer_is_not_told() {
    let town = town(&[]).await;
    town.files.on("wipe", Act::Hang);
    let ann = town.agent("ann").await;
    let waiting = tokio::spawn(async move { ann.call("wipe", json!({})).await });
    eventually("the call is at its server", 60, async || town.files.calls().len() == 1).await;
    start(&town.gateway, &[]);
    let answer = waiting.await.unwrap();
    assert_eq!(
        (answer.error_code(), answer.reason_codes()),
        (-32003, vec!["DENY_KILL_SWITCH".to_owned()])
    );
    let receipt = town.gateway.receipt_of(&answer);
    let codes = receipt["decision"]["reason_codes"].as_array().unwrap();
    assert_eq!(codes.last().unwrap(), "DENY_KILL_SWITCH");
    assert_eq!(receipt["outcome"]["status"], "error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lockdown_keeps_back_what_is_kept_of_a_long_answer_too() {
    let town = town(&[("response.limit_bytes", json!(1000))]).await;
    let answer = json!({"content": [{"type": "text", "text": "x".repeat(5000)}]});
    town.files.on("read", Act::Answer(answer.to_string()));
    let agent = town.agent("ann").await;
    let cut = agent.call("read", json!({})).await.result();
    let page = json!({"key": cut["_meta"]["portreeve/truncated"]["key"]});
    assert_eq!(
        outcome(&agent.call("portreeve__read_cache", page.clone()).await),
        "made"
    );
    for (stage, expected) in [("contain", "made"), ("lockdown", "denied")] {
        let id = start(&town.gateway, &["--stage", stage]);
        assert_eq!(
            outcome(&agent.call("portreeve__read_cache", page.clone()).await),
            expected,
            "{stage}"
        );
        end(&town.gateway, &id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_load_nothing_that_is_asked_after_the_start_is_made() {
    let town = town(&[]).await;
    let agents: Vec<Agent> = {
        let mut agents = Vec::new();
        for number in 0..16 {
            agents.push(town.agent(&format!("agent-{number}")).await);
        }
        agents
    };
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let started = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let clients: Vec<_> = agents
        .into_iter()
        .map(|agent| {
            let (stopping, started) = (stopping.clone(), started.clone());
            tokio::spawn(async move {
                let (mut made, mut late) = (0, 0);
                while !*stopping.borrow() {
                    let after = started.load(std::sync::atomic::Ordering::SeqCst);
                    match outcome(&agent.call("wipe", json!({})).await) {
                        "made" if after => late += 1,
                        "made" => made += 1,
                        _ => {}
                    }
                }
                (made, late)
            })
        })
        .collect();
    eventually("calls are made", 60, async || town.files.calls().len() > 50).await;
    start(&town.gateway, &[]);
    started.store(true, std::sync::atomic::Ordering::SeqCst);
    let reached = town.files.calls().len();
    let seq = town.gateway.last_seq();
    eventually("calls are denied", 60, async || {
        town.gateway.receipts_after(seq).len() > 100
    })
    .await;
    stop.send_replace(true);
    let mut counts = (0, 0);
    for client in clients {
        let (made, late) = client.await.unwrap();
        counts = (counts.0 + made, counts.1 + late);
    }
    assert!(counts.0 > 0);
    assert_eq!(counts.1, 0, "made though it was asked after the start");
    assert_eq!(
        town.files.calls().len(),
        reached,
        "nothing reached the server after the start"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_by_itself_by_one_person_or_by_two_as_it_was_set() {
    let town = town(&[("incident.two_person_end", json!(true))]).await;
    let agent = town.agent("ann").await;
    let short = start(&town.gateway, &["--ttl", "2s"]);
    eventually("its time is over", 60, async || status(&town.gateway).is_empty()).await;
    assert_eq!(outcome(&agent.call("wipe", json!({})).await), "made");
    let id = start(&town.gateway, &["--stage", "lockdown"]);
    let one = town
        .gateway
        .home
        .cli(&["incident", "end", &id, "--reason", "fine"])
        .success();
    assert!(one.contains("goes on until a second person"), "{one}");
    assert_eq!(outcome(&agent.call("read", json!({})).await), "denied");
    // Half of the end is kept.
    let town = town.restarted().await;
    assert_eq!(status(&town.gateway)[0]["end_wanted_by"], "first-start");
    let again = town.gateway.home.cli(&["incident", "end", &id, "--reason", "fine"]);
    assert!(
        again.code == Some(1) && again.stderr.contains("second person"),
        "{}",
        again.stderr
    );
    let made = town
        .gateway
        .home
        .cli(&["admin", "create", "--name", "zoe", "--role", "operator", "--json"]);
    let made: Value = serde_json::from_str(&made.success()).unwrap();
    let ended = end_as(&town.gateway, made["token"].as_str().unwrap(), &id).await;
    assert_eq!(
        (ended.status, &ended.json()["ended"]),
        (200, &json!(true)),
        "{}",
        ended.text()
    );
    let agent = town.agent("ann").await;
    assert_eq!(outcome(&agent.call("wipe", json!({})).await), "made");
    let mut steps = list(&town.gateway.home, &["--type", "incident"]);
    steps.reverse();
    let of = |id: &str| -> Vec<String> {
        let steps = steps.iter().filter(|step| step["id"] == id);
        steps.map(|step| step["action"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of(&short), ["started", "expired"]);
    assert_eq!(of(&id), ["started", "end_wanted", "continued", "ended"]);
}

async fn end_as(gateway: &Gateway, token: &str, id: &str) -> Reply {
    let ask = Ask::post(&format!("/api/v1/incidents/{id}/end"), r#"{"reason":"both of us"}"#);
    gateway
        .admin
        .ask(&ask.bearer(token).instead("content-type", Some("application/json")))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_voids_what_was_approved_before_it() {
    let policy = r#"@id("ask") @require("approval") permit (principal, action == Action::"tools/call", resource);"#;
    let town = Town::with(&["wipe"], |setup| setup.policy(policy).risk("files/wipe", "critical")).await;
    let agent = town.agent("ann").await;
    let asked = |answer: &Answer| answer.decision()["approval"]["id"].as_str().unwrap().to_owned();
    let before = asked(&agent.call("wipe", json!({})).await);
    town.gateway.home.cli(&["approval", "approve", &before]).success();
    // The start is followed at once by the call: no moment is left in which the old word would do.
    let id = start(&town.gateway, &["--stage", "heightened"]);
    let after = asked(&agent.call("wipe", json!({})).await);
    assert_ne!(after, before);
    assert_eq!(town.files.calls().len(), 0);
    let shown: Value = serde_json::from_str(
        &town
            .gateway
            .home
            .cli(&["approval", "show", &before, "--json"])
            .success(),
    )
    .unwrap();
    assert_eq!(shown["state"], "void");
    // What a person says while they know of it, counts.
    town.gateway.home.cli(&["approval", "approve", &after]).success();
    assert_eq!(outcome(&agent.call("wipe", json!({})).await), "made");
    end(&town.gateway, &id);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_low_a_role_starts_and_ends_nothing_and_what_makes_no_sense_is_refused() {
    let town = town(&[]).await;
    let made = town
        .gateway
        .home
        .cli(&["admin", "create", "--name", "vic", "--role", "approver", "--json"]);
    let made: Value = serde_json::from_str(&made.success()).unwrap();
    let token = made["token"].as_str().unwrap();
    let post = async |token: &str, body: Value| {
        let ask = Ask::post("/api/v1/incidents", body.to_string()).bearer(token);
        town.gateway
            .admin
            .ask(&ask.instead("content-type", Some("application/json")))
            .await
            .status
    };
    let id = start(&town.gateway, &["--scope", "principal:nobody"]);
    assert_eq!(post(token, json!({"reason": "x"})).await, 403);
    assert_eq!(end_as(&town.gateway, token, &id).await.status, 403);
    assert_eq!(post(&town.issuer.token("ann"), json!({"reason": "x"})).await, 401);
    let admin = town.gateway.admin_token();
    for body in [
        json!({}),
        json!({"reason": ""}),
        json!({"reason": "a\nb"}),
        json!({"reason": "x", "stage": "normal"}),
        json!({"reason": "x", "stage": "party"}),
        json!({"reason": "x", "scope": "moon:full"}),
        json!({"reason": "x", "ttl": "0s"}),
        json!({"reason": "x", "ttl": "soon"}),
        json!({"reason": "x", "ttl": "99999999999999999999d"}),
        json!({"reason": "x", "force": true}),
    ] {
        assert_eq!(post(&admin, body.clone()).await, 400, "{body}");
    }
    assert_eq!(end_as(&town.gateway, &admin, "inc_unknown").await.status, 404);
    assert_eq!(status(&town.gateway).len(), 1);
}

// R157
#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_does_what_it_says() {
    let page = std::fs::read_to_string(repository().join("docs/guides/incident.md")).unwrap();
    let first = Block {
        language: "sh".to_owned(),
        text: "portreeve serve --ready-file ready.json &\nuntil [ -s ready.json ]; do sleep 0.1; done\n".to_owned(),
    };
    let walk =
        Walk::through([first].into_iter().chain(blocks(&page)).collect()).replacing("/var/lib/portreeve", "state");
    let config = "[listen]\nmcp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntls = { mode = \"off\" }\n\
                  [state]\ndir = \"state\"\n[audit]\norigin = \"gw.test/portreeve\"\n[servers]\n";
    std::fs::write(walk.path("portreeve.toml"), config).unwrap();
    tokio::task::spawn_blocking(move || walk.run()).await.unwrap();
}
