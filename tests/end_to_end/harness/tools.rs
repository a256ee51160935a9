//! Agents that use MCP tools: through the gateway alone, with a token of their run, in one log.

use serde_json::json;

use crate::support::Town;
use crate::support::environment::{Finished, command};
use crate::support::workshop::{GOOD, Workshop, names};

/// Calls a tool over `portreeve connect`, keeps the answers, then gives its output.
fn caller(tool: &str) -> String {
    let said = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": tool, "arguments": {}}}),
    ];
    let lines: Vec<String> = said.iter().map(|line| format!("echo '{line}'")).collect();
    format!(
        "({}) | portreeve connect > answers 2> complaints\ncat answers complaints >&2\necho \"$PORTREEVE_URL\" >&2\ncp answers \"$HARNESS_OUTPUT_DIR\"\necho \"$PORTREEVE_TOKEN\" > token\nchmod 644 token\necho '{GOOD}' > \"$HARNESS_OUTPUT_FILE\"",
        lines.join("; ")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_and_its_tool_calls_stand_in_one_log_and_its_token_ends_with_it() {
    for tls in ["off", "auto"] {
        // Policies name the agent; nobody else may do anything.
        let policy = r#"@id("judge") permit (principal == Agent::"judge", action, resource);"#;
        let town = Town::with(&["read"], |setup| setup.set("listen.tls.mode", tls).policy(policy)).await;
        let workshop = Workshop::beside(&town.gateway.home).agent(
            "judge",
            &caller("files__read"),
            "[AGENT.sandbox]\nworkspace = \"work\"\n",
        );
        super::attempts::make_workspace(&workshop);
        let workshop = with_servers(workshop, "judge", "files").ready();
        let outcome = workshop.judge();
        let told = std::fs::read_to_string(outcome.directory().join("quarantine/judge-1.stderr")).unwrap();
        assert_eq!(outcome.code, 0, "{outcome:?}\n{told}");
        assert!(told.contains("read ran"), "{told}");
        assert!(told.contains("://localhost:3129/mcp"), "{told}");
        let records = workshop.listed(&["--run", outcome.run()]);
        let calls: Vec<_> = records
            .iter()
            .filter(|record| record["mcp"]["method"] == "tools/call")
            .collect();
        assert!(!calls.is_empty(), "{records:#?}");
        assert!(
            calls
                .iter()
                .all(|call| call["principal"]["sub"] == "judge" && call["principal"]["run"] == outcome.run())
        );
        let kinds: Vec<&str> = records.iter().map(|record| record["type"].as_str().unwrap()).collect();
        assert!(
            kinds.contains(&"harness_attempt") && kinds.contains(&"harness_result"),
            "{kinds:?}"
        );
        // The token was the agent's own, and is good for nothing any more.
        let token = workshop.read("work/token").trim().to_owned();
        assert!(token.starts_with("ptr_agt_"));
        let refused = town
            .gateway
            .ask(
                crate::support::wire::Ask::post(
                    "/mcp/files",
                    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string(),
                )
                .bearer(&token),
            )
            .await;
        assert_eq!(refused.status, 401);
        let log = serde_json::to_string(&workshop.listed(&[])).unwrap();
        assert!(!log.contains(&token));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reaches_only_the_servers_it_names() {
    let town = Town::with(&["read"], |setup| setup).await;
    let other = crate::support::Server::start(&[crate::support::tool("write")]).await;
    let town = town.restarted_with(|setup| setup.server("other", &other)).await;
    let workshop = Workshop::beside(&town.gateway.home).agent(
        "judge",
        &caller("files__read"),
        "[AGENT.sandbox]\nworkspace = \"work\"\n",
    );
    super::attempts::make_workspace(&workshop);
    let workshop = with_servers(workshop, "judge", "other").ready();
    let outcome = workshop.judge();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let answers = workshop.read("work/answers");
    assert!(
        answers.contains("other__write") && !answers.contains("read ran"),
        "{answers}"
    );
    assert_eq!(town.files.calls().len(), 0);
}

#[test]
fn without_a_gateway_an_agent_with_servers_does_not_start() {
    let workshop = Workshop::of("touch /tmp/never; true");
    let workshop = with_servers(workshop, "judge", "files").ready();
    let outcome = workshop.judge();
    assert_eq!(outcome.code, 3, "{outcome:?}");
    assert_eq!(outcome.object["reason"], "gateway");
    assert_eq!(workshop.classes(), Vec::<String>::new());
}

// R256
#[tokio::test(flavor = "multi_thread")]
async fn while_a_gateway_runs_it_writes_the_records() {
    let town = Town::with(&["read"], |setup| setup).await;
    let workshop = Workshop::beside(&town.gateway.home)
        .agent("judge", &format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""), "")
        .ready();
    let outcome = workshop.judge();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let kinds: Vec<_> = workshop
        .listed(&["--run", outcome.run()])
        .iter()
        .map(|record| record["type"].clone())
        .collect();
    assert_eq!(kinds, ["harness_attempt", "harness_result"]);
    let home = town.gateway.stop().await;
    // The log is one chain, whoever wrote which part of it.
    let offline = Workshop::beside(&home)
        .agent("judge", &format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""), "")
        .ready();
    assert_eq!(offline.judge().code, 0);
    let records = offline.listed(&[]);
    let chained = records
        .windows(2)
        .all(|pair| pair[0]["record_hash"] == pair[1]["prev_hash"]);
    assert!(chained);
}

/// Keeps its token where everybody finds it, and stays.
const KEEPER: &str = "umask 0; echo \"$PORTREEVE_TOKEN\" > token.new; mv token.new token; sleep 30";

async fn is_good(town: &Town, token: &str) -> bool {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let ask = crate::support::wire::Ask::post("/mcp/files", ping).bearer(token);
    town.gateway.ask(ask).await.status != 401
}

async fn token(workshop: &Workshop) -> String {
    for _ in 0..400 {
        if workshop.path("work/token").exists() {
            return workshop.read("work/token").trim().to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the agent never had a token");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_with_its_run_however_that_ends() {
    let town = Town::with(&["read"], |setup| setup).await;
    let more = "[AGENT.sandbox]\nworkspace = \"work\"\n[AGENT.limits]\ntimeout = \"TIME\"\n";
    for (end, time, code) in [
        ("", "3s", Some(13)),
        ("TERM", "60s", Some(143)),
        ("INT", "60s", Some(130)),
        ("KILL", "60s", None),
    ] {
        let workshop = Workshop::beside(&town.gateway.home)
            .agent("judge", KEEPER, &more.replace("TIME", time))
            .agent("other", &format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""), "");
        super::attempts::make_workspace(&workshop);
        let _ = std::fs::remove_file(workshop.path("work/token"));
        let workshop = with_servers(workshop, "judge", "files").ready();
        let mut child = workshop.spawn(&["run", "judge"]);
        let token = token(&workshop).await;
        assert!(is_good(&town, &token).await, "{end}");
        if !end.is_empty() {
            let number = child.id().to_string();
            Finished::of(command("kill").args(["-s", end, &number])).success();
        }
        assert_eq!(child.wait().unwrap().code(), code, "{end}");
        if code.is_none() {
            // Nobody was left to take it back; the next run does, whichever it is.
            assert!(is_good(&town, &token).await);
            assert_eq!(workshop.run(&["run", "other"]).code, 0);
        }
        assert!(!is_good(&town, &token).await, "{end:?}: the token outlived its run");
        assert_eq!(
            names(&workshop.path("state/harness/tokens")),
            Vec::<String>::new(),
            "{end}"
        );
    }
}

/// Lets an agent use the tools of a server.
fn with_servers(workshop: Workshop, agent: &str, server: &str) -> Workshop {
    workshop.insert(&format!("[agents.{agent}]\n"), &format!("servers = [\"{server}\"]\n"))
}
