//! What a harness can get wrong, told all at once.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use ledger::AttemptClass;
use sandbox::{FsPolicy, NetPolicy};

use super::*;

const SCHEMA: &str = r#"{"$id":"https://x.example/a.v1.json","type":"object","required":["verdict"]}"#;

fn home(text: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for folder in ["schemas", "prompts", "hooks"] {
        fs::create_dir(home.path().join(folder)).unwrap();
    }
    fs::write(home.path().join("schemas/a.v1.json"), SCHEMA).unwrap();
    fs::write(home.path().join("prompts/a.md"), "Say so.").unwrap();
    fs::write(home.path().join("hooks/post"), "#!/bin/sh\n").unwrap();
    fs::write(home.path().join(FILE), text).unwrap();
    home
}

fn agent(name: &str, more: &str) -> String {
    format!(
        "[agents.{name}]\ncommand = [\"true\"]\nprompt = \"prompts/a.md\"\noutput = {{ schema = \"schemas/a.v1.json\" }}\n{more}\n"
    )
}

fn faults(home: &Path) -> Vec<String> {
    let told = |fault: &Fault| format!("{}:{}: {}", fault.line, fault.key, fault.message);
    Harness::load(home)
        .map(drop)
        .err()
        .map(|faults| faults.as_slice().iter().map(told).collect())
        .unwrap_or_default()
}

fn only(text: &str) -> Vec<String> {
    faults(home(text).path())
}

// R241, R255
#[test]
fn defaults_are_those_of_the_table() {
    let home = home(&format!("version = 1\n{}", agent("a", "")));
    let harness = Harness::load(home.path()).unwrap();
    let agent = harness.agents.values().next().unwrap();
    assert_eq!(agent.output.from, Source::File("result.json".to_owned()));
    assert_eq!(agent.output.contract.max_bytes(), 1_048_576);
    assert_eq!(
        (agent.retry.max_retries, agent.retry.max_bytes, agent.retry.max_items),
        (1, 4096, 10)
    );
    let retried = [
        AttemptClass::SchemaViolation,
        AttemptClass::NotJson,
        AttemptClass::NoOutput,
        AttemptClass::GuardViolation,
    ];
    assert_eq!(agent.retry.on, retried);
    assert_eq!(
        (agent.limits.timeout, agent.limits.total),
        (Duration::from_secs(600), Duration::from_secs(900))
    );
    assert_eq!(
        (agent.walls.fs, agent.walls.net),
        (FsPolicy::WorkspaceOnly, NetPolicy::BlockAll)
    );
    assert_eq!(harness.watched.len(), 3);
    assert_eq!(FORMAT.flaws(), Vec::<String>::new());
}

// R239, R240
#[test]
fn an_agent_without_a_schema_does_not_load() {
    let text = "version = 1\n[agents.a]\ncommand = [\"true\"]\nprompt = \"prompts/a.md\"\n";
    assert_eq!(only(text), ["2:agents.a.output.schema: is missing"]);
}

// R255
#[test]
fn retries_are_none_one_or_two() {
    for (number, fine) in [
        ("0", true),
        ("1", true),
        ("2", true),
        ("3", false),
        ("-1", false),
        ("\"1\"", false),
        ("1.0", false),
    ] {
        let text = format!(
            "version = 1\n{}[agents.a.retry]\nmax_retries = {number}\n",
            agent("a", "")
        );
        assert_eq!(only(&text).is_empty(), fine, "{number}");
    }
}

// R253
#[test]
fn unknown_keys_are_faults_everywhere_and_all_are_told() {
    let text = format!(
        "version = 1\nfallback = true\n{}skip_validation = true\n[agents.a.retry]\nfeedback_mode = \"full\"\n[agents.a.retry.feedback]\nraw = true\n[agents.a.limits]\nttl = 1\n[agents.a.sandbox]\nuid = 0\n[agents.a.hooks]\nfailure = []\n[pipelines.p]\nstages = [{{ agent = \"a\", trust = \"a\" }}]\nbudget = {{ money = 1 }}\n",
        agent("a", "")
    );
    let told = only(&text);
    for key in [
        "fallback",
        "agents.a.skip_validation",
        "agents.a.retry.feedback_mode",
        "agents.a.retry.feedback.raw",
        "agents.a.limits.ttl",
        "agents.a.sandbox.uid",
        "agents.a.hooks.failure",
        "pipelines.p.stages[0].trust",
        "pipelines.p.budget.money",
    ] {
        assert!(
            told.iter()
                .any(|fault| fault.ends_with(&format!(":{key}: unknown key"))),
            "{key} in {told:#?}"
        );
    }
    assert_eq!(told.len(), 9, "{told:#?}");
}

