//! Honest calls, recorded in `tests/servers/calls`, to the servers that are installed here: a gateway as it comes refuses none
//! of them, and answers what the bare server answered when they were recorded. `make honest-calls` has the others.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::are_installed;
use super::stdio::Case;
use crate::support::environment::{Finished, command, repository};
use crate::support::setup::Home;
use crate::support::{Agent, Answer, Gateway, Issuer, Setup, eventually};

/// The servers with their id in the corpus.
fn servers() -> Vec<(&'static str, Case<'static>)> {
    let memory_file = json!({"MEMORY_FILE_PATH": "text:{workspace}/graph.jsonl"});
    // With `npm` in reach it would try to install packages while it runs.
    let no_programs = json!({"PATH": "text:/var/empty"});
    let git = entry("git");
    let git_env = git["env"].as_table().unwrap().iter();
    let git_env = git_env.map(|(name, value)| (name.clone(), json!(format!("text:{}", value.as_str().unwrap()))));
    vec![
        (
            "filesystem",
            Case::node("server-filesystem/dist/index.js", &["{workspace}"]),
        ),
        (
            "memory",
            Case::node("server-memory/dist/index.js", &[]).env(memory_file),
        ),
        ("everything", Case::node("server-everything/dist/index.js", &["stdio"])),
        ("thinking", Case::node("server-sequential-thinking/dist/index.js", &[])),
        ("time", Case::python("mcp-server-time", &["--local-timezone=UTC"])),
        (
            "git",
            Case::python("mcp-server-git", &["--repository", "{workspace}"]).env(git_env.collect()),
        ),
        (
            "fetch",
            Case::python("mcp-server-fetch", &["--allow-private-ips"]).env(no_programs),
        ),
    ]
}

