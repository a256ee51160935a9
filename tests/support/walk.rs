//! A page that tells people what to type, walked as they would: every `sh` block in one shell with a home of its own. Each
//! command must end well, and the `text` block behind a block must be printed, line for line, `…` for what differs each time.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::environment::{Finished, command, portreeve};

/// A fenced block of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub language: String,
    pub text: String,
}

/// The fenced blocks of a page, indentation of lists taken off.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    for line in page.lines() {
        let bare = line.trim_start();
        match (&mut open, bare.strip_prefix("```")) {
            (None, Some(language)) => {
                let block = Block {
                    language: language.trim().to_owned(),
                    text: String::new(),
                };
                open = Some((line.len() - bare.len(), block));
            }
            (Some(_), Some("")) => found.extend(open.take().map(|(_, block)| block)),
            (Some((indent, block)), _) => {
                block.text.push_str(line.get(*indent..).unwrap_or(bare));
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block of the page has no end");
    found
}

/// A walk through a page.
pub(crate) struct Walk {
    blocks: Vec<Block>,
    home: TempDir,
}

impl Walk {
    /// Through these blocks, in a fresh home.
    pub(crate) fn through(blocks: Vec<Block>) -> Self {
        Self {
            blocks,
            home: TempDir::new().unwrap(),
        }
    }

    /// With `new` wherever the page says `old`: it must say it.
    pub(crate) fn replacing(mut self, old: &str, new: &str) -> Self {
        assert!(
            self.blocks.iter().any(|block| block.text.contains(old)),
            "the page does not say {old:?} any more"
        );
        for block in &mut self.blocks {
            block.text = block.text.replace(old, new);
        }
        self
    }

    /// A path in the home directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// What the block with this number, counted from 0, printed.
    pub(crate) fn printed(&self, number: usize) -> String {
        std::fs::read_to_string(self.path(&format!(".walk/{number}"))).unwrap_or_default()
    }

    /// Walks to the end. The programs of `bin` come first, then the shipped binary, then this machine's.
    pub(crate) fn run(&self) {
        std::fs::create_dir_all(self.path(".walk/bin")).unwrap();
        let shipped = self.path(".walk/bin/portreeve");
        std::os::unix::fs::symlink(portreeve().canonicalize().unwrap(), shipped).unwrap();
        let finished = Finished::of(
            command("/usr/bin/env")
                .args(["bash", "-c", &self.script()])
                .current_dir(self.home.path())
                .env("HOME", self.home.path())
                .env_remove("XDG_STATE_HOME")
                .env_remove("XDG_CONFIG_HOME"),
        );
        let last = std::fs::read_to_string(self.path(".walk/at")).unwrap_or_default();
        assert_eq!(
            finished.code,
            Some(0),
            "a command of this block failed:\n{}\nit printed:\n{}\n{}",
            last.trim()
                .parse()
                .map_or("", |number: usize| self.blocks[number].text.as_str()),
            last.trim().parse().map_or(String::new(), |number| self.printed(number)),
            finished.stderr,
        );
        self.compare();
    }

    fn script(&self) -> String {
        let mut script = String::from(
            "set -euo pipefail\ntrap 'code=$?; kill $(jobs -p) 2>/dev/null || true; wait || true; exit $code' EXIT\n",
        );
        script.push_str("walk=$HOME/.walk\nPATH=$walk/bin:$PATH\n");
        for (number, block) in self.blocks.iter().enumerate() {
            if block.language == "sh" {
                script.push_str(&format!(
                    "echo {number} > $walk/at\nexec > $walk/{number} 2>&1\n{}\n",
                    block.text
                ));
            }
        }
        script
    }

    /// What the page says that a block prints must stand in what it printed, in this order.
    fn compare(&self) {
        let mut ran = 0;
        for (number, block) in self.blocks.iter().enumerate() {
            match block.language.as_str() {
                "sh" => ran = number,
                "text" => {
                    let printed = self.printed(ran);
                    let mut lines = printed.lines();
                    for wanted in block.text.lines().filter(|line| !line.trim().is_empty()) {
                        let is_there = lines.any(|line| is_alike(wanted.trim(), line.trim()));
                        assert!(is_there, "the page says {wanted:?}, printed was:\n{printed}");
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a line is the one that the page shows; `…` stands for anything, runs of blanks for one.
fn is_alike(wanted: &str, line: &str) -> bool {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (wanted, line) = (squeezed(wanted), squeezed(line));
    let Some((first, gaps)) = wanted.split_once('…') else {
        return wanted == line;
    };
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let (between, last) = gaps.rsplit_once('…').unwrap_or(("", gaps));
    for part in between.split('…') {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The part of a page from one heading up to the next of the same depth.
pub(crate) fn chapter(page: &Path, heading: &str) -> String {
    let text = std::fs::read_to_string(page).unwrap();
    let start = text.find(heading).unwrap_or_else(|| panic!("no {heading:?}"));
    let (_, from) = text.split_at(start + heading.len());
    let depth = format!("\n{} ", heading.split(' ').next().unwrap_or_default());
    from.split(&depth).next().unwrap_or_default().to_owned()
}

#[test]
fn blocks_are_found_also_in_lists_and_lines_compared_with_gaps() {
    let page = "1. a\n\n   ```sh\n   echo a\n     b\n   ```\n\n```text\na … c\n```\n";
    let found = blocks(page);
    assert_eq!(
        (found[0].language.as_str(), found[0].text.as_str()),
        ("sh", "echo a\n  b\n")
    );
    assert!(is_alike("a … c", "a   b  c") && is_alike("a …", "a b c") && is_alike("a b", "a  b"));
    assert!(!is_alike("a … c", "a b c d") && !is_alike("a", "a b") && !is_alike("a … x", "a b"));
}
