//! The table of `ARCHITECTURE.md` against every `Cargo.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::sources::shipped;
use crate::support::environment::repository;

/// Heavy dependencies and the one room that may import each. `rmcp` re-encodes what it reads, so it has none: only the
/// fixture of the conformance tests has it.
const HEAVY: [(&str, &str); 11] = [
    ("jsonschema", "schema"),
    ("cedar-policy", "policy"),
    ("rusqlite", "store"),
    ("jsonwebtoken", "gateway"),
    ("x509-parser", "gateway"),
    ("landlock", "sandbox"),
    ("libc", "sandbox"),
    ("seccompiler", "sandbox"),
    ("mimalloc", "portreeve"),
    ("clap", "portreeve"),
    ("rmcp", "tests/fixture"),
];

/// Who may name the TOML library beside `settings`: packs of rules, and files that programs write for programs. What people
/// write as configuration goes through `settings`.
const TOML: [&str; 5] = [
    "crates/screening/src/detect/pack.rs",
    "crates/screening/src/risk/file.rs",
    "crates/harness/src/lock.rs",
    "apps/portreeve/src/servers_lock.rs",
    "apps/portreeve/src/config/edit.rs",
];

/// Room → the rooms it may know. `None` is everybody.
type Table = BTreeMap<String, Option<BTreeSet<String>>>;
/// Room → the names of what it depends on.
type Manifests = BTreeMap<String, BTreeSet<String>>;

#[test]
fn every_room_knows_only_whom_the_table_lets_it_know() {
    let page = std::fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let (table, manifests) = (table_of(&page), manifests());
    assert!(
        table.len() >= 10 && manifests.len() >= 10,
        "{} rows, {} rooms",
        table.len(),
        manifests.len()
    );
    assert_eq!(strangers(&table, &manifests), Vec::<String>::new());
}

