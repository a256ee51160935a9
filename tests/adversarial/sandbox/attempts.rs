//! The attempts of `rows.json`, and what may come of them.

use serde::Deserialize;
use serde_json::Value;

/// One way out that is tried.
#[derive(Clone, Deserialize, Debug)]
pub(super) struct Attempt {
    pub row: String,
    pub attempt: String,
    /// What it is right to fail with: the name of an error or of a signal, `None` for an answer that proves nothing.
    pub inside: Vec<Option<String>>,
    bare: Option<Bare>,
    judge: String,
    pub egress: Option<Expected>,
}

#[derive(Clone, Deserialize, Debug)]
struct Bare {
    through: bool,
}

/// The record an attempt must leave.
#[derive(Clone, Deserialize, Debug)]
pub(super) struct Expected {
    pub event: Vec<String>,
    pub reason: Vec<String>,
}

/// What the attacker says of an attempt.
#[derive(Clone, Deserialize, Debug)]
pub(super) struct Report {
    pub through: bool,
    pub errno: Option<String>,
    pub signal: Option<String>,
    pub detail: String,
}

/// Every attempt of these rows.
pub(super) fn of_rows(rows: &[&str]) -> Vec<Attempt> {
    let all: Vec<Attempt> = serde_json::from_str(include_str!("rows.json")).unwrap();
    let found: Vec<Attempt> = all.into_iter().filter(|one| rows.contains(&one.row.as_str())).collect();
    for row in rows {
        assert!(found.iter().any(|one| one.row == *row), "no attempts of {row}");
    }
    found
}

impl Attempt {
    /// Row and name.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.row, self.attempt)
    }

    /// Whether it works without a sandbox, on a host that has what it needs.
    pub(super) fn works_bare(&self) -> bool {
        self.bare.as_ref().is_some_and(|bare| bare.through)
    }

    /// Whether only the host can see what came of it.
    pub(super) fn is_judged_by_host(&self) -> bool {
        self.judge == "host"
    }

    /// What is wrong with this report of an attempt that was made inside.
    pub(super) fn fault(&self, report: &Report) -> Option<String> {
        let outcome = report.errno.clone().or_else(|| report.signal.clone());
        let fault = if matches!(outcome.as_deref(), Some("FAULT" | "ETIME")) {
            "the attempt itself went wrong"
        } else if report.through && !self.is_judged_by_host() {
            "GOT THROUGH"
        } else if !self.inside.contains(&outcome) {
            "was refused by something else than expected"
        } else {
            return None;
        };
        let (said, expected) = (report.said(), &self.inside);
        Some(format!("{}: {fault}: {said}, expected {expected:?}", self.name()))
    }
}

impl Report {
    /// Of an attempt that was ended with everything around it, and so could say nothing.
    pub(super) fn killed() -> Self {
        Self {
            through: false,
            errno: None,
            signal: Some("SIGKILL".to_owned()),
            detail: "everything inside was killed".to_owned(),
        }
    }

    /// In a line.
    pub(super) fn said(&self) -> String {
        let outcome = self.errno.as_ref().or(self.signal.as_ref());
        format!("through {}, {outcome:?}, {}", self.through, self.detail)
    }
}

impl Expected {
    /// Whether a record is the expected one.
    pub(super) fn is(&self, record: &Value) -> bool {
        let among = |list: &[String], key: &str| list.iter().any(|word| record[key] == word.as_str());
        among(&self.event, "event") && among(&self.reason, "reason")
    }
}
