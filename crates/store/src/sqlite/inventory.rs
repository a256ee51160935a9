//! What was discovered of each server, definitions as the raw bytes the server sent.

use std::sync::Arc;

use policy::{InventoryStore, ItemKind, ServerIdentity, StoreError, StoredInstructions, StoredServer, StoredTool};
use rusqlite::{Connection, Row, params};
use vocabulary::{Audience, CapabilitySet, Digest, Era, ServerId, Timestamp, ToolName};

use super::{Store, StoreFault, digest_of, identities, items, time_of, words};

impl InventoryStore for Store {
    fn load(&self) -> Result<Vec<StoredServer>, StoreError> {
        load(&self.connection()).map_err(|fault| StoreError(Box::new(fault)))
    }

    fn save(&self, server: &StoredServer) -> Result<(), StoreError> {
        save(&mut self.connection(), server).map_err(|fault| StoreError(Box::new(fault)))
    }
}

fn load(connection: &Connection) -> Result<Vec<StoredServer>, StoreFault> {
    let mut servers = connection.prepare(
        "SELECT id, discovered, instructions, instructions_approved, eras, forgot_pins, instructions_approved_text,
                identity, identity_digest, listed
         FROM servers ORDER BY id",
    )?;
    let mut tools = connection.prepare(
        "SELECT name, definition, seen, approved, presence, era, needs, approved_definition
         FROM tools WHERE server = ?1 ORDER BY rowid",
    )?;
    let rows = servers.query_map([], |row| Ok(read_server(row)))?;
    rows.map(|row| {
        let mut server = row?.ok_or(StoreFault::Damaged { table: "servers" })?;
        let rows = tools.query_map([server.id.as_str()], |row| Ok(read_tool(row)))?;
        server.tools = rows
            .map(|row| row?.ok_or(StoreFault::Damaged { table: "tools" }))
            .collect::<Result<_, StoreFault>>()?;
        server.items = items::load(connection, &server.id)?;
        server.words = words::load(connection, &server.id)?;
        server.bound = identities::load(connection, &server.id)?;
        Ok(server)
    })
    .collect()
}

fn save(connection: &mut Connection, server: &StoredServer) -> Result<(), StoreFault> {
    let transaction = connection.transaction()?;
    let id = server.id.as_str();
    transaction.execute("DELETE FROM servers WHERE id = ?1", [id])?;
    transaction.execute(
        "INSERT INTO servers (id, discovered, instructions, instructions_approved, eras, forgot_pins, instructions_approved_text,
                              identity, identity_digest, listed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            id,
            server.discovered.map(Timestamp::as_micros),
            server.instructions.seen,
            server.instructions.approved.as_ref().map(raw),
            server.eras.iter().map(|era| era.as_str()).collect::<Vec<_>>().join(" "),
            server.forgot_pins,
            server.instructions.approved_text,
            server.identity.as_ref().map(ServerIdentity::shown),
            server.identity.as_ref().map(|identity| identity.digest().as_bytes().to_vec()),
            server.listed.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(" "),
        ],
    )?;
    let mut insert = transaction.prepare(
        "INSERT INTO tools (server, name, definition, seen, approved, presence, era, needs, approved_definition)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for tool in &server.tools {
        let presence = items::presence(tool.presence);
        let (name, definition) = (tool.name.as_str(), &*tool.definition);
        insert.execute(params![
            id,
            name,
            definition,
            raw(&tool.seen),
            tool.approved.as_ref().map(raw),
            presence,
            tool.audience.era.map(Era::as_str),
            tool.audience.needs.as_number(),
            tool.approved_definition.as_deref(),
        ])?;
    }
    drop(insert);
    items::save(&transaction, server)?;
    words::save(&transaction, server)?;
    identities::save(&transaction, server)?;
    transaction.commit()?;
    Ok(())
}

fn raw(digest: &Digest) -> &[u8] {
    digest.as_bytes().as_slice()
}

fn read_server(row: &Row<'_>) -> Option<StoredServer> {
    Some(StoredServer {
        id: ServerId::parse(&row.get::<_, String>(0).ok()?).ok()?,
        identity: match (row.get::<_, Option<String>>(7).ok()?, read_digest(row, 8)?) {
            (Some(shown), Some(digest)) => Some(ServerIdentity::new(shown, digest)),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return None,
        },
        bound: Default::default(),
        discovered: row.get::<_, Option<i64>>(1).ok()?.map(time_of),
        eras: row
            .get::<_, String>(4)
            .ok()?
            .split_whitespace()
            .map(Era::parse)
            .collect::<Option<_>>()?,
        forgot_pins: row.get(5).ok()?,
        instructions: StoredInstructions {
            seen: row.get(2).ok()?,
            approved: read_digest(row, 3)?,
            approved_text: row.get(6).ok()?,
        },
        tools: Vec::new(),
        items: Vec::new(),
        listed: row
            .get::<_, String>(9)
            .ok()?
            .split_whitespace()
            .map(ItemKind::parse)
            .collect::<Option<_>>()?,
        words: Default::default(),
    })
}

fn read_tool(row: &Row<'_>) -> Option<StoredTool> {
    let presence = items::parse_presence(&row.get::<_, String>(4).ok()?)?;
    Some(StoredTool {
        name: ToolName::parse(&row.get::<_, String>(0).ok()?).ok()?,
        definition: Arc::from(row.get::<_, Vec<u8>>(1).ok()?),
        seen: read_digest(row, 2)??,
        approved: read_digest(row, 3)?,
        approved_definition: row.get::<_, Option<Vec<u8>>>(7).ok()?.map(Arc::from),
        presence,
        audience: Audience {
            era: match row.get::<_, Option<String>>(5).ok()? {
                Some(word) => Some(Era::parse(&word)?),
                None => None,
            },
            needs: CapabilitySet::from_number(row.get(6).ok()?)?,
        },
    })
}

/// The digest in a column that may be null; `None` where it holds something else.
fn read_digest(row: &Row<'_>, index: usize) -> Option<Option<Digest>> {
    match row.get::<_, Option<Vec<u8>>>(index).ok()? {
        Some(bytes) => digest_of(&bytes).map(Some),
        None => Some(None),
    }
}
