//! From a declaration to the first attempt: directories, what the runtime is given, the token, the hooks before it.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger::{AttemptClass, RunReason};
use serde_json::json;
use vocabulary::ReceiptId;

use super::agent_run::AgentRun;
use super::attempt::Ready;
use super::attempts::{Outcome, Verdict};
use super::close::Ended;
use super::context::RunError;
use crate::hooks::{self, Prepared};
use crate::ports::{Step, TokenRequest};
use crate::released::Released;
use crate::report::AgentReport;
use crate::run_directory::{AgentDirectory, Owner, put_input, seal_inputs};
use crate::runtime::{Provided, Tools, resolve};
use crate::token_lease::{LeaseFailure, TokenLease};

/// Files by the names under which an agent finds them.
pub type InputFiles = Arc<Vec<(String, Vec<u8>)>>;

/// What an agent is given.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Files of the caller's, by name.
    pub files: InputFiles,
    /// Outputs of earlier agents.
    pub released: Vec<Released>,
    /// Earlier agents that failed and may have.
    pub failed: Vec<AgentReport>,
}

/// A run whose directories are made; nothing was started and nobody was let in.
pub(super) struct Opened<'a> {
    run: AgentRun<'a>,
    provided: Provided,
    /// The records of the outputs it is given.
    inputs: Vec<ReceiptId>,
}

impl<'a> Opened<'a> {
    /// Makes the directories and puts everything into them that the runtime is given.
    pub(super) fn open(run: AgentRun<'a>, given: Given) -> Result<Self, RunError> {
        let (context, agent, disk) = (run.context, run.agent, RunError::disk);
        let secrets = resolve(agent, &context.setting.environment).map_err(RunError::Config)?;
        let directory = AgentDirectory::make(&context.setting.state, &context.run, agent.name.as_str())
            .map_err(disk("making room"))?;
        let inputs = directory.inputs().map_err(disk("making room for inputs"))?;
        fill(&inputs, &given, &context.run).map_err(disk("writing inputs"))?;
        let workspace = match &agent.walls.workspace {
            Some(path) => path.clone(),
            None => directory.workspace().map_err(disk("making a workspace"))?,
        };
        let name = agent.output.schema.path.file_name().unwrap_or_default();
        let schema = directory
            .give(&name.to_string_lossy(), &agent.output.schema.bytes)
            .map_err(disk("writing the schema's copy"))?;
        if let Some(program) = &context.setting.program {
            directory.show_program(program).map_err(disk("naming the self-check"))?;
        }
        Ok(Self {
            run,
            provided: Provided {
                directory,
                workspace,
                inputs,
                schema,
                secrets,
            },
            inputs: given.released.iter().map(Released::receipt).collect(),
        })
    }

    /// Who the runtime will be.
    pub(super) fn owner(&self) -> Result<Owner, RunError> {
        let surroundings = self.run.surroundings(&self.provided, &Tools::None);
        surroundings.owner().map_err(RunError::Config)
    }

