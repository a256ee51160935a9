//! Calls that wait for a person: bound to one caller, one definition and one set of arguments, used once, on record at every step.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use crate::support::environment::{command, repository};
use crate::support::issuer::{but, claims};
use crate::support::records::{canonical_hash, fit_the_schema};
use crate::support::stand::{Step, json_answer};
use crate::support::{Agent, Answer, Ask, Gateway, Reply, Stand, Town, eventually, tool};

/// Another program that holds a database's write lock.
struct Held(std::process::Child);

impl Held {
    fn of(file: &std::path::Path) -> Self {
        const HOLD: &str = "import sqlite3,sys\nstore=sqlite3.connect(sys.argv[1],isolation_level=None)\n\
                            store.execute('BEGIN IMMEDIATE')\nprint('held',flush=True)\nsys.stdin.read()";
        let mut python = command("python3");
        python
            .args(["-c", HOLD])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut told)
            .unwrap();
        assert_eq!(told, "held\n");
        Self(child)
    }

    fn let_go(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// What a starter policy is: everything is permitted, and what is dangerous needs a person.
const ASK: &str = r#"
    @id("permit-tame") permit (principal, action, resource) when { !(resource has risk) || resource.risk == "low" };
    @id("a-human") @require("approval") permit (principal, action == Action::"tools/call", resource)
    when { resource.risk == "high" || resource.risk == "critical" };
    @id("not-so-many") forbid (principal, action == Action::"tools/call", resource)
    when { context.args has amount && context.args.amount == 99 };"#;

/// A server with a tame tool and two dangerous ones, and an approver called zoe.
struct Scene {
    town: Town,
    zoe: String,
}

impl Scene {
    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(settings: &[(&str, Value)]) -> Self {
        let town = Town::with(&["read", "wipe", "burn"], |setup| {
            let setup = setup
                .policy(ASK)
                .risk("files/read", "low")
                .risk("files/wipe", "critical");
            let setup = setup.risk("files/burn", "high");
            settings
                .iter()
                .fold(setup, |setup, (path, value)| setup.set(path, value.clone()))
        })
        .await;
        let zoe = admin(&town.gateway, "zoe", "approver").await;
        Self { town, zoe }
    }

    async fn ann(&self) -> Agent {
        self.town.agent("ann").await
    }

    async fn word(&self, id: &str, word: &str) -> Reply {
        word_of(&self.town.gateway, &self.zoe, id, word).await
    }

    async fn approve(&self, id: &str) {
        let reply = self.word(id, "approve").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(
            (&reply.json()["state"], &reply.json()["decided_by"]),
            (&json!("approved"), &json!("zoe"))
        );
    }

    async fn state(&self, id: &str) -> String {
        let shown = show(&self.town.gateway, &self.zoe, id).await;
        shown["state"].as_str().unwrap().to_owned()
    }

    /// `action actor` of every step of one approval, oldest first.
    fn steps(&self, id: &str) -> Vec<String> {
        let mut records = approval_records(&self.town.gateway);
        records.retain(|record| record["id"] == id);
        let told = |record: &Value| {
            format!(
                "{} {}",
                record["action"].as_str().unwrap(),
                record["actor"].as_str().unwrap()
            )
        };
        records.iter().map(told).collect()
    }

    fn calls(&self) -> usize {
        self.town.files.calls().len()
    }
}

async fn admin(gateway: &Gateway, name: &str, role: &str) -> String {
    let made = gateway
        .home
        .cli(&["admin", "create", "--name", name, "--role", role, "--json"])
        .success();
    let made: Value = serde_json::from_str(&made).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

async fn word_of(gateway: &Gateway, token: &str, id: &str, word: &str) -> Reply {
    let ask = Ask::post(&format!("/api/v1/approvals/{id}/{word}"), "{}").bearer(token);
    gateway
        .admin
        .ask(&ask.instead("content-type", Some("application/json")))
        .await
}

async fn show(gateway: &Gateway, token: &str, id: &str) -> Value {
    let ask = Ask::new("GET", &format!("/api/v1/approvals/{id}")).bearer(token);
    let reply = gateway.admin.ask(&ask).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn approval_records(gateway: &Gateway) -> Vec<Value> {
    let mut records = crate::support::records::list(&gateway.home, &["--type", "approval"]);
    records.reverse();
    records
}

/// The name of the approval that an answer says to wait for.
fn asked(answer: &Answer) -> String {
    let result = answer.result();
    assert_eq!(result["isError"], true, "{result}");
    let decision = answer.decision();
    assert_eq!(decision["decision"], "require_approval", "{decision}");
    decision["approval"]["id"].as_str().unwrap().to_owned()
}

fn codes(answer: &Answer) -> Vec<String> {
    answer.reason_codes()
}

// R159 R184 R185 R186 R221 R222 R229
#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_a_person_and_then_is_made_once() {
    let scene = Scene::new().await;
    let ann = scene.ann().await;
    let arguments = json!({"path": "/srv/a", "amount": 3});
    let answer = ann.call("wipe", arguments.clone()).await;
    let id = asked(&answer);
    assert_eq!(codes(&answer), ["REQUIRE_APPROVAL", "amendment_vii_no_plan"]);
    let told = answer.result()["content"][0]["text"].as_str().unwrap().to_owned();
    let expires = answer.decision()["approval"]["expires"].as_str().unwrap().to_owned();
    for part in [
        id.as_str(),
        &expires,
        "not executed",
        "call again with the same arguments",
    ] {
        assert!(told.contains(part), "{told}");
    }
    let receipt = scene.town.gateway.receipt_named_by(&answer);
    let pending = approval_records(&scene.town.gateway).pop().unwrap();
    assert_eq!(
        receipt["approval"],
        json!({"required": true, "approved_by": null, "approved_at": null, "id": id, "step_up": "none", "plan_hash": pending["plan_hash"]})
    );
    assert_eq!(
        (&receipt["decision"]["policy_id"], &receipt["outcome"]["executed"]),
        (&json!("a-human"), &json!(false))
    );

    // The plan is what the contract says, by somebody else's reckoning.
    let principal = &receipt["principal"];
    let plan = json!({
        "sub": principal["sub"], "issuer": principal["issuer"], "client_id": principal["client_id"], "org_id": principal["org_id"],
        "server": "files", "tool": "wipe", "definition_hash": receipt["mcp"]["definition_hash"],
        "args_hash": receipt["request"]["args_hash"], "risk": "critical", "policy_id": "a-human", "expires": expires,
    });
    assert_eq!(receipt["approval"]["plan_hash"], canonical_hash(&plan));

    // While it waits, the same call gets the same answer.
    let again = ann.call("wipe", arguments.clone()).await;
    assert_eq!(asked(&again), id);
    assert_eq!(codes(&again), ["REQUIRE_APPROVAL", "amendment_vii_no_guardian_verdict"]);
    assert_eq!(scene.calls(), 0, "nothing reached the server");

    scene.approve(&id).await;
    let made = ann.call("wipe", arguments.clone()).await;
    assert_eq!(made.result()["content"][0]["text"], "wipe ran");
    assert_eq!(scene.calls(), 1);
    let receipt = scene.town.gateway.receipt_of(&made);
    let approval = &receipt["approval"];
    assert_eq!(
        (
            &approval["required"],
            &approval["approved_by"],
            &approval["id"],
            &approval["plan_hash"],
            &approval["step_up"]
        ),
        (
            &json!(true),
            &json!("zoe"),
            &json!(id),
            &pending["plan_hash"],
            &json!("none")
        )
    );
    assert_eq!(receipt["decision"]["reason_codes"], json!(["ALLOW_APPROVED"]));

    // Once.
    let replayed = ann.call("wipe", arguments).await;
    assert_ne!(asked(&replayed), id);
    assert_eq!(scene.calls(), 1);
    assert_eq!(scene.steps(&id), ["requested ann", "approved zoe", "used ann"]);
    fit_the_schema(&approval_records(&scene.town.gateway));

    // What needs no person does not say that one was needed.
    let tame = scene.town.gateway.receipt_of(&ann.call("read", json!({})).await);
    assert_eq!(
        (&tame["approval"]["required"], &tame["approval"]["id"]),
        (&json!(false), &Value::Null)
    );
}

// R217 R221
#[tokio::test(flavor = "multi_thread")]
async fn under_the_starter_policies_every_high_and_critical_call_waits() {
    let starter = std::fs::read_to_string(repository().join("examples/policies/starter.cedar")).unwrap();
    let risks = [("low", "r"), ("medium", "m"), ("high", "h"), ("critical", "c")];
    let town = Town::with(&["r", "m", "h", "c"], |setup| {
        let setup = setup.policy(&starter);
        risks
            .iter()
            .fold(setup, |setup, (risk, tool)| setup.risk(&format!("files/{tool}"), risk))
    })
    .await;
    let zoe = admin(&town.gateway, "zoe", "approver").await;
    let ann = town.agent("ann").await;
    assert_eq!(ann.names().await, ["c", "h", "m", "r"], "what waits is listed");
    let tame = json!({"path": "/srv/a"});
    // What stands in the arguments makes a call as dangerous as a tool would be.
    let grave = json!({"text": "rm -rf / --no-preserve-root"});
    for (tool, arguments, waits) in [
        ("r", &tame, false),
        ("m", &tame, false),
        ("h", &tame, true),
        ("c", &tame, true),
        ("r", &grave, true),
        ("m", &grave, true),
    ] {
        let before = town.files.calls().len();
        let answer = ann.call(tool, arguments.clone()).await;
        if waits {
            let id = asked(&answer);
            assert_eq!(codes(&answer), ["REQUIRE_APPROVAL", "amendment_vii_no_plan"], "{tool}");
            assert_eq!(town.files.calls().len(), before, "{tool}: nothing reached the server");
            let denied = word_of(&town.gateway, &zoe, &id, "deny").await;
            assert_eq!(denied.status, 200, "{}", denied.text());
            assert_eq!(
                codes(&ann.call(tool, arguments.clone()).await),
                ["DENY_APPROVAL_REFUSED"],
                "{tool}"
            );
            let mut other = arguments.clone();
            other["amount"] = json!(1);
            let id = asked(&ann.call(tool, other.clone()).await);
            assert_eq!(word_of(&town.gateway, &zoe, &id, "approve").await.status, 200);
            assert_eq!(ann.call(tool, other).await.result()["isError"], false, "{tool}");
        } else {
            assert_eq!(answer.result()["isError"], false, "{tool}");
        }
        assert_eq!(town.files.calls().len(), before + 1, "{tool}");
    }
}

// R222 R223
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_of_one_call_opens_no_other() {
    let scene = Scene::new().await;
    let ann = scene.ann().await;
    let id = asked(&ann.call("wipe", json!({"path": "/srv/a"})).await);
    scene.approve(&id).await;
    // One byte of the arguments, another tool, another principal, another client, something beside the arguments.
    let byte = ann.call("wipe", json!({"path": "/srv/b"})).await;
    assert_ne!(asked(&byte), id);
    assert_eq!(codes(&byte), ["REQUIRE_APPROVAL", "amendment_vii_scope_mismatch"]);
    let tool = ann.call("burn", json!({"path": "/srv/a"})).await;
    assert_eq!(codes(&tool), ["REQUIRE_APPROVAL", "amendment_vii_no_plan"]);
    assert_ne!(asked(&tool), id);
    let bob = scene.town.agent("bob").await;
    assert_ne!(asked(&bob.call("wipe", json!({"path": "/srv/a"})).await), id);
    let token = scene
        .town
        .issuer
        .sign(&but(claims("ann"), json!({"azp": "another-client"})));
    let client = Agent::connect(&scene.town.gateway, "/mcp/files", &token).await;
    assert_ne!(asked(&client.call("wipe", json!({"path": "/srv/a"})).await), id);
    let meta = json!({"name": "wipe", "arguments": {"path": "/srv/a"}, "_meta": {"vendor/mode": "everything"}});
    assert_ne!(asked(&ann.request("tools/call", meta).await), id);
    assert_eq!(scene.calls(), 0);
    // The same meaning in another spelling is the same call.
    let spelled = ann.call_raw("wipe", "{ \"path\" : \"\\u002fsrv/a\" }").await;
    assert_eq!(spelled.result()["content"][0]["text"], "wipe ran");
    assert_eq!(scene.calls(), 1);
}

// R221
#[tokio::test(flavor = "multi_thread")]
async fn racing_calls_use_one_approval_once() {
    let scene = Scene::new().await;
    let ann = scene.ann().await;
    let arguments = json!({"path": "/srv/a"});
    let id = asked(&ann.call("wipe", arguments.clone()).await);
    scene.approve(&id).await;
    let racing: Vec<_> = (0..64)
        .map(|_| {
            let (ann, arguments) = (ann.clone(), arguments.clone());
            tokio::spawn(async move { ann.call("wipe", arguments).await })
        })
        .collect();
    let mut ran = 0;
    let mut waits = Vec::new();
    for call in racing {
        let answer = call.await.unwrap();
        match answer.result()["isError"] == true {
            true => waits.push(asked(&answer)),
            false => ran += 1,
        }
    }
    assert_eq!((ran, scene.calls()), (1, 1));
    waits.sort();
    waits.dedup();
    assert_eq!(waits.len(), 1, "the others share one new question: {waits:?}");
    assert_ne!(waits[0], id);
    assert_eq!(scene.steps(&id), ["requested ann", "approved zoe", "used ann"]);
}

// R185
#[tokio::test(flavor = "multi_thread")]
async fn nobody_approves_their_own_call_and_a_viewer_nobodys() {
    let scene = Scene::new().await;
    let gateway = &scene.town.gateway;
    let ann = scene.ann().await;
    let id = asked(&ann.call("wipe", json!({"text": "hidden \u{202e}txt"})).await);
    for name in ["ann", "Ann"] {
        let own = admin(gateway, name, "operator").await;
        let refused = word_of(gateway, &own, &id, "approve").await;
        assert_eq!(refused.status, 409, "{}", refused.text());
        assert!(refused.text().contains("another person has to"), "{}", refused.text());
    }
    let viewer = admin(gateway, "vic", "viewer").await;
    for word in ["approve", "deny"] {
        assert_eq!(word_of(gateway, &viewer, &id, word).await.status, 403);
    }
    // Neither are arguments shown to whoever may not decide; whoever may sees what hides.
    assert_eq!(show(gateway, &viewer, &id).await["arguments"], Value::Null);
    assert_eq!(
        show(gateway, &scene.zoe, &id).await["arguments"],
        json!({"text": "hidden <U+202E>txt"})
    );
    assert_eq!(scene.state(&id).await, "pending");
    asked(&ann.call("wipe", json!({"text": "hidden \u{202e}txt"})).await);
    assert_eq!(scene.calls(), 0);
    // No agent's credential decides.
    let agent = scene.town.issuer.token("zoe");
    assert_eq!(word_of(gateway, &agent, &id, "approve").await.status, 401);
}

// R208
#[tokio::test(flavor = "multi_thread")]
async fn a_denial_holds_until_its_end_and_names_who_and_when() {
    let scene = Scene::new().await;
    let ann = scene.ann().await;
    let (denied, approved) = (json!({"path": "/no"}), json!({"path": "/yes"}));
    let no = asked(&ann.call("wipe", denied.clone()).await);
    let yes = asked(&ann.call("wipe", approved).await);
    assert_eq!(scene.word(&no, "deny").await.status, 200);
    scene.approve(&yes).await;
    let answer = ann.call("wipe", denied).await;
    assert_eq!(codes(&answer), ["DENY_APPROVAL_REFUSED"]);
    assert_eq!(
        (answer.decision()["approval"]["id"].as_str(), scene.calls()),
        (Some(no.as_str()), 0)
    );
    let receipt = scene.town.gateway.receipt_named_by(&answer);
    let approval = &receipt["approval"];
    assert_eq!(
        (&approval["required"], &approval["approved_by"]),
        (&json!(true), &Value::Null)
    );
    // A word is said once.
    for word in ["approve", "deny"] {
        assert_eq!(scene.word(&no, word).await.status, 409);
    }
    assert_eq!(scene.word("apr_unknown", "approve").await.status, 404);
    for (id, action, verdict) in [(&no, "denied", "DENY"), (&yes, "approved", "ALLOW")] {
        let records = approval_records(&scene.town.gateway);
        let word = records
            .iter()
            .find(|record| record["id"] == **id && record["action"] == action)
            .unwrap();
        assert_eq!((&word["actor"], &word["verdict"]), (&json!("zoe"), &json!(verdict)));
        assert_eq!(word["ts"].as_str().unwrap().len(), 27);
    }

    // Somebody else's name in the log does not go unnoticed.
    let home = scene.town.gateway.stop().await;
    assert_eq!(home.cli(&["receipt", "verify"]).code, Some(0));
    let segment = home.state_files().into_iter().find(|file| {
        file.extension().is_some_and(|end| end == "jsonl")
            && std::fs::read_to_string(file).is_ok_and(|text| text.contains("zoe"))
    });
    let segment = segment.unwrap();
    let text = std::fs::read_to_string(&segment).unwrap();
    let forged = text.replace(
        r#"{"action":"denied","actor":"zoe""#,
        r#"{"action":"denied","actor":"joe""#,
    );
    assert_ne!(text, forged);
    std::fs::write(&segment, forged).unwrap();
    assert_eq!(home.cli(&["receipt", "verify"]).code, Some(4));
    std::fs::write(&segment, text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_ends_with_its_time_used_or_not() {
    let scene = Scene::with(&[("approvals.ttl", json!("3s"))]).await;
    let ann = scene.ann().await;
    let pending = asked(&ann.call("wipe", json!({"path": "/pending"})).await);
    eventually("a question ends", 60, async || scene.state(&pending).await == "expired").await;
    let refused = scene.word(&pending, "approve").await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    let late = asked(&ann.call("wipe", json!({"path": "/late"})).await);
    scene.approve(&late).await;
    eventually("an answer ends", 60, async || scene.state(&late).await == "expired").await;
    let answer = ann.call("wipe", json!({"path": "/late"})).await;
    assert_ne!(asked(&answer), late);
    assert_eq!(scene.calls(), 0);
    eventually("it is on record", 60, async || {
        scene.steps(&pending) == ["requested ann", "expired system"]
            && scene.steps(&late) == ["requested ann", "approved zoe", "expired system"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_questions_of_a_principal_wait_and_no_more() {
    let scene = Scene::new().await;
    let ann = scene.ann().await;
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(asked(&ann.call("wipe", json!({"amount": number})).await));
    }
    // Another client of the same principal does not get round it.
    let token = scene
        .town
        .issuer
        .sign(&but(claims("ann"), json!({"azp": "another-client"})));
    let other = Agent::connect(&scene.town.gateway, "/mcp/files", &token).await;
    for agent in [&ann, &other] {
        let answer = agent.call("wipe", json!({"amount": 10})).await;
        assert_eq!(answer.result()["isError"], true);
        assert_eq!(codes(&answer), ["DENY_RATE_LIMIT"]);
        assert_eq!(answer.decision()["approval"], Value::Null);
        assert_eq!(
            scene.town.gateway.receipt_named_by(&answer)["approval"]["required"],
            true
        );
    }
    // Somebody else can ask, and what was decided makes room.
    asked(&scene.town.agent("bob").await.call("wipe", json!({"amount": 10})).await);
    assert_eq!(scene.word(&ids[0], "deny").await.status, 200);
    asked(&ann.call("wipe", json!({"amount": 10})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_definition_or_other_policies_void_what_was_approved() {
    let scene = Scene::new().await;
    let ann = scene.ann().await;
    let (wipe, burn) = (json!({"path": "/a"}), json!({"path": "/b"}));
    let (first, second) = (
        asked(&ann.call("wipe", wipe.clone()).await),
        asked(&ann.call("burn", burn.clone()).await),
    );
    scene.approve(&first).await;
    scene.approve(&second).await;
    // The server redefines one of the two, and the operator takes the new definition.
    let mut redefined = tool("wipe");
    redefined["description"] = json!("Wipes everything.");
    scene.town.files.offer(&[tool("read"), redefined, tool("burn")]);
    scene.town.gateway.home.cli(&["server", "refresh", "files"]).success();
    eventually("the first is void", 60, async || scene.state(&first).await == "void").await;
    scene
        .town
        .gateway
        .home
        .cli(&["tool", "approve", "files/wipe"])
        .success();
    assert_ne!(asked(&ann.call("wipe", wipe).await), first);
    assert_eq!(scene.state(&second).await, "approved");
    assert_eq!(scene.calls(), 0);
    // Then the policies change.
    let mut scene = scene;
    scene.town.gateway.home.rewrite(|setup| {
        setup.policy(&format!(
            "{ASK} @id(\"more\") permit (principal, action, resource == Tool::\"files/other\");"
        ))
    });
    eventually("the second is void", 60, async || scene.state(&second).await == "void").await;
    assert_ne!(asked(&ann.call("burn", burn).await), second);
    assert_eq!(scene.calls(), 0);
    assert_eq!(scene.steps(&second), ["requested ann", "approved zoe", "void system"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_and_answers_survive_a_restart_and_no_argument_lies_open() {
    let Scene { town, zoe } = Scene::new().await;
    let ann = town.agent("ann").await;
    let (waits, approved, used) = (
        json!({"text": "the-payload-that-waits"}),
        json!({"text": "the-payload-approved"}),
        json!({"text": "the-payload-used"}),
    );
    let ids = [
        asked(&ann.call("wipe", waits.clone()).await),
        asked(&ann.call("wipe", approved.clone()).await),
        asked(&ann.call("wipe", used.clone()).await),
    ];
    for id in &ids[1..] {
        assert_eq!(word_of(&town.gateway, &zoe, id, "approve").await.status, 200);
    }
    assert_eq!(
        ann.call("wipe", used.clone()).await.result()["content"][0]["text"],
        "wipe ran"
    );
    let home = town.gateway.kill().await;
    for file in home.state_files() {
        let bytes = std::fs::read(&file).unwrap();
        assert!(
            !String::from_utf8_lossy(&bytes).contains("the-payload"),
            "{}",
            file.display()
        );
    }
    let town = Town {
        gateway: home.serve().await,
        ..town
    };
    let scene = Scene { town, zoe };
    let ann = scene.ann().await;
    assert_eq!(asked(&ann.call("wipe", waits.clone()).await), ids[0]);
    assert_eq!(show(&scene.town.gateway, &scene.zoe, &ids[0]).await["arguments"], waits);
    assert_eq!(
        ann.call("wipe", approved).await.result()["content"][0]["text"],
        "wipe ran"
    );
    assert_ne!(asked(&ann.call("wipe", used).await), ids[2], "what was used stays used");
    assert_eq!(scene.calls(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_shows_decides_and_follows() {
    let scene = Scene::new().await;
    let (ann, home) = (scene.ann().await, &scene.town.gateway.home);
    let first = asked(&ann.call("wipe", json!({"path": "/srv/a", "amount": 1})).await);
    let listed = home
        .cli(&["approval", "list", "--state", "pending", "--json"])
        .success();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let told = ["id", "state", "principal", "server", "tool", "risk", "policy_id"].map(|name| listed[name].clone());
    let expected = [first.as_str(), "pending", "ann", "files", "wipe", "critical", "a-human"].map(Value::from);
    assert_eq!(told, expected);
    assert_eq!(listed["arguments"], json!({"path": "/srv/a", "amount": 1}));
    let table = home.cli(&["approval", "list"]).success();
    assert!(table.contains(&first) && table.contains("files/wipe"), "{table}");
    home.cli(&["approval", "approve", &first, "--reason", "as agreed"])
        .success();
    ann.call("wipe", json!({"path": "/srv/a", "amount": 1})).await;
    // The next one of the same caller and tool is shown beside what was approved last.
    let second = asked(&ann.call("wipe", json!({"path": "/srv/a", "amount": 1000})).await);
    let shown: Value = serde_json::from_str(&home.cli(&["approval", "show", &second, "--json"]).success()).unwrap();
    assert_eq!(
        shown["changes"],
        json!([{"path": "/amount", "kind": "changed", "old": 1, "new": 1000}])
    );
    assert!(home.cli(&["approval", "show", &second]).success().contains("1000"));
    home.cli(&["approval", "deny", &second]).success();
    let done: Value = serde_json::from_str(&home.cli(&["approval", "show", &first, "--json"]).success()).unwrap();
    assert_eq!(
        (&done["state"], &done["decided_by"], &done["reason"], &done["arguments"]),
        (&json!("used"), &json!("first-start"), &json!("as agreed"), &Value::Null)
    );
    assert_eq!(home.cli(&["approval", "approve", "apr_none"]).code, Some(1));
    assert_eq!(home.cli(&["approval", "list", "--state", "luck"]).code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_running_gateway_the_commands_decide_on_what_is_kept() {
    let Scene { town, zoe } = Scene::new().await;
    let ann = town.agent("ann").await;
    let id = asked(&ann.call("wipe", json!({"path": "/a"})).await);
    let home = town.gateway.stop().await;
    let shown = home.cli(&["approval", "list", "--json"]).success();
    assert!(shown.contains("\"/a\""), "{shown}");
    home.cli(&["approval", "approve", &id]).success();
    let town = Town {
        gateway: home.serve().await,
        ..town
    };
    let scene = Scene { town, zoe };
    let made = scene.ann().await.call("wipe", json!({"path": "/a"})).await;
    assert_eq!(scene.town.gateway.receipt_of(&made)["approval"]["approved_by"], "local");
    assert_eq!(scene.calls(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_kept_or_recorded_is_not_asked_and_not_made() {
    let scene = Scene::new().await;
    let ann = scene.ann().await;
    let id = asked(&ann.call("wipe", json!({"path": "/a"})).await);
    scene.approve(&id).await;
    // Somebody holds the store's write lock for longer than anybody waits.
    let file = scene.town.gateway.home.state().join("state.db");
    let held = Held::of(&file);
    for arguments in [json!({"path": "/a"}), json!({"path": "/b"})] {
        let answer = ann.call("wipe", arguments).await;
        assert_eq!(
            (answer.error_code(), codes(&answer)),
            (-32603, vec!["DENY_RECEIPT_UNAVAILABLE".to_owned()])
        );
    }
    assert_eq!(scene.calls(), 0);
    held.let_go();
    // Afterwards all is as it was.
    assert_eq!(
        ann.call("wipe", json!({"path": "/a"})).await.result()["content"][0]["text"],
        "wipe ran"
    );
}

// R159
#[tokio::test(flavor = "multi_thread")]
async fn allowed_denied_and_approved_calls_are_counted_by_their_receipts() {
    let scene = Scene::new().await;
    let ann = scene.ann().await;
    let before = scene.town.gateway.last_seq();
    for _ in 0..5 {
        ann.call("read", json!({"path": "/srv/a"})).await;
    }
    for _ in 0..3 {
        ann.call("read", json!({"amount": 99})).await;
    }
    for number in 0..2 {
        let arguments = json!({"amount": number});
        let id = asked(&ann.call("wipe", arguments.clone()).await);
        scene.approve(&id).await;
        ann.call("wipe", arguments).await;
    }
    let receipts = scene.town.gateway.receipts_after(before);
    let count = |result: &str, code: &str| {
        let is_it = |receipt: &&Value| {
            let decision = &receipt["decision"];
            receipt["mcp"]["method"] == "tools/call"
                && decision["result"] == result
                && decision["reason_codes"][0] == code
        };
        receipts.iter().filter(is_it).count()
    };
    assert_eq!(count("allow", "ALLOW_POLICY_MATCH"), 5);
    assert_eq!(count("deny", "DENY_NO_PERMISSION"), 3);
    assert_eq!(count("require_approval", "REQUIRE_APPROVAL"), 2);
    assert_eq!(count("allow", "ALLOW_APPROVED"), 2);
    let calls = |receipt: &&Value| receipt["mcp"]["method"] == "tools/call";
    assert_eq!((receipts.iter().filter(calls).count(), scene.calls()), (12, 7));
}

// R224
#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_way_around_an_approval() {
    let scene = Scene::new().await;
    let gateway = &scene.town.gateway;
    // No command, no route and no setting that would let a refused call be made.
    let document = gateway.ask_admin(Ask::new("GET", "/api/v1/openapi.json")).await.json();
    let mut routes: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let words = [
        "override",
        "bypass",
        "emergency",
        "break-glass",
        "breakglass",
        "force",
        "execute",
        "skip",
    ];
    let named = |text: &str| words.iter().find(|word| text.to_lowercase().contains(**word)).copied();
    assert_eq!(routes.iter().find_map(|route| named(route)), None);
    routes.retain(|route| route.contains("/approvals"));
    let below = ["", "/{id}", "/{id}/approve", "/{id}/deny"].map(|end| format!("/api/v1/approvals{end}"));
    assert_eq!(routes, below.iter().map(String::as_str).collect::<Vec<_>>());
    let help = gateway.home.cli(&["approval", "--help"]).success();
    assert_eq!(named(&help), None, "{help}");
    for key in portreeve_keys() {
        assert_eq!(named(&key), None, "{key}");
    }
    // Several at once, or all, is no id.
    let ann = scene.ann().await;
    let id = asked(&ann.call("wipe", json!({"path": "/a"})).await);
    for several in ["*", "all", "pending", &format!("{id},{id}")] {
        assert_eq!(scene.word(several, "approve").await.status, 404, "{several}");
    }
    assert_eq!(scene.state(&id).await, "pending");
    assert_eq!(scene.calls(), 0);
}

/// Every key of the configuration, as the page for people has it.
fn portreeve_keys() -> Vec<String> {
    let page = std::fs::read_to_string(repository().join("docs/configuration.md")).unwrap();
    let keys = page
        .lines()
        .filter_map(|line| line.strip_prefix("- `")?.split_once("`:"));
    let keys: Vec<String> = keys.map(|(key, _)| key.to_owned()).collect();
    assert!(keys.iter().any(|key| key == "approvals.four_eyes"));
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_told_an_id_and_a_link_signed_and_has_no_say() {
    let secret = format!("hook-secret-{}", std::process::id());
    // The first one hears nothing but a refusal, the second answers as if it could approve.
    let hook = Stand::start(|_, before| match before {
        0 => json_answer(500, "", "{}"),
        _ => json_answer(200, "", r#"{"approve":true,"state":"approved","verdict":"ALLOW"}"#),
    })
    .await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &secret).unwrap();
    let webhook = json!({"url": hook.url(), "secret": format!("file:{}", file.path().display())});
    let scene = Scene::with(&[("approvals.webhook", webhook)]).await;
    let ann = scene.ann().await;
    let id = asked(&ann.call("wipe", json!({"text": "what-nobody-is-told"})).await);
    eventually("it is told, and again after a refusal", 60, async || {
        hook.heard().len() == 2
    })
    .await;
    for heard in hook.heard() {
        let admin = scene.town.gateway.ready["admin"].as_str().unwrap().to_owned();
        assert_eq!(
            heard.body,
            json!({"id": id, "link": format!("{admin}/api/v1/approvals/{id}")})
        );
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let body = heard.body.to_string();
        let signature: String = hmac::sign(&key, body.as_bytes())
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            heard.headers.get("x-portreeve-signature"),
            Some(format!("sha256={signature}").as_str())
        );
        assert_eq!(heard.headers.get("authorization"), None);
    }
    // The same question again is not told again, and what the webhook said allows nothing.
    assert_eq!(
        asked(&ann.call("wipe", json!({"text": "what-nobody-is-told"})).await),
        id
    );
    assert_eq!(scene.state(&id).await, "pending");
    assert_eq!((hook.heard().len(), scene.calls()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_hangs_keeps_nobody_waiting() {
    let hook = Stand::start(|_, _| vec![Step::UntilClosed]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "another-hook-secret").unwrap();
    let webhook = json!({"url": hook.url(), "secret": format!("file:{}", file.path().display())});
    let scene = Scene::with(&[("approvals.webhook", webhook)]).await;
    let ann = scene.ann().await;
    let first = asked(&ann.call("wipe", json!({"amount": 1})).await);
    eventually("the webhook hangs", 60, async || !hook.heard().is_empty()).await;
    // All of this happens while it does.
    let second = asked(&ann.call("wipe", json!({"amount": 2})).await);
    for (id, amount) in [(&first, 1), (&second, 2)] {
        scene.approve(id).await;
        assert_eq!(
            ann.call("wipe", json!({"amount": amount})).await.result()["content"][0]["text"],
            "wipe ran"
        );
    }
    assert_eq!(scene.calls(), 2);
}
