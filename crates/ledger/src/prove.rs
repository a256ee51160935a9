//! Proofs for strangers: one record's line, the way from its hash to the root, and the checkpoint that was signed over it
//! (C2SP tlog-proof). Whoever checks one needs the log's public key and nothing else.

use std::io;
use std::path::Path;

use data_encoding::BASE64;
use memchr::memmem;
use vocabulary::Digest;
use vocabulary::note::Verifier;

use crate::chain::{follow, seq_of, text_member};
use crate::checkpoint::{Checkpoint, CheckpointFault, CheckpointFiles};
use crate::segment::{LedgerReader, Position, last_line};
use crate::tiles::{TileFault, TileReader};
use crate::tree::{LONGEST_PROOF, inclusion, is_included, leaf_hash};

const HEADING: &str = "c2sp.org/tlog-proof@v1";

/// Which record is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The one at this place.
    Seq(u64),
    /// The final one of a request, and its intent if it has one.
    Receipt(String),
}

/// A record and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundRecord {
    /// Its place in the log.
    pub seq: u64,
    /// Its line, without the newline.
    pub line: Vec<u8>,
}

/// What was asked for: the record, and the intent that it ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundRecords {
    /// The record; of a request the final one, or the intent where there is no final yet.
    pub record: FoundRecord,
    /// Its intent.
    pub intent: Option<FoundRecord>,
}

/// Finds records by reading the log.
///
/// # Errors
/// When it cannot be read.
pub fn find_records(state: &Path, wanted: &Wanted) -> io::Result<Option<FoundRecords>> {
    let mut lines = LedgerReader::of_state(state).lines_from(Position::START)?;
    let mut line = Vec::new();
    let (mut last, mut intent) = (None, None);
    while lines.read_into(&mut line)?.is_some() {
        let Some(seq) = seq_of(&line) else { continue };
        let found = || FoundRecord {
            seq,
            line: line.clone(),
        };
        match wanted {
            Wanted::Seq(wanted) if *wanted == seq => {
                return Ok(Some(FoundRecords {
                    record: found(),
                    intent: None,
                }));
            }
            Wanted::Seq(_) => {}
            Wanted::Receipt(id) if is_request_of(&line, id) => match text_member(&line, br#","phase":""#) {
                Some("intent") => intent = Some(found()),
                Some(_) | None => last = Some(found()),
            },
            Wanted::Receipt(_) => {}
        }
    }
    Ok(match (last, intent) {
        (Some(record), intent) => Some(FoundRecords { record, intent }),
        (None, Some(record)) => Some(FoundRecords { record, intent: None }),
        (None, None) => None,
    })
}

