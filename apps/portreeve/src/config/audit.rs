//! `[audit]`: the log of everything.

use std::path::PathBuf;
use std::time::Duration;

use settings::{Complaint, Entry, Section, not_yet};

use super::State;
use super::raw::Surroundings;

/// How the log is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// The log's name: no space, no `+`.
    pub origin: String,
    /// What an answer waits for.
    pub durability: Durability,
    /// Longest time records are gathered before they are written to disk.
    pub commit_interval: Duration,
    /// How long records are kept.
    pub retention: Retention,
    /// Whether arguments are kept, encrypted.
    pub record_arguments: bool,
    /// Whether answers are kept, encrypted.
    pub record_results: bool,
    /// The directory that every checkpoint is copied to.
    pub witness: Option<PathBuf>,
}

vocabulary::words! {
    /// What an answer waits for.
    pub enum Durability {
        /// The disk, always.
        Always = "always",
        /// The disk, from medium risk on.
        Writes = "writes",
        /// The kernel.
        Interval = "interval",
    }
}

/// How long records are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Older records may go.
    pub days: u64,
    /// Younger records never go.
    pub min_days: u64,
    /// Size from which old records may go.
    pub max_bytes: u64,
}

impl Audit {
    pub(super) fn check(mut section: Section<'_>, state: Option<&State>, around: &Surroundings) -> Option<Self> {
        let given = section.has("origin");
        let written = section.read("origin", |value| origin(value.text()?));
        // The name was fixed at the first start: a host that was renamed since keeps its log.
        let kept = || state.and_then(|state| ledger::stored_origin(&state.dir));
        let origin = if given {
            written
        } else {
            Some(kept().unwrap_or_else(|| format!("{}/portreeve", Surroundings::host_name())))
        };
        let durability = section.read("durability", |value| value.word(Durability::ALL, Durability::as_str));
        let interval = section.read("commit_interval_ms", |value| value.number(1..=1_000));
        let arguments = section.read("record_arguments", |value| value.boolean());
        let results = section.read("record_results", |value| value.boolean());
        let retention = Retention::check(&mut section);
        let witness = witness(&mut section, around);
        section.finish();
        Some(Self {
            origin: origin?,
            durability: durability?,
            commit_interval: Duration::from_millis(interval?),
            retention: retention?,
            record_arguments: arguments?,
            record_results: results?,
            witness: witness?,
        })
    }
}

/// Where checkpoints are copied to, if anywhere; `None` where the section has a fault.
fn witness(audit: &mut Section<'_>, around: &Surroundings) -> Option<Option<PathBuf>> {
    let mut section = audit.section("witness");
    let given = section.has("directory");
    let directory = section.read("directory", |value| match value.text()? {
        "" => Err(Complaint::new("is empty").hint("name a directory")),
        text => Ok(around.resolve(text)),
    });
    section.read("command", |_| {
        Err::<(), _>(not_yet("a command as a witness").hint("name a `directory`"))
    });
    section.finish();
    if given { directory.map(Some) } else { Some(None) }
}

impl Retention {
    fn check(audit: &mut Section<'_>) -> Option<Self> {
        let mut section = audit.section("retention");
        let days = section.read("days", |value| value.number(1..=36_500));
        let min_days = section.read("min_days", |value| {
            let floor = value.number(1..=36_500)?;
            match days {
                Some(days) if floor > days => Err(Complaint::new("is more than `days`")
                    .hint("records are never deleted before `min_days`; raise `days`")),
                Some(_) | None => Ok(floor),
            }
        });
        let max_bytes = section.read("max_bytes", Entry::size);
        section.finish();
        Some(Self {
            days: days?,
            min_days: min_days?,
            max_bytes: max_bytes?,
        })
    }
}

/// A log's name is the first line of its checkpoints: no space, no `+`, nothing that breaks a line.
fn origin(text: &str) -> Result<String, Complaint> {
    let fits = (1..=255).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic() && c != '+');
    let wrong = || {
        Complaint::new("is not a name for a log")
            .hint("visible ASCII without spaces and `+`, such as `gw-1.example/portreeve`")
    };
    fits.then(|| text.to_owned()).ok_or_else(wrong)
}
