//! Tables of keys: what each means, its default and why, and which keys are known but wait for a later version. Readers
//! take defaults from here and nowhere else, and what does not stand here is an unknown key.

/// One key of a file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its dotted path, such as `servers.*.url`: `*` stands for a name the operator chooses, `[]` for each item of a list.
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
    /// It must be written; what is said to somebody who did not.
    Required(&'static str),
    /// It is absent unless written.
    Optional,
    /// It belongs to a feature that this version does not have.
    Later(&'static str),
}

/// A row of a table.
#[must_use]
pub const fn key(path: &'static str, about: &'static str, standing: Standing) -> Key {
    Key { path, about, standing }
}

/// The key with this path.
pub(crate) fn find<'k>(keys: &'k [Key], path: &str) -> Option<&'k Key> {
    keys.iter().find(|key| key.path == path)
}

/// The names that may stand directly under `section` (a path of the table; empty for the root), each once.
pub(crate) fn names_under(keys: &[Key], section: &str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for key in keys {
        let tail = match section {
            "" => Some(key.path),
            _ => key.path.strip_prefix(section).and_then(|tail| tail.strip_prefix('.')),
        };
        let name = tail.and_then(|tail| tail.split(['.', '[']).next());
        names.extend(name.filter(|name| *name != "*"));
    }
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_directly_under_their_section_each_once() {
        let keys = ["a.b", "a.c.d", "a.c.e", "a.*.f", "g[].h", "ab.x"].map(|path| key(path, "", Standing::Optional));
        assert_eq!(names_under(&keys, ""), ["a", "g", "ab"]);
        assert_eq!(names_under(&keys, "a"), ["b", "c"]);
        assert_eq!(names_under(&keys, "a.c"), ["d", "e"]);
        assert_eq!(names_under(&keys, "a.*"), ["f"]);
        assert_eq!(names_under(&keys, "g[]"), ["h"]);
        assert_eq!(names_under(&keys, "none"), Vec::<&str>::new());
    }
}
