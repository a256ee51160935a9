//! What pip leaves behind: its report with the digest of every wheel, and the entry points of each distribution.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::installed::{Part, Unfit, choose, inside, json, text_of};

/// The report of the installation.
pub(super) const REPORT: &str = "report.json";
/// The environment.
pub(super) const VENV: &str = "venv";

/// Manifests of parts that a package would fetch when it runs, from another registry and into its own directory. In a
/// sandbox it can do neither, and fails; without the manifest it does without that part. `readabilipy`, which
/// `mcp-server-fetch` turns pages into text with, then uses its own Python instead of Node.
const LATE_PARTS: [&str; 1] = ["readabilipy/javascript/package.json"];

/// Takes these manifests away where the part itself is not there.
pub(super) fn do_without_late_parts(dir: &Path) -> std::io::Result<()> {
    for packages in site_packages(&dir.join(VENV)) {
        for manifest in LATE_PARTS.map(|part| packages.join(part)) {
            if manifest.is_file() && !manifest.with_file_name("node_modules").exists() {
                std::fs::remove_file(manifest)?;
            }
        }
    }
    Ok(())
}

/// The package that was asked for: the only one that the report says so of.
pub(super) fn asked_for(dir: &Path) -> Result<String, Unfit> {
    let report = json(&dir.join(REPORT))?;
    let installed = report.get("install").and_then(Value::as_array);
    let mut asked = installed
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("requested") == Some(&Value::Bool(true)))
        .filter_map(|entry| entry.pointer("/metadata/name")?.as_str());
    match (asked.next(), asked.next()) {
        (Some(name), None) => Ok(name.to_owned()),
        (None | Some(_), _) => Err(Unfit::new("pip's report does not name one package")),
    }
}

/// Everything that was installed.
pub(super) fn parts(dir: &Path) -> Result<Vec<Part>, Unfit> {
    let report = json(&dir.join(REPORT))?;
    let installed = report.get("install").and_then(Value::as_array);
    let installed = installed.ok_or_else(|| Unfit::new("pip's report names no packages"))?;
    installed.iter().map(part).collect()
}

fn part(entry: &Value) -> Result<Part, Unfit> {
    let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let name = normal(&text("/metadata/name").unwrap_or_default());
    let version = text("/metadata/version").unwrap_or_default();
    let whole = |digest: &String| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digest = text("/download_info/archive_info/hashes/sha256")
        .or_else(|| {
            Some(
                text("/download_info/archive_info/hash")?
                    .strip_prefix("sha256=")?
                    .to_owned(),
            )
        })
        .filter(whole)
        .ok_or_else(|| Unfit(format!("{name}@{version} has no SHA-256 digest")))?;
    Ok(Part {
        name,
        version,
        digest: format!("sha256:{}", digest.to_ascii_lowercase()),
    })
}

/// A name as PEP 503 compares it.
pub(super) fn normal(name: &str) -> String {
    let mut normal = String::new();
    for part in name.split(['-', '_', '.']).filter(|part| !part.is_empty()) {
        if !normal.is_empty() {
            normal.push('-');
        }
        normal.push_str(&part.to_ascii_lowercase());
    }
    normal
}

/// Whether two names mean the same package.
pub(super) fn same(a: &str, b: &str) -> bool {
    normal(a) == normal(b)
}

/// How the server is started: the script of its entry point, by the environment's own interpreter. The script is named
/// rather than the module (`-m`), because then the workspace, which the server can write, is not searched for modules.
pub(super) fn command(dir: &Path, name: &str, wanted: Option<&str>) -> Result<Vec<String>, Unfit> {
    let venv = dir.join(VENV);
    let scripts = scripts(&venv, name)?;
    let names: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let chosen = choose(&names, &normal(name), wanted)?;
    let script = inside(&venv.join("bin"), chosen)?;
    Ok(vec![venv.join("bin/python").display().to_string(), script])
}

/// The console scripts of a distribution.
fn scripts(venv: &Path, name: &str) -> Result<Vec<String>, Unfit> {
    let points = entry_points(venv, name).ok_or_else(|| Unfit::new("has no entry points and can start no server"))?;
    let text = text_of(&points)?;
    let lines = text.lines().map(str::trim);
    let within = lines
        .skip_while(|line| *line != "[console_scripts]")
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    let names = within.filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned()));
    Ok(names.filter(|name| !name.starts_with('#')).collect())
}

fn site_packages(venv: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let versions = venv.join("lib").read_dir().into_iter().flatten().flatten();
    versions.map(|version| version.path().join("site-packages"))
}

/// The server of the official registry that the package says to be, in its description.
pub(super) fn claimed_name(dir: &Path, name: &str) -> Option<String> {
    let described = about(&dir.join(VENV), name).map(|info| info.join("METADATA"));
    let text = described
        .filter(|file| file.is_file())
        .find_map(|file| text_of(&file).ok())?;
    let (_, after) = text.split_once("mcp-name:")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    Some(after.trim_start().split(|c: char| !plain(c)).next()?.to_owned())
}

fn entry_points(venv: &Path, name: &str) -> Option<PathBuf> {
    about(venv, name)
        .map(|info| info.join("entry_points.txt"))
        .find(|points| points.is_file())
}

/// Where a distribution says what it is.
fn about<'a>(venv: &Path, name: &'a str) -> impl Iterator<Item = PathBuf> + use<'a> {
    let inner = site_packages(venv)
        .filter_map(|packages| packages.read_dir().ok())
        .flatten()
        .flatten();
    let infos = inner.filter(move |entry| {
        let file = entry.file_name();
        let distribution = file.to_str().and_then(|file| file.strip_suffix(".dist-info"));
        distribution
            .and_then(|distribution| distribution.split_once('-'))
            .is_some_and(|(found, _)| same(found, name))
    });
    infos.map(|info| info.path())
}
