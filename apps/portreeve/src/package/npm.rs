//! What npm leaves behind: `package-lock.json` with the digest of every package, and the package's own manifest.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::installed::{Part, Unfit, choose, inside, json};

/// Where npm says what it installed.
pub(super) const LOCK: &str = "package-lock.json";

/// The package that was asked for: the only one that the directory's own manifest names.
pub(super) fn asked_for(dir: &Path) -> Result<String, Unfit> {
    let manifest = json(&dir.join("package.json"))?;
    let names = manifest.get("dependencies").and_then(Value::as_object);
    let mut names = names.into_iter().flatten().map(|(name, _)| name);
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name.clone()),
        (None | Some(_), _) => Err(Unfit::new("its package.json does not name one package")),
    }
}

/// The server of the official registry that the package says to be.
pub(super) fn claimed_name(dir: &Path, name: &str) -> Option<String> {
    let manifest = json(&home(dir, name).join("package.json")).ok()?;
    manifest.get("mcpName")?.as_str().map(str::to_owned)
}

/// Where the package lies.
fn home(dir: &Path, name: &str) -> PathBuf {
    dir.join("node_modules").join(name)
}

/// Everything that was installed.
pub(super) fn parts(dir: &Path) -> Result<Vec<Part>, Unfit> {
    let lock = json(&dir.join(LOCK))?;
    let packages = lock.get("packages").and_then(Value::as_object);
    let packages = packages.ok_or_else(|| Unfit::new("package-lock.json names no packages"))?;
    packages
        .iter()
        .filter(|(path, _)| !path.is_empty())
        .map(|(path, entry)| part(path, entry))
        .collect()
}

fn part(path: &str, entry: &Value) -> Result<Part, Unfit> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let at = path.rsplit_once("node_modules/").map_or(path, |(_, name)| name);
    let name = text("name").unwrap_or(at).to_owned();
    let version = text("version").unwrap_or_default().to_owned();
    let bundled = entry.get("inBundle") == Some(&Value::Bool(true));
    let digest = match text("integrity") {
        // sha1, the form before 2017, can be forged.
        Some(digest) if digest.starts_with("sha512-") || digest.starts_with("sha384-") => digest.to_owned(),
        Some(_) => return Err(Unfit(format!("{name}@{version} has no digest stronger than SHA-1"))),
        // It came inside another package, whose digest covers it.
        None if bundled => "bundled".to_owned(),
        None => {
            return Err(Unfit(format!(
                "{name}@{version} has no digest: it comes from a repository, an address or a file"
            )));
        }
    };
    Ok(Part { name, version, digest })
}

/// Whether two names mean the same package.
pub(super) fn same(a: &str, b: &str) -> bool {
    a == b
}

/// How the server is started: `bin` of the manifest says which scripts there are.
pub(super) fn command(dir: &Path, name: &str, wanted: Option<&str>) -> Result<Vec<String>, Unfit> {
    let home = home(dir, name);
    let manifest = json(&home.join("package.json"))?;
    let unscoped = name.rsplit('/').next().unwrap_or(name);
    let scripts: Vec<(String, String)> = match manifest.get("bin") {
        Some(Value::String(script)) => vec![(unscoped.to_owned(), script.clone())],
        Some(Value::Object(scripts)) => scripts
            .iter()
            .filter_map(|(name, script)| Some((name.clone(), script.as_str()?.to_owned())))
            .collect(),
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => Vec::new(),
    };
    let names: Vec<&str> = scripts.iter().map(|(name, _)| name.as_str()).collect();
    let chosen = choose(&names, unscoped, wanted)?;
    let script = scripts
        .iter()
        .find_map(|(name, script)| (name == chosen).then_some(script))
        .ok_or_else(|| Unfit::new("names no script"))?;
    let script = inside(&home, script)?;
    Ok(vec!["node".to_owned(), script])
}