    /// Goes on to a verdict. Whatever it is, the token is good for nothing afterwards.
    pub(super) async fn run(self) -> Result<Ended<'a>, RunError> {
        let agent = self.run.agent.name.to_string();
        self.run.tell(Step::Started { agent });
        if self.run.is_stopped() {
            return Ok(self.ended(Outcome::without_attempts(Verdict::failed(RunReason::Stopped)), None));
        }
        let owner = self.owner()?;
        let opening = self.provided.directory.open_to(owner);
        opening.map_err(RunError::disk("opening it to the runtime"))?;
        let tools = match self.reach_tools().await? {
            ControlFlow::Continue(tools) => tools,
            ControlFlow::Break(verdict) => return Ok(self.ended(Outcome::without_attempts(verdict), None)),
        };
        let outcome = match self.prepare(owner, &tools).await {
            Ok(ControlFlow::Continue(ready)) => ready.attempts().await,
            Ok(ControlFlow::Break(verdict)) => Ok(Outcome::without_attempts(verdict)),
            Err(error) => Err(error),
        };
        let unrevoked = self.leave_tools(tools).await;
        Ok(self.ended(outcome?, unrevoked))
    }

    /// Has a token issued, if the agent has tools.
    async fn reach_tools(&self) -> Result<ControlFlow<Verdict, Tools>, RunError> {
        let (context, agent) = (self.run.context, self.run.agent);
        if agent.servers.is_empty() {
            return Ok(ControlFlow::Continue(Tools::None));
        }
        let request = TokenRequest {
            sub: agent.name.to_string(),
            run: context.run.clone(),
            servers: agent.servers.clone(),
            lasts: agent.limits.total,
        };
        let issuer = context.setting.tokens.as_ref();
        let lease = match TokenLease::take(&context.setting.state, issuer, request).await {
            Ok(lease) => lease,
            Err(LeaseFailure::Refused(error)) => {
                let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
                let causes: Vec<String> = causes.map(ToString::to_string).collect();
                return Ok(ControlFlow::Break(Verdict::told(RunReason::Gateway, causes.join(": "))));
            }
            Err(LeaseFailure::Disk(error)) => {
                return Err(RunError::disk("writing down that a token is in use")(error));
            }
        };
        match self.copy_ca(lease.token().ca.as_deref()) {
            Ok(ca) => {
                let lease = Box::new(lease);
                Ok(ControlFlow::Continue(Tools::Gateway { lease, ca }))
            }
            Err(error) => {
                let _ = lease.end(issuer).await;
                Err(error)
            }
        }
    }

    fn copy_ca(&self, path: Option<&Path>) -> Result<Option<PathBuf>, RunError> {
        let Some(path) = path else { return Ok(None) };
        let bytes = std::fs::read(path).map_err(RunError::disk("reading the gateway's CA"))?;
        let copy = self.provided.directory.give("gateway-ca.pem", &bytes);
        copy.map(Some).map_err(RunError::disk("writing the CA's copy"))
    }

    /// Runs the hooks before the runtime and closes the inputs to everybody but it.
    async fn prepare<'s>(
        &'s self,
        owner: Owner,
        tools: &'s Tools,
    ) -> Result<ControlFlow<Verdict, Ready<'s, 'a>>, RunError> {
        let inputs = &self.provided.inputs;
        match hooks::before(&self.run.hook_environment(), inputs).await {
            Ok(Prepared::Ready) => {}
            Ok(Prepared::Skip) => return Ok(ControlFlow::Break(Verdict::Skipped)),
            Err(failure) => {
                let reason = match failure.was_stopped() {
                    true => RunReason::Stopped,
                    false => RunReason::PreHook,
                };
                return Ok(ControlFlow::Break(Verdict::told(reason, failure.to_string())));
            }
        }
        seal_inputs(inputs, owner).map_err(RunError::disk("sealing inputs"))?;
        Ok(ControlFlow::Continue(Ready {
            run: &self.run,
            provided: &self.provided,
            owner,
            tools,
        }))
    }

    /// Revokes the token; what is told if that fails.
    async fn leave_tools(&self, tools: Tools) -> Option<String> {
        let Tools::Gateway { lease, .. } = tools else {
            return None;
        };
        let ended = lease.end(self.run.context.setting.tokens.as_ref()).await;
        let told = |error| format!("the run's token could not be revoked: {error}");
        ended.err().map(told)
    }

    fn ended(self, outcome: Outcome, unrevoked: Option<String>) -> Ended<'a> {
        Ended {
            run: self.run,
            provided: self.provided,
            inputs: self.inputs,
            outcome,
            unrevoked,
        }
    }
}

/// Files of the caller's, copies of validated outputs, and what they are.
fn fill(folder: &Path, given: &Given, run: &str) -> io::Result<()> {
    for (name, bytes) in given.files.iter() {
        put_input(folder, name, bytes)?;
    }
    if given.released.is_empty() && given.failed.is_empty() {
        return Ok(());
    }
    for released in &given.released {
        put_input(folder, &format!("{}.json", released.agent()), released.bytes())?;
    }
    let inputs: Vec<_> = given
        .released
        .iter()
        .map(|released| {
            json!({
                "agent": released.agent().as_str(),
                "file": format!("{}.json", released.agent()),
                "schema_hash": released.schema().to_string(),
                "output_hash": released.hash().to_string(),
                "receipt_id": released.receipt().to_string(),
            })
        })
        .collect();
    let failed: Vec<_> = given
        .failed
        .iter()
        .map(|report| {
            json!({
                "agent": report.agent.as_str(),
                "status": "failed",
                "class": report.class().map(AttemptClass::as_str),
                "receipt_id": report.receipt_id.to_string(),
            })
        })
        .collect();
    let manifest = json!({ "v": 1, "run": run, "inputs": inputs, "failed": failed });
    put_input(folder, "manifest.json", manifest.to_string().as_bytes())
}
