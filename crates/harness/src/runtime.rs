//! From an agent's declaration to a plan of the sandbox: what the runtime sees, what it is called with, and an
//! environment of which every variable is named here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandbox::{FsPolicy, GATE_PORT, Inotify, NetPolicy, PlaceAccess, Plan, PlanDraft, UnixSockets};
use vocabulary::{Masks, Secret, Timestamp};

use crate::config::{Agent, Harness, Reference, Source, read_document};
use crate::ports::{HostEnvironment, IssuedToken};
use crate::run_directory::{AGENT_DIRECTORIES, AgentDirectory, Owner, parent_of};
use crate::token_lease::TokenLease;

/// What was made for a runtime before its first attempt.
#[derive(Debug)]
pub(crate) struct Provided {
    pub(crate) directory: AgentDirectory,
    pub(crate) workspace: PathBuf,
    pub(crate) inputs: PathBuf,
    pub(crate) schema: PathBuf,
    /// The agent's own variables.
    pub(crate) secrets: BTreeMap<String, Secret>,
}

/// The tools a runtime may use.
#[derive(Debug)]
pub(crate) enum Tools {
    /// None.
    None,
    /// Those of the gateway, for as long as the lease lasts.
    Gateway {
        /// The token.
        lease: Box<TokenLease>,
        /// The certificate authority of the gateway, if it has its own.
        ca: Option<PathBuf>,
    },
}

/// What every attempt of a run has in common.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) harness: &'a Harness,
    pub(crate) agent: &'a Agent,
    pub(crate) run: &'a str,
    pub(crate) state: &'a Path,
    /// The binary that a runtime checks itself with.
    pub(crate) program: Option<&'a Path>,
    pub(crate) provided: &'a Provided,
    pub(crate) tools: &'a Tools,
}

/// What one attempt has of its own.
#[derive(Debug)]
pub(crate) struct AttemptPlace {
    pub(crate) number: u32,
    pub(crate) most: u32,
    pub(crate) deadline: Timestamp,
    pub(crate) output: PathBuf,
    pub(crate) feedback: Option<PathBuf>,
}

impl AttemptPlace {
    /// Where the output is to be written.
    pub(crate) fn target(&self, from: &Source) -> PathBuf {
        match from {
            Source::File(name) => self.output.join(name),
            // What most programs take for standard output.
            Source::Stdout => PathBuf::from("-"),
        }
    }
}

impl Surroundings<'_> {
    /// The plan of one attempt.
    ///
    /// # Errors
    /// Everything that keeps it from being carried out on this host.
    pub(crate) fn plan(&self, attempt: &AttemptPlace) -> Result<Plan, Vec<String>> {
        let told = |faults: Vec<sandbox::PlanFault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut plan = Plan::check(self.draft(attempt)).map_err(told)?;
        let mut places = vec![
            (self.provided.directory.given(), PlaceAccess::Read),
            (self.provided.inputs.clone(), PlaceAccess::Read),
            (attempt.output.clone(), PlaceAccess::Write),
        ];
        if self.harness_lies_in_workspace() {
            places.push((self.harness.root.clone(), PlaceAccess::Read));
        }
        for (path, access) in places {
            plan = plan.with_place(path, access).map_err(|fault| told(vec![fault]))?;
        }
        Ok(plan)
    }

    /// Who the runtime is.
    ///
    /// # Errors
    /// As [`Surroundings::plan`], for what does not depend on the attempt.
    pub(crate) fn owner(&self) -> Result<Owner, Vec<String>> {
        let attempt = AttemptPlace {
            number: 1,
            most: 1,
            deadline: Timestamp::from_micros(0),
            output: self.provided.directory.given(),
            feedback: None,
        };
        let told = |faults: Vec<sandbox::PlanFault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let plan = Plan::check(self.draft(&attempt)).map_err(told)?;
        match shows_other_runs(self.agent, self.state) {
            Some(fault) => Err(vec![fault]),
            None => Ok(plan.owner().map_or(Owner::Ours, |(uid, gid)| Owner::Other { uid, gid })),
        }
    }

    fn harness_lies_in_workspace(&self) -> bool {
        let writable = self.agent.walls.fs == FsPolicy::WorkspaceOnly;
        writable
            && self.harness.root.starts_with(&self.provided.workspace)
            && self.harness.root != self.provided.workspace
    }

    fn draft(&self, attempt: &AttemptPlace) -> PlanDraft {
        let target = attempt.target(&self.agent.output.from).display().to_string();
        let schema = self.provided.schema.display().to_string();
        let mut draft = declared(self.agent, self.provided.workspace.clone(), self.state);
        for word in &mut draft.command {
            *word = word.replace("{schema_path}", &schema).replace("{output_file}", &target);
        }
        if let Some(program) = self.program {
            draft.read.extend([program.to_owned(), self.provided.directory.bin()]);
        }
        draft.env = self.environment(attempt, target);
        draft.masks = self.masks();
        draft
    }

    /// Secrets the runtime is given: not what was written out as no secret.
    fn masks(&self) -> Masks {
        let plain = |name: &String| matches!(self.agent.env.get(name), Some(Reference::Plain(_)));
        let secrets = self.provided.secrets.iter().filter(|(name, _)| !plain(name));
        let token = match self.tools {
            Tools::Gateway { lease, .. } => Some(lease.token().token.clone()),
            Tools::None => None,
        };
        Masks::of(secrets.map(|(_, value)| value.clone()).chain(token))
    }

    fn environment(&self, attempt: &AttemptPlace, target: String) -> BTreeMap<String, Secret> {
        let shown = |path: &Path| path.display().to_string();
        let mut own = vec![
            ("HARNESS_RUN_ID", self.run.to_owned()),
            ("HARNESS_AGENT", self.agent.name.to_string()),
            ("HARNESS_ATTEMPT", attempt.number.to_string()),
            ("HARNESS_MAX_ATTEMPTS", attempt.most.to_string()),
            ("HARNESS_DEADLINE", attempt.deadline.to_string()),
            ("HARNESS_OUTPUT_DIR", shown(&attempt.output)),
            ("HARNESS_OUTPUT_FILE", target),
            ("HARNESS_SCHEMA", shown(&self.provided.schema)),
            ("HARNESS_INPUT_DIR", shown(&self.provided.inputs)),
        ];
        own.extend(
            attempt
                .feedback
                .as_deref()
                .map(|path| ("HARNESS_FEEDBACK_FILE", shown(path))),
        );
        let mut variables = self.provided.secrets.clone();
        if let Tools::Gateway { lease, ca } = self.tools {
            let token = lease.token();
            own.push(("PORTREEVE_URL", self.way_to_gateway(token)));
            own.extend(ca.as_deref().map(|path| ("PORTREEVE_CA", shown(path))));
            variables.insert("PORTREEVE_TOKEN".to_owned(), token.token.clone());
        }
        variables.extend(
            own.into_iter()
                .map(|(name, value)| (name.to_owned(), Secret::new(value))),
        );
        variables
    }

    /// Inside, the gateway is behind the gate; without a network of its own, where it really is.
    fn way_to_gateway(&self, token: &IssuedToken) -> String {
        let port = match self.agent.walls.net {
            NetPolicy::Unconfined => token.address.port(),
            NetPolicy::Allowlist | NetPolicy::BlockAll => GATE_PORT,
        };
        format!("{}://{}:{port}{}", token.scheme, token.host, token.path)
    }
}

