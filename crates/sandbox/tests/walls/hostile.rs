//! The attacker of `tests/adversarial` in a sandbox of this crate, without a gateway: where a tier is forced or a wall
//! is left out.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use portreeve_sandbox::{Instance, Launcher, Plan, Streams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bench::{Place, draft, open_to_all};

/// A row's attempt, as `rows.json` has it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt(Value);

/// Every attempt.
pub(crate) fn attempts() -> Vec<Attempt> {
    let text = std::fs::read_to_string(scripts().join("rows.json")).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    rows.into_iter().map(Attempt).collect()
}

impl Attempt {
    pub(crate) fn row(&self) -> &str {
        self.0["row"].as_str().unwrap()
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.row(), self.0["attempt"].as_str().unwrap())
    }

    pub(crate) fn works_bare(&self) -> bool {
        self.0["bare"]["through"] == true
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/adversarial/sandbox")
}

/// What must stay out of reach, beside a workspace.
pub(crate) struct Scene {
    place: Place,
    memory: Child,
    given: Value,
    _datagrams: UnixDatagram,
}

impl Scene {
    pub(crate) fn set() -> Self {
        let place = Place::new();
        let name = place.0.file_name().unwrap().to_str().unwrap().replace("walls", "");
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        let text = format!("canary-{digits:0>16}");
        for directory in ["workspace", "attacker", "outside"] {
            place.directory(directory);
        }
        for name in SCRIPTS {
            let copied = place.0.join("attacker").join(name);
            std::fs::copy(scripts().join(name), copied).unwrap();
        }
        // All of it belongs to the server's uid, so that nothing but the sandbox stands in the way.
        give(&place.0.join("outside"));
        let secret = place.file("outside/secret", &text);
        give(&secret);
        for name in ["outside/append", "outside/delete", "outside/key"] {
            let file = place.file(name, &text);
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
            give(&file);
        }
        std::os::unix::fs::symlink(&secret, place.0.join("workspace/planted")).unwrap();
        let (memory, shared) = share(&place.0.join("attacker/canary.py"), &text);
        let path = |name: &str| place.0.join(name);
        let mut given = json!({
            "secret": secret, "directory": path("outside"), "open_directory": path("outside"),
            "append": path("outside/append"), "delete": path("outside/delete"), "key_file": path("outside/key"),
            "planted": path("workspace/planted"), "pid": memory.id(), "ledger": secret, "state": path("outside"),
            "shared_name": place.0.file_name().unwrap().to_str(), "abstract": "nobody", "socket": path("workspace/none"),
            "datagram": path("workspace/datagrams"), "docker": path("none"), "setuid_program": "/usr/bin/id",
            "port": 1, "udp_port": 1, "gateway_port": 1, "admin_port": 1, "public": "192.0.2.1", "public6": "2001:db8::1",
            "private": "10.255.255.1", "private6": "fd00::1", "metadata": "169.254.169.254", "resolver": "192.0.2.53",
            "denied": "denied.test", "allowed": "good.test", "timeout": 30,
        });
        given
            .as_object_mut()
            .unwrap()
            .extend(shared.as_object().unwrap().clone());
        let datagrams = UnixDatagram::bind(path("workspace/datagrams")).unwrap();
        open_to_all(&path("workspace/datagrams"));
        Self {
            place,
            memory,
            given,
            _datagrams: datagrams,
        }
    }

    /// The attacker, inside.
    pub(crate) async fn attacker(&self, launcher: &Launcher) -> Attacker {
        let workspace = self.place.0.join("workspace");
        let script = self.place.0.join("attacker/hostile.py");
        let mut draft = draft(&workspace, &["/usr/bin/python3", script.to_str().unwrap()]);
        draft.read.push(self.place.0.join("attacker"));
        let starting = launcher.start(&Plan::check(draft).unwrap()).await.unwrap();
        let mut instance = starting.go().await.unwrap();
        let streams = instance.take_streams().unwrap();
        Attacker {
            streams,
            given: self.given.clone(),
            _instance: instance,
        }
    }

    /// Fails if something was changed.
    pub(crate) fn must_be_untouched(&self, what: &str) {
        let mut names: Vec<_> = std::fs::read_dir(self.place.0.join("outside"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["append", "delete", "key", "secret"], "{what}");
        for name in names {
            let text = std::fs::read_to_string(self.place.0.join("outside").join(&name)).unwrap();
            assert!(
                text.starts_with("canary-") && text.len() == 23,
                "{what} changed {name:?}"
            );
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.memory.stdin.take());
        let _ = self.memory.wait();
    }
}

fn give(path: &Path) {
    if rustix::process::geteuid().is_root() {
        let uid = Some(portreeve_sandbox::DEDICATED_UID);
        std::os::unix::fs::chown(path, uid, uid).unwrap();
    }
}

const SCRIPTS: [&str; 9] = [
    "hostile.py",
    "evidence.py",
    "files.py",
    "kernel.py",
    "network.py",
    "processes.py",
    "proxy.py",
    "bombs.py",
    "canary.py",
];

#[expect(clippy::disallowed_methods, reason = "the canary is a process without a sandbox")]
fn share(script: &Path, text: &str) -> (Child, Value) {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new("/usr/bin/python3");
    command
        .arg(script)
        .arg(text)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if rustix::process::geteuid().is_root() {
        command
            .uid(portreeve_sandbox::DEDICATED_UID)
            .gid(portreeve_sandbox::DEDICATED_UID);
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    (child, serde_json::from_str(&line).unwrap())
}

/// The attacker, inside.
pub(crate) struct Attacker {
    streams: Streams,
    given: Value,
    _instance: Instance,
}

impl Attacker {
    /// Tries one thing and says what came of it.
    pub(crate) async fn attempt(&mut self, attempt: &Attempt) -> Value {
        let order = json!({"row": attempt.0["row"], "attempt": attempt.0["attempt"], "with": self.given});
        let params = json!({"name": "attempt", "arguments": order});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let line = format!("{message}\n");
        self.streams.stdin.write_all(line.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"\n") {
            let mut piece = [0; 65_536];
            let length = self.streams.stdout.read(&mut piece).await.unwrap();
            assert!(length > 0, "{}: the attacker ended", attempt.name());
            said.extend_from_slice(&piece[..length]);
        }
        let answer: Value = serde_json::from_slice(&said).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap()
    }
}
