//! What is left to do before agents can use a server: said when it is added, and by `check` until it is done.

use policy::{Inventory, InventoryStore as _, Standing};
use store::Store;
use vocabulary::{ServerId, Trust};

use crate::config::{Config, Isolation, Reach, Workspace};
use crate::wire_up::facts;

/// One sentence, and what to type or write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) what: String,
    pub(super) how: String,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.how)
    }
}

/// What was discovered so far; nothing is made where no gateway ever ran.
pub(super) fn discovered(config: &Config) -> anyhow::Result<Inventory> {
    let stored = match config.state.dir.join("state.db").exists() {
        true => Store::open(&config.state.dir)?.load()?,
        false => Vec::new(),
    };
    Ok(Inventory::assemble(
        &facts(&config.servers, None),
        &stored,
        &|name, description| config.risk.of_tool(name, description),
    ))
}

/// What is left to do for one server.
pub(super) fn of_server(config: &Config, inventory: &Inventory, id: &ServerId) -> Vec<Step> {
    let approval = approval(config, inventory, id);
    approval.into_iter().chain(policy(config, id)).collect()
}

fn approval(config: &Config, inventory: &Inventory, id: &ServerId) -> Option<Step> {
    let of_server = |tool: &&std::sync::Arc<policy::ToolEntry>| tool.id.server == *id;
    let waits = |tool: &&std::sync::Arc<policy::ToolEntry>| matches!(tool.standing, Standing::Quarantined(_));
    let tools = inventory.tools().iter().filter(of_server);
    let (all, waiting) = (tools.clone().count(), tools.filter(waits).count());
    let is_known = inventory.server(id).is_some_and(|server| server.discovered.is_some());
    let is_unknown = config.servers.get(id)?.trust == Trust::Unknown;
    let how = format!("look with `portreeve tool list --server {id}`, then `portreeve tool approve '{id}/*'`");
    let before = inventory.server(id).and_then(|server| server.approved_as.as_ref());
    let what = match (is_known, waiting) {
        (true, 0) => return None,
        (true, _) => match before {
            Some(before) => {
                format!("{waiting} of its {all} tools wait: they were approved of another server, {before}")
            }
            None => format!("{waiting} of its {all} tools wait for approval"),
        },
        (false, _) if is_unknown => "its tools will wait for approval once it was discovered".to_owned(),
        (false, _) => return None,
    };
    Some(Step { what, how })
}

fn policy(config: &Config, id: &ServerId) -> Option<Step> {
    if config.policy.rules.may_permit_on(id) {
        return None;
    }
    let example = format!(
        "permit (principal in Group::\"dev\", action == Action::\"tools/call\", resource in Server::\"{id}\");"
    );
    Some(Step {
        what: "no policy permits anything of it, so all is denied".to_owned(),
        how: format!("write one into a file that `[policy] files` names, such as `{example}`"),
    })
}

/// What is worth knowing of servers that keep their files in one place for everybody.
pub(super) fn sharing(config: &Config, id: &ServerId) -> Option<Step> {
    let server = config.servers.get(id)?;
    let Reach::Process(process) = &server.reach else {
        return None;
    };
    let shares = server.isolation == Isolation::PerPrincipal && process.workspace == Workspace::Own;
    shares.then(|| Step {
        what: "its processes share its workspace, whoever they are for".to_owned(),
        how: "put `{principal}` into `sandbox.workspace` to give each principal one".to_owned(),
    })
}
