//! Reads which files of a crate a file imports. It knows as much of Rust as that takes: what is a comment, a string or a
//! test, and what a path that begins with `crate`, `self`, `super` or a child's name leads to.

use std::collections::{BTreeMap, BTreeSet};

use super::Imports;

/// Files by their path below `src`, and their text.
pub(super) type Sources = BTreeMap<String, String>;
/// A module's path from the root of its crate; empty for the root itself.
type Module = Vec<String>;

pub(super) fn imports(sources: &Sources) -> Imports {
    let files: BTreeMap<Module, &String> = sources.keys().map(|file| (module_of(file), file)).collect();
    let read: BTreeMap<Module, Read> = files
        .iter()
        .map(|(module, file)| (module.clone(), Reader::read(module, &sources[*file], &files)))
        .collect();
    let tests: BTreeSet<&Module> = read.values().flat_map(|read| &read.tests).collect();
    let is_test = |module: &Module| (0..=module.len()).any(|end| tests.contains(&module[..end].to_vec()));
    let exports: BTreeMap<Module, Module> = read.values().flat_map(|read| read.exports.clone()).collect();
    let mut imports = Imports::new();
    for (module, read) in read.iter().filter(|(module, _)| !is_test(module)) {
        let targets = read.paths.iter().map(|path| resolve(path.clone(), &files, &exports));
        let others = targets.filter(|target| target != module && !is_test(target));
        let others = others.map(|target| {
            files
                .get(&target)
                .map_or_else(|| "lib.rs".into(), |file| (*file).clone())
        });
        imports.insert(files[module].clone(), others.collect());
    }
    imports
}

/// The module that a path leads into. What a module re-exports is where it was defined.
fn resolve(mut path: Module, files: &BTreeMap<Module, &String>, exports: &BTreeMap<Module, Module>) -> Module {
    const MOST_EXPORTS: usize = 16;
    for _ in 0..MOST_EXPORTS {
        let known = (0..=path.len()).rev().find(|end| files.contains_key(&path[..*end]));
        let known = known.unwrap_or(0);
        let export = path.get(..=known).and_then(|name| exports.get(name));
        match export {
            Some(target) => path = target.iter().chain(&path[known + 1..]).cloned().collect(),
            None => return path[..known].to_vec(),
        }
    }
    panic!("{path:?} is exported in a circle");
}

