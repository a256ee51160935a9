//! The methods that policies decide, and what each of them is about. The schema of `policy check`
//! and the door of [`crate::PolicySnapshot::resolve_target`] read one table.

use std::collections::BTreeSet;
use std::fmt::Write;

vocabulary::words! {
    /// What a request can be about.
    #[derive(PartialOrd, Ord)]
    pub(crate) enum TargetKind {
        Tool = "Tool",
        Resource = "Resource",
        Prompt = "Prompt",
        Server = "Server",
    }
}

/// The table's own spelling of a method that is in it.
pub(crate) fn listed(method: &str) -> Option<&'static str> {
    METHODS.iter().map(|(name, _)| *name).find(|name| *name == method)
}

/// Whether a method can be about this kind of thing; one that is not in the table is an extension,
/// which is about its server.
pub(crate) fn applies(method: &str, kind: TargetKind) -> bool {
    let row = METHODS.iter().find(|(name, _)| *name == method);
    row.map_or(kind == TargetKind::Server, |(_, kinds)| kinds.contains(&kind))
}

/// Every method as an action of the Cedar schema, `extensions` included.
pub(crate) fn action_declarations(extensions: &[&str]) -> String {
    let extensions: BTreeSet<&str> = extensions
        .iter()
        .copied()
        .filter(|name| listed(name).is_none())
        .collect();
    let extensions = extensions
        .into_iter()
        .map(|name| (name, [TargetKind::Server].as_slice()));
    let mut text = String::new();
    for (name, kinds) in METHODS.iter().copied().chain(extensions) {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "action {name:?} appliesTo {{ principal: [User, Agent, System], resource: [{}], context: Circumstances }};",
            kinds.join(", ")
        );
    }
    text
}

pub(crate) const METHODS: &[(&str, &[TargetKind])] = &[
    ("tools/call", &[TargetKind::Tool]),
    ("tasks/get", &[TargetKind::Tool]),
    ("tasks/update", &[TargetKind::Tool]),
    ("tasks/cancel", &[TargetKind::Tool]),
    ("tasks/result", &[TargetKind::Tool]),
    ("tasks/list", &[TargetKind::Tool]),
    ("resources/read", &[TargetKind::Resource]),
    ("resources/subscribe", &[TargetKind::Resource]),
    ("resources/unsubscribe", &[TargetKind::Resource]),
    ("prompts/get", &[TargetKind::Prompt]),
    ("completion/complete", &[TargetKind::Resource, TargetKind::Prompt]),
    ("sampling/createMessage", &[TargetKind::Server]),
    ("elicitation/create", &[TargetKind::Server]),
    ("roots/list", &[TargetKind::Server]),
    ("logging/setLevel", &[TargetKind::Server]),
];
