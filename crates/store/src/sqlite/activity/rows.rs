//! The rows of the index: written many at a time.

use ledger::Span;
use rusqlite::{CachedStatement, Statement, ToSql, Transaction};

use super::blocks::Blocks;
use super::filter::{RecordType, Status};
use super::read::Facts;
use super::summary::rollup::Rollup;
use super::{StoreFault, integer};

/// Lines that are added by one statement. To start one costs a sixth of a row, and what `OR REPLACE` may have to take
/// back is set aside once for all of them.
pub(super) const GROUP: usize = 16;

const COLUMNS: usize = 14;

/// The statements that add rows: a whole group, or one. What the rows come to is kept at the end.
pub(super) struct Rows<'t> {
    transaction: &'t Transaction<'t>,
    group: CachedStatement<'t>,
    one: CachedStatement<'t>,
    blocks: Blocks,
    rollup: Rollup,
}

impl<'t> Rows<'t> {
    pub(super) fn prepare(transaction: &'t Transaction<'t>) -> Result<Self, StoreFault> {
        let insertion = |rows| {
            let row = format!("({})", ["?"; COLUMNS].join(", "));
            // A place in the log that comes again was written anew: the later line holds.
            transaction.prepare_cached(&format!(
                "INSERT OR REPLACE INTO records
                 (seq, segment, offset, length, ts, type, status, rank, receipt, server, tool, principal, session, run)
                 VALUES {}",
                vec![row; rows].join(", ")
            ))
        };
        Ok(Self {
            transaction,
            group: insertion(GROUP)?,
            one: insertion(1)?,
            blocks: Blocks::default(),
            rollup: Rollup::default(),
        })
    }

    /// Adds what lines tell. One that cannot be read breaks the log's chain, which others check; it has no facts to be found by.
    pub(super) fn add(&mut self, spans: &[Span], lines: &[Vec<u8>]) -> Result<(), StoreFault> {
        let mut told = Vec::with_capacity(GROUP);
        for (span, line) in spans.iter().zip(lines) {
            if let Some(facts) = Facts::read(line) {
                self.blocks.note(&facts)?;
                self.rollup.add(&facts, line);
                told.push((*span, facts));
            }
        }
        if told.len() == GROUP {
            for (row, (span, facts)) in told.iter().enumerate() {
                bind(&mut self.group, row, *span, facts)?;
            }
            self.group.raw_execute()?;
            return Ok(());
        }
        for (span, facts) in &told {
            bind(&mut self.one, 0, *span, facts)?;
            self.one.raw_execute()?;
        }
        Ok(())
    }

    /// Keeps what all of them come to.
    pub(super) fn finish(self) -> Result<(), StoreFault> {
        self.blocks.keep(self.transaction)?;
        self.rollup.keep(self.transaction)
    }
}

/// Hands what a line tells to one row of a statement.
fn bind(statement: &mut Statement<'_>, row: usize, span: Span, facts: &Facts<'_>) -> Result<(), StoreFault> {
    let values: [&dyn ToSql; COLUMNS] = [
        &integer(facts.seq)?,
        &span.position.segment,
        &integer(span.position.offset)?,
        &integer(span.length)?,
        &facts.ts.as_micros(),
        &facts.kind.map(RecordType::code),
        &facts.status.map(Status::code),
        &facts.rank,
        &facts.receipt(),
        &facts.server,
        &facts.tool,
        &facts.principal,
        &facts.session,
        &facts.run,
    ];
    for (index, value) in (row * COLUMNS + 1..).zip(values) {
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}
