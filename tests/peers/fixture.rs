//! The server of `tests/fixture` as a process of its own: everything the official suite asks for, in either era or both.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Stdio};

use serde_json::json;

use crate::support::environment::{self, command};
use crate::support::{Gateway, Setup};

/// A running fixture; it ends when its standard input does.
pub(super) struct Fixture {
    url: String,
    child: Child,
    _stdin: Option<ChildStdin>,
}

impl Fixture {
    /// Starts it: `legacy`, `modern` or `dual`.
    pub(super) fn start(era: &str) -> Self {
        let mut child = command(environment::built("portreeve-fixture"))
            .args(["--era", era])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut url).unwrap();
        Self {
            url: url.trim().to_owned(),
            _stdin: child.stdin.take(),
            child,
        }
    }

    /// A gateway in front of it that lets everybody do everything, and the token of somebody.
    pub(super) async fn behind_gateway(&self) -> (Gateway, String) {
        Self::with(json!({"url": self.url, "trust": "internal"})).await
    }

    /// A gateway that starts the fixture itself, in the sandbox.
    pub(super) async fn inside(era: &str) -> (Gateway, String) {
        let program = environment::built("portreeve-fixture");
        let command = [program.to_str().unwrap(), "--era", era, "--stdio"];
        let sandbox = json!({"read": [program.parent().unwrap()]});
        Self::with(json!({"command": command, "trust": "internal", "sandbox": sandbox})).await
    }

    async fn with(server: serde_json::Value) -> (Gateway, String) {
        let gateway = Setup::new().set("servers.fixture", server).start().await;
        let token = gateway.home.agent_token(&["--sub", "suite"])["token"]
            .as_str()
            .unwrap()
            .to_owned();
        (gateway, token)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
