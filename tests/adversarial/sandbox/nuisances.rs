//! Servers that are no good: each a clear error to its caller, nobody else notices, and nothing of it is left.

use std::time::{Duration, Instant};

use serde_json::json;

use super::attempts::Report;
use super::scene::{Scene, report_of};
use super::stage::{Stage, on_stage};
use crate::support::records::list;
use crate::support::{Agent, Answer, Gateway, Setup, eventually};

/// Something harmless to ask for: what comes back shows that the server works.
fn harmless() -> serde_json::Value {
    json!({"row": "F2", "attempt": "read_shadow", "with": {}})
}

/// A gateway with a good server and bad ones, each called by its flag.
async fn gateway(scene: &Scene, timeout: &str, flags: &[&[&str]]) -> Gateway {
    let mut setup: Setup = scene.setup("good", &[]).set("limits.timeout", timeout);
    for given in flags {
        setup = scene.with_attacker(setup, given[0].trim_start_matches("--"), given);
    }
    setup.start().await
}

/// Calls a server, as somebody with a process of their own.
async fn call(scene: &Scene, gateway: &Gateway, server: &str, who: &str) -> Answer {
    let agent = scene.agent(gateway, server, who).await;
    agent.call("attempt", harmless()).await
}

async fn must_work(scene: &Scene, gateway: &Gateway, server: &str) {
    // A call waits for the first discovery, but not for as long as that takes on a busy machine.
    let agent = scene.agent(gateway, server, "ann").await;
    eventually("its tools are known", 60, async || !agent.names().await.is_empty()).await;
    let report = report_of(&agent.call("attempt", harmless()).await);
    assert_eq!(report.errno.as_deref(), Some("ENOENT"), "{server}: {report:?}");
}

/// A server that does not answer is an error with a code, and says nothing of what it sent.
async fn must_fail(scene: &Scene, gateway: &Gateway, server: &str, code: &str) {
    let began = Instant::now();
    let answer = call(scene, gateway, server, "ann").await;
    assert_eq!(answer.error_code(), -32603, "{server}: {}", answer.text());
    assert_eq!(answer.reason_codes(), [code], "{server}");
    assert!(answer.body.len() < 4096, "{server}: {} bytes", answer.body.len());
    assert!(
        began.elapsed() < Duration::from_secs(120),
        "{server}: {:?}",
        began.elapsed()
    );
    let receipt = gateway.receipt_named_by(&answer);
    assert_eq!(receipt["outcome"]["status"], "error", "{server}");
}

/// A server that never said what it has.
async fn must_be_unknown(scene: &Scene, gateway: &Gateway, server: &str) {
    let answer = call(scene, gateway, server, "ann").await;
    assert_eq!(answer.error_code(), -32602, "{server}: {}", answer.text());
    assert_eq!(answer.reason_codes(), ["DENY_TOOL_NOT_FOUND"], "{server}");
    let agent = Agent::connect(gateway, "/mcp", &scene.issuer.token("ann")).await;
    eventually(&format!("{server} is said to be down"), 60, async || {
        let listed = agent.request("tools/list", json!({})).await.result();
        listed["_meta"]["portreeve/unavailable"].to_string().contains(server)
    })
    .await;
}

async fn bad_servers(stage: Stage) {
    let scene = Scene::set(stage).await;
    let flags: [&[&str]; 5] = [
        &["--garbage"],
        &["--long-line"],
        &["--ignore-signals"],
        &["--flood-stderr"],
        &["--small-files", "3000"],
    ];
    let gateway = gateway(&scene, "20s", &flags).await;
    must_work(&scene, &gateway, "good").await;
    must_work(&scene, &gateway, "garbage").await;
    must_work(&scene, &gateway, "ignore-signals").await;
    must_work(&scene, &gateway, "flood-stderr").await;
    must_work(&scene, &gateway, "small-files").await;
    must_fail(&scene, &gateway, "long-line", "ERROR_UPSTREAM").await;
    must_work(&scene, &gateway, "good").await;
    assert!(gateway.peak_memory() < 600 << 20, "{} bytes", gateway.peak_memory());
    let logs: u64 = sizes(&gateway, "logs");
    assert!(logs < 8 << 20, "{logs} bytes of complaints were kept");
    no_zombies(&gateway).await;
    gateway.stop().await;
    nothing_is_left(&scene).await;
}

