//! `server show`: one server in full: its identity, how what it offers stands, its limits, its package and its walls.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::command::access::Access;
use crate::command::output::{self, Form};
use crate::config::{Limits, Local, Process, Reach, Server};

pub(super) async fn show(access: &Access, config: &Local, id: &str, form: Form) -> anyhow::Result<ExitCode> {
    let mut server = super::find(access, id).await?;
    let known = config.servers.iter().find(|(known, _)| known.as_str() == id);
    if let (Some(members), Some((_, known))) = (server.as_object_mut(), known) {
        members.insert("identity".to_owned(), identity(known));
        members.insert("version".to_owned(), json!(version(known)));
        members.insert("barred".to_owned(), json!(known.barred));
        members.insert("limits".to_owned(), config.limits.as_ref().map_or(Value::Null, limits));
        if let Reach::Process(process) = &known.reach {
            members.insert("package".to_owned(), package(process));
            members.insert("sandbox".to_owned(), walls(process));
        }
    }
    match form.json {
        true => output::line(&server.to_string())?,
        false => {
            output::sheet(&output::flatten(&server))?;
            super::trouble::tell([&server]);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// By what it is known again: the package's digest, the program's command, or the address and the name its certificate holds.
fn identity(server: &Server) -> Value {
    match &server.reach {
        Reach::Web(web) => json!({ "url": web.url.to_string(), "certificate_name": web.certificate_name }),
        Reach::Process(process) => match process.packages.first() {
            Some((_, locked)) => json!(locked),
            None => json!({ "command": process.command }),
        },
    }
}

/// The version of its package, as it is locked.
fn version(server: &Server) -> Option<String> {
    match &server.reach {
        Reach::Web(_) => None,
        Reach::Process(process) => {
            let (_, locked) = process.packages.first()?;
            json!(locked).get("version")?.as_str().map(str::to_owned)
        }
    }
}

/// What bounds every server of this gateway.
fn limits(limits: &Limits) -> Value {
    let rule = |rule: &policy::Rule| json!({ "per": rule.per.to_string(), "calls": rule.calls, "window": rule.window.to_string() });
    json!({
        "timeout_seconds": limits.timeout.as_secs(),
        "concurrency": limits.concurrency.per_server,
        "result_max_bytes": limits.result.max_bytes,
        "rate": limits.rate.iter().map(rule).collect::<Vec<_>>(),
        "quota": limits.quota.iter().map(rule).collect::<Vec<_>>(),
    })
}

/// What it was installed from; null for a command of the operator's own.
fn package(process: &Process) -> Value {
    let first = process.packages.first();
    first.map_or(Value::Null, |(_, locked)| json!(locked))
}

/// The walls it is to have; those it has are on receipts.
fn walls(process: &Process) -> Value {
    json!({
        "fs": process.fs.as_str(),
        "net": process.net.as_str(),
        "read": process.read,
        "allow": process.allow,
    })
}
