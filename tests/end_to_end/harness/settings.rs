//! What is written down: configuration, lock, owners, flags.

use crate::support::environment::{Finished, command, not_here, portreeve};
use crate::support::workshop::{GOOD, SCHEMA, Workshop};

fn good() -> Workshop {
    Workshop::of(&format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""))
}

// R239, R240, R241
#[test]
fn a_harness_with_faults_runs_nothing_and_tells_them_all() {
    let workshop = good().ready();
    let text = workshop.read("harness.toml");
    let faulty =
        text.replace("schema = \"schemas/verdict.v1.json\"\n", "shema = \"x\"\n") + "[agents.other]\ncommand = []\n";
    workshop.write("harness.toml", &faulty);
    for arguments in [&["check"][..], &["lock"], &["run", "judge"]] {
        let finished = workshop.harness(arguments);
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(3), ""),
            "{arguments:?}"
        );
        for told in [
            "agents.judge.output.schema: is missing",
            "output.shema: unknown key",
            "agents.other.command: is empty",
        ] {
            assert!(finished.stderr.contains(told), "{told} in {}", finished.stderr);
        }
    }
    assert!(!workshop.path("state").exists(), "nothing ran");
}

// R254
#[test]
fn schema_and_prompt_change_together_or_not_at_all() {
    let workshop = good().ready();
    assert_eq!(workshop.judge().code, 0);
    for (file, text) in [
        ("prompts/verdict.md", "Another prompt.\n"),
        ("schemas/verdict.v1.json", "{\"type\":\"object\",\"minProperties\":1}"),
        ("agents/judge.sh", "#!/bin/sh\ntrue\n"),
    ] {
        let before = workshop.read(file);
        workshop.write(file, text);
        let outcome = workshop.run(&["run", "judge"]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (3, ""), "{file}");
        assert!(
            outcome.object["error"]
                .as_str()
                .unwrap()
                .contains("portreeve harness lock"),
            "{file}"
        );
        assert_eq!(workshop.harness(&["check"]).code, Some(3), "{file}");
        workshop.write(file, &before);
    }
    let toml = workshop.read("harness.toml");
    workshop.write(
        "harness.toml",
        &format!("{toml}[agents.judge.sandbox]\nnet = \"none\"\n"),
    );
    assert_eq!(workshop.judge().code, 3, "the walls are locked too");
    workshop.write("harness.toml", &toml);
    assert_eq!(workshop.judge().code, 0);
    std::fs::remove_file(workshop.path("harness.lock")).unwrap();
    assert_eq!(workshop.judge().code, 3);
    workshop.write("harness.lock", "nonsense");
    assert_eq!(workshop.judge().code, 3);
    assert_eq!(workshop.harness(&["lock"]).code, Some(0));
    let result = workshop.judge();
    assert_eq!(result.code, 0);
    let record = workshop.records("harness_result").pop().unwrap();
    for hash in ["config_hash", "schema_hash", "prompt_hash"] {
        assert!(record[hash].as_str().unwrap().starts_with("sha256:"), "{hash}");
    }
}

