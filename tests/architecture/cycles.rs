//! The files of a room import each other in one direction: each can be read without those that build on it.

mod imports;

use std::collections::{BTreeMap, BTreeSet};

use self::imports::{Sources, imports};
use super::sources::collect;
use crate::support::environment::repository;

/// The rooms that keep this rule.
const ROOMS: [&str; 3] = ["gateway", "upstream", "ledger"];

#[test]
fn no_files_of_a_room_import_each_other_in_a_circle() {
    for room in ROOMS {
        let root = repository().join("crates").join(room).join("src");
        let mut found = Vec::new();
        collect(&root, &mut found);
        assert!(found.len() > 5, "{room}: {} files", found.len());
        let relative = found
            .into_iter()
            .map(|(path, text)| (path.strip_prefix(&root).unwrap().to_string_lossy().into_owned(), text));
        assert_eq!(cycle(&imports(&relative.collect())), None, "in `{room}`");
    }
}

/// Who imports whom, by file.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// One circle, as `a.rs -> b.rs -> a.rs`.
fn cycle(imports: &Imports) -> Option<String> {
    let (mut path, mut done) = (Vec::new(), BTreeSet::new());
    let found = imports
        .keys()
        .find_map(|file| walk(file, imports, &mut path, &mut done));
    found.map(|circle| circle.join(" -> "))
}

fn walk<'a>(
    file: &'a str,
    imports: &'a Imports,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    if let Some(at) = path.iter().position(|open| *open == file) {
        return Some(path[at..].iter().copied().chain([file]).collect());
    }
    if !done.insert(file) {
        return None;
    }
    path.push(file);
    let next = imports.get(file).into_iter().flatten();
    let found = next.into_iter().find_map(|next| walk(next, imports, path, done));
    path.pop();
    found
}

fn cycle_in(sources: &[(&str, &str)]) -> Option<String> {
    let owned = sources
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    cycle(&imports(&owned.collect::<Sources>()))
}

#[test]
fn a_circle_is_found_however_the_import_is_written() {
    for import in [
        "use crate::b::B;",
        "use crate::{c, b::{self, B}};",
        "use super::b::B;",
        "fn f() { let _ = crate::b::B; }",
        "mod inner { use super::super::b::B; }",
        "use crate::Exported;",
        "const C: char = '\"'; use crate::b::B; const D: char = '\"';",
        "fn f<'a>(_: &'a str) { crate::b::g() }",
    ] {
        let root = "mod a; mod b; mod c; pub use b::Exported;";
        let files = [
            ("lib.rs", root),
            ("a.rs", import),
            ("b.rs", "use crate::a::A;"),
            ("c.rs", ""),
        ];
        let found = cycle_in(&files);
        assert_eq!(found.as_deref(), Some("a.rs -> b.rs -> a.rs"), "{import}");
    }
}

#[test]
fn a_parent_and_its_child_are_a_circle_but_for_what_the_parent_declares() {
    let parent = |text| cycle_in(&[("lib.rs", "mod a;"), ("a.rs", text), ("a/b.rs", "use super::A;")]);
    for text in ["mod b; use b::B;", "mod b; fn f() { b::g() }", "mod b; use self::b::B;"] {
        assert_eq!(parent(text).as_deref(), Some("a.rs -> a/b.rs -> a.rs"), "{text}");
    }
    for text in [
        "mod b; pub use b::B;",
        "pub(crate) mod b; pub(crate) use self::b::{B, C};",
    ] {
        assert_eq!(parent(text), None, "{text}");
    }
}

#[test]
fn what_only_looks_like_an_import_is_none() {
    for text in [
        "// use crate::b::B;",
        "/* crate::b::B /* nested */ crate::b::B */",
        "/// See [`crate::b::B`].\nfn f() {}",
        "const S: &str = \"crate::b::B\\\"\"; const R: &str = r#\"\"crate::b::B\"#;",
        "#[cfg(test)]\nmod tests { use crate::b::B; fn f() { { crate::b::g() } } }",
        "#[cfg(test)]\nfn f() { crate::b::g() }",
        "pub(crate) fn f() {}",
        "use other::b::B;",
    ] {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", text),
            ("b.rs", "use crate::a::A;"),
        ];
        assert_eq!(cycle_in(&files), None, "{text}");
    }
}

#[test]
fn a_file_of_tests_alone_is_not_read() {
    let declared = |attribute: &str| {
        let root = format!("mod a; mod b; {attribute} mod peer;");
        let peer = "use crate::a::A;";
        cycle_in(&[
            ("lib.rs", &root),
            ("a.rs", "use crate::peer::P;"),
            ("b.rs", ""),
            ("peer.rs", peer),
        ])
    };
    assert_eq!(declared("#[cfg(test)]"), None);
    assert!(declared("").is_some());
}
