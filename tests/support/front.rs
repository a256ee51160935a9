//! A client that only spawns commands: it talks to `portreeve connect` over standard input and output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::agent::initialize;
use super::environment::{command, portreeve};

/// A running `portreeve connect`.
pub(crate) struct Front {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
    stderr: Option<JoinHandle<String>>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Left {
    pub code: Option<i32>,
    pub lines: Vec<String>,
    pub stderr: String,
}

impl Front {
    /// `portreeve connect`, to be given its arguments and variables.
    pub(crate) fn command() -> Command {
        let mut front = command(portreeve());
        front.arg("connect");
        front
    }

    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Self {
            stdin: child.stdin.take(),
            stderr: Some(stderr),
            child,
            lines,
        }
    }

    /// Says a line.
    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request.
    pub(crate) fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    }

    /// Sends a notification.
    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// The next line it prints.
    pub(crate) async fn line(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(20), self.lines.recv()).await;
        line.expect("a line in time").expect("a line before the end")
    }

    /// The next message it prints.
    pub(crate) async fn hear(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"))
    }

    /// Sends a request and gives the next message.
    pub(crate) async fn exchange(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id: Value = id.into();
        self.ask(id.clone(), method, params);
        let answer = self.hear().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Opens a legacy session.
    pub(crate) async fn open(&mut self) -> Value {
        let answer = self.exchange("open", "initialize", initialize()).await;
        self.tell("notifications/initialized", json!({}));
        answer
    }

    /// Closes standard input and waits for the end.
    pub(crate) async fn leave(mut self) -> Left {
        drop(self.stdin.take());
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "it does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let mut lines = Vec::new();
        while let Some(line) = self.lines.recv().await {
            lines.push(line);
        }
        Left {
            code: status.code(),
            lines,
            stderr: self.stderr.take().unwrap().join().unwrap(),
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
