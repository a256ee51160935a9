//! The commands. Each says what it does in its own file; this one knows their names and how they end:
//! 0 well, 1 not well, 2 wrongly called; a log that is not sound is 4.

mod access;
mod activity;
mod admin;
mod approval;
mod check;
mod connect;
mod doctor;
mod harness;
mod incident;
mod keygen;
mod limits;
mod next_steps;
mod offline;
mod output;
mod policy;
mod receipt;
mod serve;
mod server;
mod token;
mod tool;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{Config, Local, find_file};
use crate::reach;

/// A security gateway for MCP: nothing crosses it unidentified, undeclared, unchecked or unrecorded.
#[derive(Parser)]
#[command(name = "portreeve", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// Configuration [default: ./portreeve.toml, then the XDG configuration directory]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway: data plane and control plane
    Serve(serve::Serve),
    /// Run a gateway with two demo servers and a short tour, without any set-up
    Demo,
    /// Carry MCP between standard input and output and the gateway, for clients that only spawn commands
    Connect(connect::Connect),
    /// Check all that start-up checks, report every fault at once, start nothing
    Check(check::Check),
    /// Agent tokens
    #[command(subcommand)]
    Token(token::Token),
    /// People who look, decide and steer: admin tokens with roles
    #[command(subcommand)]
    Admin(admin::Admin),
    /// Calls that wait for a person
    #[command(subcommand)]
    Approval(approval::Approval),
    /// Stop what is dangerous, at once; see what is stopped; let it go on
    #[command(subcommand)]
    Incident(incident::Incident),
    /// Tools of the inventory, with risk, trust and standing
    #[command(subcommand)]
    Tool(tool::Tool),
    /// Configured servers
    #[command(subcommand)]
    Server(server::Server),
    /// Rates and quotas: who has used how much
    #[command(subcommand)]
    Limits(limits::Limits),
    /// Make a key that signs `servers.lock`, and print its public half
    Keygen(keygen::Keygen),
    /// What this machine offers: the strength of the sandbox and what it lacks, TLS, store, clock, runtimes
    Doctor(doctor::Doctor),
    /// Policies: find mistakes, explain decisions
    #[command(subcommand)]
    Policy(policy::Policy),
    /// Run agents and hand on only output that fits their schemas
    #[command(subcommand)]
    Harness(harness::HarnessCommand),
    /// Evidence: verify the log, prove single records, its checkpoints and its key
    #[command(subcommand)]
    Receipt(receipt::Receipt),
    /// The log of everything
    #[command(subcommand)]
    Activity(activity::Activity),
}

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => {
            // Help and version are no mistake; everything else is a usage error.
            let _ = told.print();
            return if told.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    // An error means that a provider is installed already, and it can only be this one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::failed(&anyhow::Error::new(error)),
    };
    match runtime.block_on(cli.run()) {
        Ok(code) => code,
        Err(error) => output::failed(&error),
    }
}

impl Cli {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let config = self.config.as_deref();
        match self.command {
            Command::Serve(serve) => serve.run(load(config)?).await,
            Command::Demo => serve::demo().await,
            Command::Connect(connect) => connect.run(config).await,
            Command::Check(check) => check.run(config),
            Command::Token(token) => token.run(&local(&find_file(config)?)?).await,
            Command::Admin(admin) => admin.run(&local(&find_file(config)?)?).await,
            Command::Approval(approval) => approval.run(&local(&find_file(config)?)?).await,
            Command::Incident(incident) => incident.run(&local(&find_file(config)?)?).await,
            Command::Tool(tool) => tool.run(&local(&find_file(config)?)?).await,
            Command::Server(server) => server.run(config).await,
            Command::Limits(limits) => limits.run(&local(&find_file(config)?)?).await,
            Command::Keygen(keygen) => keygen.run(),
            Command::Doctor(doctor) => doctor.run(config).await,
            Command::Policy(policy) => policy.run(config).await,
            Command::Harness(harness) => harness.run(config).await,
            Command::Receipt(receipt) => receipt.run(config).await,
            Command::Activity(activity) => activity.run(&load_or_usual(config)?).await,
        }
    }
}

fn load(given: Option<&Path>) -> anyhow::Result<Config> {
    Ok(Config::load(&find_file(given)?)?)
}

/// Faults that a command tells that does without what they spoil.
const MOST_TOLD: usize = 3;

/// What is sound of a configuration, for commands that need little of it. What is wrong with the rest is said beside.
fn local(file: &Path) -> anyhow::Result<Local> {
    let (local, faults) = Local::load(file)?;
    for fault in faults.iter().take(MOST_TOLD) {
        output::note(&format!("note: {fault}"));
    }
    if !faults.is_empty() {
        let faults = check::counted(faults.len(), "fault");
        output::note(&format!(
            "note: the configuration has {faults}; `portreeve check` tells all"
        ));
    }
    Ok(local)
}

/// For whoever only reads the state: a harness needs no configuration and leaves its log in the usual state directory.
fn load_or_usual(given: Option<&Path>) -> anyhow::Result<Local> {
    let is_harness = given.is_none() && Path::new("harness.toml").exists() && !Path::new("portreeve.toml").exists();
    let missing = match find_file(given) {
        Ok(file) if !is_harness => return local(&file),
        Ok(_) => None,
        Err(missing) => Some(missing),
    };
    let usual = Config::usual(Path::new("."))?;
    match missing.filter(|_| !usual.state.dir.exists()) {
        Some(missing) => Err(missing.into()),
        None => Ok(Local::from(&usual)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
