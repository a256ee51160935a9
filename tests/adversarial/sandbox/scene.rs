//! Everything on one stage: canaries, far sides, the gateway under test, and the attacker with and without a sandbox.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::attempts::{Attempt, Report};
use super::canaries::Canaries;
use super::far_sides::{self, FarSides};
use super::stage::Stage;
use crate::support::{Agent, Answer, Gateway, Issuer, Setup};

/// See the module.
pub(super) struct Scene {
    pub stage: Stage,
    pub canaries: Canaries,
    pub sides: FarSides,
    pub issuer: Issuer,
    pub canary: String,
}

impl Scene {
    /// Sets everything out but the gateway.
    pub(super) async fn set(stage: Stage) -> Self {
        let texts = std::fs::read_to_string(stage.path("texts")).unwrap();
        let canary = texts.split_whitespace().next().unwrap().to_owned();
        let sides = FarSides::start(&stage, &canary).await;
        let canaries = Canaries::set(&stage, &canary);
        sides.unix(&stage.path("workspace/socket"));
        sides.unix(&stage.path("docker.sock"));
        sides.unix_datagrams(&stage.path("workspace/datagrams"));
        sides.abstract_unix(ABSTRACT);
        Self {
            issuer: Issuer::start().await,
            canary,
            canaries,
            sides,
            stage,
        }
    }

    /// A gateway with the attacker behind it, in the usual sandbox with what a test adds.
    pub(super) async fn gateway(&self, change: impl FnOnce(Setup) -> Setup) -> Gateway {
        change(self.setup("hostile", &[])).start().await
    }

    /// The configuration with one attacker that has these flags.
    pub(super) fn setup(&self, id: &str, flags: &[&str]) -> Setup {
        self.with_attacker(
            Setup::new()
                .issuer(&self.issuer)
                .set("limits.timeout", "100s")
                .variable("PORTREEVE_TEST_SECRET", &self.canary),
            id,
            flags,
        )
    }

    /// One attacker more.
    pub(super) fn with_attacker(&self, setup: Setup, id: &str, flags: &[&str]) -> Setup {
        let mut command = vec![PYTHON.to_owned(), self.script()];
        command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let server = |key: &str| format!("servers.{id}.{key}");
        setup
            .set(&server("command"), command)
            .set(&server("trust"), "internal")
            .set(&server("tools.attempt.risk"), "low")
            .set(&server("tools.attempt.unknown_fields"), "allow")
            .set(&server("sandbox.workspace"), self.stage.path("workspace"))
            .set(&server("sandbox.read"), [self.stage.path("attacker")])
            .set(&server("sandbox.limits"), json!({"processes": 64, "memory": "512MiB"}))
    }

    /// The attacker's program.
    pub(super) fn script(&self) -> String {
        self.stage.path("attacker/hostile.py").display().to_string()
    }

    /// A client of a server.
    pub(super) async fn agent(&self, gateway: &Gateway, server: &str, sub: &str) -> Agent {
        Agent::connect(gateway, &format!("/mcp/{server}"), &self.issuer.token(sub)).await
    }

    /// What every attempt is told; each takes what it needs.
    pub(super) fn given(&self, gateway: &Gateway) -> Map<String, Value> {
        let mut given = self.canaries.given();
        let more = json!({
            "ledger": segments(gateway).first(), "state": gateway.home.state(),
            "port": far_sides::PORT, "udp_port": far_sides::UDP_PORT,
            "gateway_port": gateway.mcp.address.port(), "admin_port": gateway.admin.address.port(),
            "public": far_sides::PUBLIC, "public6": far_sides::PUBLIC_SIX, "private": far_sides::PRIVATE,
            "private6": far_sides::PRIVATE_SIX, "metadata": far_sides::METADATA, "resolver": far_sides::RESOLVER,
            "denied": "denied.test", "allowed": "good.test", "abstract": ABSTRACT,
            "socket": self.stage.path("workspace/socket"), "datagram": self.stage.path("workspace/datagrams"),
            "docker": self.stage.path("docker.sock"), "count": 8, "bytes": 1 << 20, "timeout": 90,
        });
        given.extend(more.as_object().unwrap().clone());
        given
    }