#[test]
fn a_heavy_dependency_is_imported_by_one_room() {
    let mut found = Vec::new();
    for (room, dependencies) in manifests() {
        for (heavy, home) in HEAVY {
            if room != home && dependencies.contains(heavy) {
                found.push(format!("{room} imports {heavy}, which belongs to {home}"));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn configuration_becomes_a_typed_value_in_settings_alone() {
    let named = |path: &Path| path.strip_prefix(repository()).unwrap().display().to_string();
    let all: Vec<(String, String)> = shipped().into_iter().map(|(path, text)| (named(&path), text)).collect();
    let readers = all
        .iter()
        .filter(|(path, text)| !path.starts_with("crates/settings/src/") && names_toml(text));
    let mut found: Vec<&str> = readers.map(|(path, _)| path.as_str()).collect();
    let mut expected = TOML.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn the_library_is_named_by_its_path_and_not_by_a_file_that_ends_like_it() {
    for text in ["let a: toml::Table = b;", "use toml::de::DeTable;", "toml_edit::Item"] {
        assert!(names_toml(text), "{text}");
    }
    for text in ["portreeve.toml::x", "// toml::Table", "harness.toml", "\"toml\""] {
        assert!(!names_toml(text), "{text}");
    }
}

fn names_toml(text: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut words = code.flat_map(|line| line.split(|c: char| !(c.is_alphanumeric() || "_:.".contains(c))));
    words.any(|word| word.starts_with("toml::") || word.starts_with("toml_edit::"))
}

#[test]
fn everything_comes_from_the_registry_and_every_room_takes_the_common_lints() {
    let lock = std::fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let foreign: Vec<_> = lock
        .lines()
        .filter(|line| {
            line.starts_with("source =") && !line.contains("registry+https://github.com/rust-lang/crates.io-index")
        })
        .collect();
    assert_eq!(foreign, Vec::<&str>::new());
    for (room, path) in rooms() {
        let manifest = manifest(&path);
        assert_eq!(manifest["lints"]["workspace"].as_bool(), Some(true), "{room}");
        assert_eq!(
            manifest["package"]["license"]["workspace"].as_bool(),
            Some(true),
            "{room}"
        );
    }
}

#[test]
fn every_dependency_is_used_where_it_is_listed() {
    let (mut members, mut listed) = (rooms(), BTreeSet::new());
    for further in ["tests", "tests/fixture", "benches/load", "benches/micro"] {
        members.push((further.to_owned(), repository().join(further)));
    }
    let mut unused = Vec::new();
    for (member, path) in members {
        let source = source_of(&path);
        let dependencies = dependencies(&manifest(&path));
        let idle = dependencies.iter().filter(|name| !names_crate(&source, name));
        unused.extend(idle.map(|name| format!("{member} does not use {name}")));
        listed.extend(dependencies);
    }
    let workspace = manifest(&repository());
    let offered = workspace["workspace"]["dependencies"].as_table().unwrap();
    let idle = offered.keys().filter(|name| !listed.contains(*name));
    unused.extend(idle.map(|name| format!("nobody takes {name} from the workspace")));
    assert_eq!(unused, Vec::<String>::new());
}

#[test]
fn a_crate_is_named_by_its_path_an_import_or_a_macro() {
    for used in [
        "use some_crate::A;",
        "some_crate::run()",
        "use some_crate as it;",
        "some_crate!{}",
        "use some_crate;",
    ] {
        assert!(names_crate(used, "some-crate"), "{used}");
    }
    for other in ["some_crates::A", "awesome_crate::A", "let some_crate = 1", ""] {
        assert!(!names_crate(other, "some-crate"), "{other}");
    }
}

#[test]
fn a_new_edge_a_new_room_and_an_unused_permission_are_told_apart() {
    let table = table_of(
        "## Who may know whom\n| crate | may know | rule |\n|---|---|---|\n| `low` | – | r |\n| `high` | low | r |\n| `app` (app) | all | r |\n## Else\n| `low` | high | r |",
    );
    let manifests = |edges: &[(&str, &str)]| -> Manifests {
        let mut rooms: Manifests = ["low", "high", "app"]
            .map(|room| (room.to_owned(), BTreeSet::new()))
            .into();
        for (from, to) in edges {
            rooms.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        rooms
    };
    assert!(
        strangers(
            &table,
            &manifests(&[("high", "low"), ("app", "high"), ("high", "serde")])
        )
        .is_empty()
    );
    assert_eq!(strangers(&table, &manifests(&[("low", "high")])), ["low knows high"]);
    assert_eq!(strangers(&table, &manifests(&[("new", "serde")])), ["new has no row"]);
    assert!(strangers(&table, &manifests(&[])).is_empty());
}

fn strangers(table: &Table, manifests: &Manifests) -> Vec<String> {
    let mut found = Vec::new();
    for (room, dependencies) in manifests {
        let Some(allowed) = table.get(room) else {
            found.push(format!("{room} has no row"));
            continue;
        };
        let Some(allowed) = allowed else { continue };
        let ours = dependencies.iter().filter(|name| table.contains_key(*name));
        found.extend(
            ours.filter(|name| !allowed.contains(*name))
                .map(|name| format!("{room} knows {name}")),
        );
    }
    found
}

/// Reads rows of the form ``| `crate` | may know | … |`` under their heading.
fn table_of(page: &str) -> Table {
    let section = page
        .split("## ")
        .find(|section| section.starts_with("Who may know whom\n"));
    let rows = section
        .unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let room = cells.first()?.split('`').nth(1)?.to_owned();
        let known = cells.get(1)?.replace('`', "");
        let known: BTreeSet<String> = known
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| name != "–")
            .collect();
        Some((room, (!known.contains("all")).then_some(known)))
    })
    .collect()
}

fn manifests() -> Manifests {
    rooms()
        .into_iter()
        .map(|(room, path)| (room, dependencies(&manifest(&path))))
        .collect()
}

/// Normal, build and development dependencies: a test that needs a further room belongs to `tests/`.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let tables = ["dependencies", "build-dependencies", "dev-dependencies"].map(|kind| manifest.get(kind));
    let tables = tables.into_iter().flatten().filter_map(toml::Value::as_table);
    tables.flat_map(|table| table.keys().cloned()).collect()
}

/// Whether a source names this crate: `name::`, `name!`, `name;` or `name as`, as a whole word.
fn names_crate(source: &str, dependency: &str) -> bool {
    let name = dependency.replace('-', "_");
    source.match_indices(&name).any(|(at, _)| {
        let (before, rest) = source.split_at(at);
        let after = rest.strip_prefix(&name).unwrap_or(rest);
        !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && ["::", "!", ";", " as "].iter().any(|next| after.starts_with(next))
    })
}

/// Every Rust file of a member, laid end to end; those of members inside it left out.
fn source_of(member: &Path) -> String {
    let mut source = String::new();
    for entry in std::fs::read_dir(member).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") && !path.join("Cargo.toml").exists() {
            source.push_str(&source_of(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            source.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    source
}

/// The rooms that exist, by their name in the table.
fn rooms() -> Vec<(String, std::path::PathBuf)> {
    let mut found = Vec::new();
    for parent in ["crates", "apps"] {
        for entry in std::fs::read_dir(repository().join(parent)).unwrap() {
            let path = entry.unwrap().path();
            found.push((path.file_name().unwrap().to_string_lossy().into_owned(), path));
        }
    }
    found.sort();
    found
}

fn manifest(room: &Path) -> toml::Table {
    std::fs::read_to_string(room.join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap()
}
