//! Walks a list of a server to its last page: capped, with loops detected. What was not read does
//! not exist.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use mcp::Era;
use mcp::compose::{self, ModernMeta, Outgoing, OutgoingMeta};
use mcp::server::{ListPage, ServerMessage, read_page};
use screening::result::{Raw, Received};

use crate::call::exchange::Exchange;
use crate::call::observer::NoObserver;
use crate::failure::Failure;
use crate::http::{Post, plain_headers};
use crate::server::Server;
use crate::session::guest::Guest;
use crate::session::open;
use crate::session::opened::Opened;

const MOST_PAGES: usize = 100;
const MOST_ENTRIES: usize = 10_000;
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// The lists a server has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
    /// `tasks/list`
    Tasks,
}

impl ListKind {
    /// The method that asks for it.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Tasks => "tasks/list",
        }
    }

    /// The member of a result that holds its entries.
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Tasks => "tasks",
        }
    }
}

/// An entry of a list, before anybody judged it.
pub struct RawEntry(pub(crate) Bytes);

impl Received for RawEntry {
    fn into_raw(self) -> Raw {
        Raw::Unread(self.0)
    }
}

/// A whole list.
pub struct Listed {
    /// Its entries, in the server's order.
    pub entries: Vec<RawEntry>,
    /// The shortest time a client may keep it, over all pages.
    pub ttl_ms: u64,
    /// Why there is more than was read, where there is; what was not read does not exist.
    pub cut: Option<Cut>,
}

vocabulary::words! {
    /// Why a list was not read to its end.
    pub enum Cut {
        /// See [`MOST_ENTRIES`].
        Entries = "its list has more than 10,000 entries",
        /// See [`MOST_BYTES`].
        Bytes = "its list is larger than 16 MiB",
        /// See [`MOST_PAGES`].
        Pages = "its list has more than 100 pages",
        /// A page leads to one before.
        Loop = "its list leads back to itself",
    }
}

/// Asks `server` for a whole list, for `guest`.
///
/// # Errors
/// When it cannot be reached, or speaks nonsense.
pub async fn list(server: &Arc<Server>, guest: &Guest, kind: ListKind) -> Result<Listed, Failure> {
    // All pages together get the time of one answer.
    tokio::time::timeout(server.caps.timeout, walk(server, guest, kind))
        .await
        .map_err(|_| Failure::TimedOut)?
}

async fn walk(server: &Arc<Server>, guest: &Guest, kind: ListKind) -> Result<Listed, Failure> {
    let guest = server.admitted(guest);
    let era = server.era_for(guest.era).await?;
    let opened = open::for_request(server, &guest, era).await?;
    let walk = |session| Walk {
        server,
        guest: &guest,
        era,
        session,
    };
    match (walk(opened.as_ref()).run(kind).await, &opened) {
        (Err(Failure::SessionGone), Some(gone)) => {
            let opened = open::reopen(server, &guest, gone).await?;
            walk(Some(&opened)).run(kind).await
        }
        (walked, _) => walked,
    }
}

impl Listed {
    fn cut(self, why: Cut) -> Self {
        Self { cut: Some(why), ..self }
    }
}

struct Walk<'a> {
    server: &'a Arc<Server>,
    guest: &'a Guest,
    era: Era,
    session: Option<&'a Opened>,
}

impl Walk<'_> {
    async fn run(&self, kind: ListKind) -> Result<Listed, Failure> {
        let mut listed = Listed {
            entries: Vec::new(),
            ttl_ms: u64::MAX,
            cut: None,
        };
        let mut bytes = 0;
        let mut cursor = None;
        let mut seen = HashSet::new();
        for _ in 0..MOST_PAGES {
            let page = self.page(kind, cursor.as_deref()).await?;
            listed.ttl_ms = listed.ttl_ms.min(page.ttl_ms.unwrap_or(0));
            for entry in page.entries {
                bytes += entry.len();
                if listed.entries.len() >= MOST_ENTRIES {
                    return Ok(listed.cut(Cut::Entries));
                }
                if bytes > MOST_BYTES {
                    return Ok(listed.cut(Cut::Bytes));
                }
                listed.entries.push(RawEntry(entry));
            }
            match page.next_cursor {
                None => return Ok(listed),
                Some(next) if !seen.insert(next.clone()) => {
                    return Ok(listed.cut(Cut::Loop));
                }
                next => cursor = next,
            }
        }
        Ok(listed.cut(Cut::Pages))
    }

    async fn page(&self, kind: ListKind, cursor: Option<&str>) -> Result<ListPage, Failure> {
        let id = self.server.link.next_id();
        let modern = (self.era == Era::Modern).then_some(ModernMeta {
            capabilities: &self.guest.capabilities.modern,
            log_level: None,
        });
        let cursor = cursor.map(|cursor| ("cursor", Cow::Owned(compose::literal(cursor))));
        let request = Outgoing {
            method: kind.method(),
            members: cursor.into_iter().collect(),
            meta: OutgoingMeta {
                modern,
                ..OutgoingMeta::default()
            },
        };
        let credential = self.server.credential_for(&self.guest.behalf).await?;
        let headers = plain_headers(kind.method());
        let post = match (self.era, self.session) {
            (Era::Legacy, Some(opened)) => Post::legacy(request.write(id), opened, &credential),
            (Era::Legacy, None) | (Era::Modern, _) => {
                Post::modern(request.write(id), &headers, &credential).through(self.session)
            }
        };
        let exchange = Exchange {
            server: self.server,
            id,
            session: self.session,
            behalf: &self.guest.behalf,
            observer: &NoObserver,
        };
        let answered = tokio::time::timeout(self.server.caps.timeout, exchange.run(post));
        match answered.await.map_err(|_| Failure::TimedOut)??.message {
            ServerMessage::Result { result, .. } => Ok(read_page(result.bytes(), kind.member())?),
            ServerMessage::Error { .. } | ServerMessage::Notification(_) | ServerMessage::Request(_) => {
                Err(Failure::Refused(kind.method()))
            }
        }
    }
}
