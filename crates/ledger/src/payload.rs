//! Arguments and answers that are kept beside the log: encrypted, each under a key of its own that can be destroyed. Then the
//! record stays, and what it was about is gone (crypto-shredding). ADR 0121.

mod day;
mod fault;
mod key;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use vocabulary::{ReceiptId, Timestamp};

use day::Day;
pub(crate) use day::forget_before;
pub use fault::PayloadFault;
use key::MasterKey;

/// What is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptPayloads {
    /// The arguments of every request that was decided about.
    pub arguments: bool,
    /// What was sent to the client for every request that was carried out.
    pub results: bool,
}

vocabulary::words! {
    /// Which of the two.
    pub enum PayloadKind {
        /// What the client sent.
        Arguments = "arguments",
        /// What the client was sent.
        Result = "result",
    }
}

/// Where a payload is kept: the day, as `20260131`, and its place in that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PayloadRef {
    day: u32,
    slot: u32,
}

impl PayloadRef {
    /// Reads one as records spell it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (day, slot) = text.strip_prefix("pld_")?.split_once('_')?;
        let read = Self {
            day: day.parse().ok()?,
            slot: slot.parse().ok()?,
        };
        (read.to_string() == text).then_some(read)
    }
}

impl fmt::Display for PayloadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pld_{:08}_{}", self.day, self.slot)
    }
}

/// What became of a payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// It is there.
    Kept(Vec<u8>),
    /// Its key was destroyed.
    Erased,
    /// It went with the records of its time.
    Gone,
}

/// The payloads of a state directory.
pub struct Payloads {
    folder: PathBuf,
    key: MasterKey,
    /// The day that is written.
    today: Mutex<Option<Day>>,
}

impl Payloads {
    /// Opens them, making the key where nothing was ever kept.
    ///
    /// # Errors
    /// When the key is missing or no key, or the disk fails.
    pub fn open(state: &Path) -> Result<Self, PayloadFault> {
        let folder = folder_of(state);
        let has_some = fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
        Ok(Self {
            key: MasterKey::open(state, has_some)?,
            folder,
            today: Mutex::new(None),
        })
    }

    /// Keeps `bytes` for a record. They have reached the kernel when this returns.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn keep(
        &self,
        now: Timestamp,
        receipt: ReceiptId,
        kind: PayloadKind,
        bytes: Vec<u8>,
    ) -> Result<PayloadRef, PayloadFault> {
        let number = day_of(now);
        let mut today = vocabulary::lock(&self.today);
        let day = match today.take() {
            Some(day) if day.number() == number => day,
            Some(_) | None => Day::open_to_grow(&self.folder, number)?,
        };
        let day = today.insert(day);
        let reference = PayloadRef {
            day: number,
            slot: day.next_slot(),
        };
        let salt = key::salt()?;
        let sealed = self.key.seal(&salt, &bound_to(reference, receipt, kind), bytes)?;
        day.append(&salt, &sealed)?;
        Ok(reference)
    }

    /// Reads what is kept for a record.
    ///
    /// # Errors
    /// When it was changed, is another record's, or the disk fails.
    pub fn read(&self, reference: PayloadRef, receipt: ReceiptId, kind: PayloadKind) -> Result<Payload, PayloadFault> {
        let Some(day) = Day::open(&self.folder, reference.day)? else {
            return Ok(Payload::Gone);
        };
        let Some((salt, sealed)) = day.read(reference.slot)? else {
            return Ok(Payload::Gone);
        };
        if salt == key::NO_SALT {
            return Ok(Payload::Erased);
        }
        let opened = self.key.open_sealed(&salt, &bound_to(reference, receipt, kind), sealed);
        opened.map(Payload::Kept).ok_or(PayloadFault::Changed)
    }

    /// Destroys the key of a payload; it is gone from the disk when this returns.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn erase(&self, reference: PayloadRef) -> Result<(), PayloadFault> {
        match Day::open(&self.folder, reference.day)? {
            Some(day) => Ok(day.erase(reference.slot)?),
            None => Ok(()),
        }
    }
}

pub(crate) fn folder_of(state: &Path) -> PathBuf {
    state.join("payloads")
}

/// A day as a number: 2026-01-31 is 20260131.
pub(crate) fn day_of(time: Timestamp) -> u32 {
    let digits: String = time.to_string().chars().take(10).filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_default()
}

/// What a sealed payload belongs to: taken to another record it does not open.
fn bound_to(reference: PayloadRef, receipt: ReceiptId, kind: PayloadKind) -> Vec<u8> {
    format!("{reference}\n{receipt}\n{}", kind.as_str()).into_bytes()
}

#[cfg(test)]
mod tests;
