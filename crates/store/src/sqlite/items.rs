//! What was discovered of a server beside its tools: prompts, resources and templates, definitions as the raw bytes it sent.

use std::sync::Arc;

use policy::{ItemKind, Presence, StoredItem, StoredServer};
use rusqlite::{Connection, Row, params};
use vocabulary::{Digest, ServerId};

use super::{StoreFault, digest_of};

/// What one server lists.
pub(super) fn load(connection: &Connection, server: &ServerId) -> Result<Vec<StoredItem>, StoreFault> {
    let mut items = connection.prepare_cached(
        "SELECT kind, name, definition, seen, approved, approved_definition, presence FROM items
         WHERE server = ?1 ORDER BY rowid",
    )?;
    let rows = items.query_map([server.as_str()], |row| Ok(read(row)))?;
    let damaged = || StoreFault::Damaged { table: "items" };
    rows.map(|row| row?.ok_or_else(damaged)).collect()
}

/// Keeps it; the server's row was written before.
pub(super) fn save(connection: &Connection, server: &StoredServer) -> Result<(), StoreFault> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO items (server, kind, name, definition, seen, approved, approved_definition, presence)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for item in &server.items {
        insert.execute(params![
            server.id.as_str(),
            item.kind.as_str(),
            &*item.name,
            &*item.definition,
            item.seen.as_bytes().as_slice(),
            item.approved.as_ref().map(|digest| digest.as_bytes().as_slice()),
            item.approved_definition.as_deref(),
            presence(item.presence),
        ])?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> Option<StoredItem> {
    let blob = |index: usize| row.get::<_, Option<Vec<u8>>>(index).ok();
    let digest = |index: usize| -> Option<Option<Digest>> {
        match blob(index)? {
            Some(bytes) => digest_of(&bytes).map(Some),
            None => Some(None),
        }
    };
    Some(StoredItem {
        kind: ItemKind::parse(&row.get::<_, String>(0).ok()?)?,
        name: row.get::<_, String>(1).ok()?.into(),
        definition: Arc::from(blob(2)??),
        seen: digest(3)??,
        approved: digest(4)?,
        approved_definition: blob(5)?.map(Arc::from),
        presence: parse_presence(&row.get::<_, String>(6).ok()?)?,
    })
}

/// How it is written whether the latest discovery had something.
pub(super) fn presence(presence: Presence) -> &'static str {
    match presence {
        Presence::Offered => "offered",
        Presence::Vanished => "vanished",
    }
}

/// What [`presence`] wrote.
pub(super) fn parse_presence(word: &str) -> Option<Presence> {
    match word {
        "offered" => Some(Presence::Offered),
        "vanished" => Some(Presence::Vanished),
        _ => None,
    }
}
