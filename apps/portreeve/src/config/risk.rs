//! `[risk]`: what says how dangerous tools and calls are by what they say of themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use screening::risk::{Pack, RiskRules};
use settings::{Complaint, Section};
use vocabulary::{Risk, RiskFound, ServerId};

use super::Server;
use super::output::packs;
use super::raw::Surroundings;

/// The rules that are shipped, with the operator's.
pub(super) fn check(
    mut section: Section<'_>,
    servers: &BTreeMap<ServerId, Server>,
    around: &Surroundings,
) -> Option<Arc<RiskRules>> {
    let files = section.read("files", |value| packs(value, around));
    let files = files?;
    let named: Vec<Pack<'_>> = files.iter().map(|(name, text)| Pack { name, text }).collect();
    let rules = match RiskRules::with_files(&named) {
        Ok(rules) => Some(Arc::new(rules)),
        Err(faults) => {
            for fault in faults {
                section.fault("files", Complaint::new(fault.to_string()));
            }
            None
        }
    };
    for complaint in rules.iter().flat_map(|rules| lowered(rules, servers)) {
        section.fault_here(complaint);
    }
    section.finish();
    rules
}

/// Tools that the configuration would make less of than critical, against a rule on their names.
fn lowered(rules: &RiskRules, servers: &BTreeMap<ServerId, Server>) -> Vec<Complaint> {
    let tools = servers
        .iter()
        .flat_map(|(id, server)| server.tools.iter().map(move |(name, tool)| (id, name, tool)));
    let mut complaints = Vec::new();
    for (id, name, tool) in tools {
        let found = rules.of_tool(name.as_str(), "");
        if let (
            Some(said),
            Some(RiskFound {
                risk: Risk::Critical,
                rule,
            }),
        ) = (tool.risk, found)
            && said < Risk::Critical
        {
            let what =
                format!("`servers.{id}.tools.{name}.risk` makes less of a tool that rule `{rule}` calls critical");
            complaints.push(Complaint::new(what).hint("say `critical`, or leave it out: nothing lowers that"));
        }
    }
    complaints
}
