//! The small files of a state directory: the first admin token, and where the gateway answers.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use gateway::edge::tls::write_whole;
use serde::{Deserialize, Serialize};
use store::{Store, TokenKind, TokenRow};
use vocabulary::{ActorType, Clock, ServerScope};

/// Where a gateway answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The `/mcp` route.
    pub mcp: String,
    /// The control plane.
    pub admin: String,
    /// The CA to trust; none with the operator's own certificate or without TLS.
    pub ca: Option<PathBuf>,
}

/// An admin token of the first start lasts this long.
const TEN_YEARS: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// Where the first start leaves its admin token.
#[must_use]
pub fn admin_token_file(state: &Path) -> PathBuf {
    state.join("admin.token")
}

pub(super) fn make_dir(state: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
    made.with_context(|| format!("cannot make the state directory `{}`", state.display()))
}

/// Leaves an admin token behind at the first start; a later start finds one in the store.
pub(super) fn first_admin_token(store: &Store, state: &Path, clock: &Clock) -> anyhow::Result<()> {
    if store.tokens()?.iter().any(|token| token.kind == TokenKind::Admin) {
        return Ok(());
    }
    let minted = control::mint_admin_token()?;
    let now = clock.now();
    write(&admin_token_file(state), minted.text.expose().as_bytes(), 0o600)?;
    store.insert_token(&TokenRow {
        id: minted.id,
        kind: TokenKind::Admin,
        hash: minted.digest,
        sub: "first-start".to_owned(),
        actor_type: ActorType::System,
        client_id: None,
        org_id: None,
        groups: Default::default(),
        servers: ServerScope::Every,
        run: None,
        created: now,
        expires: now.plus(TEN_YEARS),
        revoked: None,
    })?;
    Ok(())
}

/// Tells the commands of this machine where the gateway answers.
pub(super) fn write_whereabouts(state: PathBuf, whereabouts: &Whereabouts) -> anyhow::Result<()> {
    let mut json = serde_json::to_value(whereabouts)?;
    if let Some(object) = json.as_object_mut() {
        object.insert("pid".to_owned(), std::process::id().into());
    }
    write(&state.join("gateway.json"), json.to_string().as_bytes(), 0o600)
}

pub(super) fn forget_whereabouts(state: PathBuf) {
    let _ = fs::remove_file(state.join("gateway.json"));
}

pub(super) fn write_ready_file(file: &Path, whereabouts: &Whereabouts) -> anyhow::Result<()> {
    write(file, serde_json::to_string(whereabouts)?.as_bytes(), 0o644)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    write_whole(path, bytes, mode).with_context(|| format!("cannot write `{}`", path.display()))
}