async fn servers_without_a_word(stage: Stage) {
    let scene = Scene::set(stage).await;
    let gateway = gateway(&scene, "15s", &[&["--silent"], &["--crash"]]).await;
    must_be_unknown(&scene, &gateway, "silent").await;
    must_be_unknown(&scene, &gateway, "crash").await;
    must_work(&scene, &gateway, "good").await;
    no_zombies(&gateway).await;
    gateway.stop().await;
    nothing_is_left(&scene).await;
}

/// One that was being started when the gateway stopped goes with it, a moment later.
async fn nothing_is_left(scene: &Scene) {
    eventually("nothing is left", 60, async || {
        processes_with(&scene.script()).is_empty()
    })
    .await;
}

async fn a_daemon(stage: Stage) {
    let scene = Scene::set(stage).await;
    let gateway = gateway(&scene, "20s", &[&["--daemon"]]).await;
    must_work(&scene, &gateway, "daemon").await;
    let alive = scene.stage.path("workspace/daemon-alive");
    eventually("the daemon is at work", 60, async || alive.exists()).await;
    no_zombies(&gateway).await;
    gateway.stop().await;
    nothing_is_left(&scene).await;
}

async fn a_killed_gateway(stage: Stage) {
    let scene = Scene::set(stage).await;
    let gateway = gateway(&scene, "20s", &[&["--daemon"], &["--ignore-signals"]]).await;
    must_work(&scene, &gateway, "daemon").await;
    must_work(&scene, &gateway, "ignore-signals").await;
    assert!(processes_with(&scene.script()).len() >= 3);
    gateway.kill().await;
    nothing_is_left(&scene).await;
}

async fn a_flood(stage: Stage) {
    let scene = Scene::set(stage).await;
    let gateway = scene.gateway(|setup| setup.set("limits.timeout", "60s")).await;
    for attempt in super::attempts::of_rows(&["X3"]) {
        let mut given = scene.given(&gateway);
        given.insert("bytes".to_owned(), json!(48 << 20));
        given.insert("count".to_owned(), json!(4000));
        // A process of its own for each: one that is cut off does not stand in the way of the next.
        let agent = scene.agent(&gateway, "hostile", &attempt.attempt).await;
        let answer = agent.call("attempt", super::scene::order(&attempt, &given)).await;
        let text = answer.text();
        let is_clear = text.contains("\"content\"") || answer.reason_codes() == ["ERROR_UPSTREAM"];
        assert!(is_clear, "{}: {text}", attempt.name());
        must_work(&scene, &gateway, "hostile").await;
    }
    assert!(gateway.peak_memory() < 600 << 20, "{} bytes", gateway.peak_memory());
    let (logs, ledger) = (sizes(&gateway, "logs"), sizes(&gateway, "ledger"));
    assert!(logs < 8 << 20 && ledger < 4 << 20, "logs {logs}, ledger {ledger} bytes");
    no_zombies(&gateway).await;
    gateway.stop().await;
    nothing_is_left(&scene).await;
}

