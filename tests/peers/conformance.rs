//! The official conformance suite through the gateway: its clients in front of the fixture, and its servers behind a driver.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::fixture::Fixture;
use super::{are_installed, modules, node, script, shim};
use crate::support::Gateway;
use crate::support::environment::{Finished, command, portreeve};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
const CURRENT: &str = "conformance";
const OLD: &str = "conformance-0.1";

/// Known not to work in front of a legacy server, each with its reason.
const BEYOND_LEGACY: &str = "expected-failures-legacy-server.yml";

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_server_conforms_to_the_legacy_version_through_the_gateway() {
    serve("legacy", CURRENT, &["--requirements", LEGACY]).await.is_clean(80);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_server_conforms_to_the_modern_version_through_the_gateway() {
    serve("modern", CURRENT, &["--requirements", MODERN])
        .await
        .is_clean(196);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_both_eras_conforms_to_the_legacy_version_through_the_gateway() {
    serve("dual", CURRENT, &["--requirements", LEGACY]).await.is_clean(80);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_both_eras_conforms_to_the_modern_version_through_the_gateway() {
    serve("dual", CURRENT, &["--requirements", MODERN]).await.is_clean(196);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_both_eras_passes_the_suite_that_clients_of_today_were_written_for() {
    serve("dual", OLD, &[]).await.is_clean(39);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_server_conforms_to_the_legacy_version_through_the_gateway() {
    serve("modern", CURRENT, &["--requirements", LEGACY]).await.is_clean(80);
}

/// Everything that is on the timeline of the specification: the tasks are an extension.
#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_server_conforms_to_the_modern_version_as_far_as_it_can() {
    let known = script(BEYOND_LEGACY);
    let known = known.to_str().unwrap();
    let arguments = ["--suite", "all", "--spec-version", MODERN, "--expected-failures", known];
    let verdict = serve("legacy", CURRENT, &arguments).await;
    verdict.has_faults(147, &entries(known));
}

#[test]
fn a_legacy_client_is_what_the_suite_expects_of_a_legacy_client() {
    connect(LEGACY, "legacy");
}

#[test]
fn a_modern_client_is_what_the_suite_expects_of_a_modern_client() {
    connect(MODERN, "modern");
}

#[test]
fn a_legacy_client_is_made_a_modern_one() {
    connect(MODERN, "legacy");
}

/// One server asks on its session's own stream, which the gateway holds open for a modern client.
#[test]
fn a_modern_client_is_made_a_legacy_one() {
    connect(LEGACY, "modern");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_server_in_the_sandbox_conforms() {
    let behind = Fixture::inside("legacy").await;
    let verdict = serve_behind(behind, CURRENT, &["--requirements", LEGACY]).await;
    verdict.is_clean(70);
}

/// A process is its principal's own: that its lists changed does not change the inventory, which has another. The suite
/// warns of it; nothing fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_modern_server_in_the_sandbox_conforms() {
    let behind = Fixture::inside("modern").await;
    let verdict = serve_behind(behind, CURRENT, &["--requirements", MODERN]).await;
    let warned = ["prompts", "tools"]
        .map(|list| format!("server-stateless:sep-2575-server-sends-{list}-list-changed-on-subscription"));
    verdict.has_faults(194, &warned.into());
}

/// The suite's clients against the fixture.
async fn serve(era: &str, suite: &str, arguments: &[&str]) -> Verdict {
    let fixture = Fixture::start(era);
    serve_behind(fixture.behind_gateway().await, suite, arguments).await
}

async fn serve_behind((gateway, token): (Gateway, String), suite: &str, arguments: &[&str]) -> Verdict {
    let Some(mut run) = suite_command(suite) else {
        return Verdict::none();
    };
    let url = shim::open(gateway.mcp.address, "/mcp/fixture", &token).await;
    let out = TempDir::new().unwrap();
    run.args(["server", "--url", &url, "--output-dir", "out"]);
    run.args(arguments).current_dir(out.path());
    let finished = Finished::of(&mut run);
    Verdict::read(finished, &out.path().join("out"), &gateway.logs())
}

/// The suite's servers behind a gateway, which the driver starts for each of them; all scenarios but those that want an
/// authorization server.
fn connect(version: &str, era: &str) {
    let Some(mut list) = suite_command(CURRENT) else {
        return;
    };
    let listed = Finished::of(list.args(["list", "--requirements", version])).success();
    let scenarios = client_scenarios(&listed);
    assert!(scenarios.len() >= 5, "{listed}");
    let run = |scenario: &String| {
        let mut run = suite_command(CURRENT).unwrap();
        let out = TempDir::new().unwrap();
        run.args([
            "client",
            "--command",
            r#"exec "$NODE" "$DRIVER" "$MODULES" "$PORTREEVE" "$ERA""#,
        ])
        .args(["--scenario", scenario, "--spec-version", version])
        .args(["--output-dir", "out", "--timeout", "60000"])
        .env("NODE", node())
        .env("DRIVER", script("driver.mjs"))
        .env("MODULES", modules())
        .env("PORTREEVE", portreeve())
        .env("ERA", era)
        .current_dir(out.path());
        let verdict = Verdict::read(Finished::of(&mut run), &out.path().join("out"), "");
        println!("{scenario}: {} checks", verdict.passed);
        verdict.is_clean(1);
    };
    let (some, others) = scenarios.split_at(scenarios.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| some.iter().for_each(run));
        others.iter().for_each(run);
    });
}

/// The names in what `list --requirements` prints, scored or not.
fn client_scenarios(listed: &str) -> Vec<String> {
    let (_, clients) = listed.split_once("\nClient scenarios").unwrap();
    let (scored, others) = clients.split_once("\nRun and reported").unwrap();
    let others = others.lines().filter_map(|line| line.strip_suffix(" [client]"));
    let names = scored
        .lines()
        .chain(others)
        .filter_map(|line| line.trim().strip_prefix("- "));
    names
        .filter(|name| !name.starts_with("auth/"))
        .map(str::to_owned)
        .collect()
}

/// The suite, if it is there.
fn suite_command(package: &str) -> Option<Command> {
    let main = modules().join(package).join("dist/index.js");
    if !are_installed(&[&main]) {
        return None;
    }
    let mut suite = command(node());
    suite.arg(main);
    Some(suite)
}

/// The entries of a list of known failures.
fn entries(path: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let entries = text.lines().filter_map(|line| line.trim().strip_prefix("- "));
    entries.map(str::to_owned).collect()
}

/// What a run of the suite found.
struct Verdict {
    was_run: bool,
    code: Option<i32>,
    passed: usize,
    faults: BTreeSet<String>,
    story: String,
}

impl Verdict {
    fn none() -> Self {
        Self {
            was_run: false,
            code: None,
            passed: 0,
            faults: BTreeSet::new(),
            story: String::new(),
        }
    }

    /// Reads the checks of every scenario, each in a directory `[server-]SCENARIO-TIME`. A warning is a fault too.
    fn read(finished: Finished, results: &Path, logs: &str) -> Self {
        let (mut passed, mut faults, mut details) = (0, BTreeSet::new(), String::new());
        for entry in std::fs::read_dir(results).into_iter().flatten() {
            let directory = entry.unwrap().path();
            let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
            let scenario = name.strip_prefix("server-").unwrap_or(&name);
            // The time has six parts of its own: 2026-11-16T00-50-10-917Z.
            let scenario = scenario.rsplitn(7, '-').last().unwrap();
            let checks = std::fs::read(directory.join("checks.json")).unwrap_or_default();
            let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap_or_default();
            for check in checks {
                match check["status"].as_str() {
                    Some("SUCCESS") => passed += 1,
                    Some("FAILURE" | "WARNING") => {
                        faults.insert(format!("{scenario}:{}", check["id"].as_str().unwrap()));
                        details += &format!("{check:#}\n");
                    }
                    _ => {}
                }
            }
        }
        let said = format!("{}\n{}", finished.stdout, finished.stderr);
        Self {
            was_run: true,
            code: finished.code,
            passed,
            faults,
            story: format!("{said}\n{details}\n{logs}"),
        }
    }

    /// Nothing is wrong with at least so many checks.
    fn is_clean(&self, at_least: usize) {
        self.has_faults(at_least, &BTreeSet::new());
    }

    fn has_faults(&self, at_least: usize, expected: &BTreeSet<String>) {
        if self.was_run {
            assert_eq!((self.code, &self.faults), (Some(0), expected), "{}", self.story);
            assert!(self.passed >= at_least, "{} passed:\n{}", self.passed, self.story);
            println!("{} checks passed", self.passed);
        }
    }
}
