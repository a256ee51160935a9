//! `[state]`: where the gateway keeps what must outlive it.

use std::path::PathBuf;

use settings::{Complaint, Section, not_yet, quoted};

use super::raw::Surroundings;

/// Where the gateway keeps what must outlive it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// The state directory; it need not exist yet.
    pub dir: PathBuf,
}

impl State {
    pub(super) fn check(mut section: Section<'_>, around: &Surroundings) -> Option<Self> {
        let given = section.has("dir");
        let written = section.read("dir", |value| {
            let dir = around.resolve(value.text()?);
            if dir.exists() && !dir.is_dir() {
                return Err(Complaint::new("is not a directory"));
            }
            Ok(dir)
        });
        let dir = if given { written } else { around.state_dir() };
        if !given && dir.is_none() {
            let complaint = Complaint::new("has no default, because neither XDG_STATE_HOME nor HOME is set");
            section.fault("dir", complaint.hint("name a directory"));
        }
        let fleet = "several gateways with a shared store";
        section.read("store", |value| match value.text()? {
            "sqlite" => Ok(()),
            text if text.starts_with("postgres") => Err(not_yet(fleet).hint("write `sqlite`")),
            // What stands here may hold a password, so it is not repeated.
            _ => Err(Complaint::new("is not a store").hint("write `sqlite`")),
        });
        section.read("coordination", |value| match value.text()? {
            "local" => Ok(()),
            text if text.starts_with("redis") => Err(not_yet(fleet).hint("write `local`")),
            text if text.contains(':') => Err(Complaint::new("is not known").hint("write `local`")),
            text => Err(Complaint::new(format!("{} is not known", quoted(text))).hint("write `local`")),
        });
        section.finish();
        Some(Self { dir: dir? })
    }
}
