//! `tool approve`: one definition, all of a server that wait, or all that changed; each as it was told.

use std::collections::BTreeSet;

use policy::ItemKind;
use serde_json::{Value, json};

use super::super::access::{Access, encoded};
use super::super::output::{self, Form, cell};
use super::{ItemArgument, Named, diff, item_id, kind, listed};

#[derive(clap::Args)]
pub(in super::super) struct Approve {
    /// What to approve, or `SERVER/*` for all of a server that wait
    #[arg(value_name = "ID", value_parser = item_id, required_unless_present_any = ["server", "changed"],
          conflicts_with_all = ["server", "changed"])]
    id: Option<ItemArgument>,
    /// tool, prompt, resource, template or instructions, where several share the id
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<ItemKind>,
    /// Only if the definition has this digest
    #[arg(long, value_name = "SHA256", conflicts_with_all = ["server", "changed"])]
    hash: Option<String>,
    /// Everything of this server that waits
    #[arg(long, value_name = "ID")]
    server: Option<String>,
    /// Everything whose definition changed since it was approved
    #[arg(long)]
    changed: bool,
    #[command(flatten)]
    form: Form,
}

impl Approve {
    pub(super) async fn run(self, access: &Access) -> anyhow::Result<()> {
        let (kind, form) = (self.kind, self.form);
        match self.id {
            Some(ItemArgument { server, name }) if name.as_deref() == Some("*") => {
                anyhow::ensure!(self.hash.is_none(), "`--hash` is about one definition; name it");
                let only = Only {
                    server: Some(server),
                    kind,
                    changed: false,
                };
                several(access, &only, form).await
            }
            Some(id) => one(access, &Named { id, kind }, self.hash, form).await,
            None => {
                let only = Only {
                    server: self.server,
                    kind,
                    changed: self.changed,
                };
                several(access, &only, form).await
            }
        }
    }
}

/// Tells what changed, then approves the definitions that were told of.
async fn one(access: &Access, named: &Named, hash: Option<String>, form: Form) -> anyhow::Result<()> {
    let told = diff::of(access, named).await?;
    if !form.json {
        output::lines(diff::lines(&told).iter().map(String::as_str))?;
    }
    // A definition that changes while this is read is another one, which nobody looked at.
    let hashes = match hash {
        Some(hash) => BTreeSet::from([hash]),
        None => diff::hashes(&told),
    };
    let mut approved = Value::Null;
    for hash in hashes {
        let body = json!({ "definition_hash": hash });
        approved = access.post(&named.path("/approve"), &body).await?;
    }
    if form.json {
        if let Some(members) = approved.as_object_mut() {
            members.insert("diff".to_owned(), told);
        }
        return output::line(&approved.to_string());
    }
    output::line(&format!(
        "{} is approved as {}",
        output::printable(&cell(&approved, "/id")),
        cell(&approved, "/approved_hash")
    ))
}

/// Which of what waits.
struct Only {
    server: Option<String>,
    kind: Option<ItemKind>,
    changed: bool,
}

impl Only {
    fn query(&self) -> String {
        let server = self
            .server
            .as_ref()
            .map(|server| format!("&server={}", encoded(server)));
        let kind = self.kind.map(|kind| format!("&kind={kind}"));
        format!(
            "standing=quarantined{}{}",
            server.unwrap_or_default(),
            kind.unwrap_or_default()
        )
    }

    fn nothing(&self) -> String {
        let what = match self.changed {
            true => "nothing that changed",
            false => "nothing",
        };
        match &self.server {
            Some(server) => format!("{what} of {server} waits for approval"),
            None => format!("{what} waits for approval"),
        }
    }
}

/// Approves each of those that wait, as it is told of.
async fn several(access: &Access, only: &Only, form: Form) -> anyhow::Result<()> {
    if let Some(server) = &only.server {
        let servers = access.get("/servers").await?;
        let servers = servers.get("servers").and_then(Value::as_array);
        let is_known = servers.is_some_and(|servers| servers.iter().any(|known| cell(known, "/id") == *server));
        anyhow::ensure!(is_known, "no server `{}` is configured", output::printable(server));
    }
    let waiting = listed(access, &only.query()).await?;
    // What has several definitions is listed once for each.
    let waiting: BTreeSet<(String, String, String)> = waiting
        .iter()
        .filter(|item| !only.changed || cell(item, "/cause") == "changed")
        .map(|item| {
            let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
            (cell(item, "/server"), cell(item, "/kind"), name.to_owned())
        })
        .collect();
    if waiting.is_empty() {
        output::note(&only.nothing());
    }
    let mut refused = 0;
    for (server, kind, name) in waiting {
        let id = ItemArgument {
            server,
            name: Some(name).filter(|name| !name.is_empty()),
        };
        let named = Named {
            kind: ItemKind::parse(&kind),
            id,
        };
        if let Err(error) = one(access, &named, None, form).await {
            output::note(&format!(
                "{}/{}: {error}",
                named.id.server,
                named.id.name.as_deref().unwrap_or_default()
            ));
            refused += 1;
        }
    }
    anyhow::ensure!(refused == 0, "{refused} could not be approved");
    Ok(())
}
