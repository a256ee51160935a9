//! A disk that errs, that may only be read, and that is slow: calls are refused or wait, reads go on, and it recovers by itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::evidence::{receipt, second, verified};
use super::full_disk::{assert_recorded, assert_unrecorded, known, ready};
use crate::support::environment::{Finished, command, portreeve, repository};
use crate::support::setup::Home;
use crate::support::{Agent, Gateway, Issuer, Server, Setup, eventually, tool};

/// What stands between the gateway and its disk, and how it is told to behave.
struct Disk {
    library: PathBuf,
    order: PathBuf,
}

impl Disk {
    fn before(home: &Home) -> Self {
        let (library, order) = (home.path("disk_faults.so"), home.path("disk_fault"));
        let source = repository().join("tests/fixture/disk/disk_faults.c");
        let mut compiler = command("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(source);
        Finished::of(&mut compiler).success();
        let disk = Self { library, order };
        disk.is("well");
        disk
    }

    async fn start(&self, home: Home) -> Gateway {
        let mut program = command(portreeve());
        program.env("LD_PRELOAD", &self.library).env("DISK_FAULT", &self.order);
        Gateway::start_as(home, program).await
    }

    /// From now on.
    fn is(&self, order: &str) {
        std::fs::write(&self.order, order).unwrap();
    }
}

struct Scene {
    issuer: Issuer,
    files: Server,
    gateway: Gateway,
    disk: Disk,
}

impl Scene {
    async fn set() -> Self {
        let issuer = Issuer::start().await;
        let files = Server::start(&[tool("read"), tool("write")]).await;
        let setup = Setup::with(&issuer, &files).risk("files/read", "low");
        let home = setup.risk("files/write", "medium").home();
        let disk = Disk::before(&home);
        let gateway = disk.start(home).await;
        Self {
            issuer,
            files,
            gateway,
            disk,
        }
    }

    async fn agent(&self) -> Agent {
        let agent = Agent::connect(&self.gateway, "/mcp/files", &self.issuer.token("ann")).await;
        known(&agent).await;
        agent
    }
}

/// Both verifiers find nothing.
fn is_sound(state: &Path) {
    assert_eq!(verified(state, &[]).0, Some(0));
    assert_eq!(second(&[state.to_owned()])[0]["ok"], true);
}

// R226
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_errs_or_may_only_be_read_refuses_calls_keeps_answering_reads_and_recovers() {
    for fault in ["eio", "erofs"] {
        let scene = Scene::set().await;
        let agent = scene.agent().await;
        let mut released = vec![
            agent.call("write", json!({})).await,
            agent.call("read", json!({})).await,
        ];
        receipt(&scene.gateway.home.state(), &["checkpoint"]).success();
        scene.disk.is(fault);
        assert_unrecorded(&agent.call("write", json!({})).await);
        eventually("not ready", 60, async || ready(&scene.gateway).await == 503).await;
        let before = scene.files.calls().len();
        for tool in ["read", "write"] {
            assert_unrecorded(&agent.call(tool, json!({})).await);
        }
        assert_unrecorded(&agent.request("tools/list", json!({})).await);
        assert_eq!(scene.files.calls().len(), before, "a call left that is not on record");
        // What is there can be read and verified all the while.
        let listed = scene
            .gateway
            .home
            .cli(&["activity", "list", "--tool", "write", "--json"])
            .success();
        assert_eq!(
            listed.lines().filter(|line| line.contains("\"final\"")).count(),
            1,
            "{fault}"
        );
        assert_eq!(verified(&scene.gateway.home.state(), &[]).0, Some(0), "{fault}");
        scene.disk.is("well");
        eventually("ready again", 60, async || ready(&scene.gateway).await == 200).await;
        for tool in ["read", "write"] {
            released.push(agent.call(tool, json!({})).await);
        }
        assert_recorded(&scene.gateway.home, &released);
        let home = scene.gateway.stop().await;
        is_sound(&home.state());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_holds_back_what_must_be_on_it_and_loses_nothing() {
    let scene = Scene::set().await;
    let agent = scene.agent().await;
    let mut released = vec![agent.call("write", json!({})).await];
    let before = scene.files.calls().len();
    scene.disk.is("slow");
    let waiting = tokio::spawn({
        let agent = agent.clone();
        async move { agent.call("write", json!({})).await }
    });
    // Its intent has reached the kernel, and it goes no further.
    let intents = || {
        scene
            .gateway
            .home
            .cli(&["activity", "list", "--tool", "write", "--json"])
            .success()
    };
    eventually("the intent is written", 60, async || {
        intents().lines().filter(|line| line.contains("\"intent\"")).count() == 2
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    assert_eq!(
        scene.files.calls().len(),
        before,
        "it left before its intent was on the disk"
    );
    scene.disk.is("well");
    released.push(waiting.await.unwrap());
    assert_eq!(scene.files.calls().len(), before + 1);
    assert_recorded(&scene.gateway.home, &released);
    let home = scene.gateway.stop().await;
    is_sound(&home.state());
}