/// What `calls.toml` says of a server.
fn entry(id: &str) -> toml::Table {
    let text = std::fs::read_to_string(corpus().join("calls.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let mut entries = table["server"].as_array().unwrap().iter();
    let found = entries.find(|entry| entry["id"].as_str() == Some(id)).unwrap();
    found.as_table().unwrap().clone()
}

fn corpus() -> PathBuf {
    repository().join("tests/servers")
}

fn calls(id: &str) -> Vec<Value> {
    let file = corpus().join("calls").join(format!("{id}.jsonl"));
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_honest_call_is_refused_by_a_gateway_as_it_comes() {
    let servers = servers();
    let programs: Vec<_> = servers.iter().map(|(_, case)| case.script()).collect();
    if !are_installed(&programs.iter().map(AsRef::as_ref).collect::<Vec<_>>()) {
        return;
    }
    let page = pages().await;
    let issuer = Issuer::start().await;
    // The limits are the default ones, and nobody is trusted more than a stranger's package.
    let setup = Setup::new().issuer(&issuer).unset("limits");
    let setup = servers.iter().fold(setup, |setup, (id, case)| {
        setup.set(&format!("servers.{id}"), case.entry("community"))
    });
    let web = json!([page.trim_start_matches("http://")]);
    let setup = setup
        .set("servers.fetch.sandbox.net", "allowlist")
        .set("servers.fetch.sandbox.allow", web)
        .set("servers.fetch.sandbox.private", json!(["127.0.0.0/8", "::1/128"]));
    let home = setup.home();
    prepare(&home, "git");
    let gateway = home.serve().await;
    let (mut made, mut faults) = (0, Vec::new());
    for (id, _) in servers {
        // One caller each: a caller may make 120 calls a minute.
        let agent = Agent::connect(&gateway, &format!("/mcp/{id}"), &issuer.token(id)).await;
        let (calls, found) = replay(&gateway, &agent, id, &page).await;
        made += calls;
        faults.extend(found);
    }
    assert!(faults.is_empty(), "{faults:#?}\n{}", gateway.logs());
    assert!(made >= 170, "{made} calls were made");
}

/// Makes the calls of a server: how many there were, and what is wrong with which.
async fn replay(gateway: &Gateway, agent: &Agent, id: &str, page: &str) -> (usize, Vec<String>) {
    eventually("the server was discovered", 90, async || {
        !agent.names().await.is_empty()
    })
    .await;
    let listed = agent.names().await;
    let workspace = gateway.home.state().join("workspaces").join(id);
    let workspace = workspace.to_str().unwrap();
    let (mut made, mut faults) = (0, Vec::new());
    for call in calls(id) {
        let tool = call["tool"].as_str().unwrap();
        // Some are offered only to clients that can be asked.
        if !listed.iter().any(|name| name == tool) {
            continue;
        }
        let arguments = call["arguments"].to_string();
        let arguments = arguments.replace("{workspace}", workspace).replace("{page}", page);
        let answer = agent.call_raw(tool, &arguments).await;
        made += 1;
        faults.extend(fault(&call, &answer).map(|why| format!("{id}/{tool} {arguments}: {why}")));
    }
    (made, faults)
}

/// What is wrong with an answer: it is a refusal of ours, or not what the bare server says.
fn fault(call: &Value, answer: &Answer) -> Option<String> {
    let message = answer.last();
    let ours = [
        &message["error"]["data"]["reason_codes"],
        &message["result"]["_meta"]["portreeve/decision"],
    ];
    if ours.iter().any(|said| !said.is_null()) {
        return Some(format!("refused: {message}"));
    }
    let fails = message.get("error").is_some() || message["result"]["isError"] == true;
    if fails != (call["fails"] == true) {
        return Some(format!("bare it ends otherwise: {message}"));
    }
    // What has a place-holder, or may have one, is compared by `make honest-calls`.
    let recorded = call["answer"].as_str().unwrap();
    let texts = message["result"]["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = texts.map(|block| block["text"].as_str().unwrap_or_default()).collect();
    let is_plain = !recorded.contains(['{', '<']) && message.get("error").is_none();
    (is_plain && !texts.join("\n").starts_with(recorded)).then(|| format!("bare it says {recorded:?}, here {texts:?}"))
}

/// Makes what a server expects to find in its workspace, owned by whom it runs as.
fn prepare(home: &Home, id: &str) {
    let at = home.state().join("workspaces").join(id);
    let entry = entry(id);
    for (name, content) in entry["files"].as_table().unwrap() {
        let file = at.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content.as_str().unwrap()).unwrap();
    }
    for words in entry["prepare"].as_array().unwrap() {
        let words: Vec<&str> = words
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|word| word.as_str())
            .collect();
        let mut program: Command = command(words[0]);
        program.args(&words[1..]).current_dir(&at);
        let env = entry["env"].as_table().unwrap().iter();
        program.envs(env.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())));
        Finished::of(&mut program).success();
    }
    if rustix::process::geteuid().is_root() {
        Finished::of(command("chown").args(["-R", "65533:65533"]).arg(&at)).success();
    }
}

/// The pages of `tests/servers/web` on a port of this machine; the address.
async fn pages() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_page(stream));
        }
    });
    format!("http://localhost:{port}")
}

async fn answer_page(mut stream: TcpStream) {
    let mut asked = [0; 8192];
    let read = stream.read(&mut asked).await.unwrap_or(0);
    let line = String::from_utf8_lossy(&asked[..read]).into_owned();
    let target = line.split(' ').nth(1).unwrap_or("/").to_owned();
    let name = target.split(['?', '#']).next().unwrap_or_default().replace("%20", " ");
    let file = corpus().join("web").join(name.trim_start_matches('/'));
    let kind = match file.extension().and_then(|ending| ending.to_str()) {
        Some("html") => "text/html",
        Some("json") => "application/json",
        _ => "text/plain",
    };
    let head = |status: &str, length: usize| {
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
    };
    let reply = match std::fs::read(&file) {
        Ok(body) => [head("200 OK", body.len()).into_bytes(), body].concat(),
        Err(_) => head("404 Not Found", 0).into_bytes(),
    };
    let _ = stream.write_all(&reply).await;
    let _ = stream.shutdown().await;
}
