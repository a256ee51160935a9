//! The SQLite files: opened privately, in WAL mode, brought up to date by numbered migrations.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rusqlite::Connection;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use vocabulary::{Digest, Timestamp};

pub(crate) mod activity;
pub(crate) mod approvals;
pub(crate) mod identities;
pub(crate) mod incidents;
pub(crate) mod inventory;
pub(crate) mod items;
pub(crate) mod quotas;
pub(crate) mod tokens;
pub(crate) mod words;

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    /// The file cannot be made or opened.
    #[error("a file of the store cannot be opened")]
    File(#[source] io::Error),
    /// SQLite refused.
    #[error("the store's database failed")]
    Database(#[from] rusqlite::Error),
    /// The file was written by a newer release.
    #[error("the store is at version {found}, this release knows {known}; use the newer release")]
    Newer {
        /// The version of the file.
        found: usize,
        /// The newest version known here.
        known: usize,
    },
    /// A row does not hold what this program writes.
    #[error("a row of `{table}` in the store is damaged")]
    Damaged {
        /// The table.
        table: &'static str,
    },
    /// The ledger's files cannot be read.
    #[error("the ledger cannot be read")]
    Ledger(#[source] io::Error),
}

/// Tokens, inventory, quotas, approvals and incidents of one state directory (`state.db`). Calls block.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
}

impl Store {
    /// Opens the store of a state directory, making or migrating it where needed.
    ///
    /// # Errors
    /// When the file cannot be opened, is no database, or is newer than this release.
    pub fn open(state: &Path) -> Result<Self, StoreFault> {
        let connection = open_file(&state.join("state.db"), MIGRATIONS)?;
        // What was acknowledged here (a revoked token, an approved tool) survives loss of power.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // What is deleted here, sealed arguments of an approval that ended, is overwritten.
        connection.pragma_update(None, "secure_delete", true)?;
        // The journal begins anew, so that the room that is taken lies where the next changes are written.
        connection.pragma(None, "wal_checkpoint", "TRUNCATE", |_| Ok(()))?;
        keep_room(&state.join("state.db-wal"));
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        vocabulary::lock(&self.connection)
    }
}

/// What is taken in advance, where the disk has sixteen times as much.
const AHEAD: u64 = 1 << 20;

/// Takes room on the disk for what is written next: a token can be revoked on a disk that somebody has filled. A file system that
/// gives no room in advance is no fault. ADR 0068: the log has the same.
fn keep_room(journal: &Path) {
    let Ok(file) = OpenOptions::new().write(true).open(journal) else {
        return;
    };
    let free = fstatvfs(&file).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    let wanted = AHEAD.min(free / 16);
    if wanted > 0 {
        let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, wanted);
    }
}

/// Opens a database file that only its owner can read, and applies the migrations it lacks.
fn open_file(path: &Path, migrations: &[&str]) -> Result<Connection, StoreFault> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(StoreFault::File)?;
    }
    // SQLite gives the files beside it (`-wal`, `-shm`) the same mode.
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(StoreFault::File)?;
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    migrate(&mut connection, migrations)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), StoreFault> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let found = usize::try_from(version).unwrap_or(usize::MAX);
    if found > migrations.len() {
        return Err(StoreFault::Newer {
            found,
            known: migrations.len(),
        });
    }
    for (number, migration) in (1i64..).zip(migrations).skip(found) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Numbered from 1; never edited, only added to.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE tokens (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        hash BLOB NOT NULL UNIQUE,
        sub TEXT NOT NULL,
        actor_type TEXT NOT NULL,
        client_id TEXT,
        org_id TEXT,
        groups TEXT NOT NULL,
        scope TEXT NOT NULL CHECK (scope IN ('every', 'only')),
        servers TEXT NOT NULL,
        created INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        revoked INTEGER
    ) STRICT;
    CREATE TABLE servers (
        id TEXT PRIMARY KEY,
        discovered INTEGER,
        instructions TEXT,
        instructions_approved BLOB
    ) STRICT;
    CREATE TABLE tools (
        server TEXT NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        definition BLOB NOT NULL,
        seen BLOB NOT NULL,
        approved BLOB,
        presence TEXT NOT NULL CHECK (presence IN ('offered', 'vanished')),
        PRIMARY KEY (server, name)
    ) STRICT;
