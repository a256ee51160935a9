//! Upstream sessions: opened when first needed, one flight at a time, opened again once when the
//! server has forgotten them, and never shared between client sessions unless the operator says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp::server::{ServerMessage, read_initialized};
use mcp::{Version, compose};
use vocabulary::Digest;

use crate::failure::Failure;
use crate::http::Post;
use crate::server::Server;

/// Whose session it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SessionKey {
    /// The gateway's own, for the inventory.
    Discovery,
    /// Everybody's, where the server keeps no state per user.
    Shared,
    /// That of one client session, by the digest of its id.
    Client(Digest),
}

/// An initialised session.
#[derive(Clone)]
pub(crate) struct Opened(Arc<Facts>);

pub(crate) struct Facts {
    pub(crate) session_id: Option<http::HeaderValue>,
    pub(crate) version: Version,
    pub(crate) instructions: Option<String>,
}

impl std::ops::Deref for Opened {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.0
    }
}

/// The sessions of one server.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionKey, Slot>>);

#[derive(Clone)]
struct Slot {
    opened: Arc<tokio::sync::Mutex<Option<Opened>>>,
    used: Instant,
}

/// Past this many, sessions idle for longest make room.
const MOST_SESSIONS: usize = 10_000;
const IDLE: Duration = Duration::from_secs(30 * 60);

impl Sessions {
    pub(crate) async fn open(&self, key: SessionKey, server: &Server) -> Result<Opened, Failure> {
        let slot = self.slot(key);
        let mut opened = slot.lock().await;
        if let Some(opened) = opened.as_ref() {
            return Ok(opened.clone());
        }
        let fresh = initialise(server).await?;
        *opened = Some(fresh.clone());
        Ok(fresh)
    }

    /// Opens anew unless somebody else has done so since `gone` was handed out.
    pub(crate) async fn reopen(&self, key: SessionKey, gone: &Opened, server: &Server) -> Result<Opened, Failure> {
        let slot = self.slot(key);
        let mut opened = slot.lock().await;
        if let Some(other) = opened.as_ref().filter(|other| !Arc::ptr_eq(&other.0, &gone.0)) {
            return Ok(other.clone());
        }
        *opened = None;
        let fresh = initialise(server).await?;
        *opened = Some(fresh.clone());
        Ok(fresh)
    }

    pub(crate) fn forget(&self, key: &SessionKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn slot(&self, key: SessionKey) -> Arc<tokio::sync::Mutex<Option<Opened>>> {
        let now = Instant::now();
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MOST_SESSIONS && !slots.contains_key(&key) {
            slots.retain(|_, slot| now.duration_since(slot.used) < IDLE);
            if slots.len() >= MOST_SESSIONS
                && let Some(oldest) = slots.iter().min_by_key(|(_, slot)| slot.used).map(|(key, _)| *key)
            {
                slots.remove(&oldest);
            }
        }
        let slot = slots.entry(key).or_insert_with(|| Slot {
            opened: Arc::default(),
            used: now,
        });
        slot.used = now;
        slot.opened.clone()
    }
}

async fn initialise(server: &Server) -> Result<Opened, Failure> {
    tokio::time::timeout(server.caps.timeout, shake_hands(server))
        .await
        .map_err(|_| Failure::TimedOut)?
}

async fn shake_hands(server: &Server) -> Result<Opened, Failure> {
    let credential = server.credential.fetch();
    let id = server.link.next_id();
    let post = Post {
        body: compose::initialize_request(id),
        session: None,
        credential: &credential,
        trace: None,
    };
    let reply = server.link.exchange(post, id).await?;
    let ServerMessage::Result { result, .. } = reply.message else {
        return Err(Failure::Refused("initialize"));
    };
    let initialized = read_initialized(&result)?;
    let version = Version::parse(&initialized.protocol_version).ok_or(Failure::Version)?;
    let instructions = initialized.instructions;
    let opened = Opened(Arc::new(Facts {
        session_id: reply.session_id,
        version,
        instructions,
    }));
    let post = Post {
        body: compose::initialized_notification(),
        session: Some(&opened),
        credential: &credential,
        trace: None,
    };
    server.link.notify(post).await?;
    Ok(opened)
}
