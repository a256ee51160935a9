//! Counts of every minute and every hour, kept beside the index: a summary of a day need not look at a day's records.
//! ADR 0088.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Transaction, params};

use super::latency::{Latency, rounded};
use super::measured::{Group, Measured};
use super::{HOUR, MINUTE};
use crate::sqlite::StoreFault;
use crate::sqlite::activity::integer;
use crate::sqlite::activity::read::Facts;

/// What a batch of lines adds.
#[derive(Default)]
pub(in crate::sqlite::activity) struct Rollup(BTreeMap<(i64, Group), Counted>);

#[derive(Default)]
struct Counted {
    calls: u64,
    latency: Latency,
}

impl Rollup {
    /// Counts a line, if it is the final record of a request.
    pub(in crate::sqlite::activity) fn add(&mut self, facts: &Facts<'_>, line: &[u8]) {
        let Some(measured) = Measured::read(facts, line) else {
            return;
        };
        let start = measured.micros.div_euclid(MINUTE) * MINUTE;
        let counted = self.0.entry((start, measured.group)).or_default();
        counted.calls += measured.calls;
        if let Some(micros) = measured.duration {
            counted.latency.add(rounded(micros), 1);
        }
    }

    /// Adds what was counted to what is kept.
    pub(in crate::sqlite::activity) fn keep(self, transaction: &Transaction<'_>) -> Result<(), StoreFault> {
        let mut hours: BTreeMap<(i64, Group), Counted> = BTreeMap::new();
        for ((start, group), counted) in &self.0 {
            let hour = hours.entry((start.div_euclid(HOUR) * HOUR, group.clone())).or_default();
            hour.calls += counted.calls;
            hour.latency.merge(&counted.latency);
        }
        for (length, counts) in [(MINUTE, self.0), (HOUR, hours)] {
            for ((start, group), counted) in counts {
                keep_one(transaction, length, start, &group, counted)?;
            }
        }
        Ok(())
    }
}

fn keep_one(
    transaction: &Transaction<'_>,
    length: i64,
    start: i64,
    group: &Group,
    mut counted: Counted,
) -> Result<(), StoreFault> {
    let names = params![
        length,
        start,
        group.principal,
        group.server,
        group.tool,
        group.method,
        group.reason,
        group.status
    ];
    let before = transaction
        .prepare_cached(
            "SELECT calls, latency FROM rollup WHERE length = ?1 AND start = ?2 AND principal = ?3 AND server = ?4
             AND tool = ?5 AND method = ?6 AND reason = ?7 AND status = ?8",
        )?
        .query_row(names, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    if let Some((calls, latency)) = before {
        counted.calls += calls.unsigned_abs();
        counted.latency.merge(&Latency::from_bytes(&latency).ok_or(DAMAGED)?);
    }
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO rollup (length, start, principal, server, tool, method, reason, status, calls, latency)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            length,
            start,
            group.principal,
            group.server,
            group.tool,
            group.method,
            group.reason,
            group.status,
            integer(counted.calls)?,
            counted.latency.to_bytes()
        ])?;
    Ok(())
}

pub(super) const DAMAGED: StoreFault = StoreFault::Damaged { table: "rollup" };
