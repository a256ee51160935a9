//! What is wrong with a harness, where, and what to write instead. Never the text of a secret.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong, or worth a second look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The file it is in.
    pub file: PathBuf,
    /// The line, counted from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// The key, dotted (`agents.triage.output.schema`); empty where no key is meant.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault of a whole file.
    #[must_use]
    pub fn of_file(file: &Path, message: impl Into<String>, hint: Option<&str>) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            key: String::new(),
            message: message.into(),
            hint: hint.map(str::to_owned),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n    hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong, in the order of the file. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        let noun = if count == 1 { "fault" } else { "faults" };
        write!(f, "{count} {noun} in the harness")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n{fault}"))
    }
}

impl std::error::Error for Faults {}

/// What a single value's reader says when it cannot take the value; the walk adds file, line and key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Complaint {
    message: String,
    hint: Option<String>,
}

impl Complaint {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Where faults and warnings are gathered while a document is read.
#[derive(Debug)]
pub(super) struct Notes {
    file: PathBuf,
    line_starts: Vec<usize>,
    faults: RefCell<Vec<Fault>>,
    warnings: RefCell<Vec<Fault>>,
}

impl Notes {
    pub(super) fn on(file: &Path, text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self {
            file: file.to_owned(),
            line_starts: std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect(),
            faults: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    pub(super) fn fault(&self, offset: usize, key: &str, complaint: Complaint) {
        let fault = self.place(offset, key, complaint);
        // One mistake is one fault; a syntax error and the value it mangled share a line.
        let syntax_on_line = |known: &Fault| known.line == fault.line && known.key.is_empty();
        if !self.faults.borrow().iter().any(syntax_on_line) {
            self.faults.borrow_mut().push(fault);
        }
    }

    pub(super) fn warn(&self, offset: usize, key: &str, complaint: Complaint) {
        let warning = self.place(offset, key, complaint);
        self.warnings.borrow_mut().push(warning);
    }

    /// The warnings, if nothing is wrong; else everything that is.
    pub(super) fn finish(self) -> Result<Vec<Fault>, Faults> {
        let mut faults = self.faults.into_inner();
        faults.sort_by_key(|fault| fault.line);
        if faults.is_empty() {
            Ok(self.warnings.into_inner())
        } else {
            Err(Faults(faults))
        }
    }

    fn place(&self, offset: usize, key: &str, complaint: Complaint) -> Fault {
        Fault {
            file: self.file.clone(),
            line: self.line_starts.partition_point(|start| *start <= offset),
            key: key.to_owned(),
            message: complaint.message,
            hint: complaint.hint,
        }
    }
}

/// A value a person wrote, fit to be shown in a message: in backticks, short, on one line.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    match text.chars().nth(60) {
        Some(_) => format!("`{short}…`"),
        None => format!("`{short}`"),
    }
}
