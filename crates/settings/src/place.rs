//! Where a value stands: by its keys, in the table of keys, and in the file.

/// Where a value stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Its dotted keys, as written, fit to be shown.
    pub(crate) path: String,
    /// Its path in the table of keys: `*` for a name of the operator's, `[]` for an item.
    pub(crate) pattern: String,
    /// The byte it begins at.
    pub(crate) at: usize,
}

impl Place {
    pub(crate) fn root() -> Self {
        Self {
            path: String::new(),
            pattern: String::new(),
            at: 0,
        }
    }

    /// A key of this table.
    pub(crate) fn key(&self, name: &str, at: usize) -> Self {
        Self {
            path: join(&self.path, &shown(name)),
            pattern: join(&self.pattern, name),
            at,
        }
    }

    /// A key of this table that the operator named.
    pub(crate) fn named(&self, name: &str, at: usize) -> Self {
        Self {
            path: join(&self.path, &shown(name)),
            pattern: join(&self.pattern, "*"),
            at,
        }
    }

    /// An item of this list.
    pub(crate) fn item(&self, index: usize, at: usize) -> Self {
        Self {
            path: format!("{}[{index}]", self.path),
            pattern: format!("{}[]", self.pattern),
            at,
        }
    }
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

/// A name that somebody wrote, short and on one line: a file may come with a repository, and its keys go to terminals and logs.
fn shown(name: &str) -> String {
    let letters = name.chars().take(LONGEST_NAME).flat_map(char::escape_debug);
    let cut = name.chars().nth(LONGEST_NAME).map(|_| '…');
    letters.chain(cut).collect()
}

/// Longer than any name that is taken.
const LONGEST_NAME: usize = 100;
