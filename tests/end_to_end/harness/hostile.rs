//! Runtimes that go for the harness itself, for the host, or for each other.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::attempts::make_workspace;
use crate::support::workshop::{GOOD, Workshop, names};

/// Tries to write every path that the file `targets` names, and says how many these were, which of them it saw, and which
/// it wrote.
const VANDAL: &str = r#"
    tried=0 said=
    for target in $(cat targets); do
        tried=$((tried + 1))
        # Below /tmp a sandbox has directories of its own; what matters is what is there.
        [ -e "$target" ] || continue
        [ -d "$target" ] && { touch "$target/vandal"; continue; }
        said="$said sees $target"
        { echo vandal >> "$target"; } 2>/dev/null && said="$said wrote $target"
    done
    printf '{"verdict":"ok","count":%d,"note":"%s"}' "$tried" "$said" > "$HARNESS_OUTPUT_FILE""#;

/// Every file and directory of the harness but the agent's workspace, and what files hold.
fn everything(workshop: &Workshop) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let (mut found, mut left) = (BTreeMap::new(), vec![workshop.path("")]);
    while let Some(directory) = left.pop() {
        for name in names(&directory).into_iter().filter(|name| name != "work") {
            let path = directory.join(name);
            let is_dir = path.is_dir();
            found.insert(path.clone(), (!is_dir).then(|| std::fs::read(&path).unwrap()));
            left.extend(is_dir.then_some(path));
        }
    }
    found
}

/// Nothing is gone, nothing changed, and what the harness itself goes on writing holds nothing of a vandal's.
fn is_untouched(before: &BTreeMap<PathBuf, Option<Vec<u8>>>, after: &BTreeMap<PathBuf, Option<Vec<u8>>>) {
    let state = before.keys().find(|path| path.ends_with("state")).unwrap();
    // Parts of tiles are written anew with every checkpoint.
    let is_part = |path: &Path| path.starts_with(state.join("ledger/tile"));
    for (path, text) in before.iter().filter(|(path, _)| !is_part(path)) {
        let now = after.get(path).unwrap_or_else(|| panic!("{} is gone", path.display()));
        let (Some(text), Some(now)) = (text, now) else { continue };
        let grows = path.starts_with(state.join("ledger")) && path.extension().is_some_and(|end| end == "jsonl");
        match (
            grows,
            path.starts_with(state.join("harness")) || !path.starts_with(state),
        ) {
            (true, _) => assert!(now.starts_with(text), "{}", path.display()),
            (false, true) => assert!(now == text, "{}", path.display()),
            (false, false) => {}
        }
    }
    for (path, text) in after {
        let holds = text.iter().any(|text| text.windows(6).any(|word| word == b"vandal"));
        let is_script = path.ends_with("agents/judge.sh");
        assert!(is_script || !(holds || path.ends_with("vandal")), "{}", path.display());
    }
}

fn a_runtime_behind_walls_changes_nothing(fs: &str) {
    let more =
        format!("[AGENT.sandbox]\nworkspace = \"work\"\nfs = \"{fs}\"\n[AGENT.hooks]\npost = [[\"hooks/post\"]]\n");
    let workshop = Workshop::new()
        .executable("hooks/post", "#!/bin/sh\n")
        .agent("judge", VANDAL, &more)
        .agent("other", &format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""), "");
    make_workspace(&workshop);
    let workshop = workshop.ready();
    let other = workshop.run(&["run", "other"]);
    assert_eq!(other.code, 0, "{other:?}");
    let before = everything(&workshop);
    for name in [
        "harness.toml",
        "harness.lock",
        "portreeve.toml",
        "schemas/verdict.v1.json",
        "prompts/verdict.md",
        "hooks/post",
        "agents/judge.sh",
        "state/ledger",
    ] {
        assert!(before.contains_key(&workshop.path(name)), "{name}: {:?}", before.keys());
    }
    assert!(
        before.contains_key(&other.directory().join("validated/other.json")),
        "{other:?}"
    );
    // What it may see, last: without it, a vandal who cannot look would do as well.
    let own = workshop.path("work/own");
    std::fs::write(&own, "").unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o666)).unwrap();
    let targets: Vec<String> = before
        .keys()
        .chain([&own])
        .map(|path| path.display().to_string())
        .collect();
    workshop.write("work/targets", &targets.join("\n"));
    let outcome = workshop.judge();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let said: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(said["count"], targets.len(), "{said}");
    // Its own program it may read.
    let (own, program) = (own.display(), workshop.path("agents/judge.sh"));
    let expected = match fs {
        "read_only" => format!(" sees {} sees {own}", program.display()),
        _ => format!(" sees {} sees {own} wrote {own}", program.display()),
    };
    assert_eq!(said["note"], expected, "{fs}");
    is_untouched(&before, &everything(&workshop));
}

