//! An index over the ledger's segments. It is filled from them and never asked for a record itself: lines are read
//! from the segments, byte for byte. Deleted, damaged or grown stale, it is built anew.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use ledger::{LedgerReader, Position, Span};
use rusqlite::types::Value;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Row, Transaction, TransactionBehavior, params, params_from_iter,
};
use vocabulary::{Digest, ReceiptId};

use super::{StoreFault, open_file};

mod blocks;
mod forget;
pub(crate) mod filter;
mod read;
mod rows;
pub(crate) mod summary;
mod times;
mod walk;

use filter::{Filter, Order};
use read::{Facts, receipt_number};
use rows::{GROUP, Rows};

/// Lines added to the index in one transaction.
const BATCH: usize = 4096;

/// The index of one state directory (`activity.db`). Calls block.
#[derive(Debug)]
pub struct Activity {
    connection: Mutex<Connection>,
    reader: LedgerReader,
    /// The index could not take in what the log has.
    behind: AtomicBool,
}

/// A record as it stands in the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its place in the log.
    pub seq: u64,
    /// The canonical JSON, without newline.
    pub bytes: Vec<u8>,
}

/// What names one record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RecordKey {
    /// A request's receipt: its final record, or its intent while there is none.
    Receipt(ReceiptId),
    /// A place in the log.
    Seq(u64),
}

impl RecordKey {
    /// Reads a receipt id or a sequence number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        ReceiptId::parse(text)
            .map(Self::Receipt)
            .or_else(|| text.parse().ok().map(Self::Seq))
    }
}

