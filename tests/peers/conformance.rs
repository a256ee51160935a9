//! The official conformance suite through the gateway: its clients in front of the fixture, and its servers behind a driver.

use std::collections::BTreeSet;

use serde_json::json;
use tempfile::TempDir;

use super::fixture::Fixture;
use super::suite::{CURRENT, LEGACY, MODERN, Verdict, run_server, suite_command};
use super::{modules, node, script, shim};
use crate::support::environment::{Finished, portreeve};
use crate::support::{Gateway, Modern};

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
    // The suite looks at the clock, and a process of its own is slow to start.
    let warm = Modern::new(&behind.0, "/mcp/fixture", &behind.1);
    warm.call("test_simple_text", json!({})).await;
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
    let url = shim::open(gateway.mcp.address, "/mcp/fixture", &token).await;
    let mut verdict = run_server(suite, &url, arguments);
    verdict.story += &gateway.logs();
    verdict
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
        let verdict = Verdict::read(Finished::of(&mut run), &out.path().join("out"));
        println!("{scenario}: {} checks", verdict.passed);
        match scenario.as_str() {
            "request-metadata" | "http-standard-headers" if version == MODERN => {
                verdict.has_only_faults(&asks_for_sessions(scenario));
            }
            _ => verdict.is_clean(1),
        }
    };
    let (some, others) = scenarios.split_at(scenarios.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| some.iter().for_each(run));
        others.iter().for_each(run);
    });
}

/// What asks a modern server whether it has sessions too (ADR 0055) is an `initialize`, which is no modern request: it says
/// nothing in `_meta` or in headers. Everything else is as the suite wants it.
fn asks_for_sessions(scenario: &str) -> BTreeSet<String> {
    let ids: &[&str] = match scenario {
        "request-metadata" => &[
            "sep-2575-http-client-sends-version-header",
            "sep-2575-client-populates-meta",
            "sep-2575-client-sends-client-info",
        ],
        _ => &["sep-2243-client-includes-standard-headers"],
    };
    ids.iter().map(|id| format!("{scenario}:{id}")).collect()
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

/// The entries of a list of known failures.
fn entries(path: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let entries = text.lines().filter_map(|line| line.trim().strip_prefix("- "));
    entries.map(str::to_owned).collect()
}