fn module_of(file: &str) -> Module {
    match file.trim_end_matches(".rs") {
        "lib" | "main" => Vec::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

/// What one file says.
#[derive(Default)]
struct Read {
    /// Paths it names, from the root of the crate.
    paths: Vec<Module>,
    /// What it re-exports, and from where.
    exports: Vec<(Module, Module)>,
    /// Modules that are there for tests alone.
    tests: Vec<Module>,
}

struct Reader<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    /// The module of the file, and of the inline modules around the token.
    module: Module,
    /// The depths of braces at which inline modules began.
    inline: Vec<usize>,
    depth: usize,
    children: Vec<&'a str>,
    read: Read,
}

impl<'a> Reader<'a> {
    fn read(module: &Module, text: &'a str, files: &'a BTreeMap<Module, &String>) -> Read {
        let is_child = |other: &&Module| other.len() == module.len() + 1 && other.starts_with(module);
        let mut reader = Self {
            tokens: tokens(text),
            at: 0,
            module: module.clone(),
            inline: Vec::new(),
            depth: 0,
            children: files
                .keys()
                .filter(is_child)
                .filter_map(|child| child.last())
                .map(String::as_str)
                .collect(),
            read: Read::default(),
        };
        while reader.at < reader.tokens.len() {
            reader.step();
        }
        reader.read
    }

    fn peek(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).copied().unwrap_or("")
    }

    fn step(&mut self) {
        let before = self.at.checked_sub(1).map_or("", |at| self.tokens[at]);
        match self.peek(0) {
            "#" if self.tokens[self.at..].starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]) => self.skip_item(),
            "mod" if self.peek(2) == "{" => {
                self.module.push(self.peek(1).to_owned());
                self.inline.push(self.depth);
                self.at += 2;
            }
            "{" => {
                self.depth += 1;
                self.at += 1;
            }
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                if self.inline.pop_if(|depth| *depth == self.depth).is_some() {
                    self.module.pop();
                }
                self.at += 1;
            }
            "pub" => self.visible(),
            first if self.begins_path(first, before) => {
                let named = self.tree();
                self.read.paths.extend(named.into_iter().map(|(path, _)| path));
            }
            _ => self.at += 1,
        }
    }

    fn begins_path(&self, first: &str, before: &str) -> bool {
        let relative = ["crate", "self", "super"].contains(&first) || self.children.contains(&first);
        relative && self.peek(1) == "::" && !["::", ".", "in"].contains(&before)
    }

    /// `pub`, `pub(…)`, and what is exported by it.
    fn visible(&mut self) {
        self.at += 1;
        if self.peek(0) == "(" {
            self.at += self.tokens[self.at..].iter().take_while(|token| **token != ")").count() + 1;
        }
        if self.peek(0) != "use" {
            return;
        }
        self.at += 1;
        if !self.begins_path(self.peek(0), "") {
            return;
        }
        for (path, name) in self.tree() {
            if !path.starts_with(&self.module) {
                self.read.paths.push(path.clone());
            }
            let exported = self.module.iter().cloned().chain([name]).collect();
            self.read.exports.push((exported, path));
        }
    }

    /// Past an attribute and what it is on: to the end of its braces, or to its semicolon.
    fn skip_item(&mut self) {
        self.at += 7;
        if self.peek(0) == "mod" && self.peek(2) == ";" {
            let named = self.module.iter().cloned().chain([self.peek(1).to_owned()]);
            self.read.tests.push(named.collect());
        }
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            let ends = depth == 0 && [";", "}"].contains(&self.peek(0));
            self.at += 1;
            if ends {
                return;
            }
        }
    }

    /// The paths of a tree like `crate::{a, b::{self, C as D}}`, each with the name it gets.
    fn tree(&mut self) -> Vec<(Module, String)> {
        let start = match self.peek(0) {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => {
                let supers = self.tokens[self.at..]
                    .chunks(2)
                    .take_while(|pair| *pair == ["super", "::"])
                    .count();
                self.at += 2 * supers.saturating_sub(1);
                self.module[..self.module.len().saturating_sub(supers)].to_vec()
            }
            child => self.module.iter().cloned().chain([child.to_owned()]).collect(),
        };
        self.at += 2;
        self.branch(start)
    }

    fn branch(&mut self, mut path: Module) -> Vec<(Module, String)> {
        loop {
            match self.peek(0) {
                "{" => return self.branches(&path),
                "self" | "*" => self.at += 1,
                segment if is_word(segment) => {
                    path.push(segment.to_owned());
                    self.at += 1;
                }
                _ => {}
            }
            if self.peek(0) != "::" {
                break;
            }
            self.at += 1;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.peek(0) == "as" {
            name = self.peek(1).to_owned();
            self.at += 2;
        }
        vec![(path, name)]
    }

    fn branches(&mut self, path: &Module) -> Vec<(Module, String)> {
        let mut found = Vec::new();
        while !["}", ""].contains(&self.peek(0)) {
            self.at += 1; // the brace or the comma
            if !["}", ""].contains(&self.peek(0)) {
                found.extend(self.branch(path.clone()));
            }
        }
        self.at += 1;
        found
    }
}

/// Words, `::` and single marks; no comments, no literals.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => Some(comment(rest)),
            '"' => Some(string(rest)),
            '\'' => Some(character(rest)),
            _ if first.is_whitespace() => Some(first.len_utf8()),
            _ => raw_string(rest),
        };
        let word = rest.find(|c| !is_part_of_word(c)).unwrap_or(rest.len());
        let length = skipped.unwrap_or(match word {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            word => word,
        });
        let (token, after) = rest.split_at(length);
        if skipped.is_none() {
            tokens.push(token);
        }
        rest = after;
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.starts_with(is_part_of_word)
}

fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let pair = text.as_bytes().get(at..at + 2).unwrap_or_default();
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// The length of `r"…"`, `br#"…"#` and the like.
fn raw_string(text: &str) -> Option<usize> {
    let marks = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let quoted = marks.trim_start_matches('#');
    let end = format!("\"{}", "#".repeat(marks.len() - quoted.len()));
    let start = text.len() - quoted.len();
    let inner = quoted.strip_prefix('"')?;
    Some(start + 1 + inner.find(&end)? + end.len())
}

/// A character, or the mark of a lifetime alone.
fn character(text: &str) -> usize {
    let mut following = text.chars().skip(1);
    match (following.next(), following.next()) {
        (Some('\\'), _) => text.split_at(3).1.find('\'').map_or(text.len(), |end| end + 4),
        (Some(c), Some('\'')) => c.len_utf8() + 2,
        _ => 1,
    }
}
