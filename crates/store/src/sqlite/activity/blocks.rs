//! Which blocks of the log hold a fact. A record is found through them: what is rare is in few blocks, and what is common
//! is in the first that is looked at. A row for each fact of a block costs far less than one for each fact of a record.
//! ADR 0088.

use std::collections::BTreeSet;

use rusqlite::{Connection, Transaction};

use super::filter::{Filter, Order};
use super::read::Facts;
use super::{StoreFault, integer};

/// Records in a block: the first has the places below this number.
pub(super) const BLOCK: u64 = 4_096;

/// What records say that listings ask for, each with its own kind of fact.
const KINDS: [&[u8]; 7] = [b"type", b"status", b"server", b"tool", b"principal", b"session", b"run"];

/// The facts of a batch of records, by block.
#[derive(Default)]
pub(super) struct Blocks(BTreeSet<(i64, i64)>);

impl Blocks {
    /// Notes what a record says.
    pub(super) fn note(&mut self, facts: &Facts<'_>) -> Result<(), StoreFault> {
        let block = integer(facts.seq / BLOCK)?;
        let codes = facts.codes();
        let values = codes
            .iter()
            .map(|code| code.as_ref().map(<[u8; 8]>::as_slice))
            .chain(facts.texts());
        for (kind, value) in KINDS.into_iter().zip(values) {
            self.0.extend(value.map(|value| (fact(kind, value), block)));
        }
        Ok(())
    }

    /// Keeps what was noted.
    pub(super) fn keep(self, transaction: &Transaction<'_>) -> Result<(), StoreFault> {
        let mut statement = transaction.prepare_cached("INSERT OR IGNORE INTO blocks (fact, block) VALUES (?1, ?2)")?;
        for (fact, block) in self.0 {
            statement.execute([fact, block])?;
        }
        Ok(())
    }
}

/// The blocks that hold everything the filter asks for, in its order; `None` where it asks for nothing of the kind.
pub(super) fn holding(connection: &Connection, filter: &Filter) -> Result<Option<Vec<i64>>, StoreFault> {
    let facts: Vec<i64> = KINDS
        .into_iter()
        .zip(filter.values())
        .filter_map(|(kind, value)| value.map(|value| fact(kind, &value)))
        .collect();
    let Some(most) = facts.len().checked_sub(1) else {
        return Ok(None);
    };
    let order = match filter.order {
        Order::NewestFirst => "DESC",
        Order::OldestFirst => "ASC",
    };
    let least = filter.after_seq.map_or(0, |seq| seq / BLOCK);
    let greatest = filter.before_seq.map_or(i64::MAX.unsigned_abs(), |seq| seq / BLOCK);
    let query = format!(
        "SELECT block FROM blocks WHERE fact IN ({}) AND block BETWEEN {least} AND {greatest}
         GROUP BY block HAVING count(*) > {most} ORDER BY block {order}",
        vec!["?"; facts.len()].join(", ")
    );
    let mut statement = connection.prepare_cached(&query)?;
    let rows = statement.query_map(rusqlite::params_from_iter(facts), |row| row.get(0))?;
    Ok(Some(rows.collect::<Result<_, _>>()?))
}

/// What a fact is filed under (FNV-1a). Two that share a number cost a look into a block and nothing else.
fn fact(kind: &[u8], value: &[u8]) -> i64 {
    let bytes = kind.iter().chain(b"=").chain(value);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.cast_signed()
}
