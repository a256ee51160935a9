//! The load rig. One run starts everything it compares (a fast upstream, three floors on the
//! gateway's HTTP stack, the shipped gateway) as processes of its own, drives them in turn, checks
//! every answer, and reports the CPU each spent per call as a ratio to the `bare` floor.

mod child;
mod client;
mod cold_start;
mod cpu;
mod door;
mod floor;
mod gateway;
mod generate;
mod report;
mod rounds;
mod sample;
mod upstream;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// The gateway's allocator, for the floors too: what is compared is the work, not the allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares the gateway with three floors on the same HTTP stack.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    plan: Plan,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What to run, and for how long.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// The gateway to measure [default: `portreeve` beside this program]
    #[arg(long)]
    portreeve: Option<PathBuf>,
    /// How many times each target is driven
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Calls with a 1 KB result in a round; with a 100 KB result it is a quarter of them
    #[arg(long, default_value_t = 20_000)]
    calls: u64,
    /// Connections, one call in flight on each
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// The longest a round may take, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Fail, and keep nothing, when a target of the project is missed or a call has become dearer by a tenth
    #[arg(long)]
    check: bool,
    /// Where the figures are kept as JSON
    #[arg(long, default_value = "benches/results/latest.json")]
    results: PathBuf,
}

/// The parts a run starts by itself.
#[derive(Subcommand)]
enum Role {
    /// A fast MCP server
    #[command(hide = true)]
    Upstream,
    /// A proxy that does one kind of work and nothing else
    #[command(hide = true)]
    Floor {
        /// The work
        kind: floor::Kind,
        /// Where it leads
        #[arg(long)]
        upstream: http::Uri,
    },
    /// Carries out one job, read from standard input
    #[command(hide = true)]
    Generate,
}

fn main() -> anyhow::Result<ExitCode> {
    let line = Line::parse();
    match line.role {
        None => report::run(&line.plan),
        Some(Role::Upstream) => upstream::run(),
        Some(Role::Floor { kind, upstream }) => floor::run(kind, upstream),
        Some(Role::Generate) => generate::run(),
    }
}