fn is_request_of(line: &[u8], id: &str) -> bool {
    memmem::find(line, format!(",\"receipt_id\":\"{id}\"").as_bytes()).is_some()
        && memmem::find(line, br#","type":"request""#).is_some()
}

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum CannotProve {
    /// No checkpoint stands for the record.
    #[error("no checkpoint over record {0} has been signed yet")]
    Unsigned(u64),
    /// The latest checkpoint is none.
    #[error("the log's latest checkpoint cannot be used")]
    Checkpoint(#[source] CheckpointFault),
    /// The tree's tiles cannot be used.
    #[error("the log's tree cannot be used")]
    Tile(#[source] TileFault),
    /// The record is not the one that was signed.
    #[error("record {0} is not the one that was signed; `portreeve receipt verify` says more")]
    Differs(u64),
    /// The disk failed.
    #[error("the log cannot be read")]
    Disk(#[source] io::Error),
}

/// The latest checkpoint of a state directory.
///
/// # Errors
/// When the file cannot be read.
pub fn latest_checkpoint(state: &Path) -> io::Result<Option<String>> {
    CheckpointFiles::of(LedgerReader::of_state(state).folder()).current()
}

/// The place of the newest record; 0 where there is none.
///
/// # Errors
/// When the log cannot be read.
pub fn newest_seq(state: &Path) -> io::Result<u64> {
    let reader = LedgerReader::of_state(state);
    for number in reader.segments()?.into_iter().rev() {
        if let Some(line) = last_line(&reader, number)? {
            return Ok(seq_of(&line).unwrap_or_default());
        }
    }
    Ok(0)
}

/// Proves that a record is in the log that `note` was signed over: the text of a `.tlog-proof`.
///
/// # Errors
/// When it is not, or the tree cannot be read.
pub fn prove(state: &Path, record: &FoundRecord, note: &str) -> Result<String, CannotProve> {
    let checkpoint = Checkpoint::read(note).map_err(CannotProve::Checkpoint)?;
    if record.seq == 0 || record.seq > checkpoint.size {
        return Err(CannotProve::Unsigned(record.seq));
    }
    let index = record.seq - 1;
    let folder = LedgerReader::of_state(state).folder().to_owned();
    let mut tiles = TileReader::new(&folder, checkpoint.size);
    let path = inclusion(&mut tiles, index, checkpoint.size).map_err(CannotProve::Tile)?;
    // What a stranger would find out is found out here.
    let tree = (checkpoint.size, checkpoint.root);
    if !is_included(leaf_hash(&record.line), index, tree, &path) {
        return Err(CannotProve::Differs(record.seq));
    }
    let mut text = format!("{HEADING}\nindex {index}\n");
    for hash in path {
        text.push_str(&BASE64.encode(hash.as_bytes()));
        text.push('\n');
    }
    text.push('\n');
    text.push_str(note);
    Ok(text)
}

/// Why a proof proves nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProofFault {
    /// It has another form.
    #[error("it is not a proof of the form `c2sp.org/tlog-proof@v1`")]
    Form,
    /// Its checkpoint is not one of the key.
    #[error("its checkpoint is not signed by the key")]
    Checkpoint(#[source] CheckpointFault),
    /// The record is none, or not in its own hash's spelling.
    #[error("the record does not have the hash it states")]
    Record,
    /// The record says to stand elsewhere.
    #[error("the record is another than the proof is about")]
    Index,
    /// The hashes lead elsewhere.
    #[error("the record is not in the log that the checkpoint was signed over")]
    Root,
}

/// Checks a proof by the log's public key alone; gives back the place of the record.
///
/// # Errors
/// When it proves nothing.
pub fn check_proof(line: &[u8], proof: &str, key: &Verifier) -> Result<u64, ProofFault> {
    let (head, note) = proof.split_once("\n\n").ok_or(ProofFault::Form)?;
    let mut lines = head.split('\n');
    if lines.next() != Some(HEADING) {
        return Err(ProofFault::Form);
    }
    let mut lines = lines.skip_while(|line| line.starts_with("extra "));
    let stated = lines
        .next()
        .and_then(|line| line.strip_prefix("index "))
        .ok_or(ProofFault::Form)?;
    let index: u64 = stated.parse().map_err(|_| ProofFault::Form)?;
    let mut path = Vec::new();
    for line in lines {
        let bytes = BASE64.decode(line.as_bytes()).map_err(|_| ProofFault::Form)?;
        path.push(Digest::from_bytes(bytes.try_into().map_err(|_| ProofFault::Form)?));
        if path.len() > LONGEST_PROOF {
            return Err(ProofFault::Form);
        }
    }
    if index.to_string() != stated {
        return Err(ProofFault::Form);
    }
    let (checkpoint, _) = Checkpoint::open(note, std::slice::from_ref(key)).map_err(ProofFault::Checkpoint)?;
    let head = follow(line, None).map_err(|_| ProofFault::Record)?;
    if index.checked_add(1) != Some(head.seq) || checkpoint.origin != key.name().as_str() {
        return Err(ProofFault::Index);
    }
    let tree = (checkpoint.size, checkpoint.root);
    match is_included(leaf_hash(line), index, tree, &path) {
        true => Ok(head.seq),
        false => Err(ProofFault::Root),
    }
}