impl Activity {
    /// Opens the index of a state directory. A file that is no database is replaced.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn open(state: &Path) -> Result<Self, StoreFault> {
        let path = state.join("activity.db");
        let connection = match open_file(&path, MIGRATIONS) {
            Ok(connection) => connection,
            Err(fault) if is_spoiled(&fault) => {
                discard(&path).map_err(StoreFault::File)?;
                open_file(&path, MIGRATIONS)?
            }
            Err(fault) => return Err(fault),
        };
        Ok(Self {
            connection: Mutex::new(connection),
            reader: LedgerReader::of_state(state),
            behind: AtomicBool::new(false),
        })
    }

    /// Takes in what the ledger has written since the last time; says how many records that were.
    ///
    /// # Errors
    /// When the ledger cannot be read or the index cannot be written.
    pub fn catch_up(&self) -> Result<u64, StoreFault> {
        let mut connection = self.connection();
        let mut added = 0;
        loop {
            let batch = add_batch(&mut connection, &self.reader)?;
            added += batch as u64;
            if batch < BATCH {
                return Ok(added);
            }
        }
    }

    /// Takes in one batch of what the ledger has written: for those who follow the log without being in a hurry.
    ///
    /// # Errors
    /// When the ledger cannot be read or the index cannot be written.
    pub fn advance(&self) -> Result<usize, StoreFault> {
        add_batch(&mut self.connection(), &self.reader)
    }

    /// Forgets everything and takes the whole log in again; says how many records it holds then. Listings go on meanwhile.
    ///
    /// # Errors
    /// When the ledger cannot be read or the index cannot be written.
    pub fn reindex(&self) -> Result<u64, StoreFault> {
        {
            let mut connection = self.connection();
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute_batch(SHAPE)?;
            transaction.commit()?;
        }
        // One batch at a time: whoever waits for the index comes in between, and takes in some of it, perhaps all.
        while self.advance()? == BATCH {}
        let count = "SELECT count(*) FROM records";
        let records: i64 = self.connection().query_row(count, [], |row| row.get(0))?;
        Ok(u64::try_from(records).unwrap_or_default())
    }

    /// On a full disk the index cannot grow; what it holds can still be read.
    fn catch_up_if_possible(&self) {
        let caught_up = self.catch_up();
        self.behind.store(caught_up.is_err(), Ordering::Release);
        if let Err(error) = caught_up {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the log's index cannot catch up"
            );
        }
    }

    /// Whether the last listing missed what the log holds: the index could not be written.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// The records that pass the filter, after catching up.
    ///
    /// # Errors
    /// When the index or the ledger cannot be read.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Line>, StoreFault> {
        self.catch_up_if_possible();
        let places = places(&self.connection(), filter)?;
        self.read(places)
    }

    /// One record, after catching up.
    ///
    /// # Errors
    /// When the index or the ledger cannot be read.
    pub fn show(&self, key: RecordKey) -> Result<Option<Line>, StoreFault> {
        self.catch_up_if_possible();
        match key {
            RecordKey::Receipt(id) => self.show_receipt(&id.to_string()),
            RecordKey::Seq(seq) => self.show_place(seq),
        }
    }

    fn show_place(&self, seq: u64) -> Result<Option<Line>, StoreFault> {
        let Ok(seq) = i64::try_from(seq) else {
            return Ok(None);
        };
        let query = "SELECT seq, segment, offset, length FROM records WHERE seq = ?1";
        let place = self.connection().query_row(query, [seq], read_place).optional()?;
        Ok(self.read(place)?.pop())
    }

    /// Another receipt may be filed under the same number, so that the lines are asked whose they are.
    fn show_receipt(&self, id: &str) -> Result<Option<Line>, StoreFault> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT seq, segment, offset, length FROM records WHERE receipt = ?1 ORDER BY rank DESC, seq DESC",
        )?;
        let mut places = statement.query_map([receipt_number(id.as_bytes())], read_place)?;
        while let Some(place) = places.next().transpose()? {
            let line = self.read([place])?.pop();
            if let Some(line) = line
                && Facts::read(&line.bytes).is_some_and(|facts| facts.is_of(id))
            {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    fn read(&self, places: impl IntoIterator<Item = (u64, Span)>) -> Result<Vec<Line>, StoreFault> {
        let (seqs, spans): (Vec<u64>, Vec<Span>) = places.into_iter().unzip();
        let lines = self.reader.read_lines(spans).map_err(StoreFault::Ledger)?;
        Ok(seqs
            .into_iter()
            .zip(lines)
            .filter_map(|(seq, bytes)| bytes.map(|bytes| Line { seq, bytes }))
            .collect())
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        vocabulary::lock(&self.connection)
    }
}

/// Where the records lie that pass the filter.
fn places(connection: &Connection, filter: &Filter) -> Result<Vec<(u64, Span)>, StoreFault> {
    let (condition, values) = filter.condition(connection)?;
    let order = match filter.order {
        Order::NewestFirst => "DESC",
        Order::OldestFirst => "ASC",
    };
    let query = format!(
        "SELECT seq, segment, offset, length FROM records {condition} AND seq >= ? AND seq < ? ORDER BY seq {order} LIMIT ?"
    );
    let mut statement = connection.prepare_cached(&query)?;
    let limit = filter.limit.min(Filter::MOST);
    let stretches = match blocks::holding(connection, filter)? {
        None => vec![(0, i64::MAX)],
        Some(blocks) => blocks.into_iter().map(stretch).collect(),
    };
    let mut found = Vec::new();
    for (from, to) in stretches {
        if found.len() >= limit {
            break;
        }
        let left = i64::try_from(limit - found.len()).unwrap_or(i64::MAX);
        let bounds = [from, to, left].map(Value::Integer);
        let rows = statement.query_map(params_from_iter(values.iter().cloned().chain(bounds)), read_place)?;
        for row in rows {
            found.push(row?);
        }
    }
    Ok(found)
}

/// The places in the log that a block has.
fn stretch(block: i64) -> (i64, i64) {
    let length = blocks::BLOCK.cast_signed();
    let from = block.saturating_mul(length);
    (from, from.saturating_add(length))
}

/// Adds the next lines in one transaction; says how many.
fn add_batch(connection: &mut Connection, reader: &LedgerReader) -> Result<usize, StoreFault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let start = resume(&transaction, reader)?;
    forget::what_is_gone(&transaction, reader)?;
    let mut lines = reader.lines_from(start).map_err(StoreFault::Ledger)?;
    let mut rows = Rows::prepare(&transaction)?;
    let mut group: [Vec<u8>; GROUP] = Default::default();
    let mut spans = Vec::with_capacity(GROUP);
    let mut newest = None;
    let mut added = 0;
    while added < BATCH {
        spans.clear();
        for line in &mut group {
            let Some(span) = lines.read_into(line).map_err(StoreFault::Ledger)? else {
                break;
            };
            spans.push(span);
        }
        let Some((span, line)) = spans.iter().zip(&group).next_back() else {
            break;
        };
        newest = Some((*span, line.clone()));
        rows.add(&spans, &group)?;
        added += spans.len();
    }
    rows.finish()?;
    if let Some((span, line)) = newest {
        let hash = Digest::of(&line);
        transaction.execute(
            "INSERT OR REPLACE INTO progress (id, segment, offset, length, hash) VALUES (1, ?1, ?2, ?3, ?4)",
            params![
                span.position.segment,
                integer(span.position.offset)?,
                integer(span.length)?,
                hash.as_bytes().as_slice()
            ],
        )?;
    }
    transaction.commit()?;
    Ok(added)
}

