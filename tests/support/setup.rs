//! A configuration in the making, and the directory it lives in.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::environment::{Finished, command, portreeve};
use super::gateway::Gateway;
use super::issuer::{AUDIENCE, ISSUER, Issuer};
use super::left_behind::{look_through, never_keep};
use super::peer::Peer;
use super::server::Server;

/// Everybody may do everything.
pub(crate) const PERMIT_ALL: &str = r#"@id("permit-all") permit (principal, action, resource);"#;

/// What a test wants the gateway to be.
pub(crate) struct Setup {
    table: toml::Table,
    policy: Option<String>,
    environment: Vec<(String, String)>,
}

impl Setup {
    /// Loopback, any port, no TLS, everything permitted, limits out of the way.
    pub(crate) fn new() -> Self {
        Self {
            table: toml::Table::new(),
            policy: Some(PERMIT_ALL.to_owned()),
            environment: Vec::new(),
        }
        .set("listen.mcp", "127.0.0.1:0")
        .set("listen.admin", "127.0.0.1:0")
        .set("listen.tls.mode", "off")
        .set("state.dir", "state")
        .set("audit.origin", "gw.test/portreeve")
        .set(
            "limits.rate",
            json!([{"per": "principal", "calls": 1_000_000, "window": "1m"}]),
        )
        .set(
            "limits.quota",
            json!([{"per": "principal", "calls": 1_000_000, "window": "1d"}]),
        )
        .set("limits.concurrency", json!({"per_principal": 1000, "per_server": 1000}))
    }

    /// A gateway with one issuer and one server called `files`.
    pub(crate) fn with(issuer: &Issuer, files: &Server) -> Self {
        Self::new().issuer(issuer).server("files", files)
    }

    /// Sets a value by its dotted path.
    pub(crate) fn set(mut self, path: &str, value: impl Serialize) -> Self {
        self.put(path, Some(toml::Value::try_from(value).unwrap()));
        self
    }

    /// Takes a value away, so that the default counts.
    pub(crate) fn unset(mut self, path: &str) -> Self {
        self.put(path, None);
        self
    }

    /// Trusts an issuer.
    pub(crate) fn issuer(self, issuer: &Issuer) -> Self {
        let claims = json!({"org": "org_id", "groups": "groups", "client": "azp", "team": "team"});
        let algorithms = json!(["RS256", "ES256", "EdDSA"]);
        self.set(
            "identity.jwt",
            json!([{"issuer": ISSUER, "audience": AUDIENCE, "jwks": issuer.jwks_url(),
            "algorithms": algorithms, "claims": claims}]),
        )
    }

    /// Adds a trusted server.
    pub(crate) fn server(self, id: &str, server: &Server) -> Self {
        self.set(&format!("servers.{id}.url"), server.url())
            .set(&format!("servers.{id}.trust"), "internal")
    }

    /// Adds a trusted server of either era.
    pub(crate) fn peer(self, id: &str, peer: &Peer) -> Self {
        self.set(&format!("servers.{id}.url"), peer.url())
            .set(&format!("servers.{id}.trust"), "internal")
    }

    /// Sets the operator's word on a tool's risk.
    pub(crate) fn risk(self, tool: &str, risk: &str) -> Self {
        let (server, name) = tool.split_once('/').unwrap();
        self.set(&format!("servers.{server}.tools.{name}.risk"), risk)
    }

    /// Replaces the policies.
    pub(crate) fn policy(mut self, text: &str) -> Self {
        self.policy = Some(text.to_owned());
        self
    }

    /// Leaves the policies out.
    pub(crate) fn without_policy(mut self) -> Self {
        self.policy = None;
        self
    }

    /// Gives the gateway a variable.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes the configuration into a fresh directory.
    pub(crate) fn home(self) -> Home {
        let home = Home {
            directory: TempDir::new().unwrap(),
            setup: self,
        };
        home.write();
        home
    }

    /// Starts a gateway.
    pub(crate) async fn start(self) -> Gateway {
        self.home().serve().await
    }

    fn put(&mut self, path: &str, value: Option<toml::Value>) {
        let mut steps: Vec<&str> = path.split('.').collect();
        let last = steps.pop().unwrap();
        let mut table = &mut self.table;
        for step in steps {
            let entry = table.entry(step).or_insert_with(|| toml::Table::new().into());
            table = entry.as_table_mut().unwrap();
        }
        match value {
            Some(value) => table.insert(last.to_owned(), value),
            None => table.remove(last),
        };
    }
}

/// The directory of one gateway: configuration, policies, state.
pub(crate) struct Home {
    directory: TempDir,
    pub setup: Setup,
}

impl Home {
    /// Writes configuration and policies as the set-up has them now.
    pub(crate) fn write(&self) {
        // Policies come last: who sees new ones in force knows that the rest is in force too.
        self.write_config(&toml::to_string(&self.setup.table).unwrap());
        let policies = self.path("policies");
        std::fs::create_dir_all(&policies).unwrap();
        match &self.setup.policy {
            Some(text) => {
                let aside = policies.join("main.cedar.new");
                std::fs::write(&aside, text).unwrap();
                std::fs::rename(aside, policies.join("main.cedar")).unwrap();
            }
            None => drop(std::fs::remove_file(policies.join("main.cedar"))),
        }
    }

    /// Writes this text as the configuration, at once: a running gateway reads it whenever it changes.
    pub(crate) fn write_config(&self, text: &str) {
        let aside = self.path("portreeve.toml.new");
        std::fs::write(&aside, text).unwrap();
        std::fs::rename(aside, self.config()).unwrap();
    }

    /// Changes the set-up and writes it down.
    pub(crate) fn rewrite(&mut self, change: impl FnOnce(Setup) -> Setup) {
        let empty = Setup {
            table: toml::Table::new(),
            policy: None,
            environment: Vec::new(),
        };
        self.setup = change(std::mem::replace(&mut self.setup, empty));
        self.write();
    }

    /// A path in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.path("portreeve.toml")
    }

    /// The state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Starts the gateway and waits until it answers.
    pub(crate) async fn serve(self) -> Gateway {
        Gateway::start(self).await
    }

    /// Runs a command of the shipped binary with this configuration.
    pub(crate) fn cli(&self, arguments: &[&str]) -> Finished {
        let mut command = command(portreeve());
        command
            .current_dir(self.directory.path())
            .args(arguments)
            .arg("--config")
            .arg(self.config());
        command.envs(self.variables());
        Finished::of(&mut command)
    }

    /// The variables the gateway gets.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        self.setup.environment.clone()
    }

    /// An agent token with these options.
    pub(crate) fn agent_token(&self, options: &[&str]) -> Value {
        let mut arguments = vec!["token", "create", "--json"];
        arguments.extend(options);
        let made: Value = serde_json::from_str(&self.cli(&arguments).success()).unwrap();
        never_keep(made["token"].as_str().unwrap());
        made
    }

    /// Every file below the state directory.
    pub(crate) fn state_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect(&self.state(), &mut found);
        found
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        look_through(&self.state(), &[self.path("stdout.log"), self.path("stderr.log")]);
    }
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.push(path);
        }
    }
}