// R231, R248
#[test]
fn no_runtime_changes_what_controls_it() {
    a_runtime_behind_walls_changes_nothing("workspace_only");
    a_runtime_behind_walls_changes_nothing("read_only");
    an_agent_of_a_pipeline_cannot_reach_anothers_directory();
    without_walls_a_changed_harness_is_found_and_valid_output_goes_nowhere();
}

fn without_walls_a_changed_harness_is_found_and_valid_output_goes_nowhere() {
    for (target, script) in [
        (
            "schemas/verdict.v1.json",
            "echo '{\"type\":\"object\",\"minProperties\":1}' > TARGET",
        ),
        ("prompts/verdict.md", "echo more >> TARGET"),
        ("harness.toml", "echo >> TARGET"),
        ("harness.lock", "echo >> TARGET"),
        ("hooks/post", "echo evil >> TARGET"),
        ("agents/judge.sh", "echo evil >> TARGET"),
    ] {
        let more = "[AGENT.sandbox]\nfs = \"none\"\nnet = \"none\"\n[AGENT.retry]\nmax_retries = 2\n[AGENT.hooks]\npost = [[\"hooks/post\"]]\n";
        let workshop = Workshop::new().executable("hooks/post", "#!/bin/sh\necho applied > \"$APPLIED\"\n");
        let applied = workshop.path("applied").display().to_string();
        let path = workshop.path(target).display().to_string();
        let script = format!(
            "{}\necho '{GOOD}' > \"$HARNESS_OUTPUT_FILE\"",
            script.replace("TARGET", &path)
        );
        let workshop = workshop
            .agent("judge", &script, more)
            .variable("APPLIED", &applied)
            .ready();
        open_to_all(&workshop, target);
        let outcome = workshop.judge();
        assert_eq!(outcome.code, 14, "{target}: {outcome:?}");
        assert!(outcome.emitted_nothing(), "{target}");
        assert_eq!(workshop.classes(), ["integrity"], "{target}: never tried again");
        assert!(!workshop.path("applied").exists(), "{target}");
        assert_eq!(workshop.records("harness_attempt")[0]["sandbox"]["fs_policy"], "none");
    }
}

// R248
#[test]
fn a_schema_that_is_swapped_while_the_runtime_runs_is_not_used() {
    // The new schema would accept the output; the one that was loaded does not.
    let script = "echo '{\"anything\":1}' > \"$HARNESS_OUTPUT_FILE\"; touch started; sleep 2";
    let more = "[AGENT.sandbox]\nworkspace = \"work\"\n[AGENT.retry]\nmax_retries = 0\n";
    let workshop = Workshop::new().agent("judge", script, more);
    make_workspace(&workshop);
    let workshop = workshop.ready();
    let child = workshop.spawn(&["run", "judge", "--json"]);
    while !workshop.path("work/started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    workshop.write("schemas/verdict.v1.json", "{\"type\":\"object\",\"minProperties\":1}");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(14));
    assert!(output.stdout.is_empty());
}

/// Connects to an address, and hears something from there.
const CONNECT: &str = r#"timeout 3 /bin/bash -c "exec 3<>/dev/tcp/$(echo ADDRESS | tr : /) && echo hello >&3 && read -r line <&3" 2>/dev/null"#;

/// A place on the host that answers whoever connects to it, and counts them.
fn answering() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, heard) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
            stream.unwrap().write_all(b"hello\n").unwrap();
        }
    });
    (address, heard)
}

