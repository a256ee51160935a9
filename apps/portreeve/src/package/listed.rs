//! Compares what was installed with what an official registry says of it: the digest of its file, and whose it is.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use data_encoding::{BASE64, HEXLOWER};
use vocabulary::Hasher;

use super::installed::{Unfit, locked};
use super::registry::HOME;
use super::spec::{Registry, Spec};
use super::{npm, pypi};

/// What an official registry says of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    /// The name of the server.
    pub(crate) name: String,
    /// The SHA-256 digest of the package's file, in hexadecimal.
    pub(crate) sha256: Option<String>,
}

impl Listed {
    /// Compares it with what lies in `dir`, before the installer's leavings are taken away.
    pub(super) fn compare(&self, dir: &Path, spec: &Spec) -> Result<(), Unfit> {
        if let Some(expected) = &self.sha256 {
            let found = file_digest(dir, spec)?;
            if found != *expected {
                return Err(Unfit(format!(
                    "the file of {spec} has the SHA-256 digest {found}, but server.json says {expected}: it is not what was \
                     published there, and nothing of it is kept"
                )));
            }
        }
        let claimed = match spec.registry {
            Registry::Npm => npm::claimed_name(dir, &spec.name),
            Registry::Pypi => pypi::claimed_name(dir, &spec.name),
        };
        match claimed {
            Some(claimed) if claimed != self.name => Err(Unfit(format!(
                "{spec} says that it belongs to another server of the registry than {}, and nothing of it is kept",
                self.name
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

/// The SHA-256 digest of the file that was installed.
fn file_digest(dir: &Path, spec: &Spec) -> Result<String, Unfit> {
    let locked = locked(dir, spec.registry, &spec.name)?;
    match spec.registry {
        Registry::Pypi => Ok(locked.digest.trim_start_matches("sha256:").to_owned()),
        Registry::Npm => {
            let lost = || {
                Unfit(format!(
                    "the file of {spec} was not kept by npm, so that its digest cannot be compared"
                ))
            };
            let file = kept_by_npm(&dir.join(HOME), &locked.digest).ok_or_else(lost)?;
            sha256(&file).map_err(|_| lost())
        }
    }
}

/// Where npm keeps what it fetched, by the digest it was checked against.
fn kept_by_npm(cache: &Path, digest: &str) -> Option<PathBuf> {
    let (algorithm, coded) = digest.split_once('-')?;
    let hex = HEXLOWER.encode(&BASE64.decode(coded.as_bytes()).ok()?);
    let (first, second, rest) = (hex.get(..2)?, hex.get(2..4)?, hex.get(4..)?);
    let content = cache.join("_cacache/content-v2").join(algorithm);
    Some(content.join(first).join(second).join(rest))
}

fn sha256(file: &Path) -> std::io::Result<String> {
    let (mut file, mut hasher, mut piece) = (File::open(file)?, Hasher::default(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(HEXLOWER.encode(hasher.finish().as_bytes())),
            read => hasher.update(piece.get(..read).unwrap_or_default()),
        }
    }
}
