//! The one place that reads files and the environment. What it gives is still untrusted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use settings::{Complaint, Fault, Faults, Unreadable};
use vocabulary::Digest;

use super::{FORMAT, Profile};

/// A configuration as somebody wrote it, with the surroundings its references point into.
#[derive(Debug)]
pub struct RawConfig {
    pub(super) file: PathBuf,
    pub(super) text: String,
    pub(super) surroundings: Surroundings,
}

impl RawConfig {
    /// Reads the file; its references are read when it is checked.
    ///
    /// # Errors
    /// When the file cannot be read or is no UTF-8 text.
    pub fn read(file: &Path) -> Result<Self, Faults> {
        let fault = |message: String| FORMAT.refuse(Fault::of_file(file, message, None));
        let absolute = std::path::absolute(file).map_err(|error| fault(format!("cannot be found: {error}")))?;
        let text = read_text(&absolute).map_err(|error| fault(error.to_string()))?;
        let base = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        let surroundings = Surroundings::new(base, Variables::Process);
        surroundings.note_text(&absolute, &text);
        Ok(Self {
            file: file.to_owned(),
            text,
            surroundings,
        })
    }

    /// Goes by the packages that are installed, whatever `servers.lock` says: it is about to be written.
    #[must_use]
    pub(crate) fn for_locking(mut self) -> Self {
        self.surroundings.locks_anew = true;
        self
    }

    /// Is judged by this profile, whatever is written.
    #[must_use]
    pub fn judged_by(mut self, profile: Option<Profile>) -> Self {
        self.surroundings.profile = profile;
        self
    }

    /// A configuration that is held in memory, with its own variables in place of the environment's;
    /// relative paths start at `base`.
    #[must_use]
    pub fn from_text(text: String, base: PathBuf, variables: BTreeMap<String, String>) -> Self {
        let surroundings = Surroundings::new(base, Variables::Given(variables));
        Self {
            file: PathBuf::from("portreeve.toml"),
            text,
            surroundings,
        }
    }
}

/// What is found at a path: which file, and what it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// Device and number of the file. A file that was replaced as a whole has others.
    pub(super) inode: (u64, u64),
    /// A file's text, a directory's names.
    pub(super) says: Digest,
}

/// What is found at a path; `None` where there is nothing to read.
pub(super) fn found_at(path: &Path) -> Option<Found> {
    Some(Found {
        inode: inode(path)?,
        says: says(path)?,
    })
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = path.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn says(path: &Path) -> Option<Digest> {
    if !path.is_dir() {
        return std::fs::read(path).ok().map(|bytes| Digest::of(&bytes));
    }
    let entries = std::fs::read_dir(path).ok()?.flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Some(Digest::of(names.join("\0").as_bytes()))
}

/// Where the configuration is: `given`, else `./portreeve.toml`, else the XDG configuration directory.
///
/// # Errors
/// When none was given and neither place has one.
pub fn find_file(given: Option<&Path>) -> Result<PathBuf, Faults> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let mut places = vec![PathBuf::from("portreeve.toml")];
    places.extend(xdg_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("portreeve.toml")));
    if let Some(found) = places.iter().find(|place| place.exists()) {
        return Ok(found.clone());
    }
    let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    let hint = format!("looked for {}; name one with --config", looked.join(" and "));
    let fault = Fault::of_file(Path::new("portreeve.toml"), "no configuration found", Some(&hint));
    Err(FORMAT.refuse(fault))
}

