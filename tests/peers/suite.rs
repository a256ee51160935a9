//! The official conformance suite: how it is run, and what a run found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{are_installed, modules, node};
use crate::support::environment::{Finished, command};

pub(super) const LEGACY: &str = "2025-11-25";
pub(super) const MODERN: &str = "2026-07-28";
/// The package of the suite that knows both versions.
pub(super) const CURRENT: &str = "conformance";

/// The suite, if it is there.
pub(super) fn suite_command(package: &str) -> Option<Command> {
    let main = modules().join(package).join("dist/index.js");
    if !are_installed(&[&main]) {
        return None;
    }
    let mut suite = command(node());
    suite.arg(main);
    Some(suite)
}

/// The suite's clients against a server.
pub(super) fn run_server(package: &str, url: &str, arguments: &[&str]) -> Verdict {
    let Some(mut run) = suite_command(package) else {
        return Verdict::none();
    };
    let out = TempDir::new().unwrap();
    run.args(["server", "--url", url, "--output-dir", "out"]);
    run.args(arguments).current_dir(out.path());
    Verdict::read(Finished::of(&mut run), &out.path().join("out"))
}

/// What a run of the suite found.
pub(super) struct Verdict {
    was_run: bool,
    code: Option<i32>,
    pub(super) passed: usize,
    /// Every check that was made, `SCENARIO:ID`, and whether it always passed.
    checks: BTreeMap<String, bool>,
    pub(super) story: String,
}

impl Verdict {
    fn none() -> Self {
        Self {
            was_run: false,
            code: None,
            passed: 0,
            checks: BTreeMap::new(),
            story: String::new(),
        }
    }

    /// Reads the checks of every scenario, each in a directory `[server-]SCENARIO-TIME`. A warning is a fault too.
    pub(super) fn read(finished: Finished, results: &Path) -> Self {
        let (mut passed, mut checks, mut details) = (0, BTreeMap::new(), String::new());
        for entry in std::fs::read_dir(results).into_iter().flatten() {
            let directory = entry.unwrap().path();
            let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
            let scenario = name.strip_prefix("server-").unwrap_or(&name);
            // The time has six parts of its own: 2026-11-16T00-50-10-917Z.
            let scenario = scenario.rsplitn(7, '-').last().unwrap();
            let made = std::fs::read(directory.join("checks.json")).unwrap_or_default();
            let made: Vec<Value> = serde_json::from_slice(&made).unwrap_or_default();
            for check in made {
                let has_passed = match check["status"].as_str() {
                    Some("SUCCESS") => true,
                    Some("FAILURE" | "WARNING") => false,
                    _ => continue,
                };
                let id = format!("{scenario}:{}", check["id"].as_str().unwrap());
                *checks.entry(id).or_insert(true) &= has_passed;
                passed += usize::from(has_passed);
                if !has_passed {
                    details += &format!("{check:#}\n");
                }
            }
        }
        let said = format!("{}\n{}", finished.stdout, finished.stderr);
        Self {
            was_run: true,
            code: finished.code,
            passed,
            checks,
            story: format!("{said}\n{details}\n"),
        }
    }

    /// The checks that passed, or those that did not.
    fn checks_that(&self, have_passed: bool) -> BTreeSet<String> {
        let chosen = self.checks.iter().filter(|(_, passed)| **passed == have_passed);
        chosen.map(|(id, _)| id.clone()).collect()
    }

    /// Nothing is wrong with at least so many checks.
    pub(super) fn is_clean(&self, at_least: usize) {
        self.has_faults(at_least, &BTreeSet::new());
    }

    pub(super) fn has_faults(&self, at_least: usize, expected: &BTreeSet<String>) {
        if self.was_run {
            let faults = self.checks_that(false);
            assert_eq!((self.code, &faults), (Some(0), expected), "{}", self.story);
            assert!(self.passed >= at_least, "{} passed:\n{}", self.passed, self.story);
            println!("{} checks passed", self.passed);
        }
    }

    /// What the suite blames, and nothing else.
    pub(super) fn has_only_faults(&self, expected: &BTreeSet<String>) {
        if self.was_run {
            assert_eq!(&self.checks_that(false), expected, "{}", self.story);
            assert!(self.passed >= expected.len(), "{} passed:\n{}", self.passed, self.story);
        }
    }

    /// What passed in another run and does not in this one: `SCENARIO:ID`, and whether it failed or was not made.
    pub(super) fn loses_only(&self, direct: &Self, at_least: usize, expected: &[(&str, &str)]) {
        if self.was_run {
            assert!(direct.passed >= at_least, "{} passed:\n{}", direct.passed, direct.story);
            let before = direct.checks_that(true);
            let lost = before.iter().filter_map(|id| match self.checks.get(id) {
                Some(true) => None,
                Some(false) => Some((id.as_str(), "failed")),
                None => Some((id.as_str(), "not made")),
            });
            assert_eq!(lost.collect::<Vec<_>>(), expected, "{}", self.story);
            println!("{} checks passed direct, {} behind", direct.passed, self.passed);
        }
    }
}
