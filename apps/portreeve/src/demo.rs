//! `portreeve demo`: a gateway on loopback TLS, two demo servers and two agents, with no set-up.
//! Takes a short tour of real calls, then leaves everything running.

mod servers;
mod tour;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use control::ports::Tokens;

use crate::config::Config;
use crate::wire_up::{Started, Whereabouts, stop_signal};

const POLICIES: &str = include_str!("demo/policies.cedar");

/// Runs the demo until it is interrupted.
///
/// # Errors
/// When it cannot start, or a step of the tour did not go as it must.
pub async fn run() -> anyhow::Result<()> {
    let home = Home::make()?;
    let (honest, honest_url) = servers::start(servers::harbour).await?;
    let (crooked, crooked_url) = servers::start(servers::smuggler).await?;
    let config = home.write_config(&honest_url, &crooked_url)?;
    let started = Started::up(Config::load(&config).map_err(|faults| anyhow::anyhow!("{faults}"))?).await?;
    started.announce(None)?;
    let agents = Agents {
        navigator: token(&started, "navigator", "crew")?,
        quartermaster: token(&started, "quartermaster", "officers")?,
    };
    introduce(started.whereabouts(), &agents, &config)?;
    tour::take(&started, &agents).await?;
    say("\nEverything keeps running. Press Ctrl-C to stop.")?;
    stop_signal().await;
    started.down().await?;
    drop((honest, crooked));
    Ok(())
}

/// The tokens of the two agents.
struct Agents {
    navigator: String,
    quartermaster: String,
}

/// The demo's directory; removed when the demo ends.
struct Home(PathBuf);

impl Home {
    fn make() -> anyhow::Result<Self> {
        let mark = vocabulary::random_hex(4).context("no randomness can be had")?;
        let dir = std::env::temp_dir().join(format!("portreeve-demo-{mark}"));
        std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        Ok(Self(dir))
    }

    fn write_config(&self, honest: &str, crooked: &str) -> anyhow::Result<PathBuf> {
        let text = include_str!("demo/portreeve.toml")
            .replace("HARBOUR_URL", honest)
            .replace("SMUGGLER_URL", crooked);
        let file = self.0.join("portreeve.toml");
        std::fs::write(self.0.join("policies.cedar"), POLICIES)?;
        std::fs::write(&file, text)?;
        Ok(file)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn token(started: &Started, sub: &str, group: &str) -> anyhow::Result<String> {
    let minted = control::mint_agent_token()?;
    let now = started.now();
    let view = control::ports::TokenView {
        id: minted.id,
        kind: control::ports::TokenKind::Agent,
        sub: sub.to_owned(),
        actor_type: vocabulary::ActorType::Agent,
        client_id: None,
        org_id: None,
        groups: vec![group.to_owned()],
        servers: vocabulary::ServerScope::Every,
        run: None,
        created: now,
        expires: now.plus(std::time::Duration::from_secs(24 * 60 * 60)),
        revoked: None,
    };
    started.tokens().add(&view, minted.digest)?;
    Ok(minted.text.expose().to_owned())
}

fn introduce(whereabouts: &Whereabouts, agents: &Agents, config: &Path) -> anyhow::Result<()> {
    let ca = whereabouts.ca.as_deref().unwrap_or(Path::new("")).display().to_string();
    say(&format!(
        "Portreeve is running.\n\n  endpoint       {mcp}\n  CA to trust    {ca}\n  navigator      {navigator}\n  quartermaster  {quartermaster}\n\nA client entry to paste (start the client with NODE_EXTRA_CA_CERTS={ca}):\n\n{entry}\n\nSee every decision in another terminal:\n\n  portreeve activity list --config {config}\n",
        mcp = whereabouts.mcp,
        navigator = agents.navigator,
        quartermaster = agents.quartermaster,
        entry = client_entry(&whereabouts.mcp, &agents.navigator),
        config = config.display(),
    ))
}

fn client_entry(url: &str, token: &str) -> String {
    let entry = serde_json::json!({
        "mcpServers": {
            "portreeve": { "type": "http", "url": url, "headers": { "Authorization": format!("Bearer {token}") } }
        }
    });
    serde_json::to_string_pretty(&entry).unwrap_or_default()
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}
