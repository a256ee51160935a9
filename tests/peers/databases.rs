//! `@modelcontextprotocol/server-postgres` in the sandbox, with Debian's PostgreSQL outside: a protocol that names no host,
//! spoken by a client that knows of no proxy.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::hosts::{self, attempts};
use super::{are_installed, modules};
use crate::support::environment::{Finished, command};
use crate::support::{Agent, Issuer, Setup, eventually};

/// A database of its own, on the test's address and on the loopback's.
struct Postgres {
    port: u16,
    programs: PathBuf,
    _directory: TempDir,
    child: Child,
}

impl Postgres {
    /// Where Debian puts the programs of its newest PostgreSQL; nothing where there is none.
    fn programs() -> PathBuf {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let newest = versions.map(|version| version.path().join("bin")).max();
        newest.unwrap_or_else(|| PathBuf::from("/usr/lib/postgresql/bin"))
    }

    /// A fresh cluster with one user, one password and one table. The server refuses to be root, so it is `postgres`.
    async fn start(programs: PathBuf) -> Self {
        let directory = TempDir::new().unwrap();
        let (uid, gid) = (number("-u"), number("-g"));
        let [password, data] = ["password", "data"].map(|name| directory.path().join(name));
        std::fs::write(&password, PASSWORD).unwrap();
        for path in [directory.path(), &password] {
            chown(path, Some(uid), Some(gid)).unwrap();
        }
        let mut init = as_postgres(&programs.join("initdb"));
        init.arg("--pgdata").arg(&data).arg("--pwfile").arg(&password);
        init.args(["--auth=scram-sha-256", "--username=keeper", "--no-sync"]);
        Finished::of(&mut init).success();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = as_postgres(&programs.join("postgres"));
        server
            .arg("-D")
            .arg(&data)
            .args(["-c", &format!("port={free}"), "-c", "fsync=off"]);
        server.args(["-c", &format!("listen_addresses={},127.0.0.1", hosts::address())]);
        server.args(["-c", "unix_socket_directories="]);
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let postgres = Self {
            port: free,
            programs,
            _directory: directory,
            child,
        };
        eventually("the database answers", 60, async || {
            postgres.tell("select 1").status().is_ok_and(|status| status.success())
        })
        .await;
        let tides = "create table tides (at text); insert into tides values ('high water at noon')";
        Finished::of(&mut postgres.tell(tides)).success();
        postgres
    }

    fn url(&self, host: &str) -> String {
        format!("postgresql://keeper:{PASSWORD}@{host}:{}/postgres", self.port)
    }

    fn tell(&self, sql: &str) -> Command {
        let mut client = command(self.programs.join("psql"));
        client.arg(self.url("127.0.0.1")).args(["--command", sql]);
        client.stdout(Stdio::null()).stderr(Stdio::null());
        client
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PASSWORD: &str = "lighthouse";

fn as_postgres(program: &Path) -> Command {
    let mut words = command("setpriv");
    words.args([
        "--reuid=postgres",
        "--regid=postgres",
        "--clear-groups",
        "--pdeathsig=KILL",
    ]);
    words.arg(program);
    words
}

fn number(kind: &str) -> u32 {
    let said = Finished::of(command("id").args([kind, "postgres"])).success();
    said.trim().parse().unwrap()
}

/// The server with a database at a host; it may reach `allow` and nothing else.
fn entry(url: String, allow: Value, private: Value) -> Value {
    let server = modules().join("@modelcontextprotocol/server-postgres/dist/index.js");
    let sandbox = json!({"read": [modules()], "net": "allowlist", "allow": allow, "private": private});
    json!({"command": ["node", server, url], "trust": "internal", "sandbox": sandbox})
}

#[tokio::test(flavor = "multi_thread")]
async fn server_postgres_reaches_the_database_that_is_named() {
    // R147
    let programs = Postgres::programs();
    let server = modules().join("@modelcontextprotocol/server-postgres/dist/index.js");
    if !are_installed(&[&programs.join("postgres"), &server]) || !hosts::is_possible() {
        return;
    }
    let (issuer, postgres) = (Issuer::start().await, Postgres::start(programs).await);
    let port = postgres.port;
    let named = json!([format!("harbour.test:{port}")]);
    let range = json!([format!("{}/32", hosts::address())]);
    let setup = Setup::new().issuer(&issuer).set(
        "servers",
        json!({
            "named": entry(postgres.url("harbour.test"), named.clone(), range.clone()),
            "here": entry(postgres.url("localhost"), json!([format!("localhost:{port}")]), json!(["127.0.0.0/8"])),
            "other": entry(postgres.url("elsewhere.test"), named.clone(), range.clone()),
            "shut": entry(postgres.url("harbour.test"), named, json!([])),
        }),
    );
    let Some(gateway) = hosts::start(setup).await else {
        return;
    };
    let ask = async |server: &str| {
        let agent = Agent::connect(&gateway, &format!("/mcp/{server}"), &issuer.token("ann")).await;
        eventually("the server was discovered", 90, async || {
            agent.names().await.iter().any(|name| name == "query")
        })
        .await;
        agent.call("query", json!({"sql": "select at from tides"})).await
    };
    for server in ["named", "here"] {
        let answer = ask(server).await;
        assert!(
            answer.text().contains("high water at noon"),
            "{server}: {}",
            answer.text()
        );
        assert_eq!(gateway.receipt_of(&answer)["sandbox"]["net_policy"], "allowlist");
    }
    for server in ["other", "shut"] {
        let answer = ask(server).await;
        assert!(!answer.text().contains("high water"), "{server}: {}", answer.text());
    }
    eventually("every attempt is in the log", 10, async || {
        let has = |host: &str, result: &str, reason: &str| {
            let told = (result.to_owned(), reason.to_owned());
            attempts(&gateway, host).contains(&told)
        };
        has("harbour.test", "allowed", "allowlisted_private")
            && has("localhost", "allowed", "allowlisted_private")
            && has("elsewhere.test", "blocked", "domain_not_allowlisted")
            && has("harbour.test", "blocked", "resolved_to_private_address")
    })
    .await;
}
