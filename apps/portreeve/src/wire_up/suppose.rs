//! A tool that nobody has seen yet, supposed to be there, so that its policies can be explained before its server was ever
//! discovered. It is in no inventory, and nothing can be called by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy::{Discovery, Inventory, PolicySnapshot, RiskOf, Rules, Shown, approve, merge};
use serde_json::json;
use vocabulary::{Clock, ServerId, ToolName};

use super::plan;
use crate::config::Server;

/// Inventory and policies as if this server offered this tool, approved and without hints: the risk is the operator's word, or
/// `high`. `None` if there is no such server, or the name can be no tool's.
pub(crate) fn supposing(
    servers: &BTreeMap<ServerId, Server>,
    rules: &Arc<Rules>,
    server: &ServerId,
    tool: &ToolName,
    risk_of: RiskOf<'_>,
) -> Option<PolicySnapshot> {
    let facts = plan::facts(servers, None)
        .into_iter()
        .find(|facts| facts.id == *server)?;
    let definition = json!({"name": tool.as_str(), "inputSchema": {"type": "object"}}).to_string();
    let seen = Discovery {
        server: server.clone(),
        shown: vec![Shown::to_all(vec![Arc::from(definition.into_bytes())])],
        told: Vec::new(),
        cut: None,
        instructions: None,
        doubtful: BTreeSet::new(),
    };
    let mut stored = merge(None, seen, &facts, Clock::system().now()).stored;
    let seen = stored.tools.first()?.seen;
    approve(&mut stored, tool.as_str(), seen).ok()?;
    let inventory = Inventory::assemble(&[facts], &[stored], risk_of);
    Some(PolicySnapshot::build(inventory, rules.clone(), 0))
}
