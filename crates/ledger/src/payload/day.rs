//! The payloads of a day: `payloads/YYYYMMDD.data` holds what was sealed, one after another; `YYYYMMDD.keys` for each its salt,
//! where it begins and how long it is. Only the salts are ever overwritten.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;

use super::key::{NO_SALT, SALT};
use crate::segment::open_private;

/// A salt, where its payload begins, and its length.
const SLOT: usize = SALT + 16;
/// No payload is longer: it was a message.
const LONGEST: u64 = 256 << 20;

/// See the module.
pub(super) struct Day {
    number: u32,
    data: File,
    keys: File,
    /// Where the next payload goes, and its slot.
    length: u64,
    slots: u32,
}

impl Day {
    /// Opens a day to add to it.
    pub(super) fn open_to_grow(folder: &Path, number: u32) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let open = |ending| open_private(&folder.join(format!("{number:08}.{ending}")), &mut options.clone());
        Self::of(number, open("data")?, open("keys")?)
    }

    /// Opens a day to read it or to erase from it, if there is one.
    pub(super) fn open(folder: &Path, number: u32) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let open = |ending| options.open(folder.join(format!("{number:08}.{ending}")));
        match (open("data"), open("keys")) {
            (Ok(data), Ok(keys)) => Self::of(number, data, keys).map(Some),
            (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// What a crash cut short is written over.
    fn of(number: u32, data: File, keys: File) -> io::Result<Self> {
        let length = data.metadata()?.len();
        let slots = u32::try_from(keys.metadata()?.len() / SLOT as u64).map_err(|_| io::ErrorKind::FileTooLarge)?;
        Ok(Self {
            number,
            data,
            keys,
            length,
            slots,
        })
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn next_slot(&self) -> u32 {
        self.slots
    }

    /// Adds a payload, or leaves what is there as it was.
    pub(super) fn append(&mut self, salt: &[u8; SALT], sealed: &[u8]) -> io::Result<()> {
        self.data.write_all_at(sealed, self.length)?;
        let slot = [
            &salt[..],
            &self.length.to_le_bytes(),
            &(sealed.len() as u64).to_le_bytes(),
        ]
        .concat();
        self.keys.write_all_at(&slot, place(self.slots))?;
        self.length += sealed.len() as u64;
        self.slots += 1;
        Ok(())
    }

    /// A payload and its salt; `None` where there is none.
    pub(super) fn read(&self, slot: u32) -> io::Result<Option<([u8; SALT], Vec<u8>)>> {
        if slot >= self.slots {
            return Ok(None);
        }
        let (mut salt, mut numbers) = (NO_SALT, [0; 16]);
        self.keys.read_exact_at(&mut salt, place(slot))?;
        self.keys.read_exact_at(&mut numbers, place(slot) + SALT as u64)?;
        let (start, length) = numbers.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
        let (start, length) = (number(start), number(length));
        if length > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut sealed = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?];
        if salt != NO_SALT {
            self.data.read_exact_at(&mut sealed, start)?;
        }
        Ok(Some((salt, sealed)))
    }

    /// Overwrites the salt of a payload, on the disk.
    pub(super) fn erase(&self, slot: u32) -> io::Result<()> {
        if slot < self.slots {
            self.keys.write_all_at(&NO_SALT, place(slot))?;
        }
        self.keys.sync_all()
    }
}

fn place(slot: u32) -> u64 {
    u64::from(slot) * SLOT as u64
}

/// Removes the days before `first`: nothing is left of the records that they belong to.
pub(crate) fn forget_before(folder: &Path, first: u32) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok());
        if number.is_some_and(|number| number < first) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
