//! Every key a configuration may hold, in one table: what it means, its default and why, and which
//! keys are known but wait for a later version. `*` stands for a name the operator chooses, `[]` for
//! each item of a list. `docs/configuration.md` shows this table; a test compares them.

mod table;

pub use table::KEYS;

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its dotted path, such as `servers.*.url`.
    pub path: &'static str,
    /// What it means, for people.
    pub about: &'static str,
    /// Whether it can be set, must be set, and what it is otherwise.
    pub standing: Standing,
}

/// What holds when a key is not written, or that it cannot be written yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It has a default, spelled in TOML, for a reason.
    Default(&'static str, &'static str),
    /// Its default depends on the machine or on other keys; said in words, with the reason.
    Derived(&'static str, &'static str),
    /// It must be written.
    Required,
    /// It is absent unless written.
    Optional,
    /// It belongs to a feature that this version does not have.
    Later(&'static str),
}

const fn key(path: &'static str, about: &'static str, standing: Standing) -> Key {
    Key { path, about, standing }
}

/// The key with this path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The names that may stand directly under `section` (a path of the table; empty for the root).
pub fn names_under(section: &str) -> impl Iterator<Item = &'static str> + '_ {
    let tail_of = move |path: &'static str| match section {
        "" => Some(path),
        _ => path.strip_prefix(section)?.strip_prefix('.'),
    };
    let name_of = |tail: &'static str| tail.split('.').next().map(|name| name.trim_end_matches("[]"));
    KEYS.iter().filter_map(move |key| tail_of(key.path)).filter_map(name_of)
}
