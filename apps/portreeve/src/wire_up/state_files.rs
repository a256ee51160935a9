//! The small files of a state directory: the first admin token, and where the gateway answers.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use gateway::edge::tls::write_whole;
use serde::{Deserialize, Serialize};
use store::{Store, TokenKind, TokenRow};
use vocabulary::{ActorType, Clock, Role, ServerScope};

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

/// The first admin token.
const TOKEN_FILE: &str = "admin.token";
/// What decides who may do what, and what remembers it.
const OURS: [&str; 11] = [
    TOKEN_FILE,
    "ledger.key",
    "approvals.key",
    "state.db",
    "activity.db",
    "ledger",
    "payloads",
    "payload.key",
    "gateway.json",
    "sandbox.tier",
    "sandbox.uids",
];

/// Where the first start leaves its admin token.
#[must_use]
pub fn admin_token_file(state: &Path) -> PathBuf {
    state.join(TOKEN_FILE)
}

/// Makes the state directory; one that others could write is refused, for whoever can write it is the gateway.
pub(crate) fn make_dir(state: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
    made.with_context(|| format!("cannot make the state directory `{}`", state.display()))?;
    let shown = state.display();
    let state = state
        .canonicalize()
        .with_context(|| format!("cannot find the state directory `{shown}`"))?;
    let found = state.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        anyhow::bail!(
            "the state directory `{shown}` belongs to uid {}, who could change it; give it to uid {own}",
            found.uid()
        );
    }
    if found.mode() & 0o022 != 0 {
        anyhow::bail!(
            "the state directory `{shown}` can be written by others; take that from them: `chmod go-w {shown}`"
        );
    }
    for name in OURS {
        let Ok(found) = state.join(name).symlink_metadata() else {
            continue;
        };
        let is_secret = name == TOKEN_FILE || name.ends_with(".key");
        let open = if is_secret { 0o066 } else { 0o022 };
        if found.uid() != own || found.mode() & open != 0 {
            anyhow::bail!(
                "`{name}` in the state directory `{shown}` is another's, or open to others; give it to uid {own} alone: \
                 `chown {own} {shown}/{name}`, `chmod go-rw {shown}/{name}`"
            );
        }
    }
    for above in state.ancestors().skip(1) {
        let mode = above.metadata()?.mode();
        if mode & 0o002 != 0 && mode & 0o1000 == 0 {
            anyhow::bail!(
                "the state directory `{shown}` lies below `{}`, in which everybody can put another in its place; choose another directory",
                above.display()
            );
        }
    }
    Ok(())
}

/// Leaves an admin token behind at the first start; a later start finds one in the store.
pub(super) fn first_admin_token(store: &Store, state: &Path, clock: &Clock) -> anyhow::Result<()> {
    if store
        .tokens()?
        .iter()
        .any(|token| matches!(token.kind, TokenKind::Admin(_)))
    {
        return Ok(());
    }
    let minted = control::mint_admin_token()?;
    let now = clock.now();
    write(&admin_token_file(state), minted.text.expose().as_bytes(), 0o600)?;
    store.insert_token(&TokenRow {
        id: minted.id,
        kind: TokenKind::Admin(Role::Operator),
        hash: minted.digest,
        sub: control::FIRST_ADMIN.to_owned(),
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let state = place.path().join("state");
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        make_dir(&state).unwrap();
        for (name, mode, refused) in [
            ("admin.token", 0o600, false),
            ("admin.token", 0o640, true),
            ("state.db", 0o644, false),
            ("state.db", 0o664, true),
            ("ledger", 0o777, true),
            ("ledger.key", 0o600, false),
            ("ledger.key", 0o644, true),
            ("ledger.key", 0o666, true),
            ("approvals.key", 0o640, true),
            ("payload.key", 0o604, true),
        ] {
            let file = state.join(name);
            fs::write(&file, "").unwrap();
            set(&file, mode);
            assert_eq!(make_dir(&state).is_err(), refused, "{name} {mode:o}");
            fs::remove_file(file).unwrap();
        }
        for (mode, refused) in [
            (0o700, false),
            (0o755, false),
            (0o770, true),
            (0o702, true),
            (0o720, true),
        ] {
            set(&state, mode);
            assert_eq!(make_dir(&state).is_err(), refused, "{mode:o}");
        }
        set(&state, 0o700);
        for (mode, refused) in [(0o777, true), (0o1777, false), (0o755, false)] {
            set(place.path(), mode);
            assert_eq!(make_dir(&state).is_err(), refused, "{mode:o} above");
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&state, Some(1500), None).unwrap();
            let refused = make_dir(&state).unwrap_err().to_string();
            assert!(refused.contains("belongs to uid 1500"), "{refused}");
        }
    }
}
