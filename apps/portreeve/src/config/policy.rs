//! `[policy]`: which rules decide. Without any, everything is denied.

use std::path::Path;
use std::sync::Arc;

use ::policy::{Place, PolicyFile, Rules};
use settings::{Complaint, Notes, Section};

use super::raw::Surroundings;

/// The rules, as they were written and as they were read.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The policy files in the order they were found; empty means that everything is denied.
    pub files: Vec<PolicyFile>,
    /// What they say; every one of them could be read.
    pub rules: Arc<Rules>,
}

impl Policy {
    pub(super) fn check(mut section: Section<'_>, around: &Surroundings) -> Option<Self> {
        let given = section.has("files");
        let files = section.read("files", |value| {
            let mut files: Vec<PolicyFile> = Vec::new();
            value.list(|pattern| {
                let paths = around.matching(pattern.text()?)?;
                if paths.is_empty() && given {
                    pattern.warn(Complaint::new("matches no file").hint("a missing policy file allows nothing"));
                }
                for path in paths {
                    let name = around.relative(&path);
                    if !files.iter().any(|known| known.name == name) {
                        files.push(PolicyFile {
                            name,
                            text: around.text(&path)?,
                        });
                    }
                }
                Ok(())
            })?;
            if files.iter().all(|file| file.text.trim().is_empty()) {
                value.warn(Complaint::new("no policy: everything is denied"));
            }
            Ok(files)
        });
        let notes = section.notes();
        section.finish();
        let files = files?;
        let rules = load(&files, notes)?;
        Some(Self {
            files,
            rules: Arc::new(rules),
        })
    }
}

/// Reads the policies; what cannot be read is a fault of its file.
fn load(files: &[PolicyFile], notes: &Notes) -> Option<Rules> {
    let faults = match Rules::load(files) {
        Ok(rules) => return Some(rules),
        Err(faults) => faults,
    };
    for fault in faults {
        let (line, message) = match fault.place {
            Place::Line { line, column } => (line, format!("column {column}: {}", fault.kind)),
            Place::Policy(position) => (0, format!("policy {position}: {}", fault.kind)),
            Place::File => (0, fault.kind.to_string()),
        };
        notes.fault_in(Path::new(&fault.file), line, message);
    }
    None
}
