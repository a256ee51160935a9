//! The official suite in front of other people's servers, without a gateway and with one as it comes: whatever passes without
//! it passes behind it.
//!
//! No package holds the conformance servers of the official SDKs, so two are written on the published SDKs the way
//! theirs are: with questions asked in mid-call, which those SDKs have in the older era alone.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::json;

use super::suite::{CURRENT, LEGACY, MODERN, run_server};
use super::{Everything, are_installed, modules, node, script, shim};
use crate::support::Setup;
use crate::support::environment::{self, command};

/// An answer that brings nothing but a result is JSON behind the gateway, where a stream is a server's choice: the suite
/// has no stream to look at, and none to resume because the gateway resumes it.
const NO_STREAM: [(&str, &str); 4] = [
    ("server-sse-multiple-streams:server-sse-streams-functional", "not made"),
    ("server-sse-polling:server-sse-disconnect-resume", "not made"),
    ("server-sse-polling:server-sse-priming-event", "not made"),
    ("server-sse-polling:server-sse-retry-field", "not made"),
];

/// The reference server has none of the suite's tools. Its SDK says so in a result, which is as good as any text to these
/// two checks; the gateway says so with the error of the specification. Its streams cannot be resumed.
const NO_SUCH_TOOL: [(&str, &str); 4] = [
    ("server-sse-multiple-streams:server-sse-streams-functional", "not made"),
    ("server-sse-polling:server-sse-priming-event", "not made"),
    ("tools-call-error:tools-call-error", "failed"),
    ("tools-call-simple-text:tools-call-simple-text", "failed"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_a_python_server_passes_at_the_legacy_version_it_passes_behind_the_gateway() {
    if let Some(server) = Server::python() {
        compare(&server.url, LEGACY, 80, &NO_STREAM).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_python_server_passes_at_the_modern_version_it_passes_behind_the_gateway() {
    if let Some(server) = Server::python() {
        compare(&server.url, MODERN, 160, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_typescript_server_passes_at_the_legacy_version_it_passes_behind_the_gateway() {
    if let Some(server) = Server::typescript("server") {
        compare(&server.url, LEGACY, 80, &NO_STREAM).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_typescript_server_passes_at_the_modern_version_it_passes_behind_the_gateway() {
    if let Some(server) = Server::typescript("server") {
        compare(&server.url, MODERN, 160, &[]).await;
    }
}

/// Of the suite's own server, which knows the older version alone.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_on_the_first_sdk_passes_at_the_legacy_version_it_passes_behind_the_gateway() {
    if let Some(server) = Server::typescript("sdk") {
        compare(&server.url, LEGACY, 72, &NO_STREAM).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_on_the_first_sdk_passes_at_the_modern_version_it_passes_behind_the_gateway() {
    if let Some(server) = Server::typescript("sdk") {
        compare(&server.url, MODERN, 9, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_reference_server_passes_at_the_legacy_version_it_passes_behind_the_gateway() {
    let program = modules().join("@modelcontextprotocol/server-everything/dist/index.js");
    if are_installed(&[&program]) {
        let server = Everything::start(&program);
        compare(&server.url, LEGACY, 44, &NO_SUCH_TOOL).await;
    }
}

/// Runs the suite twice. The gateway is as it comes, but that everybody may do everything and as often as they like.
/// `at_least` is less than a quiet machine passes without the gateway: some checks of the suite look at the clock.
async fn compare(url: &str, version: &str, at_least: usize, lost: &[(&str, &str)]) {
    let arguments = ["--requirements", version];
    let direct = run_server(CURRENT, url, &arguments);
    let server = json!({"url": url, "trust": "internal"});
    let gateway = Setup::new().set("servers.peer", server).start().await;
    let minted = gateway.home.agent_token(&["--sub", "suite"]);
    let way = shim::open(gateway.mcp.address, "/mcp/peer", minted["token"].as_str().unwrap()).await;
    let mut behind = run_server(CURRENT, &way, &arguments);
    behind.story += &gateway.logs();
    behind.loses_only(&direct, at_least, lost);
}

/// A conformance server of ours on somebody's SDK; it ends when its standard input does.
struct Server {
    url: String,
    child: Child,
    _stdin: Option<ChildStdin>,
}

impl Server {
    fn python() -> Option<Self> {
        let python = environment::peers().join("venv/bin/python");
        let mut server = command(&python);
        server.arg(script("conformance_server.py"));
        Self::start(&[&python], server)
    }

    /// On `server`, the TypeScript SDK's second version, or on `sdk`, its first.
    fn typescript(package: &str) -> Option<Self> {
        let sdk = modules().join("@modelcontextprotocol").join(package);
        let mut server = command(node());
        server.arg(script("conformance_server.mjs")).arg(modules()).arg(package);
        Self::start(&[&sdk], server)
    }

    /// Starts it if what it needs is there; it says its URL as soon as it listens.
    fn start(needed: &[&Path], mut server: Command) -> Option<Self> {
        if !are_installed(needed) {
            return None;
        }
        let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut url).unwrap();
        Some(Self {
            url: url.trim().to_owned(),
            _stdin: child.stdin.take(),
            child,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
