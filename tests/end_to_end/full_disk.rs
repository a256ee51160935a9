//! A full disk, over the wire: what cannot be recorded is not done and not said, and the gateway recovers by itself.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::ledger::verify_chain;
use crate::support::agent::call_body;
use crate::support::environment::{Finished, command, portreeve};
use crate::support::records::{all, lines_on_disk, receipts};
use crate::support::setup::Home;
use crate::support::{Act, Agent, Answer, Ask, Gateway, Issuer, Server, Setup, Town, eventually, tool};

// R226
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_on_disk_before_it_is_made_and_not_made_when_it_cannot_be() {
    a_call_under_way_is_on_disk_when_the_gateway_is_killed().await;
    refuses_and_recovers(SmallDisk::mount).await;
}

async fn a_call_under_way_is_on_disk_when_the_gateway_is_killed() {
    let town = Town::with(&["write"], |setup| setup.risk("files/write", "medium")).await;
    town.files.on("write", Act::Hang);
    let agent = town.agent("ann").await;
    known(&agent).await;
    let ask = agent.ask(call_body("write", "{}"));
    let hanging = tokio::spawn(async move { agent.door().try_ask(&ask).await });
    eventually("the server has the call", 60, async || !town.files.calls().is_empty()).await;
    // Nobody writes any more after this; what is there was there before.
    let home = town.gateway.kill().await;
    assert!(hanging.await.unwrap().is_err(), "no answer left");
    let lines = lines_on_disk(&home);
    let records: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<&Value> = records
        .iter()
        .filter(|record| record["mcp"]["method"] == "tools/call")
        .collect();
    let phases: Vec<&Value> = calls.iter().map(|record| &record["phase"]).collect();
    assert_eq!(phases, ["intent"], "{calls:?}");
    assert_eq!(
        (&calls[0]["mcp"]["tool_name"], &calls[0]["decision"]["result"]),
        (&json!("write"), &json!("allow"))
    );
    verify_chain(&lines);
}

// The same where nothing may be mounted: the kernel refuses the writes of this one process.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_files_may_not_grow_refuses_and_serves_again_when_they_may() {
    refuses_and_recovers(|_| SmallDisk::Limited).await;
}

async fn refuses_and_recovers(disk_under: impl FnOnce(&Path) -> SmallDisk) {
    let issuer = Issuer::start().await;
    let files = Server::start(&[tool("read"), tool("write")]).await;
    let setup = Setup::with(&issuer, &files).risk("files/read", "low");
    let home = setup.risk("files/write", "medium").home();
    std::fs::create_dir_all(home.state()).unwrap();
    let disk = disk_under(&home.state());
    // The disk goes before the directory it lies in.
    let (gateway, disk) = (start(home).await, disk);
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    known(&agent).await;
    let mut released = vec![agent.call("write", json!({})).await];

    let token = gateway.home.agent_token(&["--sub", "bot"]);
    disk.fill(&gateway);
    if let SmallDisk::Mounted(_) = disk {
        gateway
            .home
            .cli(&["token", "revoke", token["id"].as_str().unwrap()])
            .success();
    }
    let in_reserve = call_until_refused(&agent).await;
    if let SmallDisk::Mounted(_) = disk {
        assert!(
            in_reserve.len() > 20,
            "{} calls in the log's own room",
            in_reserve.len()
        );
        let listed = gateway.home.cli(&["activity", "list"]);
        assert!(listed.stderr.contains("the index of the log is behind"), "{listed:?}");
    }
    released.extend(in_reserve);
    assert_eq!(ready(&gateway).await, 503);
    let before = files.calls().len();
    for tool in ["read", "write"] {
        assert_unrecorded(&agent.call(tool, json!({})).await);
    }
    let list = agent.request("tools/list", json!({})).await;
    assert_unrecorded(&list);
    assert_eq!(files.calls().len(), before, "a call left that is not on record");

    disk.free(&gateway);
    eventually("ready again", 60, async || ready(&gateway).await == 200).await;
    for tool in ["read", "write"] {
        released.push(agent.call(tool, json!({})).await);
    }
    assert_recorded(&gateway.home, &released);
    let gateway = gateway.restart().await;
    assert_eq!(ready(&gateway).await, 200);
    let home = gateway.stop().await;
    verify_chain(&lines_on_disk(&home));
    drop(disk);
}

