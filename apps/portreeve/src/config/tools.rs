//! `[servers.*.tools.*]`: the operator's word on single tools.

use std::collections::BTreeMap;

use ::policy::ToolLimits;
use sandbox::NetPolicy;
use screening::arguments::Pointer;
use settings::{Complaint, Entry, Section};
use vocabulary::{HostList, HostPattern, Risk, ToolName};

use super::allowances;
use super::servers::Reach;

/// The operator's word on a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolRule {
    /// Its risk, above the server's hints; `None`: not said.
    pub risk: Option<Risk>,
    /// What happens to arguments that its schema does not name.
    pub unknown_fields: UnknownFields,
    /// Fields that hold paths.
    pub paths: Vec<Pointer>,
    /// Fields that hold URLs.
    pub urls: Vec<Pointer>,
    /// Hosts that URLs in its arguments may name; `None`: those that its server may reach.
    pub hosts: Option<HostList>,
    /// Whether what its schema marks as a path is one.
    pub detect_paths: bool,
    /// How often, at once and how long it may be called, beside what holds for all.
    pub limits: ToolLimits,
}

vocabulary::words! {
    /// What happens to arguments that a schema does not name.
    pub enum UnknownFields {
        /// The call is refused.
        Reject = "reject",
        /// They pass.
        Allow = "allow",
    }
}

pub(super) fn check(server: &mut Section<'_>, reach: Option<&Reach>) -> BTreeMap<ToolName, ToolRule> {
    let mut tools = BTreeMap::new();
    for (name, section) in server.named_sections("tools") {
        let name = ToolName::parse(&name)
            .map_err(|fault| section.fault_here(Complaint::new(fault.to_string())))
            .ok();
        if let (Some(rule), Some(name)) = (ToolRule::check(section, reach), name) {
            tools.insert(name, rule);
        }
    }
    tools
}

impl ToolRule {
    fn check(mut section: Section<'_>, reach: Option<&Reach>) -> Option<Self> {
        let risk = section.read("risk", |value| value.word(Risk::ALL, Risk::as_str));
        let unknown_fields = section.read("unknown_fields", |value| {
            value.word(UnknownFields::ALL, UnknownFields::as_str)
        });
        let paths = section.read("paths", |value| value.distinct(pointer));
        let urls = section.read("urls", |value| value.distinct(pointer));
        let hosts = match section.has("hosts") {
            true => Some(section.read("hosts", |value| value.distinct(host))),
            false => None,
        };
        let detect_paths = section.read("detect_paths", Entry::boolean);
        let limits = allowances::of_tool(section.section("limits"));
        if urls.as_ref().is_some_and(|urls| !urls.is_empty()) && hosts.is_none() && reach.is_some_and(reaches_anything)
        {
            let complaint = Complaint::new("is of no use: nothing says which hosts these URLs may name");
            section.warn("urls", complaint.hint("name them in `hosts`"));
        }
        section.finish();
        Some(Self {
            risk,
            unknown_fields: unknown_fields?,
            paths: paths?,
            urls: urls?,
            hosts: match hosts {
                Some(written) => Some(HostList::new(written?)),
                None => None,
            },
            detect_paths: detect_paths?,
            limits,
        })
    }
}

/// Whether no list of hosts says where the server may go.
fn reaches_anything(reach: &Reach) -> bool {
    match reach {
        Reach::Web(_) => true,
        Reach::Process(process) => process.net == NetPolicy::Unconfined,
    }
}

fn pointer(entry: &Entry<'_>) -> Result<Pointer, Complaint> {
    Pointer::parse(entry.text()?).map_err(|fault| Complaint::new(fault.to_string()))
}

fn host(entry: &Entry<'_>) -> Result<HostPattern, Complaint> {
    HostPattern::parse(entry.text()?).map_err(|fault| Complaint::new(fault.to_string()))
}
