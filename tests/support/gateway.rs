//! A running gateway: the shipped binary as its own process, reached through its sockets and its command line.

use std::fs::File;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::certificates::{self, Certificate};
use super::environment::{command, portreeve};
use super::setup::Home;
use super::wire::{Ask, Door, Reply};

/// A gateway that answers.
pub(crate) struct Gateway {
    pub home: Home,
    pub mcp: Door,
    pub admin: Door,
    pub ready: Value,
    child: Child,
}

impl Gateway {
    /// Starts the binary and waits for the ready file.
    pub(crate) async fn start(home: Home) -> Self {
        Self::start_as(home, command(portreeve())).await
    }

    /// Starts it by another program that becomes the binary.
    pub(crate) async fn start_as(home: Home, mut program: Command) -> Self {
        let ready_file = home.path("ready.json");
        let _ = std::fs::remove_file(&ready_file);
        let log = |name: &str| File::options().create(true).append(true).open(home.path(name)).unwrap();
        let mut child = program
            .current_dir(home.path(""))
            .arg("serve")
            .arg("--config")
            .arg(home.config())
            .arg("--ready-file")
            .arg(&ready_file)
            .envs(home.variables())
            .stdout(log("stdout.log"))
            .stderr(log("stderr.log"))
            .spawn()
            .unwrap();
        let began = Instant::now();
        let ready: Value = loop {
            if let Some(ready) = std::fs::read(&ready_file)
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok())
            {
                break ready;
            }
            let ended = child.try_wait().unwrap();
            let stderr = || std::fs::read_to_string(home.path("stderr.log")).unwrap_or_default();
            assert!(ended.is_none(), "the gateway ended ({ended:?}):\n{}", stderr());
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "the gateway did not get ready:\n{}",
                stderr()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let tls = ready["ca"]
            .as_str()
            .map(|path| certificates::client(&std::fs::read_to_string(path).unwrap(), None));
        let door = |url: &Value| Door {
            address: address_of(url.as_str().unwrap()),
            tls: tls.clone(),
            from: None,
        };
        Self {
            mcp: door(&ready["mcp"]),
            admin: door(&ready["admin"]),
            home,
            ready,
            child,
        }
    }

    /// The data plane, with another trust root and perhaps a client certificate.
    pub(crate) fn mcp_trusting(&self, authority_pem: &str, shows: Option<&Certificate>) -> Door {
        Door {
            tls: Some(certificates::client(authority_pem, shows)),
            ..self.mcp.clone()
        }
    }

    /// Sends one request to the data plane.
    pub(crate) async fn ask(&self, ask: Ask) -> Reply {
        self.mcp.ask(&ask).await
    }

    /// Sends one request to the control plane with the admin token.
    pub(crate) async fn ask_admin(&self, ask: Ask) -> Reply {
        self.admin.ask(&ask.bearer(&self.admin_token())).await
    }

    /// The token that the first start leaves behind.
    pub(crate) fn admin_token(&self) -> String {
        std::fs::read_to_string(self.home.state().join("admin.token"))
            .unwrap()
            .trim()
            .to_owned()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it logged.
    pub(crate) fn logs(&self) -> String {
        ["stdout.log", "stderr.log"]
            .map(|name| std::fs::read_to_string(self.home.path(name)).unwrap_or_default())
            .concat()
    }

    /// The most memory it ever had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Asks it to end and checks that it does, cleanly.
    pub(crate) async fn stop(mut self) -> Home {
        self.signal(Signal::TERM);
        let status = self.ended().await;
        assert_eq!(status, Some(0), "no clean exit:\n{}", self.logs());
        self.leave()
    }

    /// Kills it without a warning.
    pub(crate) async fn kill(mut self) -> Home {
        self.signal(Signal::KILL);
        self.ended().await;
        self.leave()
    }

    /// Stops it and starts it again on the same state.
    pub(crate) async fn restart(self) -> Self {
        self.stop().await.serve().await
    }

    /// Waits for the end of the process.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "the gateway did not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn leave(mut self) -> Home {
        let nothing = super::Setup::new().home();
        std::mem::replace(&mut self.home, nothing)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address_of(url: &str) -> SocketAddr {
    let authority = url.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    authority.to_socket_addrs().unwrap().find(SocketAddr::is_ipv4).unwrap()
}

/// A TLS client for the data plane, as an `Arc` where a test needs it bare.
pub(crate) fn tls_of(door: &Door) -> Arc<rustls::ClientConfig> {
    Arc::clone(door.tls.as_ref().unwrap())
}
