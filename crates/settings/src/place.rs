//! Where a value stands: by its keys, in the table of keys, and in the file.

/// Where a value stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Its dotted keys, as written.
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
            path: join(&self.path, name),
            pattern: join(&self.pattern, name),
            at,
        }
    }

    /// A key of this table that the operator named.
    pub(crate) fn named(&self, name: &str, at: usize) -> Self {
        Self {
            path: join(&self.path, name),
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