/// What the declaration alone says of an agent's sandbox.
pub(crate) fn declared(agent: &Agent, workspace: PathBuf, state: &Path) -> PlanDraft {
    let declared = &agent.walls;
    let mut read = declared.read.clone();
    read.extend(own_program(agent, &workspace));
    PlanDraft {
        command: agent.command.clone(),
        fs: declared.fs,
        net: declared.net,
        workspace,
        read,
        env: BTreeMap::new(),
        masks: Masks::default(),
        allow: declared.allow.clone(),
        private: declared.private.clone(),
        unix_sockets: UnixSockets::Denied,
        inotify: Inotify::Denied,
        limits: agent.limits.machine,
        tier: declared.tier,
        uid: None,
        state_dir: Some(state.to_owned()),
        state_rooms: vec![state.join(AGENT_DIRECTORIES)],
    }
}

/// Directories of other runs must not be in an agent's sight.
pub(crate) fn shows_other_runs(agent: &Agent, state: &Path) -> Option<String> {
    if agent.walls.fs == FsPolicy::Unconfined {
        return None;
    }
    let parent = parent_of(state);
    let seen = agent.walls.read.iter().chain(&agent.walls.workspace);
    let shown = seen.into_iter().find(|path| parent.starts_with(path))?;
    Some(format!(
        "`{}` would show the directories of other runs to the runtime; name the directory below it that is needed",
        shown.display()
    ))
}

/// The agent's program, where it is named by a path that nothing else shows.
fn own_program(agent: &Agent, workspace: &Path) -> Option<PathBuf> {
    let path = PathBuf::from(agent.command.first().filter(|word| word.contains('/'))?);
    let shown = path.starts_with("/usr")
        || path.starts_with(workspace)
        || agent.walls.read.iter().any(|read| path.starts_with(read));
    (!shown && path.is_file()).then_some(path)
}

/// The values of an agent's variables.
///
/// # Errors
/// Every reference that leads nowhere; never a value.
pub(crate) fn resolve(agent: &Agent, environment: &HostEnvironment) -> Result<BTreeMap<String, Secret>, Vec<String>> {
    let mut found = BTreeMap::new();
    let mut faults = Vec::new();
    for (name, reference) in &agent.env {
        let value = match reference {
            Reference::Variable(variable) => environment.variable(variable).cloned(),
            Reference::Plain(text) => Some(Secret::new(text.clone())),
            Reference::File(path) => read_document(path)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .map(|text| Secret::new(text.trim_end_matches(['\n', '\r']).to_owned())),
        };
        match value.filter(|value| !value.expose().contains('\0')) {
            Some(value) => drop(found.insert(name.clone(), value)),
            None => faults.push(format!(
                "agents.{}.env.{name}: what it refers to is not there; set the variable or make the file",
                agent.name
            )),
        }
    }
    match faults.is_empty() {
        true => Ok(found),
        false => Err(faults),
    }
}
