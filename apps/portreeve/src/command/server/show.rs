//! `server show`: one server in full, with its package and its walls.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::command::access::Access;
use crate::command::output::{self, Form};
use crate::config::{Local, Process, Reach};

pub(super) async fn show(access: &Access, config: &Local, id: &str, form: Form) -> anyhow::Result<ExitCode> {
    let mut server = super::find(access, id).await?;
    let process = config
        .servers
        .iter()
        .find(|(known, _)| known.as_str() == id)
        .and_then(|(_, server)| match &server.reach {
            Reach::Process(process) => Some(process),
            Reach::Web(_) => None,
        });
    if let (Some(members), Some(process)) = (server.as_object_mut(), process) {
        members.insert("package".to_owned(), package(process));
        members.insert("sandbox".to_owned(), walls(process));
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
