//! Checkpoints: how many records the log has and the root over them, as signed notes (C2SP checkpoint). `ledger/checkpoint` is
//! the latest, `ledger/checkpoints` has all of them with an empty line between. ADR 0084.

mod files;

use data_encoding::BASE64;
use vocabulary::Digest;
use vocabulary::note::{self, NoteFault, Signer, Verifier};

pub(crate) use files::{CheckpointFiles, FilesFault, KeptCheckpoints, Stated, read_all, read_if_there};

/// What a checkpoint says: so many records, with this root over them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The log's name.
    pub origin: String,
    /// How many records it had.
    pub size: u64,
    /// The root over them.
    pub root: Digest,
}

/// Why a text is no checkpoint to go by.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CheckpointFault {
    /// It has another form.
    #[error("it is not of the form origin, size, root, each on a line")]
    Form,
    /// Nobody who is known signed it.
    #[error("its signatures do not hold")]
    Note(#[source] NoteFault),
}

impl Checkpoint {
    /// The text that is signed.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, self.root_text())
    }

    /// The root as checkpoints spell it.
    #[must_use]
    pub fn root_text(&self) -> String {
        BASE64.encode(self.root.as_bytes())
    }

    /// Reads a whole note without judging its signatures.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(note: &str) -> Result<Self, CheckpointFault> {
        let (text, signatures) = note::split(note).map_err(CheckpointFault::Note)?;
        note::Signature::read_all(signatures).map_err(CheckpointFault::Note)?;
        Self::parse(text).ok_or(CheckpointFault::Form)
    }

    /// Reads a note that one of these keys must have signed; says which did.
    ///
    /// # Errors
    /// When none did, or one that is named did not.
    pub fn open<'k>(note: &str, keys: &'k [Verifier]) -> Result<(Self, Vec<&'k Verifier>), CheckpointFault> {
        let checkpoint = Self::read(note)?;
        let (text, signatures) = note::split(note).map_err(CheckpointFault::Note)?;
        let signed = note::verify(text, signatures, keys).map_err(CheckpointFault::Note)?;
        Ok((checkpoint, signed))
    }

    /// The note that these keys sign.
    pub(crate) fn sign<'s>(&self, signers: impl IntoIterator<Item = &'s Signer>) -> Result<String, NoteFault> {
        let text = self.text();
        let mut note = format!("{text}\n");
        for signer in signers {
            note.push_str(&note::sign(&text, signer)?.to_line());
        }
        Ok(note)
    }

    /// Exactly the three lines, each in its one spelling.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
        let number: u64 = size.parse().ok()?;
        let bytes = BASE64.decode(root.as_bytes()).ok()?;
        let whole = lines.next().is_none() && !origin.is_empty() && number.to_string() == size;
        let root = Digest::from_bytes(bytes.try_into().ok()?);
        whole.then(|| Self {
            origin: origin.to_owned(),
            size: number,
            root,
        })
    }
}

#[cfg(test)]
mod tests;
