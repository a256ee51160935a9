//! Keeps what must outlive a run, in SQLite files of the state directory that only their owner can read: tokens,
//! inventory and quotas in [`Store`], and in [`Activity`] an index over the ledger that can be thrown away and rebuilt.
//! The ledger is the truth; a listed record is read from its segment, byte for byte.

mod lock;
mod sqlite;

pub use lock::{LockError, StateLock};
pub use sqlite::activity::filter::{Filter, Order, RecordType, Status};
pub use sqlite::activity::summary::{Arrangement, By, SummaryLine};
pub use sqlite::activity::{Activity, Line, RecordKey};
pub use sqlite::tokens::{Revocation, TokenKind, TokenRow};
pub use sqlite::{Store, StoreFault};
