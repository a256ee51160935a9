//! The incidents that are on: one small document.

use rusqlite::OptionalExtension as _;

use super::{Store, StoreFault};

impl Store {
    /// What was kept of incidents last.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn incidents(&self) -> Result<Option<String>, StoreFault> {
        let connection = self.connection();
        let found = connection.query_row("SELECT document FROM incidents WHERE one = 1", [], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// Keeps another document: on disk when this returns.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep_incidents(&self, document: &str) -> Result<(), StoreFault> {
        self.connection().execute(
            "INSERT INTO incidents (one, document) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET document = ?1",
            [document],
        )?;
        Ok(())
    }
}