async fn bombs(stage: Stage) {
    let scene = Scene::set(stage).await;
    // Little memory, so that little has to be taken to pass it.
    let memory = |setup: Setup| setup.set("servers.hostile.sandbox.limits.memory", "256MiB");
    let gateway = scene.gateway(memory).await;
    bombs_go_off_without_a_sandbox(&scene, &gateway);
    let mut before = names_in(&scene);
    let mut faults = Vec::new();
    for attempt in super::attempts::of_rows(&["B1", "B2", "B3"]) {
        let mut given = scene.given(&gateway);
        let (bytes, count): (u64, u64) = match (attempt.row.as_str(), attempt.attempt.as_str()) {
            // Each part by itself is too much.
            ("B2", "memory_in_parts") => (4 << 30, 0),
            ("B2", _) => (640 << 20, 0),
            (_, "inodes_of_tmp") => (0, 70_000),
            _ => (1288 << 20, 200),
        };
        given.extend([("bytes".to_owned(), json!(bytes)), ("count".to_owned(), json!(count))]);
        // A process of its own for each: some are ended as a whole.
        let agent = scene.agent(&gateway, "hostile", &attempt.attempt).await;
        let ended = ended_for_memory(&gateway);
        let answer = agent.call("attempt", super::scene::order(&attempt, &given)).await;
        let report = if answer.last().get("error").is_some() {
            assert_eq!(answer.reason_codes(), ["ERROR_UPSTREAM"], "{}", attempt.name());
            eventually("the log says why", 10, async || ended_for_memory(&gateway) > ended).await;
            Report::killed()
        } else {
            report_of(&answer)
        };
        eprintln!("{}: {report:?}", attempt.name());
        faults.extend(attempt.fault(&report));
    }
    let mut after = names_in(&scene);
    before.sort();
    after.sort();
    assert_eq!(before, after, "something is left in the workspace");
    must_work(&scene, &gateway, "hostile").await;
    gateway.stop().await;
    nothing_is_left(&scene).await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// How many processes of servers were ended because they held too much memory.
fn ended_for_memory(gateway: &Gateway) -> usize {
    let records = list(&gateway.home, &["--type", "inventory", "--limit", "1000"]);
    let is_one = |record: &&serde_json::Value| record.to_string().contains("was ended for passing its limit `memory`");
    records.iter().filter(is_one).count()
}

/// Just past what the sandbox would allow, and no more.
fn bombs_go_off_without_a_sandbox(scene: &Scene, gateway: &Gateway) {
    let mut bare = scene.bare();
    for attempt in super::attempts::of_rows(&["B1", "B2", "B3"]) {
        let megabytes: u64 = match attempt.attempt.as_str() {
            // A real gigabyte of disk, tens of thousands of files, or a directory that only the sandbox has.
            "big_file" | "inodes_of_tmp" | "fill_home" => continue,
            "sparse_file" => 1288,
            _ => 300,
        };
        let mut given = scene.given(gateway);
        given.extend([
            ("bytes".to_owned(), json!(megabytes << 20)),
            ("count".to_owned(), json!(100)),
        ]);
        let report = bare.attempt(&attempt, &given);
        assert!(
            report.through,
            "{} without a sandbox: {}",
            attempt.name(),
            report.said()
        );
    }
}

fn names_in(scene: &Scene) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(scene.stage.path("workspace")).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

/// The bytes in one directory of the gateway's state.
fn sizes(gateway: &Gateway, directory: &str) -> u64 {
    let inside = gateway.home.state().join(directory);
    let files = gateway
        .home
        .state_files()
        .into_iter()
        .filter(|file| file.starts_with(&inside));
    files
        .map(|file| std::fs::metadata(file).map_or(0, |found| found.len()))
        .sum()
}

/// No child of the gateway waits to be reaped.
async fn no_zombies(gateway: &Gateway) {
    let parent = format!(" Z {} ", gateway.id());
    eventually("no zombies", 10, async || {
        let stats = std::fs::read_dir("/proc").unwrap().flatten();
        let mut stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        !stats.any(|stat| stat.contains(&parent))
    })
    .await;
}

/// The command lines of the processes on this stage that have this word in them.
pub(super) fn processes_with(word: &str) -> Vec<String> {
    numbers_with(word).iter().map(|number| command_line(number)).collect()
}

/// The numbers of these processes.
pub(super) fn numbers_with(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| command_line(name).contains(word)).collect()
}

fn command_line(process: &str) -> String {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

on_stage! {
    // R148
    fn servers_that_are_no_good_trouble_nobody_else, Root, bad_servers;
    // R148
    fn ordinary_servers_that_are_no_good_trouble_nobody_else, Ordinary, bad_servers;
    // R148
    fn servers_that_say_nothing_are_known_to_be_down, Root, servers_without_a_word;
    // R148
    fn ordinary_servers_that_say_nothing_are_known_to_be_down, Ordinary, servers_without_a_word;
    // R148, X2
    fn a_daemon_does_not_outlive_its_server, Root, a_daemon;
    // R148, X2
    fn an_ordinary_daemon_does_not_outlive_its_server, Ordinary, a_daemon;
    // R148, X2
    fn nothing_outlives_a_gateway_that_was_killed, Root, a_killed_gateway;
    // R148, X2
    fn nothing_outlives_an_ordinary_gateway_that_was_killed, Ordinary, a_killed_gateway;
    // R148, X3
    fn floods_of_output_and_files_are_bounded, Root, a_flood;
    // R148, X3
    fn floods_of_output_and_files_of_an_ordinary_server_are_bounded, Ordinary, a_flood;
    // R148, B1, B2, B3
    fn bombs_are_contained, Root, bombs;
    // R148, B1, B2, B3
    fn bombs_of_an_ordinary_server_are_contained, Ordinary, bombs;
}
