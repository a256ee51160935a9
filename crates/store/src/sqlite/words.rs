//! What operators said of single things of a server, with who and when.

use policy::{ItemKind, Said, StoredServer, Word, Words};
use rusqlite::{Connection, Row, params};
use vocabulary::{Risk, ServerId};

use super::{StoreFault, digest_of, time_of};

/// What was said of the things of one server.
pub(super) fn load(connection: &Connection, server: &ServerId) -> Result<Words, StoreFault> {
    let mut words = connection.prepare_cached(
        "SELECT kind, name, disabled_by, disabled_at, risk, risk_by, risk_at, settled FROM words WHERE server = ?1",
    )?;
    let rows = words.query_map([server.as_str()], |row| Ok(read(row)))?;
    let damaged = || StoreFault::Damaged { table: "words" };
    rows.map(|row| row?.ok_or_else(damaged)).collect()
}

/// Keeps what was said; the server's row was written before.
pub(super) fn save(connection: &Connection, server: &StoredServer) -> Result<(), StoreFault> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO words (server, kind, name, disabled_by, disabled_at, risk, risk_by, risk_at, settled)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for ((kind, name), word) in &server.words {
        let (disabled, risk) = (word.disabled.as_ref(), word.risk.as_ref());
        insert.execute(params![
            server.id.as_str(),
            kind.as_str(),
            &**name,
            disabled.map(|said| &said.by),
            disabled.map(|said| said.at.as_micros()),
            risk.map(|(risk, _)| risk.as_str()),
            risk.map(|(_, said)| &said.by),
            risk.map(|(_, said)| said.at.as_micros()),
            word.settled
                .iter()
                .flat_map(|digest| *digest.as_bytes())
                .collect::<Vec<u8>>(),
        ])?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> Option<((ItemKind, std::sync::Arc<str>), Word)> {
    let said = |by: usize, at: usize| -> Option<Option<Said>> {
        let by: Option<String> = row.get(by).ok()?;
        let at: Option<i64> = row.get(at).ok()?;
        match (by, at) {
            (Some(by), Some(at)) => Some(Some(Said { by, at: time_of(at) })),
            (None, None) => Some(None),
            (Some(_), None) | (None, Some(_)) => None,
        }
    };
    let kind = ItemKind::parse(&row.get::<_, String>(0).ok()?)?;
    let name = row.get::<_, String>(1).ok()?.into();
    let risk = match (row.get::<_, Option<String>>(4).ok()?, said(5, 6)?) {
        (Some(word), Some(said)) => Some((Risk::parse(&word)?, said)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return None,
    };
    let disabled = said(2, 3)?;
    let settled = row.get::<_, Vec<u8>>(7).ok()?;
    let settled = settled.chunks(32).map(digest_of).collect::<Option<_>>()?;
    Some((
        (kind, name),
        Word {
            disabled,
            risk,
            settled,
        },
    ))
}
