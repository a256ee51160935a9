//! `[agents.*]`: what runs, what it is told, what it must hand over, and what stands around it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ledger::AttemptClass;
use sandbox::{FsPolicy, NetPolicy, Tier};
use screening::result::strip::{Class, Classes};
use settings::{Complaint, Entry, Section, quoted};
use vocabulary::{Digest, ServerId};

use super::files::{Document, Files};
use crate::contract::{Contract, Secrets};

/// An agent's name: a file name, a subject of tokens and a word in records.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct AgentName(String);

impl AgentName {
    /// Reads a name: 1 to 64 of `a-z 0-9 - _`, beginning with a letter or a digit.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = (1..=64).contains(&text.len())
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'));
        // Validated outputs and this file share a directory of inputs.
        (fits && text != "manifest").then(|| Self(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A declared agent; its schema is compiled and its prompt read.
#[derive(Debug)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// The program and its arguments, placeholders not yet replaced.
    pub command: Vec<String>,
    /// What goes to standard input.
    pub prompt: Document,
    /// Its variables, beside those every runtime gets.
    pub env: BTreeMap<String, Reference>,
    /// Servers whose tools it may use.
    pub servers: Vec<ServerId>,
    /// What it must hand over.
    pub output: OutputRule,
    /// What happens when it does not.
    pub retry: Retry,
    /// What it may use.
    pub limits: AgentLimits,
    /// What stands around it.
    pub walls: WallRule,
    /// What runs on the host before and after.
    pub hooks: Hooks,
    /// The digest of the command, files of the harness directory in it included.
    pub command_hash: Digest,
}

/// Where a variable's value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reference {
    /// A variable of the harness's own environment.
    Variable(String),
    /// A file's text, its last line break left out.
    File(PathBuf),
    /// Written out as no secret.
    Plain(String),
}

/// What an agent must hand over.
#[derive(Debug)]
pub struct OutputRule {
    /// Where it is taken from.
    pub from: Source,
    /// The schema, as it was read.
    pub schema: Document,
    /// The judge.
    pub contract: Contract,
}

/// Where output is taken from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A file of this name in the output directory.
    File(String),
    /// What the runtime prints.
    Stdout,
}

vocabulary::words! {
    /// Where output is taken from, without the file's name.
    enum From {
        /// A file.
        File = "file",
        /// What the runtime prints.
        Stdout = "stdout",
    }
}

/// What happens after an attempt that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retry {
    /// How many more attempts there may be.
    pub max_retries: u32,
    /// The most bytes of feedback.
    pub max_bytes: usize,
    /// The most violations that are told.
    pub max_items: usize,
    /// What is tried again at all.
    pub on: Vec<AttemptClass>,
}

/// What an agent may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentLimits {
    /// One attempt.
    pub timeout: Duration,
    /// All attempts and hooks.
    pub total: Duration,
    /// Memory, processes, processor.
    pub machine: sandbox::ResourceLimits,
}

/// What stands around an agent's runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WallRule {
    /// How files are confined.
    pub fs: FsPolicy,
    /// How the network is confined.
    pub net: NetPolicy,
    /// The weakest walls the runtime may be started in.
    pub tier: Option<Tier>,
    /// The operator's own workspace; else each run gets a fresh one.
    pub workspace: Option<PathBuf>,
    /// Further paths it may read.
    pub read: Vec<PathBuf>,
    /// Hosts it may reach.
    pub allow: Vec<String>,
    /// Ranges that are not public, into which those may resolve.
    pub private: Vec<String>,
    /// The digest of the section as written.
    pub hash: Digest,
}

/// Commands that run on the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hooks {
    /// Before the runtime.
    pub pre: Vec<Vec<String>>,
    /// After the output was published.
    pub post: Vec<Vec<String>>,
    /// The digest of both as written, and of the files they name.
    pub hash: Digest,
}