",
    "ALTER TABLE tokens ADD COLUMN run TEXT;",
    "ALTER TABLE tools RENAME TO tools_before;
    CREATE TABLE tools (
        server TEXT NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        definition BLOB NOT NULL,
        seen BLOB NOT NULL,
        approved BLOB,
        presence TEXT NOT NULL CHECK (presence IN ('offered', 'vanished')),
        era TEXT CHECK (era IN ('legacy', 'modern')),
        needs INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX tools_of_server ON tools (server, name);
    INSERT INTO tools SELECT server, name, definition, seen, approved, presence, NULL, 0 FROM tools_before;
    DROP TABLE tools_before;",
    "ALTER TABLE servers ADD COLUMN eras TEXT NOT NULL DEFAULT '';",
    // What was given up before was not kept: whoever is near the bound counts as having done so.
    "ALTER TABLE servers ADD COLUMN forgot_pins INTEGER NOT NULL DEFAULT 0;
    UPDATE servers SET forgot_pins = 1
        WHERE (SELECT count(*) FROM tools WHERE server = servers.id AND presence = 'vanished') >= 4096;",
    "CREATE TABLE words (
        server TEXT NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        disabled_by TEXT,
        disabled_at INTEGER,
        risk TEXT,
        risk_by TEXT,
        risk_at INTEGER,
        settled BLOB NOT NULL,
        PRIMARY KEY (server, kind, name)
    ) STRICT;",
    "CREATE TABLE quotas (
        rule TEXT NOT NULL,
        key BLOB NOT NULL,
        names TEXT NOT NULL,
        groups BLOB NOT NULL,
        ahead INTEGER NOT NULL,
        PRIMARY KEY (rule, key)
    ) STRICT, WITHOUT ROWID;",
    "ALTER TABLE tools ADD COLUMN approved_definition BLOB;
    ALTER TABLE servers ADD COLUMN instructions_approved_text TEXT;",
    // Whoever had an admin token before there were roles could do everything.
    "ALTER TABLE tokens ADD COLUMN role TEXT;
    UPDATE tokens SET role = 'operator' WHERE kind = 'admin';",
    "ALTER TABLE servers ADD COLUMN identity TEXT;
    ALTER TABLE servers ADD COLUMN identity_digest BLOB;
    CREATE TABLE bound (
        server TEXT NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        definition BLOB NOT NULL,
        identity TEXT NOT NULL,
        identity_digest BLOB NOT NULL,
        PRIMARY KEY (server, kind, name, definition)
    ) STRICT;",
    "CREATE TABLE approvals (
        id TEXT PRIMARY KEY,
        plan_key BLOB NOT NULL,
        state TEXT NOT NULL,
        sub TEXT NOT NULL,
        issuer TEXT NOT NULL,
        client_id TEXT,
        org_id TEXT,
        server TEXT NOT NULL,
        tool TEXT NOT NULL,
        definition_hash BLOB NOT NULL,
        args_hash BLOB NOT NULL,
        beside BLOB NOT NULL,
        risk TEXT NOT NULL,
        policy_id TEXT NOT NULL,
        policy_set BLOB NOT NULL,
        created INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        decided_by TEXT,
        decided_at INTEGER,
        reason TEXT,
        step_up TEXT,
        arguments BLOB
    ) STRICT;
    CREATE INDEX approvals_of_plan ON approvals (plan_key, created);
    CREATE INDEX approvals_open ON approvals (state, created);
    CREATE TABLE approved_arguments (
        owner BLOB NOT NULL,
        server TEXT NOT NULL,
        tool TEXT NOT NULL,
        arguments BLOB NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (owner, server, tool)
    ) STRICT;",
    "CREATE TABLE incidents (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        document TEXT NOT NULL
    ) STRICT;",
    "CREATE TABLE items (
        server TEXT NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        definition BLOB NOT NULL,
        seen BLOB NOT NULL,
        approved BLOB,
        approved_definition BLOB,
        presence TEXT NOT NULL CHECK (presence IN ('offered', 'vanished')),
        PRIMARY KEY (server, kind, name, seen)
    ) STRICT;
    ALTER TABLE servers ADD COLUMN listed TEXT NOT NULL DEFAULT '';",
];

fn digest_of(bytes: &[u8]) -> Option<Digest> {
    <[u8; 32]>::try_from(bytes).ok().map(Digest::from_bytes)
}

fn time_of(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}
