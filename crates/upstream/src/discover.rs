//! Reads a server's inventory: `initialize`, then `tools/list` to the last page, capped, with
//! loops detected. What was not read does not exist.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use mcp::compose;
use mcp::server::{ServerMessage, read_tools_page};
use policy::Discovery;

use crate::failure::Failure;
use crate::http::Post;
use crate::server::Server;
use crate::session::{Opened, SessionKey};

const MOST_PAGES: usize = 100;
const MOST_ENTRIES: usize = 10_000;
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Asks `server` for everything it offers.
///
/// # Errors
/// When it cannot be reached, speaks nonsense, or its list does not end.
pub async fn discover(server: &Server) -> Result<Discovery, Failure> {
    let opened = server.session(SessionKey::Discovery).await?;
    let (opened, definitions) = match walk(server, &opened).await {
        Err(Failure::SessionGone) => {
            let opened = server.reopen(SessionKey::Discovery, &opened).await?;
            let definitions = walk(server, &opened).await?;
            (opened, definitions)
        }
        walked => (opened, walked?),
    };
    let definitions = definitions.into_iter().map(|raw| Arc::from(raw.as_ref())).collect();
    Ok(Discovery {
        server: server.id.clone(),
        instructions: opened.instructions.clone(),
        definitions,
    })
}

async fn walk(server: &Server, opened: &Opened) -> Result<Vec<Bytes>, Failure> {
    let mut definitions = Vec::new();
    let mut bytes = 0;
    let mut cursor = None;
    let mut seen = HashSet::new();
    for _ in 0..MOST_PAGES {
        let page = page(server, opened, cursor.as_deref()).await?;
        bytes += page.definitions.iter().map(Bytes::len).sum::<usize>();
        definitions.extend(page.definitions);
        if definitions.len() > MOST_ENTRIES || bytes > MOST_BYTES {
            return Err(Failure::EndlessList);
        }
        match page.next_cursor {
            None => return Ok(definitions),
            Some(next) if !seen.insert(next.clone()) => return Err(Failure::EndlessList),
            next => cursor = next,
        }
    }
    Err(Failure::EndlessList)
}

async fn page(server: &Server, opened: &Opened, cursor: Option<&str>) -> Result<mcp::server::ToolsPage, Failure> {
    let credential = server.credential.fetch();
    let id = server.link.next_id();
    let body = compose::list_request(id, cursor);
    let post = Post {
        body,
        session: Some(opened),
        credential: &credential,
        trace: None,
    };
    let reply = tokio::time::timeout(server.caps.timeout, server.link.exchange(post, id));
    match reply.await.map_err(|_| Failure::TimedOut)??.message {
        ServerMessage::Result { result, .. } => Ok(read_tools_page(&result)?),
        ServerMessage::Error { .. } | ServerMessage::Other => Err(Failure::Refused("tools/list")),
    }
}