impl Agent {
    pub(super) fn check(name: &str, mut section: Section<'_>, files: &Files) -> Option<Self> {
        let known = AgentName::parse(name);
        if known.is_none() {
            section.fault_here(
                Complaint::new(format!("{} is no name for an agent", quoted(name)))
                    .hint("use 1 to 64 of a-z, 0-9, `-` and `_`; `manifest` is taken"),
            );
        }
        let command = section.require("command", |value| command(value, files));
        let prompt = section.require("prompt", |value| prompt(value, files));
        let env = environment(section.section("env"), files);
        let servers = section.read("servers", |value| {
            value.distinct(|item| ServerId::parse(item.text()?).map_err(|fault| Complaint::new(fault.to_string())))
        });
        let output = OutputRule::check(section.section("output"), files);
        let retry = Retry::check(section.section("retry"));
        let mut limits = AgentLimits::check(section.section("limits"));
        let walls = WallRule::check(section.section("sandbox"), files);
        if let (Some(limits), Some(WallRule { workspace: None, .. })) = (&mut limits, &walls) {
            limits.machine = limits.machine.with_quota();
        }
        let hooks = Hooks::check(section.section("hooks"), files);
        section.finish();
        let (command, command_hash) = command?;
        Some(Self {
            name: known?,
            command,
            prompt: prompt?,
            env,
            servers: servers?,
            output: output?,
            retry: retry?,
            limits: limits?,
            walls: walls?,
            hooks: hooks?,
            command_hash,
        })
    }
}

/// A program that is named by a path is found from the harness directory.
fn command(value: &Entry<'_>, files: &Files) -> Result<(Vec<String>, Digest), Complaint> {
    let mut words = value.texts()?;
    let mut written = Vec::new();
    for word in &words {
        written.extend_from_slice(&(word.len() as u64).to_be_bytes());
        written.extend_from_slice(word.as_bytes());
        // A script of the harness directory is as much a part of the command as its name.
        if let Some(hash) = files.part_of_command(word) {
            written.extend_from_slice(hash.as_bytes());
        }
    }
    match words.first_mut() {
        None => return Err(Complaint::new("is empty").hint("name the program and its arguments")),
        Some(program) if program.contains('/') => *program = files.anywhere(program).display().to_string(),
        Some(_) => {}
    }
    Ok((words, Digest::of(&written)))
}

fn prompt(value: &Entry<'_>, files: &Files) -> Result<Document, Complaint> {
    let document = files.document(value.text()?)?;
    match std::str::from_utf8(&document.bytes) {
        Ok(_) => Ok(document),
        Err(_) => Err(Complaint::new("is not UTF-8 text")),
    }
}

fn environment(mut section: Section<'_>, files: &Files) -> BTreeMap<String, Reference> {
    let mut variables = BTreeMap::new();
    for (name, entry) in section.remaining() {
        let reference = entry.text().and_then(|text| reference(&name, text, files));
        variables.extend(entry.accept(reference).map(|reference| (name, reference)));
    }
    variables
}

fn reference(name: &str, text: &str, files: &Files) -> Result<Reference, Complaint> {
    if name.starts_with("HARNESS_") || name.starts_with("PORTREEVE_") {
        return Err(Complaint::new("is a name of the harness's own").hint("choose another name"));
    }
    match settings::Reference::parse(text) {
        Some(settings::Reference::Variable(variable)) => Ok(Reference::Variable(variable.to_owned())),
        Some(settings::Reference::File(path)) => Ok(Reference::File(files.root().join(path))),
        Some(settings::Reference::Plain(plain)) => Ok(Reference::Plain(plain.to_owned())),
        // What stands here may be a secret, so it is not repeated.
        None => Err(Complaint::new("is not a reference").hint(settings::Reference::HINT)),
    }
}