// R241
#[test]
fn paths_stay_inside_links_included() {
    let above = home("");
    let home = above.path().join("home");
    fs::create_dir(&home).unwrap();
    for folder in ["schemas", "prompts"] {
        fs::create_dir(home.join(folder)).unwrap();
    }
    fs::write(home.join("schemas/a.v1.json"), SCHEMA).unwrap();
    fs::write(home.join("prompts/a.md"), "Say so.").unwrap();
    fs::write(above.path().join("outside.json"), SCHEMA).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("x.v1.json"), SCHEMA).unwrap();
    symlink(elsewhere.path().join("x.v1.json"), home.join("schemas/link.v1.json")).unwrap();
    symlink(elsewhere.path(), home.join("folder")).unwrap();
    symlink(home.join("schemas/a.v1.json"), home.join("schemas/inner.v1.json")).unwrap();
    let absolute = home.join("schemas/a.v1.json").display().to_string();
    for (path, fine) in [
        ("schemas/a.v1.json", true),
        ("./schemas/a.v1.json", true),
        ("schemas/inner.v1.json", true),
        ("../outside.json", false),
        ("schemas/../schemas/a.v1.json", false),
        ("schemas/link.v1.json", false),
        ("folder/x.v1.json", false),
        (absolute.as_str(), false),
        ("schemas", false),
        ("", false),
    ] {
        for key in ["output.schema", "prompt"] {
            let (schema, prompt) = match key {
                "prompt" => ("schemas/a.v1.json", path),
                _ => (path, "prompts/a.md"),
            };
            let text = format!(
                "version = 1\n[agents.a]\ncommand = [\"true\"]\nprompt = \"{prompt}\"\noutput = {{ schema = \"{schema}\" }}\n"
            );
            fs::write(home.join(FILE), text).unwrap();
            assert_eq!(faults(&home).is_empty(), fine, "{key} = {path}: {:?}", faults(&home));
        }
    }
}

#[test]
fn secrets_are_references_and_never_repeated() {
    let text = format!(
        "version = 1\n{}env = {{ KEY = \"hunter2\", HARNESS_X = \"env:Y\", FINE = \"env:Y\", ALSO = \"text:x\" }}\n",
        agent("a", "")
    );
    let home = home(&text);
    let faults = Harness::load(home.path()).map(drop).unwrap_err();
    assert_eq!(faults.as_slice().len(), 2);
    assert!(!faults.to_string().contains("hunter2"));
}

#[test]
fn files_of_the_harness_do_not_lie_where_a_runtime_may_write() {
    let walls = |sandbox: &str| {
        only(&format!(
            "version = 1\n{}[agents.a.sandbox]\n{sandbox}\n",
            agent("a", "")
        ))
    };
    assert!(walls("workspace = \".\"")[0].contains("is the harness directory"));
    assert!(walls("workspace = \"schemas\"")[0].contains("lies in the workspace"));
    assert!(walls("workspace = \"..\"").is_empty(), "shown read-only inside it");
    assert!(walls("workspace = \".\"\nfs = \"read_only\"").is_empty());
}

#[test]
fn taking_a_wall_away_is_allowed_and_warned_of() {
    let home = home(&format!(
        "version = 1\n{}[agents.a.sandbox]\nfs = \"none\"\nnet = \"none\"\n",
        agent("a", "")
    ));
    let harness = Harness::load(home.path()).unwrap();
    let keys: Vec<&str> = harness.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(keys, ["agents.a.sandbox.fs", "agents.a.sandbox.net"]);
    let useless = only(&format!(
        "version = 1\n{}[agents.a.sandbox]\nallow = [\"x.example\"]\n",
        agent("a", "")
    ));
    assert!(useless[0].contains("is of no use"));
}

