//! A town of the size the targets speak of: 500 tools on ten servers, 1,000 policies for teams and
//! single agents, and an agent that is in every team.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use anyhow::{Context, Result};
use policy::{Discovery, Inventory, PolicyFile, PolicySnapshot, Rules, ServerFacts, Shown};
use vocabulary::{ActorType, Authn, Clock, Digest, Principal, Risk, ServerId, ServerScope, Trust};

const SERVERS: usize = 10;
const TOOLS_EACH: usize = 50;
const TEAMS: usize = 20;
const POLICIES: usize = 1_000;

/// What the policies look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Looking {
    /// Who calls what.
    ContextFree,
    /// Arguments and the session too.
    AtArguments,
}

/// The server and the tool that is called.
pub(crate) const CALLED: (&str, &str) = ("server-3", "tool-17");
/// Arguments that the policies allow.
pub(crate) const ARGUMENTS: &[u8] =
    br#"{"path":"/srv/agents/files/report.txt","lines":200,"labels":["north","harbour"],"follow":false}"#;

/// A schema that takes them.
pub(crate) const SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string","maxLength":256},"lines":{"type":"integer","minimum":1},"labels":{"type":"array","items":{"type":"string"},"maxItems":16},"follow":{"type":"boolean"}},"required":["path"]}"#;

/// Inventory and policies, joined.
pub(crate) fn snapshot(looking: Looking) -> Result<PolicySnapshot> {
    let mut facts = Vec::new();
    let mut stored = Vec::new();
    for server in 0..SERVERS {
        let id = ServerId::parse(&format!("server-{server}"))?;
        let risks = (0..TOOLS_EACH)
            .map(|tool| (format!("tool-{tool}"), Some(Risk::Low)))
            .collect::<BTreeMap<_, _>>();
        let own = ServerFacts {
            id: id.clone(),
            trust: Trust::Internal,
            identity: policy::ServerIdentity::new("https://bench.example/", Digest::of(b"bench")),
            tier: policy::SandboxTier::default(),
            tools: risks,
        };
        let definitions = (0..TOOLS_EACH)
            .map(|tool| definition(tool).into_bytes().into())
            .collect();
        let seen = Discovery {
            server: id,
            instructions: None,
            shown: vec![Shown::to_all(definitions)],
            told: Vec::new(),
            cut: None,
            doubtful: Default::default(),
        };
        stored.push(policy::merge(None, seen, &own, Clock::system().now()).stored);
        facts.push(own);
    }
    let file = PolicyFile {
        name: "town.cedar".to_owned(),
        text: policies(looking),
    };
    let rules = Rules::load(&[file]).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    Ok(PolicySnapshot::build(
        Inventory::assemble(&facts, &stored, &|_, _| None),
        Arc::new(rules),
        1,
    ))
}

/// An agent of every team.
pub(crate) fn agent(name: &str) -> Arc<Principal> {
    let groups: BTreeSet<String> = (0..TEAMS).map(|team| format!("team-{team}")).collect();
    Arc::new(Principal {
        sub: name.to_owned(),
        actor_type: ActorType::Agent,
        client_id: Some("client".to_owned()),
        org_id: None,
        issuer: "portreeve".to_owned(),
        authn: Authn::Token,
        act: Vec::new(),
        run: None,
        groups,
        claims: BTreeMap::new(),
        servers: ServerScope::Every,
    })
}

/// The server that is called, by its id.
pub(crate) fn called_server() -> Result<ServerId> {
    ServerId::parse(CALLED.0).context("a server's name")
}

fn definition(tool: usize) -> String {
    format!(r#"{{"name":"tool-{tool}","description":"Reads the file that `path` names.","inputSchema":{SCHEMA}}}"#)
}

/// One permit per tool for a team, ten prohibitions for everybody, the rest permits of single
/// agents on whole servers.
fn policies(looking: Looking) -> String {
    let on_arguments = match looking {
        Looking::ContextFree => "",
        Looking::AtArguments => r#" && context.args has path && context.args.path like "/srv/agents/files/*""#,
    };
    let mut text = String::new();
    let mut written = 0;
    for tool in 0..SERVERS * TOOLS_EACH {
        let (server, name, team) = (tool / TOOLS_EACH, tool % TOOLS_EACH, tool % TEAMS);
        let scope = format!(
            r#"principal in Group::"team-{team}", action == Action::"tools/call", resource == Tool::"server-{server}/tool-{name}""#
        );
        let _ = writeln!(
            text,
            r#"@id("tool-{tool:03}") permit ({scope}) when {{ resource.risk == "low"{on_arguments} }};"#
        );
        written += 1;
    }
    for number in 0..10 {
        let condition = match (looking, number % 5) {
            (Looking::AtArguments, 0) => r#"resource.risk != "low" && context.session.labels.contains("untrusted")"#,
            (Looking::AtArguments, 1) => r#"context.args has path && context.args.path like "*.env""#,
            _ => r#"resource.trust == "unknown" || resource.risk == "critical""#,
        };
        let scope = r#"principal, action == Action::"tools/call", resource"#;
        let _ = writeln!(
            text,
            r#"@id("forbid-{number}") forbid ({scope}) when {{ {condition} }};"#
        );
        written += 1;
    }
    for number in written..POLICIES {
        let server = number % SERVERS;
        let scope = format!(
            r#"principal == Agent::"agent-{number}", action == Action::"tools/call", resource in Server::"server-{server}""#
        );
        let _ = writeln!(
            text,
            r#"@id("agent-{number}") permit ({scope}) when {{ resource.risk == "low"{on_arguments} }};"#
        );
    }
    text
}