/// A variable of the environment; empty counts as not set.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the environment"
)]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Every variable of the environment that is text.
#[must_use]
pub fn variables() -> BTreeMap<String, String> {
    let pairs = std::env::vars_os();
    pairs
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// What a configuration's references point into: a directory, the environment, the machine's name.
#[derive(Debug)]
pub(super) struct Surroundings {
    base: PathBuf,
    variables: Variables,
    files: RefCell<BTreeMap<PathBuf, Option<Found>>>,
    locks_anew: bool,
    profile: Option<Profile>,
}

#[derive(Debug)]
enum Variables {
    Process,
    Given(BTreeMap<String, String>),
}

impl Surroundings {
    fn new(base: PathBuf, variables: Variables) -> Self {
        Self {
            base,
            variables,
            files: RefCell::default(),
            locks_anew: false,
            profile: None,
        }
    }

    /// Whether `servers.lock` is about to be written, so that what it says does not count.
    pub(super) fn locks_anew(&self) -> bool {
        self.locks_anew
    }

    /// The profile that somebody asks about.
    pub(super) fn profile(&self) -> Option<Profile> {
        self.profile
    }

    /// A path of the configuration: relative to its file.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    /// A path as people see it: relative to the configuration where it lies beneath it.
    pub(super) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.base).unwrap_or(path).display().to_string()
    }

    /// The text of a file; the file is remembered as one to watch.
    pub(super) fn text(&self, path: &Path) -> Result<String, Complaint> {
        self.note(path);
        let text = read_text(path).map_err(|error| Complaint::new(format!("{}: {error}", path.display())))?;
        self.note_text(path, &text);
        Ok(text)
    }

    /// As [`Surroundings::text`], for a file that need not be there; it is watched all the same.
    pub(super) fn text_if_there(&self, path: &Path) -> Result<Option<String>, Complaint> {
        match there(path) {
            true => self.text(path).map(Some),
            false => {
                self.note(path);
                Ok(None)
            }
        }
    }

    /// A variable; empty counts as not set.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        match &self.variables {
            Variables::Process => variable(name),
            Variables::Given(given) => given.get(name).filter(|value| !value.is_empty()).cloned(),
        }
    }

    /// The files a pattern matches, in the order of their names; `*` and `?` match within a name, and
    /// not a leading dot. The directories that were looked into are remembered as ones to watch.
    pub(super) fn matching(&self, pattern: &str) -> Result<Vec<PathBuf>, Complaint> {
        let mut found = vec![PathBuf::new()];
        for component in self.resolve(pattern).components() {
            let name = component.as_os_str().to_str().unwrap_or_default();
            let wild = matches!(component, Component::Normal(_)) && name.contains(['*', '?']);
            found = match wild {
                true => self.matching_in(&found, name)?,
                false => found
                    .iter()
                    .map(|path| path.join(component))
                    .filter(|path| there(path))
                    .collect(),
            };
        }
        Ok(found)
    }

    /// The default state directory.
    pub(super) fn state_dir(&self) -> Option<PathBuf> {
        match &self.variables {
            Variables::Process => xdg_dir("XDG_STATE_HOME", ".local/state"),
            Variables::Given(given) => given
                .get("XDG_STATE_HOME")
                .map(|dir| PathBuf::from(dir).join("portreeve")),
        }
    }

    /// The machine's name, with whatever a log's name cannot hold replaced.
    pub(super) fn host_name() -> String {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') {
                c
            } else {
                '-'
            }
        };
        let name: String = name.chars().map(plain).collect();
        if name.is_empty() { "localhost".to_owned() } else { name }
    }

    /// Whether others than owner and group may read the file.
    pub(super) fn is_open_to_all(path: &Path) -> bool {
        use std::os::unix::fs::PermissionsExt as _;
        path.metadata()
            .is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
    }

    /// Every file that was read and every directory that was searched, with what was found there.
    pub(super) fn into_files(self) -> BTreeMap<PathBuf, Option<Found>> {
        self.files.into_inner()
    }

    fn note(&self, path: &Path) {
        self.files.borrow_mut().entry(path.to_owned()).or_default();
    }

    fn note_text(&self, path: &Path, text: &str) {
        let found = inode(path).map(|inode| Found {
            inode,
            says: Digest::of(text.as_bytes()),
        });
        self.files.borrow_mut().insert(path.to_owned(), found);
    }

    fn matching_in(&self, dirs: &[PathBuf], pattern: &str) -> Result<Vec<PathBuf>, Complaint> {
        let mut found = Vec::new();
        for dir in dirs.iter().filter(|dir| dir.is_dir()) {
            self.files.borrow_mut().insert(dir.clone(), found_at(dir));
            let cannot =
                |error: std::io::Error| Complaint::new(format!("{}: cannot be listed: {error}", dir.display()));
            for entry in std::fs::read_dir(dir).map_err(cannot)? {
                let entry = entry.map_err(cannot)?;
                let name = entry.file_name();
                let name = name.to_str().unwrap_or_default();
                let hidden = name.starts_with('.') && !pattern.starts_with('.');
                if !hidden && matches_name(pattern, name) {
                    found.push(entry.path());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn read_text(path: &Path) -> Result<String, Unreadable> {
    settings::read(std::fs::File::open(path), MAX_FILE).and_then(settings::text)
}

/// Whether a path stands for something; one that may not be looked at does, and fails when it is read.
fn there(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

/// `*` matches any run of characters, `?` any single one.
fn matches_name(pattern: &str, name: &str) -> bool {
    let mut pattern_chars = pattern.chars();
    match pattern_chars.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = pattern_chars.as_str();
            name.char_indices()
                .any(|(at, _)| name.get(at..).is_some_and(|tail| matches_name(rest, tail)))
                || matches_name(rest, "")
        }
        Some('?') => {
            let mut name_chars = name.chars();
            name_chars.next().is_some() && matches_name(pattern_chars.as_str(), name_chars.as_str())
        }
        Some(letter) => name
            .strip_prefix(letter)
            .is_some_and(|tail| matches_name(pattern_chars.as_str(), tail)),
    }
}

/// `$name/portreeve`, else `$HOME/fallback/portreeve`; relative values do not count (XDG base directories).
fn xdg_dir(name: &str, fallback: &str) -> Option<PathBuf> {
    let absolute = |text: String| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
    let base = variable(name).and_then(absolute);
    let home = || variable("HOME").and_then(absolute).map(|home| home.join(fallback));
    base.or_else(home).map(|dir| dir.join("portreeve"))
}

const MAX_FILE: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::matches_name;

    #[test]
    fn stars_and_question_marks_match_within_a_name() {
        for (pattern, name, fits) in [
            ("*.cedar", "a.cedar", true),
            ("*.cedar", ".cedar", true),
            ("*.cedar", "a.cedar~", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXc", false),
            ("plain", "plain", true),
        ] {
            assert_eq!(matches_name(pattern, name), fits, "{pattern} {name}");
        }
    }
}