impl OutputRule {
    fn check(mut section: Section<'_>, files: &Files) -> Option<Self> {
        let from = section.read("from", |value| value.word(From::ALL, From::as_str));
        let named = section.has("file");
        let file = section.read("file", file_name);
        if from == Some(From::Stdout) && named {
            section
                .fault_here(Complaint::new("`file` is of no use with `from = \"stdout\"`").hint("remove one of them"));
        }
        let max_bytes = section.read("max_bytes", |value| value.number(1..=1 << 30));
        let max_depth = section.read("max_depth", |value| value.number(1..=512));
        let rejected = section.read("reject_text", |value| {
            let classes = value.distinct(|item| item.word(Class::ALL, Class::as_str))?;
            Ok(classes.into_iter().collect::<Classes>())
        });
        let secrets = section.read("secrets", |value| value.word(Secrets::ALL, Secrets::as_str));
        let schema = section.require("schema", |value| files.document(value.text()?));
        let contract = schema.as_ref().and_then(|schema| {
            let rules = (usize::try_from(max_bytes?).ok()?, usize::try_from(max_depth?).ok()?);
            match Contract::compile(&schema.bytes, rules, rejected?, secrets?) {
                Ok(contract) => Some(contract),
                Err(fault) => {
                    section.fault("schema", Complaint::new(format!("{}: {fault}", quoted(&schema.name))));
                    None
                }
            }
        });
        section.finish();
        Some(Self {
            from: match from? {
                From::Stdout => Source::Stdout,
                From::File => Source::File(file?),
            },
            schema: schema?,
            contract: contract?,
        })
    }
}

fn file_name(value: &Entry<'_>) -> Result<String, Complaint> {
    let text = value.text()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let fits = (1..=128).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('.');
    if !fits {
        return Err(Complaint::new(format!("{} is no plain file name", quoted(text)))
            .hint("letters, digits, `.`, `-` and `_`; directories are the harness's"));
    }
    if text == crate::usage::FILE {
        return Err(Complaint::new("is where a runtime may report what it used").hint("choose another name"));
    }
    Ok(text.to_owned())
}

impl Retry {
    fn check(mut section: Section<'_>) -> Option<Self> {
        let max_retries = section.read("max_retries", |value| value.number(0..=2));
        let mut feedback = section.section("feedback");
        let max_bytes = feedback.read("max_bytes", |value| value.number(512..=65_536));
        let max_items = feedback.read("max_items", |value| value.number(1..=50));
        feedback.finish();
        let on = section.read("retry_on", |value| {
            let failures: Vec<AttemptClass> = AttemptClass::ALL
                .iter()
                .filter(|class| {
                    !matches!(
                        class,
                        AttemptClass::Ok | AttemptClass::Integrity | AttemptClass::Stopped
                    )
                })
                .copied()
                .collect();
            value.distinct(|item| item.word(&failures, AttemptClass::as_str))
        });
        section.finish();
        Some(Self {
            max_retries: u32::try_from(max_retries?).ok()?,
            max_bytes: usize::try_from(max_bytes?).ok()?,
            max_items: usize::try_from(max_items?).ok()?,
            on: on?,
        })
    }
}

impl AgentLimits {
    fn check(mut section: Section<'_>) -> Option<Self> {
        let usual = sandbox::ResourceLimits::default();
        let timeout = section.read("timeout", Entry::duration);
        let written = section.has("total_timeout");
        let total = section.read("total_timeout", Entry::duration);
        let memory = section.read("memory", Entry::size);
        let processes = section.read("processes", |value| value.number(1..=65_536));
        let cpu_seconds = section.read("cpu_seconds", |value| value.number(1..=1 << 32));
        let workspace = section.read("workspace", Entry::size);
        let files = section.read("files", |value| value.number(1..=1 << 32));
        section.finish();
        let (timeout, total) = (timeout?, total?);
        Some(Self {
            timeout,
            total: if written { total } else { total.max(timeout) },
            machine: sandbox::ResourceLimits {
                memory: memory?,
                processes: u32::try_from(processes?).ok()?,
                cpu_seconds,
                workspace,
                files,
                ..usual
            },
        })
    }
}