// R248
#[test]
fn every_file_of_a_harness_has_an_owner() {
    let workshop = good()
        .executable("hooks/post", "#!/bin/sh\n")
        .toml("[agents.judge.hooks]\npost = [[\"hooks/post\"]]\n")
        .ready();
    assert_eq!(
        workshop.harness(&["check", "--codeowners"]).code,
        Some(3),
        "no repository"
    );
    std::fs::create_dir(workshop.path(".git")).unwrap();
    workshop.write(
        ".github/CODEOWNERS",
        "/harness.* @owners\n/schemas/ @owners\n/prompts/ @owners\n/agents/ @owners\n",
    );
    let finished = workshop.harness(&["check", "--codeowners"]);
    assert_eq!(finished.code, Some(3));
    assert!(
        finished.stderr.contains("hooks/post: has no owner"),
        "{}",
        finished.stderr
    );
    workshop.write(".github/CODEOWNERS", "* @owners\n");
    let finished = workshop.harness(&["check", "--codeowners"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
}

// R249
#[test]
fn schemas_name_themselves_and_their_version() {
    let workshop = good().ready();
    workshop.write("schemas/plain.json", &SCHEMA.replace("\"$id\"", "\"$comment\""));
    let toml = workshop.read("harness.toml").replace("verdict.v1.json", "plain.json");
    workshop.write("harness.toml", &toml);
    workshop.harness(&["lock"]);
    let finished = workshop.harness(&["check"]);
    assert_eq!(finished.code, Some(3));
    for told in ["has no `$id`", "has no version in its name"] {
        assert!(finished.stderr.contains(told), "{}", finished.stderr);
    }
}

#[test]
fn what_a_runtimes_own_schema_option_would_refuse_is_said_beforehand() {
    let workshop = good().ready();
    assert_eq!(workshop.harness(&["check"]).code, Some(0));
    let finished = workshop.harness(&["check", "--dialect", "openai-strict"]);
    assert_eq!(finished.code, Some(3));
    assert!(
        finished.stderr.contains("`note` must be in required"),
        "{}",
        finished.stderr
    );
}

#[test]
fn unused_agents_are_faults_where_there_are_pipelines() {
    let workshop = good()
        .agent("other", "true", "")
        .toml("[pipelines.p]\nstages = [{ agent = \"judge\" }]\n");
    workshop.write("harness.toml", &workshop.written());
    for words in [["check"], ["lock"]] {
        let finished = workshop.harness(&words);
        assert_eq!(finished.code, Some(3));
        assert!(
            finished.stderr.contains("agents.other: runs in no pipeline"),
            "{}",
            finished.stderr
        );
    }
}

// R233, R246, R253
#[test]
fn no_flag_of_the_command_line_emits_what_is_not_valid() {
    let workshop = Workshop::of("echo '{\"verdict\":\"LEAK\"}' > \"$HARNESS_OUTPUT_FILE\"")
        .toml("[pipelines.p]\nstages = [{ agent = \"judge\" }]\n")
        .ready();
    workshop.write("input.txt", "x");
    for subcommand in [["run", "judge"], ["pipeline", "p"]] {
        let help = workshop.harness(&[subcommand[0], "--help"]).stdout;
        let flags: Vec<&str> = help
            .split_whitespace()
            .filter(|word| word.starts_with("--"))
            .map(|word| word.trim_end_matches(|c: char| !c.is_alphanumeric()))
            .collect();
        assert!(flags.contains(&"--json") && flags.contains(&"--input"), "{help}");
        for flag in flags {
            let mut arguments = subcommand.to_vec();
            arguments.push(flag);
            match flag {
                "--input" => arguments.push("a.txt=input.txt"),
                "--config" => arguments.push("portreeve.toml"),
                _ => {}
            }
            let finished = workshop.harness(&arguments);
            if !["--help", "--version"].contains(&flag) {
                assert!(matches!(finished.code, Some(10 | 20)), "{flag}: {finished:?}");
                assert_eq!(finished.stdout, "", "{flag}");
            }
            assert!(
                !finished.stdout.contains("LEAK") && !finished.stderr.contains("LEAK"),
                "{flag}"
            );
        }
        for word in ["skip", "force", "unsafe", "raw", "no-validate", "allow-invalid"] {
            assert!(!help.contains(word), "{word} in {help}");
        }
    }
}

// R238
#[test]
fn validate_is_the_same_judge_offline_and_always_of_one_mind() {
    let workshop = Workshop::new();
    workshop.write("good.json", GOOD);
    workshop.write("bad.json", "{\"verdict\":\"LEAK\",\"x\":1}");
    workshop.write("prose.txt", "LEAK");
    workshop.write("empty.json", "");
    workshop.write("hidden.json", "{\"verdict\":\"ok\",\"note\":\"\u{202e}\"}");
    std::os::unix::fs::symlink(workshop.path("good.json"), workshop.path("link.json")).unwrap();
    let schema = workshop.path("schemas/verdict.v1.json").display().to_string();
    let validate = |file: &str, more: &[&str]| -> Finished {
        // Without a network, where the host lets us take it away.
        let mut command = command("unshare");
        command
            .args(["--net", "--"])
            .arg(portreeve())
            .args(["harness", "validate", "--schema", &schema]);
        command.args(more).arg(workshop.path(file));
        Finished::of(&mut command)
    };
    for (file, code) in [
        ("good.json", 0),
        ("bad.json", 10),
        ("prose.txt", 11),
        ("empty.json", 11),
        ("missing.json", 11),
        ("link.json", 10),
        ("hidden.json", 0),
    ] {
        let finished = validate(file, &[]);
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(code), ""),
            "{file}: {}",
            finished.stderr
        );
        assert!(!finished.stderr.contains("LEAK"), "{file}");
    }
    assert_eq!(
        validate("hidden.json", &["--reject-text", "bidi,zero_width"]).code,
        Some(10)
    );
    assert_eq!(validate("good.json", &["--max-bytes", "3"]).code, Some(10));
    let first = validate("bad.json", &["--json"]).stderr;
    assert!((0..5).all(|_| validate("bad.json", &["--json"]).stderr == first));
    workshop.write("schemas/verdict.v1.json", "{}");
    assert_eq!(validate("good.json", &[]).code, Some(3));
}

