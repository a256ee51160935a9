//! Every key of `harness.toml`, with its default and the reason for it, in one table.

use settings::Standing::{Default, Derived, Optional, Required};
use settings::{Format, Key, key};

/// `harness.toml`.
pub static FORMAT: Format = Format {
    name: "harness",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    key(
        "version",
        "The form of the file: `1`.",
        Required("must be written, so that a later form is told apart"),
    ),
    key(
        "agents",
        "The agents, by name.",
        Required("without one there is nothing to run"),
    ),
    key(
        "agents.*.command",
        "The program and its arguments; `{schema_path}` and `{output_file}` are replaced.",
        Required("must be written: the program and its arguments, never a shell"),
    ),
    key(
        "agents.*.prompt",
        "File with the prompt.",
        Required("must be written: what goes to standard input"),
    ),
    key(
        "agents.*.env",
        "Variables, each `env:NAME`, `file:PATH`, or `text:VALUE` for what is no secret.",
        Default("{}", "nothing is inherited, so that no secret is by mistake"),
    ),
    key(
        "agents.*.servers",
        "Servers of the gateway whose tools it may use.",
        Default("[]", "tools are for agents that need them"),
    ),
    key(
        "agents.*.output.from",
        "Where output is taken from: `file` or `stdout`.",
        Default("\"file\"", "standard output collects whatever a runtime says"),
    ),
    key(
        "agents.*.output.file",
        "The file's name in the output directory.",
        Default("\"result.json\"", "the name most runtimes guess"),
    ),
    key(
        "agents.*.output.schema",
        "File with the schema.",
        Required("must be written: no agent without a schema"),
    ),
    key(
        "agents.*.output.max_bytes",
        "Bytes of an output.",
        Default("1048576", "a document for programs, not an archive"),
    ),
    key(
        "agents.*.output.max_depth",
        "Nesting of an output.",
        Default("32", "deeper than people nest, flat for every reader"),
    ),
    key(
        "agents.*.output.reject_text",
        "Classes of characters that no text may hold.",
        Default("[]", "a choice of the operator's: text may be what the agent is for"),
    ),
    key(
        "agents.*.output.secrets",
        "What is done about secrets: `off`, `record` or `refuse`.",
        Default(
            "\"off\"",
            "a choice of the operator's: text may be what the agent is for",
        ),
    ),
    key(
        "agents.*.retry.max_retries",
        "How many more attempts there may be: 0, 1 or 2.",
        Default("1", "a second failure says more about the prompt than a third"),
    ),
    key(
        "agents.*.retry.feedback.max_bytes",
        "Most bytes of feedback.",
        Default("4096", "a page; more does not help a model"),
    ),
    key(
        "agents.*.retry.feedback.max_items",
        "Most violations that are told.",
        Default("10", "a page; more does not help a model"),
    ),
    key(
        "agents.*.retry.retry_on",
        "Failures that are tried again.",
        Default(
            "[\"schema_violation\", \"not_json\", \"no_output\", \"guard_violation\"]",
            "what feedback can mend; a timeout or a crash it cannot",
        ),
    ),
    key(
        "agents.*.limits.timeout",
        "Longest time of one attempt.",
        Default("\"10m\"", "one attempt of a model with tools"),
    ),
    key(
        "agents.*.limits.total_timeout",
        "Longest time of all attempts and hooks.",
        Default(
            "\"15m\"",
            "all attempts and hooks together, never less than one attempt",
        ),
    ),
    key(
        "agents.*.limits.memory",
        "Memory of the runtime and all it starts.",
        Default("\"1GiB\"", "as for servers"),
    ),
    key(
        "agents.*.limits.processes",
        "Processes and threads at a time.",
        Default("256", "as for servers"),
    ),
    key(
        "agents.*.limits.cpu_seconds",
        "Processor time of the runtime and all it starts.",
        Optional,
    ),
    key(
        "agents.*.limits.workspace",
        "Bytes in the workspace; without it `4GiB` in a fresh one, no limit in one of yours.",
        Optional,
    ),
    key(
        "agents.*.limits.files",
        "Files in the workspace; without it 200000 in a fresh one, no limit in one of yours.",
        Optional,
    ),
    key(
        "agents.*.sandbox.fs",
        "How files are confined: `workspace_only`, `read_only` or `none`.",
        Default("\"workspace_only\"", "an agent writes where it works"),
    ),
    key(
        "agents.*.sandbox.net",
        "How the network is confined: `block_all`, `allowlist` or `none`.",
        Default("\"block_all\"", "hosts are named one by one"),
    ),
    key(
        "agents.*.sandbox.tier",
        "The weakest walls the runtime may be started in: `A`, `B` or `C`.",
        Optional,
    ),
    key(
        "agents.*.sandbox.workspace",
        "Where the runtime works.",
        Derived("a fresh directory for each run", "no run finds what another left"),
    ),
    key(
        "agents.*.sandbox.allow",
        "Hosts it may reach.",
        Default("[]", "hosts are named one by one"),
    ),
    key(
        "agents.*.sandbox.private",
        "Ranges that are not public, into which those may resolve.",
        Default("[]", "inside ranges are closed"),
    ),
    key(
        "agents.*.sandbox.read",
        "Further paths it may read.",
        Default("[]", "nothing of the host but the runtime's own files"),
    ),
    key(
        "agents.*.hooks.pre",
        "Commands on the host before the runtime.",
        Default("[]", "nothing to prepare"),
    ),
    key(
        "agents.*.hooks.post",
        "Commands on the host after the output was published.",
        Default("[]", "nothing to apply"),
    ),
    key(
        "pipelines",
        "The pipelines, by name.",
        Default("{}", "an agent can run alone"),
    ),
    key(
        "pipelines.*.budget.attempts",
        "Attempts of all agents together; without it each agent's own limits hold.",
        Optional,
    ),
    key(
        "pipelines.*.budget.time",
        "Time of all agents together; without it each agent's own limits hold.",
        Optional,
    ),
    key(
        "pipelines.*.stages",
        "What runs, in order.",
        Required("must be written: what runs, in order"),
    ),
    key(
        "pipelines.*.stages[].parallel",
        "Agents that run at the same time; this or `agent`.",
        Optional,
    ),
    key(
        "pipelines.*.stages[].agent",
        "The one agent of the stage; this or `parallel`.",
        Optional,
    ),
    key(
        "pipelines.*.stages[].needs",
        "Whose output they are given.",
        Default("[]", "an agent is given only what it is to have"),
    ),
    key(
        "pipelines.*.stages[].allow_partial",
        "Which of these may have failed.",
        Default("[]", "a missing input stops what needs it"),
    ),
    key(
        "pipelines.*.stages[].when.from",
        "Whose output decides whether the stage runs.",
        Required("whose output decides"),
    ),
    key(
        "pipelines.*.stages[].when.pointer",
        "A JSON pointer into that output.",
        Required("where in it"),
    ),
    key(
        "pipelines.*.stages[].when.equals",
        "The value there; this or `in`.",
        Optional,
    ),
    key(
        "pipelines.*.stages[].when.in",
        "Values, one of which is there; this or `equals`.",
        Optional,
    ),
];
