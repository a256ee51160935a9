//! What `harness.lock` binds: everything that decides.

use crate::support::workshop::{GOOD, Workshop};

fn workshop() -> Workshop {
    let script = format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\"");
    Workshop::new()
        .executable("hooks/post", "#!/bin/sh\ntrue\n")
        .executable("hooks/helper", "#!/bin/sh\ntrue\n")
        .agent(
            "judge",
            &script,
            "[AGENT.env]\nWORD = \"text:one\"\n[AGENT.output]\nsecrets = \"off\"\nmax_bytes = 4096\n[AGENT.retry]\nmax_retries = 1\n\
             [AGENT.limits]\ntimeout = \"60s\"\n[AGENT.hooks]\npost = [[\"hooks/post\", \"hooks/helper\"]]\n",
        )
        .agent("second", &script, "")
        .toml(
            "[pipelines.p]\nbudget = { attempts = 9, time = \"10m\" }\nstages = [{ agent = \"judge\" }, \
             { agent = \"second\", when = { from = \"judge\", pointer = \"/verdict\", equals = \"ok\" } }]\n",
        )
        .ready()
}

#[test]
fn whatever_decides_is_bound() {
    let changes = [
        ("hooks/post", "true", "false"),
        ("hooks/helper", "true", "false"),
        ("harness.toml", "\"hooks/helper\"]", "\"hooks/helper\", \"--more\"]"),
        ("harness.toml", "text:one", "text:two"),
        ("harness.toml", "text:one", "env:ONE"),
        ("harness.toml", "secrets = \"off\"", "secrets = \"record\""),
        ("harness.toml", "max_bytes = 4096", "max_bytes = 8192"),
        ("harness.toml", "max_retries = 1", "max_retries = 2"),
        ("harness.toml", "timeout = \"60s\"", "timeout = \"61s\""),
        ("harness.toml", "attempts = 9", "attempts = 10"),
        ("harness.toml", "time = \"10m\"", "time = \"11m\""),
        ("harness.toml", "equals = \"ok\"", "equals = \"block\""),
        ("harness.toml", "prompt = ", "servers = [\"files\"]\nprompt = "),
    ];
    let workshop = workshop();
    assert_eq!(workshop.harness(&["check"]).code, Some(0));
    for (file, before, after) in changes {
        let honest = workshop.read(file);
        let changed = honest.replacen(before, after, 1);
        assert_ne!(honest, changed, "{file}: {before}");
        // The mode stays as it is.
        workshop.write(file, &changed);
        for words in [&["run", "judge"][..], &["pipeline", "p"], &["check"]] {
            let refused = workshop.harness(words);
            assert_eq!(
                refused.code,
                Some(3),
                "{words:?} after {before} → {after}: {}",
                refused.stderr
            );
            assert!(refused.stderr.contains("harness.lock"), "{}", refused.stderr);
        }
        workshop.write(file, &honest);
    }
    assert_eq!(workshop.harness(&["pipeline", "p"]).code, Some(0));
}

#[test]
fn a_fault_of_check_stops_everything() {
    use std::os::unix::fs::PermissionsExt as _;
    let workshop = workshop();
    let plain = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(workshop.path("hooks/post"), plain).unwrap();
    for words in [&["check"][..], &["lock"], &["run", "judge"], &["pipeline", "p"]] {
        let refused = workshop.harness(words);
        assert_eq!(refused.code, Some(3), "{words:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("cannot be executed"),
            "{words:?}: {}",
            refused.stderr
        );
    }
}