#[test]
fn inputs_appear_under_their_names_and_cannot_be_changed() {
    let script = r#"
        [ "$(cat "$HARNESS_INPUT_DIR/issue.txt")" = "the issue" ] || exit 4
        echo more >> "$HARNESS_INPUT_DIR/issue.txt" 2>/dev/null && exit 5
        touch "$HARNESS_INPUT_DIR/new" 2>/dev/null && exit 6
        echo x >> "$HARNESS_SCHEMA" 2>/dev/null && exit 7
        echo '{"verdict":"ok"}' > "$HARNESS_OUTPUT_FILE""#;
    let workshop = Workshop::of(script).ready();
    workshop.write("issue.txt", "the issue");
    let outcome = workshop.run(&["run", "judge", "--input", "issue.txt=issue.txt"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for wrong in [
        "issue.txt",
        "../x=issue.txt",
        "judge.json=issue.txt",
        "manifest.json=issue.txt",
        "x=nowhere.txt",
    ] {
        assert_eq!(
            workshop.harness(&["run", "judge", "--input", wrong]).code,
            Some(2),
            "{wrong}"
        );
    }
    assert_eq!(workshop.harness(&["run", "nobody"]).code, Some(2));
    assert_eq!(workshop.harness(&["pipeline", "nothing"]).code, Some(2));
}

// R247
#[test]
fn a_log_that_cannot_be_written_stops_a_run_before_it_begins() {
    let workshop =
        Workshop::of("touch \"$HARNESS_OUTPUT_DIR/ran\"; echo '{\"verdict\":\"ok\"}' > \"$HARNESS_OUTPUT_FILE\"")
            .ready();
    workshop.write("state/ledger", "in the way");
    let finished = workshop.harness(&["run", "judge", "--json"]);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(1), ""),
        "{}",
        finished.stderr
    );
}

#[test]
fn an_ordinary_user_needs_neither_root_nor_a_configuration() {
    let workshop = good().ready();
    std::fs::remove_file(workshop.path("portreeve.toml")).unwrap();
    // Whoever runs the tests as an ordinary user is one already.
    let mut user = match rustix::process::geteuid().is_root() {
        false => command(portreeve()),
        true => {
            let mut owner = command("chown");
            Finished::of(owner.args(["-R", "4321:4321"]).arg(workshop.path(""))).success();
            let mut user = command("setpriv");
            user.args(["--reuid", "4321", "--regid", "4321", "--clear-groups", "--"])
                .arg(portreeve());
            user
        }
    };
    user.args(["harness", "run", "judge", "--json"])
        .current_dir(workshop.path(""));
    user.env("HOME", workshop.path("")).env_remove("XDG_STATE_HOME");
    let finished = Finished::of(&mut user);
    assert_eq!(
        (finished.code, finished.stdout.trim()),
        (Some(0), GOOD),
        "{}",
        finished.stderr
    );
    assert!(workshop.path(".local/state/portreeve/ledger").exists());
}

#[test]
fn a_host_that_cannot_build_the_walls_runs_nothing() {
    let script = "touch \"$HARNESS_OUTPUT_DIR/ran\"; echo '{\"verdict\":\"ok\"}' > \"$HARNESS_OUTPUT_FILE\"";
    let workshop = Workshop::new()
        .agent("judge", script, "")
        .agent(
            "other",
            script,
            "[AGENT.sandbox]\nnet = \"allowlist\"\nallow = [\"x.example\"]\n",
        )
        .toml("[pipelines.p]\nstages = [{ agent = \"other\" }, { agent = \"judge\" }]\n")
        .ready();
    for arguments in ["run judge", "pipeline p"] {
        // Inside a user namespace that allows no further ones.
        let mut shell = command("unshare");
        shell.args(["--user", "--map-root-user", "--", "sh", "-c"]);
        let switch_off = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99";
        shell.arg(format!(
            "{switch_off}; exec {} harness {arguments} --json",
            portreeve().display()
        ));
        let finished = Finished::of(shell.current_dir(workshop.path("")));
        if finished.code == Some(99) || finished.stderr.contains("unshare:") {
            return not_here("this host cannot take the namespaces away from a process");
        }
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(17), ""),
            "{}",
            finished.stderr
        );
    }
    assert_eq!(workshop.classes(), Vec::<String>::new(), "nothing was started");
}

#[test]
fn on_a_terminal_progress_is_a_table_that_is_drawn_anew() {
    let workshop = good().ready();
    let line = format!("{} harness run judge > output", portreeve().display());
    let mut terminal = command("script");
    terminal
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm");
    let finished = Finished::of(terminal.current_dir(workshop.path("")));
    assert_eq!(finished.code, Some(0), "{}", finished.stdout);
    assert!(
        finished.stdout.contains("\u{1b}[1A\u{1b}[2Kjudge"),
        "{}",
        finished.stdout
    );
    assert_eq!(workshop.read("output").trim(), GOOD);
}
