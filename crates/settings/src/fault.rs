//! What is wrong with a configuration file, where, and what to write instead. Never the text of a secret.

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

/// Everything that is wrong with a file, in the order of the file. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults {
    /// What the file is called.
    name: &'static str,
    all: Vec<Fault>,
}

impl Faults {
    /// INVARIANT: the caller has seen that there is at least one.
    pub(crate) fn new(name: &'static str, all: Vec<Fault>) -> Self {
        Self { name, all }
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[Fault] {
        &self.all
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.all.len();
        let noun = if count == 1 { "fault" } else { "faults" };
        write!(f, "{count} {noun} in the {}", self.name)?;
        self.all.iter().try_for_each(|fault| write!(f, "\n{fault}"))
    }
}

impl std::error::Error for Faults {}

/// What a single value's reader says when it cannot take the value; the section adds file, line and key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Complaint {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Complaint {
    /// Says what is wrong.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    /// Says what to write instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What is wrong and what to write instead, in one line.
    #[must_use]
    pub fn to_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Says that a key or a value is known but belongs to a later version.
#[must_use]
pub fn not_yet(feature: &str) -> Complaint {
    Complaint::new(format!("is known, but not available in this version yet ({feature})")).hint("remove it")
}

/// A value a person wrote, fit to be shown in a message: in backticks, short, on one line.
#[must_use]
pub fn quoted(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    match text.chars().nth(SHOWN) {
        Some(_) => format!("`{short}…`"),
        None => format!("`{short}`"),
    }
}

/// Enough for the path of a file in a project.
const SHOWN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_shown_short_and_on_one_line() {
        assert_eq!(quoted("a\nb"), "`a\\nb`");
        assert_eq!(quoted(&"x".repeat(60)), format!("`{}`", "x".repeat(60)));
        assert_eq!(quoted(&"x".repeat(61)), format!("`{}…`", "x".repeat(60)));
    }

    #[test]
    fn one_fault_is_told_in_the_singular_and_hints_stand_under_theirs() {
        let fault = Fault::of_file(Path::new("a.toml"), "is odd", Some("be even"));
        let faults = Faults::new("configuration", vec![fault]);
        let told = "1 fault in the configuration\na.toml: is odd\n    hint: be even";
        assert_eq!(faults.to_string(), told);
    }
}
