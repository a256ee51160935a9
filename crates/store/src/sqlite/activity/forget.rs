//! What the log has removed, the index forgets: rows, blocks, and counts of times that nothing is left of.

use ledger::{LedgerReader, Position};
use rusqlite::{OptionalExtension as _, Transaction};

use super::blocks::BLOCK;
use super::read::Facts;
use super::{StoreFault, integer};

/// Rows that are taken out at once: whoever waits for the index does not wait for long.
const MOST: i64 = 16_384;

/// Takes out the oldest rows of records that are gone, some at a time.
pub(super) fn what_is_gone(transaction: &Transaction<'_>, reader: &LedgerReader) -> Result<(), StoreFault> {
    let oldest = transaction
        .prepare_cached("SELECT segment FROM records ORDER BY seq LIMIT 1")?
        .query_row([], |row| row.get::<_, u32>(0))
        .optional()?;
    let first = reader.segments().map_err(StoreFault::Ledger)?.first().copied();
    if oldest.zip(first).is_none_or(|(oldest, first)| oldest >= first) {
        return Ok(());
    }
    let mut lines = reader.lines_from(Position::START).map_err(StoreFault::Ledger)?;
    let mut line = Vec::new();
    lines.read_into(&mut line).map_err(StoreFault::Ledger)?;
    let Some(facts) = Facts::read(&line) else {
        return Ok(());
    };
    let seq = integer(facts.seq)?;
    let taken = transaction.execute(
        "DELETE FROM records WHERE seq IN (SELECT seq FROM records WHERE seq < ?1 ORDER BY seq LIMIT ?2)",
        [seq, MOST],
    )?;
    if i64::try_from(taken).unwrap_or(i64::MAX) < MOST {
        transaction.execute("DELETE FROM blocks WHERE block < ?1", [integer(facts.seq / BLOCK)?])?;
        transaction.execute("DELETE FROM rollup WHERE start + length <= ?1", [facts.ts.as_micros()])?;
    }
    Ok(())
}
