//! Another Node or Python than the machine's, for one package: where it lies, and what of it a sandbox must show.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::spec::Registry;

/// An interpreter that the operator named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interpreter {
    /// The program itself, links resolved.
    pub(crate) program: PathBuf,
    /// What a server must be shown of it; nothing where it lies below `/usr`, which every sandbox shows.
    pub(crate) read: Vec<PathBuf>,
    /// The npm that came with it.
    pub(super) npm: Option<PathBuf>,
}

impl Interpreter {
    /// Looks at the program. It is not run.
    pub(crate) fn at(path: &Path, registry: Registry) -> anyhow::Result<Self> {
        let program = path
            .canonicalize()
            .with_context(|| format!("`{}` is not there", path.display()))?;
        anyhow::ensure!(program.is_file(), "`{}` is no program", path.display());
        let prefix = program.ancestors().nth(2).unwrap_or(Path::new("/"));
        let npm = prefix.join("lib/node_modules/npm/bin/npm-cli.js");
        let read = match registry {
            // One file is all of Node.
            Registry::Npm => program.clone(),
            Registry::Pypi => {
                anyhow::ensure!(
                    has_library(prefix),
                    "`{}` has no library in `{}`: name the interpreter itself (`PREFIX/bin/python3`), not a script that starts it",
                    path.display(),
                    prefix.join("lib").display()
                );
                prefix.to_owned()
            }
        };
        Ok(Self {
            read: if program.starts_with("/usr") {
                Vec::new()
            } else {
                vec![read]
            },
            npm: Some(npm).filter(|npm| registry == Registry::Npm && npm.is_file()),
            program,
        })
    }

    /// What its installer must be shown beside that.
    pub(super) fn read_to_install(&self) -> Vec<PathBuf> {
        let npm = self.npm.as_deref().and_then(|script| script.ancestors().nth(2));
        let npm = npm.filter(|home| !home.starts_with("/usr")).map(Path::to_owned);
        self.read.iter().cloned().chain(npm).collect()
    }
}

/// Python's modules lie in `lib/python3.x` beside its `bin`.
fn has_library(prefix: &Path) -> bool {
    let libraries = prefix.join("lib").read_dir().into_iter().flatten().flatten();
    libraries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"))
        .any(|entry| entry.path().join("os.py").is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_interpreter_is_shown_with_what_it_needs_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path().canonicalize().unwrap();
        for place in ["bin", "lib/python3.13", "lib/node_modules/npm/bin", "elsewhere/bin"] {
            fs::create_dir_all(prefix.join(place)).unwrap();
        }
        for file in [
            "bin/node",
            "bin/python3.13",
            "elsewhere/bin/python3",
            "lib/node_modules/npm/bin/npm-cli.js",
        ] {
            fs::write(prefix.join(file), "").unwrap();
        }
        let python = || Interpreter::at(&prefix.join("bin/python3.13"), Registry::Pypi);
        assert!(python().is_err(), "without its modules");
        fs::write(prefix.join("lib/python3.13/os.py"), "").unwrap();
        assert_eq!(python().unwrap().read, std::slice::from_ref(&prefix));
        let shim = Interpreter::at(&prefix.join("elsewhere/bin/python3"), Registry::Pypi);
        assert!(shim.unwrap_err().to_string().contains("name the interpreter itself"));
        let node = Interpreter::at(&prefix.join("bin/node"), Registry::Npm).unwrap();
        assert_eq!(node.read, [prefix.join("bin/node")]);
        let shown = [prefix.join("bin/node"), prefix.join("lib/node_modules/npm")];
        assert_eq!(node.read_to_install(), shown);
        assert!(Interpreter::at(&prefix.join("bin/absent"), Registry::Npm).is_err());
    }
}