// R232
#[test]
fn a_runtime_has_neither_the_hosts_variables_nor_its_network_and_hooks_have_both() {
    let (address, heard) = answering();
    let connect = CONNECT.replace("ADDRESS", &address.to_string());
    let script = r#"
        env | sort > environment
        reached=
        CONNECT && reached="$reached host"
        ABROAD && reached="$reached abroad"
        getent hosts evil.example >/dev/null 2>&1 && reached="$reached name"
        printf '{"verdict":"ok","note":"%s"}' "$reached" > "$HARNESS_OUTPUT_FILE""#;
    let script = script
        .replace("CONNECT", &connect)
        .replace("ABROAD", &CONNECT.replace("ADDRESS", "1.1.1.1:80"));
    let more = "[AGENT.env]\nGIVEN = \"env:OWN_KEY\"\n[AGENT.sandbox]\nworkspace = \"work\"\n[AGENT.hooks]\npre = [[\"hooks/pre\"]]\npost = [[\"hooks/post\"]]\n";
    let hook = format!("#!/bin/sh\n{connect} && echo \"NAME $HOOK_SECRET $GIVEN\" >> \"$TRACE\"\n");
    let workshop = Workshop::new()
        .executable("hooks/pre", &hook.replace("NAME", "pre"))
        .executable("hooks/post", &hook.replace("NAME", "post"))
        .agent("judge", &script, more);
    make_workspace(&workshop);
    let trace = workshop.path("trace").display().to_string();
    let workshop = workshop
        .variable("OWN_KEY", "given-to-the-agent")
        .variable("HOOK_SECRET", "of-the-hooks-alone")
        .variable("TRACE", &trace)
        .ready();
    let outcome = workshop.judge();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let said: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(said["note"], "", "what the runtime reached");
    assert_eq!(
        workshop.read("trace"),
        "pre of-the-hooks-alone \npost of-the-hooks-alone \n"
    );
    assert_eq!(heard.load(Ordering::SeqCst), 2, "the hooks, and nobody else");
    let environment = workshop.read("work/environment");
    assert!(environment.contains("GIVEN=given-to-the-agent"));
    assert!(!environment.contains("of-the-hooks-alone") && !environment.contains("OWN_KEY"));
    let mut names: Vec<&str> = environment.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !["PWD", "OLDPWD", "_", "SHLVL"].contains(name));
    let expected = [
        "GIVEN",
        "HARNESS_AGENT",
        "HARNESS_ATTEMPT",
        "HARNESS_DEADLINE",
        "HARNESS_INPUT_DIR",
        "HARNESS_MAX_ATTEMPTS",
        "HARNESS_OUTPUT_DIR",
        "HARNESS_OUTPUT_FILE",
        "HARNESS_RUN_ID",
        "HARNESS_SCHEMA",
        "HOME",
        "LANG",
        "PATH",
        "TMPDIR",
    ];
    assert_eq!(names, expected);
    let egress = workshop.listed(&["--type", "egress", "--run", outcome.run()]);
    let tried: Vec<String> = egress.iter().map(|record| record["dst"].to_string()).collect();
    for target in ["evil.example", "1.1.1.1"] {
        assert!(tried.iter().any(|dst| dst.contains(target)), "{target} in {tried:?}");
    }
    assert!(
        egress
            .iter()
            .all(|record| record["result"] == "blocked" && record["server_id"] == "judge")
    );
}

fn an_agent_of_a_pipeline_cannot_reach_anothers_directory() {
    // Both are there while each of them looks around.
    let vandal = r#"
        sleep 1
        for place in $(dirname "$(dirname "$HARNESS_OUTPUT_DIR")")/portreeve-*; do
            [ "$place" = "$(dirname "$HARNESS_OUTPUT_DIR")" ] || echo "$place" >> "$HARNESS_OUTPUT_DIR/seen"
        done
        sleep 1
        [ -e "$HARNESS_OUTPUT_DIR/seen" ] && exit 7
        echo '{"verdict":"ok"}' > "$HARNESS_OUTPUT_FILE""#;
    let workshop = Workshop::new()
        .agent("one", vandal, "")
        .agent("two", vandal, "")
        .toml("[pipelines.both]\nstages = [{ parallel = [\"one\", \"two\"] }]\n")
        .ready();
    let outcome = workshop.run(&["pipeline", "both"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(outcome.published(), ["one.json", "two.json"]);
}

// R247
#[test]
fn a_harness_that_is_killed_leaves_no_half_file_and_an_open_run() {
    let workshop = Workshop::of(&format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\"; sleep 0.2")).ready();
    let runs = workshop.path("state/harness/runs");
    let has_begun = || runs.is_dir() && !names(&runs).is_empty();
    for delay in [150, 300, 450, 600, 750, 900] {
        let mut child = workshop.spawn(&["run", "judge", "--json"]);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        let _ = child.kill();
        let _ = child.wait();
    }
    // On a busy machine nothing may have begun by then: one is waited for.
    if !has_begun() {
        let mut child = workshop.spawn(&["run", "judge", "--json"]);
        let began = std::time::Instant::now();
        while !has_begun() && began.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    assert!(has_begun(), "no run came far enough to be killed");
    for run in names(&runs) {
        let folder = runs.join(&run);
        for file in names(&folder.join("validated")) {
            if !file.starts_with('.') {
                let text = std::fs::read_to_string(folder.join("validated").join(file)).unwrap();
                assert_eq!(text, format!("{GOOD}\n"));
            }
        }
        let records = workshop.listed(&["--run", &run]);
        let ended = records.iter().any(|record| record["type"] == "harness_result");
        let state = std::fs::read_to_string(folder.join("run.json")).unwrap_or_default();
        assert!(ended || !state.contains("\"status\":\"ok\""), "{run}: {state}");
        let starts = workshop.records("admin");
        assert!(
            state.is_empty() || starts.iter().any(|record| record["subject"] == run.as_str()),
            "{run} began without a record"
        );
    }
}

fn open_to_all(workshop: &Workshop, target: &str) {
    for (name, mode) in [
        (target, 0o777),
        ("schemas", 0o777),
        ("prompts", 0o777),
        ("hooks", 0o777),
        ("agents", 0o777),
    ] {
        if workshop.path(name).exists() {
            std::fs::set_permissions(workshop.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}
