//! The gateway under load: its configuration, its token, and its start, each as an operator would
//! do it with the shipped program.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::child::{self, Started};
use crate::client::Place;
use crate::sample::{AGENT, DECLARED_TOOL, SERVER, TOOL};

/// What the one policy looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Principal, server and risk: decided once per caller and tool.
    ContextFree,
    /// An argument too: decided for every call.
    Arguments,
}

/// What happens to results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Output {
    /// What nobody changed: structured output is judged where a tool declares it.
    Defaults,
    /// Nothing at all.
    Off,
    /// Judged, looked through for secrets and what nobody sees, and fenced.
    Everything,
}

impl Output {
    fn configuration(self) -> &'static str {
        match self {
            Self::Defaults => "",
            Self::Off => "[output_validation]\nmode = \"off\"\n",
            Self::Everything => {
                "[output_validation]\nmode = \"strict\"\nmissing_structured_content = \"block\"\n\
                 [output_sanitisation]\nspotlight_untrusted = true\nresponse_action = \"redact\"\nstrip_control_chars = true\n"
            }
        }
    }
}

/// A configuration with a state directory and a token, ready to be started.
pub(crate) struct Prepared {
    program: PathBuf,
    directory: PathBuf,
    token: String,
}

/// A gateway that serves.
pub(crate) struct Running {
    pub(crate) process: Started,
    pub(crate) place: Place,
}

/// Longer than any start; a gateway that takes longer is broken.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// How often to look whether it is ready.
const GLANCE: Duration = Duration::from_millis(1);

impl Prepared {
    /// Writes the configuration into `directory` and has a token made.
    pub(crate) fn new(
        program: &Path,
        directory: &Path,
        upstream: &str,
        (rule, output): (Rule, Output),
    ) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join("bench.cedar"), policy(rule))?;
        std::fs::write(
            directory.join("portreeve.toml"),
            configuration(directory, upstream, output),
        )?;
        let mut prepared = Self {
            program: program.to_owned(),
            directory: directory.to_owned(),
            token: String::new(),
        };
        let config = prepared.path("portreeve.toml")?;
        let arguments = [
            "token", "create", "--sub", AGENT, "--ttl", "1d", "--json", "--config", &config,
        ];
        let made: MadeToken = serde_json::from_str(&child::ask(program, &arguments)?)?;
        prepared.token = made.token;
        Ok(prepared)
    }

    /// Starts the gateway and waits until it says that it answers.
    pub(crate) fn start(&self) -> Result<Running> {
        let (config, ready) = (self.path("portreeve.toml")?, self.path("ready.json")?);
        let _ = std::fs::remove_file(&ready);
        let arguments = ["serve", "--config", &config, "--ready-file", &ready];
        let log = self.directory.join("gateway.log");
        let mut process = child::start(&self.program, &arguments, &log)?;
        let began = Instant::now();
        loop {
            let written = std::fs::read(&ready).unwrap_or_default();
            if let Ok(ready) = serde_json::from_slice::<Ready>(&written) {
                let url = format!("{}/{SERVER}", ready.mcp.trim_end_matches('/'));
                return Ok(Running {
                    process,
                    place: Place {
                        url,
                        token: Some(self.token.clone()),
                    },
                });
            }
            if !process.is_running() || began.elapsed() > START_DEADLINE {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("the gateway did not start: {said}");
            }
            std::thread::sleep(GLANCE);
        }
    }

    fn path(&self, name: &str) -> Result<String> {
        self.directory
            .join(name)
            .into_os_string()
            .into_string()
            .ok()
            .context("a path is not UTF-8")
    }
}

#[derive(Deserialize)]
struct MadeToken {
    token: String,
}

#[derive(Deserialize)]
struct Ready {
    mcp: String,
}

/// Defaults, but for what would stop a benchmark: the rates and the number of calls at once.
fn configuration(directory: &Path, upstream: &str, output: Output) -> String {
    let (directory, output) = (directory.display(), output.configuration());
    format!(
        r#"[listen]
mcp = "127.0.0.1:0"
admin = "127.0.0.1:0"
tls = {{ mode = "off" }}

[state]
dir = "{directory}/state"

[servers.{SERVER}]
url = "{upstream}"
trust = "internal"
[servers.{SERVER}.tools.{TOOL}]
risk = "low"
[servers.{SERVER}.tools.{DECLARED_TOOL}]
risk = "low"

[policy]
files = ["{directory}/bench.cedar"]

[limits]
rate = [{{ per = "principal", calls = 4000000000, window = "1m" }}, {{ per = "tool", calls = 4000000000, window = "1m" }}]
quota = [{{ per = "principal", calls = 4000000000, window = "1d" }}]
concurrency = {{ per_principal = 1024, per_server = 1024 }}

{output}"#
    )
}

fn policy(rule: Rule) -> String {
    let on_arguments = match rule {
        Rule::ContextFree => "",
        Rule::Arguments => r#" && context.args has path && context.args.path like "/srv/agents/files/*""#,
    };
    format!(
        r#"@id("bench-reads")
permit (principal == Agent::"{AGENT}", action == Action::"tools/call", resource in Server::"{SERVER}")
when {{ resource.risk == "low"{on_arguments} }};
"#
    )
}
