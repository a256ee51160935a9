//! The configuration the program trusts, and the only way to get one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use screening::risk::RiskRules;
use settings::{Fault, Faults, Remarks, Section};
use vocabulary::ServerId;

use super::locked::NOT_STARTED;
use super::profile::Parts;
use super::raw::{Found, RawConfig, Surroundings, found_at, variable};
use super::{
    Anchors, Approvals, Audit, FORMAT, Identity, Incident, Limits, Listen, Output, Policy, Profile, Sandbox, Server,
    State,
};

/// A configuration in which every value was checked and every reference was followed.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[listen]`
    pub listen: Listen,
    /// `[state]`
    pub state: State,
    /// `[audit]`
    pub audit: Audit,
    /// `[identity]`
    pub identity: Identity,
    /// `[sandbox]`
    pub sandbox: Sandbox,
    /// `[servers.*]`
    pub servers: BTreeMap<ServerId, Server>,
    /// `[trust]`
    pub anchors: Anchors,
    /// `[policy]`
    pub policy: Policy,
    /// `[approvals]`
    pub approvals: Approvals,
    /// `[incident]`
    pub incident: Incident,
    /// `[limits]`
    pub limits: Limits,
    /// `[output_validation]`, `[output_sanitisation]`, `[detection]` and `[response]`
    pub output: Output,
    /// `[risk]`
    pub risk: Arc<RiskRules>,
    file: PathBuf,
    files: Vec<PathBuf>,
    found: BTreeMap<PathBuf, Option<Found>>,
    remarks: Remarks,
}

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn load(file: &Path) -> Result<Self, Faults> {
        RawConfig::read(file)?.try_into()
    }

    /// What holds where nobody wrote a configuration: the usual state directory, no servers.
    ///
    /// # Errors
    /// When there is no home directory.
    pub fn usual(directory: &Path) -> Result<Self, Faults> {
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/state"));
        let state = variable("XDG_STATE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let state = state.or_else(home).map(|path| path.display().to_string());
        let surroundings = state.map(|path| ("XDG_STATE_HOME".to_owned(), path));
        let surroundings = surroundings.into_iter().collect();
        RawConfig::from_text(String::new(), directory.to_owned(), surroundings).try_into()
    }

    /// The file it came from.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Every file that was read and every directory that was searched: what a reload watches.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Whether its files still say what was read of them. Blocks.
    #[must_use]
    pub fn is_as_read(&self) -> bool {
        self.found.iter().all(|(path, found)| found_at(path) == *found)
    }

    /// What its files are and say now. Blocks.
    pub(crate) fn found_now(&self) -> Vec<Option<impl PartialEq + use<>>> {
        self.files.iter().map(|path| found_at(path)).collect()
    }

    /// Whether every file that says something else than `before` was put in place as a whole: it was renamed, not written to.
    #[must_use]
    pub fn is_whole_since(&self, before: &Self) -> bool {
        let is_whole = |(path, now): (&PathBuf, &Option<Found>)| match (before.found.get(path), now) {
            (Some(Some(before)), Some(now)) => before.says == now.says || before.inode != now.inode,
            (Some(None), None) => true,
            (Some(None) | None, Some(_)) | (Some(Some(_)) | None, None) => false,
        };
        self.found.len() == before.found.len() && self.found.iter().all(is_whole)
    }

    /// What is allowed but deserves a second look.
    #[must_use]
    pub fn warnings(&self) -> &[Fault] {
        &self.remarks.warnings
    }

    /// Whether nothing of this machine keeps this server from starting here; a signature that is missing does not count.
    ///
    /// # Errors
    /// What does.
    pub fn starts(&self, server: &ServerId) -> Result<(), Faults> {
        let key = format!("servers.{server}");
        let barred = self.servers.get(server).and_then(|server| server.barred.as_deref());
        let is_its_own = |fault: &&Fault| {
            (barred.is_none() || fault.message.strip_prefix(NOT_STARTED) != barred)
                && fault
                    .key
                    .strip_prefix(&key)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        FORMAT.accept_without(self.obstacles().iter().filter(is_its_own).cloned().collect())
    }

    /// What keeps single servers from starting on this machine; the others do.
    #[must_use]
    pub fn obstacles(&self) -> &[Fault] {
        &self.remarks.obstacles
    }
}

impl TryFrom<RawConfig> for Config {
    type Error = Faults;

    fn try_from(raw: RawConfig) -> Result<Self, Faults> {
        let RawConfig {
            file,
            text,
            surroundings,
        } = raw;
        let (sections, remarks) = FORMAT.read(&file, &text, |root| Sections::check(root, &surroundings))?;
        let Sections {
            listen,
            state,
            audit,
            identity,
            sandbox,
            servers,
            anchors,
            policy,
            approvals,
            incident,
            limits,
            output,
            risk,
        } = sections;
        let found = surroundings.into_files();
        let files = found.keys().cloned().collect();
        Ok(Self {
            listen,
            state,
            audit,
            identity,
            sandbox,
            servers,
            anchors,
            policy,
            approvals,
            incident,
            limits,
            output,
            risk,
            file,
            files,
            found,
            remarks,
        })
    }
}

struct Sections {
    listen: Listen,
    state: State,
    audit: Audit,
    identity: Identity,
    sandbox: Sandbox,
    servers: BTreeMap<ServerId, Server>,
    anchors: Anchors,
    policy: Policy,
    approvals: Approvals,
    incident: Incident,
    limits: Limits,
    output: Output,
    risk: Arc<RiskRules>,
}

impl Sections {
    /// Checks every section, also after a fault; `None` only where a fault was noted.
    fn check(mut root: Section<'_>, around: &Surroundings) -> Option<Self> {
        let outline = root.outline();
        let profile = Profile::check(&mut root, around);
        let listen = Listen::check(root.section("listen"), around);
        let state = State::check(root.section("state"), around);
        let audit = Audit::check(root.section("audit"), state.as_ref(), around);
        let identity = Identity::check(root.section("identity"), listen.as_ref(), around);
        let sandbox = Sandbox::check(root.section("sandbox"));
        let anchors = Anchors::check(root.section("trust"), around);
        let servers = super::servers::check(&mut root, (state.as_ref(), anchors.as_ref()), around);
        let policy = Policy::check(root.section("policy"), around);
        let approvals = Approvals::check(root.section("approvals"), around);
        let incident = Incident::check(root.section("incident"));
        let limits = Limits::check(root.section("limits"));
        let output = Output::check(&mut root, around);
        if let Some(profile) = profile {
            let parts = Parts {
                listen: listen.as_ref(),
                anchors: anchors.as_ref(),
                servers: &servers,
            };
            profile.judge(&parts, &outline);
        }
        let risk = super::risk::check(root.section("risk"), &servers, around);
        root.finish();
        Some(Self {
            listen: listen?,
            state: state?,
            audit: audit?,
            identity: identity?,
            sandbox: sandbox?,
            servers,
            anchors: anchors?,
            policy: policy?,
            approvals: approvals?,
            incident: incident?,
            limits: limits?,
            output: output?,
            risk: risk?,
        })
    }
}