/// A call waits for the first discovery, but not for as long as that takes on a busy machine.
pub(super) async fn known(agent: &Agent) {
    eventually("the tools are known", 60, async || !agent.names().await.is_empty()).await;
}

/// The binary, deaf to the signal by which a limit on files would end it.
async fn start(home: Home) -> Gateway {
    let mut deaf = command("sh");
    deaf.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]).arg(portreeve());
    Gateway::start_as(home, deaf).await
}

pub(super) async fn ready(gateway: &Gateway) -> u16 {
    gateway.ask(Ask::new("GET", "/readyz")).await.status
}

/// The log has some room of its own left; these are the answers that still left.
async fn call_until_refused(agent: &Agent) -> Vec<Answer> {
    let mut released = Vec::new();
    for _ in 0..400 {
        let answer = agent.call("read", json!({})).await;
        if answer.last().get("error").is_some() {
            assert_unrecorded(&answer);
            return released;
        }
        released.push(answer);
    }
    panic!("the disk is full, and calls are answered");
}

pub(super) fn assert_unrecorded(answer: &Answer) {
    assert_eq!(answer.error_code(), -32603, "{}", answer.text());
    let decision = answer.decision();
    assert_eq!(decision["reason_codes"], json!(["DENY_RECEIPT_UNAVAILABLE"]));
    assert_eq!(decision["receipt_id"], Value::Null);
}

/// Every answer that left has its one receipt.
pub(super) fn assert_recorded(home: &Home, released: &[Answer]) {
    let records = receipts(&all(home));
    for answer in released {
        assert!(answer.last().get("result").is_some(), "{}", answer.text());
        let of_answer = |record: &&Value| record["trace_id"] == answer.trace.as_str();
        assert_eq!(records.iter().filter(of_answer).count(), 1, "{}", answer.text());
    }
}

/// The disk under the state directory.
enum SmallDisk {
    /// One of its own.
    Mounted(PathBuf),
    /// The usual one, with a limit on how large a file of the gateway may become.
    Limited,
}

impl SmallDisk {
    /// A disk of its own where this process may mount one.
    fn mount(state: &Path) -> Self {
        let mut mount = command("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs"])
            .arg(state);
        match Finished::of(&mut mount).code {
            Some(0) => Self::Mounted(state.to_owned()),
            _ => Self::Limited,
        }
    }

    fn fill(&self, gateway: &Gateway) {
        match self {
            Self::Mounted(state) => {
                let mut ballast = File::create(state.join("ballast")).unwrap();
                while ballast.write_all(&[0; 4096]).is_ok() {}
            }
            Self::Limited => limit_files(gateway, Some(size_of_log(&gateway.home))),
        }
    }

    fn free(&self, gateway: &Gateway) {
        match self {
            Self::Mounted(state) => std::fs::remove_file(state.join("ballast")).unwrap(),
            Self::Limited => limit_files(gateway, None),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Self::Mounted(state) = self {
            Finished::of(command("umount").arg("--lazy").arg(state));
        }
    }
}

/// Sets the soft limit of the running gateway; the hard one stays.
fn limit_files(gateway: &Gateway, bytes: Option<u64>) {
    let process = Pid::from_raw(i32::try_from(gateway.id()).unwrap()).unwrap();
    let maximum = rustix::process::getrlimit(Resource::Fsize).maximum;
    let current = bytes.or(maximum);
    prlimit(Some(process), Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

fn size_of_log(home: &Home) -> u64 {
    let segment = home.state().join("ledger/00000001.jsonl");
    std::fs::metadata(segment).unwrap().len()
}
