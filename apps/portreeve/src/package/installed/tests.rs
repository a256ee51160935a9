//! Installed trees, made by hand.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

fn write(dir: &Path, name: &str, text: &str) {
    let file = dir.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn node(packages: Value, bin: Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        "package-lock.json",
        &json!({ "packages": packages }).to_string(),
    );
    let home = "node_modules/@scope/server";
    write(
        dir.path(),
        &format!("{home}/package.json"),
        &json!({ "bin": bin }).to_string(),
    );
    write(dir.path(), &format!("{home}/dist/index.js"), "");
    write(dir.path(), &format!("{home}/dist/other.js"), "");
    write(dir.path(), "outside.js", "");
    dir
}

fn honest() -> Value {
    json!({
        "": {"dependencies": {"@scope/server": "1.0.0"}},
        "node_modules/@scope/server": {"version": "1.0.0", "integrity": "sha512-own"},
        "node_modules/zod": {"version": "4.0.0", "integrity": "sha512-zod"},
        "node_modules/zod/node_modules/inner": {"version": "1.0.0", "inBundle": true},
    })
}

fn lock_of(packages: Value) -> Result<Locked, Unfit> {
    let dir = node(packages, json!("dist/index.js"));
    locked(dir.path(), Registry::Npm, "@scope/server")
}

#[test]
fn the_same_packages_give_the_same_entry_and_others_do_not() {
    let lock = lock_of(honest()).unwrap();
    assert_eq!((lock.version.as_str(), lock.digest.as_str()), ("1.0.0", "sha512-own"));
    assert_eq!(lock_of(honest()).unwrap(), lock);
    for (pointer, text) in [("version", "4.0.1"), ("integrity", "sha512-else")] {
        let mut other = honest();
        other["node_modules/zod"][pointer] = json!(text);
        let other = lock_of(other).unwrap();
        assert_eq!((&other.digest, other.tree == lock.tree), (&lock.digest, false));
    }
}

#[test]
fn a_dependency_without_a_strong_digest_is_refused() {
    for entry in [
        json!({"version": "4.0.0", "integrity": "sha1-zod"}),
        json!({"version": "4.0.0", "resolved": "git+ssh://host/zod.git"}),
        json!({"link": true, "resolved": "../zod"}),
    ] {
        let mut packages = honest();
        packages["node_modules/zod"] = entry;
        assert!(lock_of(packages).unwrap_err().to_string().contains("zod@"));
    }
}

#[test]
fn the_program_is_the_only_one_or_the_one_called_like_the_package_or_the_one_asked_for() {
    let start = |bin: Value, wanted: Option<&str>| {
        let dir = node(honest(), bin);
        let words = command(dir.path(), Registry::Npm, "@scope/server", wanted)?;
        let script = words[1].rsplit('/').next().unwrap().to_owned();
        assert_eq!(words[0], "node");
        Ok::<_, Unfit>(script)
    };
    assert_eq!(start(json!("dist/index.js"), None).unwrap(), "index.js");
    assert_eq!(start(json!({"x": "./dist/other.js"}), None).unwrap(), "other.js");
    let two = json!({"server": "dist/index.js", "x": "dist/other.js"});
    assert_eq!(start(two.clone(), None).unwrap(), "index.js");
    assert_eq!(start(two.clone(), Some("x")).unwrap(), "other.js");
    assert!(start(two, Some("y")).unwrap_err().to_string().contains("`server`, `x`"));
    let unclear = start(json!({"x": "dist/index.js", "y": "dist/other.js"}), None).unwrap_err();
    assert!(unclear.to_string().contains("--bin"), "{unclear}");
    assert!(start(json!({}), None).is_err());
}

#[test]
fn a_package_cannot_name_a_program_outside_itself() {
    for astray in ["../../../outside.js", "/bin/sh", "dist", "missing.js"] {
        let dir = node(honest(), json!({ "x": astray }));
        let refused = command(dir.path(), Registry::Npm, "@scope/server", None).unwrap_err();
        assert!(refused.to_string().contains("does not lie in the package"), "{refused}");
    }
    let dir = node(honest(), json!("dist/link.js"));
    let link = dir.path().join("node_modules/@scope/server/dist/link.js");
    std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
    assert!(command(dir.path(), Registry::Npm, "@scope/server", None).is_err());
}

#[test]
fn a_python_server_is_started_by_its_script_and_its_own_interpreter() {
    let dir = tempfile::tempdir().unwrap();
    let wheel = |name: &str, digest: &str| {
        json!({"metadata": {"name": name, "version": "2.0"},
        "download_info": {"archive_info": {"hashes": {"sha256": digest}}}})
    };
    let report = json!({"install": [wheel("My_Server", &"a".repeat(64)), wheel("anyio", &"b".repeat(64))]});
    write(dir.path(), "report.json", &report.to_string());
    let packages = "venv/lib/python3.11/site-packages";
    let points = "[console_scripts]\nmy-server = my_server:main\n\n[other]\nx = y\n";
    write(
        dir.path(),
        &format!("{packages}/my_server-2.0.dist-info/entry_points.txt"),
        points,
    );
    write(dir.path(), "venv/bin/my-server", "");
    let lock = locked(dir.path(), Registry::Pypi, "my.server").unwrap();
    assert_eq!(lock.digest, format!("sha256:{}", "a".repeat(64)));
    let words = command(dir.path(), Registry::Pypi, "my.server", None).unwrap();
    assert!(
        words[0].ends_with("venv/bin/python") && words[1].ends_with("venv/bin/my-server"),
        "{words:?}"
    );
    write(
        dir.path(),
        "report.json",
        &json!({"install": [wheel("my-server", "")]}).to_string(),
    );
    assert!(locked(dir.path(), Registry::Pypi, "my-server").is_err());
}
