//! Every key of `harness.toml`, with its default and the reason for it, in one table: readers take defaults from here
//! and nowhere else, and what does not stand here is an unknown key.

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The dotted path; `*` stands for a name of the operator's, `[]` for the items of a list.
    pub pattern: &'static str,
    /// The default, spelled as in the file; `None` for keys without one.
    pub default: Option<&'static str>,
    /// Why it is that.
    pub reason: &'static str,
}

const fn key(pattern: &'static str, default: Option<&'static str>, reason: &'static str) -> Key {
    Key {
        pattern,
        default,
        reason,
    }
}

/// All keys.
pub const KEYS: &[Key] = &[
    key("version", None, "must be written, so that a later form is told apart"),
    key("agents", None, "without one there is nothing to run"),
    key(
        "agents.*.command",
        None,
        "must be written: the program and its arguments, never a shell",
    ),
    key("agents.*.prompt", None, "must be written: what goes to standard input"),
    key(
        "agents.*.env",
        Some("{}"),
        "nothing is inherited, so that no secret is by mistake",
    ),
    key("agents.*.servers", Some("[]"), "tools are for agents that need them"),
    key(
        "agents.*.output.from",
        Some("\"file\""),
        "standard output collects whatever a runtime says",
    ),
    key(
        "agents.*.output.file",
        Some("\"result.json\""),
        "the name most runtimes guess",
    ),
    key(
        "agents.*.output.schema",
        None,
        "must be written: no agent without a schema",
    ),
    key(
        "agents.*.output.max_bytes",
        Some("1048576"),
        "a document for programs, not an archive",
    ),
    key(
        "agents.*.output.max_depth",
        Some("32"),
        "deeper than people nest, flat for every reader",
    ),
    key(
        "agents.*.output.reject_text",
        Some("[]"),
        "a choice of the operator's: text may be what the agent is for",
    ),
    key("agents.*.output.secrets", Some("\"off\""), "as above"),
    key(
        "agents.*.retry.max_retries",
        Some("1"),
        "a second failure says more about the prompt than a third",
    ),
    key(
        "agents.*.retry.feedback.max_bytes",
        Some("4096"),
        "a page; more does not help a model",
    ),
    key("agents.*.retry.feedback.max_items", Some("10"), "as above"),
    key(
        "agents.*.retry.retry_on",
        Some("[\"schema_violation\", \"not_json\", \"no_output\", \"guard_violation\"]"),
        "what feedback can mend; a timeout or a crash it cannot",
    ),
    key(
        "agents.*.limits.timeout",
        Some("\"10m\""),
        "one attempt of a model with tools",
    ),
    key(
        "agents.*.limits.total_timeout",
        Some("\"15m\""),
        "all attempts and hooks together, never less than one attempt",
    ),
    key("agents.*.limits.memory", Some("\"1GiB\""), "as for servers"),
    key("agents.*.limits.processes", Some("256"), "as for servers"),
    key("agents.*.limits.cpu_seconds", None, "as for servers"),
    key(
        "agents.*.sandbox.fs",
        Some("\"workspace_only\""),
        "an agent writes where it works",
    ),
    key(
        "agents.*.sandbox.net",
        Some("\"block_all\""),
        "hosts are named one by one",
    ),
    key("agents.*.sandbox.workspace", None, "a fresh directory for each run"),
    key("agents.*.sandbox.allow", Some("[]"), "hosts are named one by one"),
    key("agents.*.sandbox.private", Some("[]"), "inside ranges are closed"),
    key(
        "agents.*.sandbox.read",
        Some("[]"),
        "nothing of the host but the runtime's own files",
    ),
    key("agents.*.hooks.pre", Some("[]"), "nothing to prepare"),
    key("agents.*.hooks.post", Some("[]"), "nothing to apply"),
    key("pipelines", Some("{}"), "an agent can run alone"),
    key("pipelines.*.budget.attempts", None, "each agent's own limits hold"),
    key("pipelines.*.budget.time", None, "each agent's own limits hold"),
    key("pipelines.*.stages", None, "must be written: what runs, in order"),
    key(
        "pipelines.*.stages[].parallel",
        None,
        "agents that run at the same time",
    ),
    key("pipelines.*.stages[].agent", None, "the one agent of the stage"),
    key(
        "pipelines.*.stages[].needs",
        Some("[]"),
        "an agent is given only what it is to have",
    ),
    key(
        "pipelines.*.stages[].allow_partial",
        Some("[]"),
        "a missing input stops what needs it",
    ),
    key("pipelines.*.stages[].when.from", None, "whose output decides"),
    key("pipelines.*.stages[].when.pointer", None, "where in it"),
    key("pipelines.*.stages[].when.equals", None, "the value there"),
    key("pipelines.*.stages[].when.in", None, "one of the values there"),
];

/// The default of a key.
pub(super) fn default_of(pattern: &str) -> Option<&'static str> {
    KEYS.iter()
        .find(|key| key.pattern == pattern)
        .and_then(|key| key.default)
}

/// The names right under a pattern.
pub(super) fn names_under(pattern: &str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for key in KEYS {
        let rest = match pattern {
            "" => Some(key.pattern),
            _ => key
                .pattern
                .strip_prefix(pattern)
                .and_then(|rest| rest.strip_prefix('.')),
        };
        let name = rest.and_then(|rest| rest.split(['.', '[']).next());
        names.extend(name.filter(|name| !name.is_empty() && *name != "*"));
    }
    names.dedup();
    names
}