// R230
#[test]
fn pipelines_know_their_agents_and_look_back_only() {
    let two = format!("version = 1\n{}{}", agent("a", ""), agent("b", ""));
    for (stages, told) in [
        ("{ agent = \"c\" }", "no agent `c` is declared"),
        ("{ agent = \"a\" }, { agent = \"a\" }", "`a` runs twice"),
        (
            "{ agent = \"a\", needs = [\"b\"] }, { agent = \"b\" }",
            "does not run in an earlier stage",
        ),
        ("{ agent = \"a\", needs = [\"a\"] }", "does not run in an earlier stage"),
        (
            "{ parallel = [\"a\", \"b\"], needs = [\"a\"] }",
            "does not run in an earlier stage",
        ),
        (
            "{ agent = \"a\" }, { agent = \"b\", when = { from = \"a\", pointer = \"x\", equals = 1 } }",
            "no JSON pointer",
        ),
        (
            "{ agent = \"a\" }, { agent = \"b\", when = { from = \"a\", pointer = \"/x\" } }",
            "needs `equals` or a list",
        ),
        (
            "{ agent = \"a\" }, { agent = \"b\", when = { from = \"a\", pointer = \"/x\", equals = 1, in = [2] } }",
            "needs `equals`",
        ),
        (
            "{ agent = \"a\" }, { agent = \"b\", when = { from = \"a\", pointer = \"/x\", equals = 1.5 } }",
            "expected a string",
        ),
        (
            "{ agent = \"a\" }, { agent = \"b\", allow_partial = [\"a\"] }",
            "is not in `needs`",
        ),
        ("{ agent = \"a\", parallel = [\"b\"] }", "has both"),
        ("{ }", "names no agent"),
        ("", "has no stage"),
    ] {
        let faults = only(&format!("{two}[pipelines.p]\nstages = [{stages}]\n"));
        assert!(faults.iter().any(|fault| fault.contains(told)), "{stages}: {faults:?}");
    }
    let fine = "{ agent = \"a\" }, { agent = \"b\", needs = [\"a\"], when = { from = \"a\", pointer = \"/x\", in = [\"y\", 2, true] } }";
    let home = home(&format!("{two}[pipelines.p]\nstages = [{fine}]\n"));
    let harness = Harness::load(home.path()).unwrap();
    let condition = harness.pipelines["p"].stages[1].when.clone().unwrap();
    assert_eq!(condition.values, ["\"y\"", "2", "true"]);
}

#[test]
fn an_agent_whose_section_has_faults_is_known_to_pipelines() {
    let text = "version = 1\n[agents.a]\ncommand = [\"true\"]\n[pipelines.p]\nstages = [{ agent = \"a\" }]\n";
    assert_eq!(
        only(text),
        ["2:agents.a.prompt: is missing", "2:agents.a.output.schema: is missing"]
    );
    let unknown = text.replace("agent = \"a\"", "agent = \"b\"");
    let told = only(&unknown);
    assert!(
        told.iter().any(|fault| fault.contains("no agent `b` is declared")),
        "{told:?}"
    );
}

#[test]
fn hooks_are_files_of_the_harness() {
    let with = |hook: &str| {
        only(&format!(
            "version = 1\n{}[agents.a.hooks]\npost = [{hook}]\n",
            agent("a", "")
        ))
    };
    assert!(with("[\"hooks/post\", \"--apply\"]").is_empty());
    assert!(!with("[\"/bin/true\"]").is_empty());
    assert!(!with("[]").is_empty());
}

/// Whether a page has a key as a word of its own in code: in backticks, in a block, or in a table's head.
fn names(page: &str, key: &str) -> bool {
    let is_word = |text: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| word == key)
    };
    let mut fenced = false;
    page.lines().any(|line| {
        fenced ^= line.starts_with("```");
        let inline = line.split('`').skip(1).step_by(2).any(is_word);
        inline || ((fenced || line.starts_with("    ")) && is_word(line))
    })
}

// R251
#[test]
fn the_page_names_every_key_and_says_what_a_schema_is_not() {
    let page = include_str!("../../../../docs/harness.md");
    let missing: Vec<&str> = FORMAT
        .keys
        .iter()
        .filter(|key| !names(page, key.path.rsplit('.').next().unwrap_or_default()))
        .map(|key| key.path)
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert!(!names(page, "retries") && !names("`on_failure`\n\n    on_failure = 1\n", "on"));
    assert!(page.contains("A schema is one layer, not the only one."));
    assert!(page.contains("It does not stop a well-formed lie"));
}
