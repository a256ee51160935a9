//! The rows of the index: written many at a time.

use ledger::Span;
use rusqlite::{CachedStatement, Statement, ToSql, Transaction};

use super::filter::{RecordType, Status};
use super::read::Facts;
use super::{StoreFault, integer};

/// Lines that are added by one statement. To start one costs a sixth of a row, and what `OR REPLACE` may have to take
/// back is set aside once for all of them.
pub(super) const GROUP: usize = 16;

const COLUMNS: usize = 14;

/// The statements that add rows: a whole group, or one.
pub(super) struct Rows<'t> {
    group: CachedStatement<'t>,
    one: CachedStatement<'t>,
}

impl<'t> Rows<'t> {
    pub(super) fn prepare(transaction: &'t Transaction<'_>) -> Result<Self, StoreFault> {
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
            group: insertion(GROUP)?,
            one: insertion(1)?,
        })
    }

    /// Adds what lines tell. One that cannot be read breaks the log's chain, which others check; it has no facts to be found by.
    pub(super) fn add(&mut self, spans: &[Span], lines: &[Vec<u8>]) -> Result<(), StoreFault> {
        let lines = spans.iter().zip(lines);
        let mut bound = 0;
        if spans.len() == GROUP {
            for (span, line) in lines.clone() {
                bound += usize::from(bind(&mut self.group, bound, *span, line)?);
            }
        }
        if bound == GROUP {
            self.group.raw_execute()?;
            return Ok(());
        }
        for (span, line) in lines {
            if bind(&mut self.one, 0, *span, line)? {
                self.one.raw_execute()?;
            }
        }
        Ok(())
    }
}

/// Hands what a line tells to one row of a statement; says whether it tells anything.
fn bind(statement: &mut Statement<'_>, row: usize, span: Span, line: &[u8]) -> Result<bool, StoreFault> {
    let Some(facts) = Facts::read(line) else {
        return Ok(false);
    };
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
    Ok(true)
}