    /// The attacker without a sandbox, as the server's uid.
    pub(super) fn bare(&self) -> Bare {
        let mut shell = self.stage.unconfined("sh");
        // A descriptor that nobody closed, as careless launchers leave them.
        let script = format!(
            "exec 9< {:?}; exec {PYTHON} {:?}",
            self.stage.path("outside/secret"),
            self.script()
        );
        shell.args(["-c", &script]).current_dir(self.stage.path("workspace"));
        shell.env("SECRET", &self.canary);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Bare {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// `kill(-1)` without a sandbox, in a process namespace of its own with a canary of its own.
    pub(super) fn kills_everybody_bare(&self) -> bool {
        let order = r#"{"row": "P3", "attempt": "kill_everybody", "with": {"pid": '$!'}}"#;
        let script = format!("sleep 1000 & {PYTHON} {:?} --bare '{order}'", self.script());
        let mut alone = self.stage.unconfined("unshare");
        alone.args(["--user", "--map-current-user", "--pid", "--mount", "--mount-proc"]);
        alone.args(["--fork", "--kill-child", "sh", "-c", &script]);
        let said = alone.output().unwrap();
        let report: Option<Report> = serde_json::from_slice(&said.stdout).ok();
        report.is_some_and(|report| report.through)
    }
}

/// A unix socket that is no file; it belongs to the network namespace.
const ABSTRACT: &str = "portreeve-test-socket";

/// The interpreter a sandbox shows without being told.
pub(super) const PYTHON: &str = "/usr/bin/python3";

/// The attacker without a sandbox.
pub(super) struct Bare {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Bare {
    /// Tries one thing.
    pub(super) fn attempt(&mut self, attempt: &Attempt, given: &Map<String, Value>) -> Report {
        let params = json!({"name": "attempt", "arguments": order(attempt, given)});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        writeln!(self.stdin, "{message}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        report_in(&answer["result"]).unwrap_or_else(|| panic!("{}: {line}", attempt.name()))
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The arguments of a call.
pub(super) fn order(attempt: &Attempt, given: &Map<String, Value>) -> Value {
    json!({"row": attempt.row, "attempt": attempt.attempt, "with": given})
}

/// What the attacker says in a result.
pub(super) fn report_in(result: &Value) -> Option<Report> {
    serde_json::from_str(result["content"][0]["text"].as_str()?).ok()
}

/// What the attacker says in an answer to a call.
pub(super) fn report_of(answer: &Answer) -> Report {
    report_in(&answer.result()).unwrap_or_else(|| panic!("no report: {}", answer.text()))
}

/// The files of a gateway's log.
fn segments(gateway: &Gateway) -> Vec<PathBuf> {
    let mut segments: Vec<PathBuf> = gateway.home.state_files();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    segments.sort();
    segments
}

/// The egress records of a gateway as they come.
#[derive(Default)]
pub(super) struct Watchman {
    offsets: HashMap<PathBuf, usize>,
    pub records: Vec<Value>,
}

impl Watchman {
    /// Reads on.
    pub(super) fn look(&mut self, gateway: &Gateway) {
        for path in segments(gateway) {
            let Ok(text) = std::fs::read(&path) else { continue };
            let offset = self.offsets.entry(path).or_default();
            let fresh = text.get(*offset..).unwrap_or_default();
            let whole = fresh.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let lines = fresh[..whole].split(|byte| *byte == b'\n');
            let records = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
            self.records.extend(records.filter(|record| record["type"] == "egress"));
            *offset += whole;
        }
    }

    /// Waits for a record after the first `known` ones.
    pub(super) async fn expect(
        &mut self,
        gateway: &Gateway,
        known: usize,
        is: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        let began = Instant::now();
        loop {
            self.look(gateway);
            if let Some(found) = self.records.iter().skip(known).find(|record| is(record)) {
                return Some(found.clone());
            }
            if began.elapsed() > PATIENCE {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A record is due within one second; the machine may be busy with other tests at the same time.
const PATIENCE: Duration = Duration::from_secs(3);