/// Where to go on. If the last line taken in is not where it was, the index is of another log and begins anew.
fn resume(transaction: &Transaction<'_>, reader: &LedgerReader) -> Result<Position, StoreFault> {
    let kept = transaction
        .query_row("SELECT 0, segment, offset, length, hash FROM progress", [], |row| {
            Ok((read_place(row)?.1, row.get::<_, Vec<u8>>(4)?))
        })
        .optional()?;
    let Some((span, hash)) = kept else {
        return Ok(Position::START);
    };
    let line = reader.read_line(span).map_err(StoreFault::Ledger)?;
    if line.is_some_and(|line| Digest::of(&line).as_bytes().as_slice() == hash) {
        let offset = span.position.offset + span.length + 1;
        return Ok(Position {
            offset,
            ..span.position
        });
    }
    transaction.execute_batch(SHAPE)?;
    Ok(Position::START)
}

fn read_place(row: &Row<'_>) -> rusqlite::Result<(u64, Span)> {
    // INVARIANT: `integer` wrote these columns, so that none is negative.
    let number = |index| row.get::<_, i64>(index).map(i64::unsigned_abs);
    let position = Position {
        segment: row.get(1)?,
        offset: number(2)?,
    };
    Ok((
        number(0)?,
        Span {
            position,
            length: number(3)?,
        },
    ))
}

fn integer(number: u64) -> Result<i64, StoreFault> {
    i64::try_from(number).map_err(|_| StoreFault::Damaged { table: "records" })
}

/// Whether the file is of no use and can be replaced: the ledger has everything that was in it.
fn is_spoiled(fault: &StoreFault) -> bool {
    match fault {
        StoreFault::Database(error) => {
            matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
            )
        }
        StoreFault::Newer { .. } => true,
        StoreFault::File(_) | StoreFault::Damaged { .. } | StoreFault::Ledger(_) => false,
    }
}

fn discard(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(PathBuf::from(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Numbered from 1; never edited, only added to. The ledger has everything: a new shape is filled from the beginning.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE records (
        seq INTEGER PRIMARY KEY,
        segment INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        length INTEGER NOT NULL,
        ts INTEGER NOT NULL,
        type TEXT NOT NULL,
        status TEXT,
        rank INTEGER NOT NULL,
        receipt_id TEXT,
        server TEXT,
        tool TEXT,
        principal TEXT,
        session TEXT,
        run TEXT
    ) STRICT;
    CREATE INDEX records_by_receipt ON records (receipt_id) WHERE receipt_id IS NOT NULL;
    CREATE TABLE progress (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        segment INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        length INTEGER NOT NULL,
        hash BLOB NOT NULL
    ) STRICT;
",
    "
    DROP TABLE records;
    CREATE TABLE records (
        seq INTEGER PRIMARY KEY,
        segment INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        length INTEGER NOT NULL,
        ts INTEGER NOT NULL,
        type INTEGER,
        status INTEGER,
        rank INTEGER NOT NULL,
        receipt INTEGER,
        server TEXT,
        tool TEXT,
        principal TEXT,
        session TEXT,
        run TEXT
    ) STRICT;
    CREATE INDEX records_by_receipt ON records (receipt);
    DELETE FROM progress;
",
    SHAPE,
];

/// The index without a record in it.
const SHAPE: &str = "
    DROP TABLE records;
    CREATE TABLE records (
        seq INTEGER PRIMARY KEY,
        segment INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        length INTEGER NOT NULL,
        ts INTEGER NOT NULL,
        type INTEGER,
        status INTEGER,
        rank INTEGER NOT NULL,
        receipt INTEGER,
        server TEXT,
        tool TEXT,
        principal TEXT,
        session TEXT,
        run TEXT
    ) STRICT;
    CREATE INDEX records_by_receipt ON records (receipt);
    DROP TABLE IF EXISTS blocks;
    CREATE TABLE blocks (
        fact INTEGER NOT NULL,
        block INTEGER NOT NULL,
        PRIMARY KEY (fact, block)
    ) STRICT, WITHOUT ROWID;
    DROP TABLE IF EXISTS rollup;
    CREATE TABLE rollup (
        length INTEGER NOT NULL,
        start INTEGER NOT NULL,
        principal TEXT NOT NULL,
        server TEXT NOT NULL,
        tool TEXT NOT NULL,
        method TEXT NOT NULL,
        reason TEXT NOT NULL,
        status INTEGER NOT NULL,
        calls INTEGER NOT NULL,
        latency BLOB NOT NULL,
        PRIMARY KEY (length, start, principal, server, tool, method, reason, status)
    ) STRICT, WITHOUT ROWID;
    DELETE FROM progress;
";
