//! What is wrong with a configuration, where, and what to write instead. Never the text of a secret.

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
    /// The key, dotted (`servers.files.url`); empty where no key is meant.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
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

/// Everything that is wrong with a configuration, in the order of the file. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[Fault] {
        &self.0
    }

    /// A single fault of a whole file.
    #[must_use]
    pub fn of_file(file: &Path, message: String, hint: Option<String>) -> Self {
        Self(vec![Fault {
            file: file.to_owned(),
            line: 0,
            key: String::new(),
            message,
            hint,
        }])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(
            f,
            "{count} {} in the configuration",
            if count == 1 { "fault" } else { "faults" }
        )?;
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

    /// What is wrong and what to write instead, in one line.
    pub(super) fn to_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
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
        let breaks = text
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n')
            .map(|(at, _)| at + 1);
        Self {
            file: file.to_owned(),
            line_starts: std::iter::once(0).chain(breaks).collect(),
            faults: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    pub(super) fn fault(&self, offset: usize, key: &str, complaint: Complaint) {
        let fault = self.place(offset, key, complaint);
        // INVARIANT: one mistake is one fault; a syntax error and the value it mangled share a line.
        let syntax_on_line = |known: &Fault| known.line == fault.line && known.key.is_empty();
        if !self.faults.borrow().iter().any(syntax_on_line) {
            self.faults.borrow_mut().push(fault);
        }
    }

    pub(super) fn fault_in(&self, file: &Path, line: usize, message: String) {
        let fault = Fault {
            file: file.to_owned(),
            line,
            key: String::new(),
            message,
            hint: None,
        };
        self.faults.borrow_mut().push(fault);
    }

    pub(super) fn warn(&self, offset: usize, key: &str, complaint: Complaint) {
        let warning = self.place(offset, key, complaint);
        self.warnings.borrow_mut().push(warning);
    }

    /// The warnings, if nothing is wrong; else everything that is.
    pub(super) fn finish(self) -> Result<Vec<Fault>, Faults> {
        let mut faults = self.faults.into_inner();
        faults.sort_by(|a, b| (a.file != self.file, &a.file, a.line).cmp(&(b.file != self.file, &b.file, b.line)));
        if faults.is_empty() {
            Ok(self.warnings.into_inner())
        } else {
            Err(Faults(faults))
        }
    }

    fn place(&self, offset: usize, key: &str, complaint: Complaint) -> Fault {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        Fault {
            file: self.file.clone(),
            line,
            key: key.to_owned(),
            message: complaint.message,
            hint: complaint.hint,
        }
    }
}

/// A value a person wrote, fit to be shown in a message: in backticks, short, on one line.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        format!("`{short}…`")
    } else {
        format!("`{short}`")
    }
}

/// The one of `known` that `word` was probably meant to be.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let reach = 1 + word.chars().count() / 4;
    let near = known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate));
    near.filter(|(far, _)| *far <= reach)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edit distance: insertions, removals, replacements; `-` and `_` count as one letter.
fn distance(a: &str, b: &str) -> usize {
    let fold = |c: char| if c == '-' { '_' } else { c.to_ascii_lowercase() };
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, left) in a.chars().map(fold).enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(b.chars().map(fold)) {
            let replaced = diagonal + usize::from(left != right);
            diagonal = *cell;
            *cell = replaced.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_finds_its_word_and_another_word_does_not() {
        assert_eq!(nearest("retentoin", ["origin", "retention"]), Some("retention"));
        assert_eq!(
            nearest("allowed-hosts", ["allowed_hosts", "allowed_origins"]),
            Some("allowed_hosts")
        );
        assert_eq!(nearest("url", ["risk", "trust"]), None);
        assert_eq!(
            (distance("", "abc"), distance("abc", ""), distance("abc", "abd")),
            (3, 3, 1)
        );
    }

    #[test]
    fn lines_are_counted_from_one() {
        let notes = Notes::on(Path::new("x.toml"), "a\nbb\n\nc");
        for (offset, line) in [(0, 1), (1, 1), (2, 2), (4, 2), (5, 3), (6, 4), (99, 4)] {
            assert_eq!(notes.place(offset, "", Complaint::new("")).line, line, "{offset}");
        }
    }

    #[test]
    fn what_was_written_is_shown_short_and_on_one_line() {
        assert_eq!(quoted("a\nb"), "`a\\nb`");
        assert_eq!(quoted(&"x".repeat(41)), format!("`{}…`", "x".repeat(40)));
    }
}
