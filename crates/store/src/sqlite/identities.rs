//! As whom a server was known when each of its definitions was approved.

use policy::{Bound, ItemKind, Pin, ServerIdentity, StoredServer};
use rusqlite::{Connection, Row, params};
use vocabulary::ServerId;

use super::{StoreFault, digest_of};

/// As whom one server was known.
pub(super) fn load(connection: &Connection, server: &ServerId) -> Result<Bound, StoreFault> {
    let mut bound = connection
        .prepare_cached("SELECT kind, name, definition, identity, identity_digest FROM bound WHERE server = ?1")?;
    let rows = bound.query_map([server.as_str()], |row| Ok(read(row)))?;
    let damaged = || StoreFault::Damaged { table: "bound" };
    rows.map(|row| row?.ok_or_else(damaged)).collect()
}

/// Keeps it; the server's row was written before.
pub(super) fn save(connection: &Connection, server: &StoredServer) -> Result<(), StoreFault> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO bound (server, kind, name, definition, identity, identity_digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for ((kind, name, definition), identity) in &server.bound {
        insert.execute(params![
            server.id.as_str(),
            kind.as_str(),
            &**name,
            definition.as_bytes().as_slice(),
            identity.shown(),
            identity.digest().as_bytes().as_slice(),
        ])?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> Option<(Pin, ServerIdentity)> {
    let digest = |index: usize| digest_of(&row.get::<_, Vec<u8>>(index).ok()?);
    let kind = ItemKind::parse(&row.get::<_, String>(0).ok()?)?;
    let name = row.get::<_, String>(1).ok()?.into();
    let identity = ServerIdentity::new(row.get::<_, String>(3).ok()?, digest(4)?);
    Some(((kind, name, digest(2)?), identity))
}
