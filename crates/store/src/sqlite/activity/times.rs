//! Times as places in the log.

use rusqlite::{Connection, OptionalExtension};

use super::StoreFault;

/// The first place in the log that is not older than this: time never goes back in a log, so that it can be searched for.
pub(super) fn first_seq(connection: &Connection, micros: i64) -> Result<i64, StoreFault> {
    let end = |what: &str| {
        let query = format!("SELECT {what}(seq) FROM records");
        connection.query_row(&query, [], |row| row.get::<_, Option<i64>>(0))
    };
    let (Some(first), Some(last)) = (end("min")?, end("max")?) else {
        return Ok(0);
    };
    let mut statement = connection.prepare_cached("SELECT seq, ts FROM records WHERE seq >= ? ORDER BY seq LIMIT 1")?;
    let (mut low, mut high) = (first, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = statement
            .query_row([middle], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
            .optional()?;
        match found {
            Some((seq, ts)) if ts < micros => low = seq + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}