impl WallRule {
    fn check(mut section: Section<'_>, files: &Files) -> Option<Self> {
        let fs = section.read("fs", |value| value.word(FsPolicy::ALL, FsPolicy::as_str));
        let net = section.read("net", |value| value.word(NetPolicy::ALL, NetPolicy::as_str));
        let tier = section.read("tier", |value| value.word(Tier::ALL, Tier::as_str));
        let workspace = section.read("workspace", |value| Ok(value.text()?.to_owned()));
        let read = section.read("read", Entry::texts);
        let allow = section.read("allow", Entry::texts);
        let private = section.read("private", Entry::texts);
        let (fs, net, read, allow, private) = (fs?, net?, read?, allow?, private?);
        look_twice(&section, fs, net, &allow);
        if let (FsPolicy::WorkspaceOnly, Some(written)) = (fs, &workspace) {
            let path = files.anywhere(written);
            if files.root() == path {
                section.fault(
                    "workspace",
                    Complaint::new("is the harness directory, which the runtime must not be able to write")
                        .hint("write a directory inside it or elsewhere, or `fs = \"read_only\"`"),
                );
            }
        }
        section.finish();
        let words = [
            [fs.as_str(), net.as_str()]
                .into_iter()
                .chain(tier.map(Tier::as_str))
                .map(str::to_owned)
                .collect(),
            workspace.iter().cloned().collect(),
            read.clone(),
            allow.clone(),
            private.clone(),
        ];
        // As written, so that two checkouts of one harness agree.
        let text = serde_json::to_vec(&words).unwrap_or_default();
        Some(Self {
            fs,
            net,
            tier,
            workspace: workspace.map(|path| files.anywhere(&path)),
            read: read.iter().map(|path| files.anywhere(path)).collect(),
            allow,
            private,
            hash: Digest::of(&text),
        })
    }

    /// Whether a runtime behind these walls could write the file.
    #[must_use]
    pub fn lets_write(&self, path: &Path, harness: &Path) -> bool {
        match (self.fs, &self.workspace) {
            (FsPolicy::Unconfined, _) => true,
            (FsPolicy::ReadOnly, _) | (FsPolicy::WorkspaceOnly, None) => false,
            // A harness directory inside the workspace is shown read-only.
            (FsPolicy::WorkspaceOnly, Some(workspace)) => {
                path.starts_with(workspace) && !(harness.starts_with(workspace) && harness != workspace)
            }
        }
    }
}

/// What is allowed but deserves a second look.
fn look_twice(section: &Section<'_>, fs: FsPolicy, net: NetPolicy, allow: &[String]) {
    if fs == FsPolicy::Unconfined {
        let complaint = Complaint::new("the runtime can read and write whatever its user can");
        section.warn("fs", complaint.hint("write `workspace_only`, or let it be"));
    }
    if net == NetPolicy::Unconfined {
        let complaint = Complaint::new("the runtime can reach whatever this machine can, unrecorded");
        section.warn(
            "net",
            complaint.hint("write `allowlist` and name what it needs in `allow`"),
        );
    }
    if net != NetPolicy::Allowlist && !allow.is_empty() {
        let complaint = Complaint::new("is of no use without `net = \"allowlist\"`");
        section.fault("allow", complaint.hint("write that, or remove the list"));
    }
}

impl Hooks {
    fn check(mut section: Section<'_>, files: &Files) -> Option<Self> {
        let pre = section.read("pre", |value| value.list(|item| hook(item, files)))?;
        let post = section.read("post", |value| value.list(|item| hook(item, files)))?;
        section.finish();
        let bound = [&pre, &post].map(|hooks| hooks.iter().map(|hook| hook.bound.clone()).collect::<Vec<_>>());
        let hash = Digest::of(&serde_json::to_vec(&bound).unwrap_or_default());
        let words = |hooks: Vec<Hook>| hooks.into_iter().map(|hook| hook.words).collect();
        Some(Self {
            pre: words(pre),
            post: words(post),
            hash,
        })
    }
}

struct Hook {
    words: Vec<String>,
    /// Its words as written, each file of the directory with its digest.
    bound: Vec<(String, Option<String>)>,
}

/// A hook is a file of the harness directory, with arguments.
fn hook(value: &Entry<'_>, files: &Files) -> Result<Hook, Complaint> {
    let mut words = value.texts()?;
    let digest = |word: &String| files.part_of_command(word).map(|hash| hash.to_string());
    let bound = words.iter().map(|word| (word.clone(), digest(word))).collect();
    let Some(program) = words.first_mut() else {
        return Err(Complaint::new("is empty").hint("name the hook's file and its arguments"));
    };
    *program = files.document(program)?.path.display().to_string();
    Ok(Hook { words, bound })
}
