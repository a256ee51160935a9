//! Bare segments, as they lie in somebody's hands without the tree over them.

use std::path::PathBuf;

use super::Walk;
use super::evidence::{CannotVerify, Fault, Question, Report, is_unsound};
use super::records::Gathered;
use crate::chain::{BreakKind, seq_of};
use crate::segment::{Position, Span, unpacked};

/// Verifies bare segments: lines and chain.
///
/// # Errors
/// When a file cannot be read.
pub fn verify_files(paths: &[PathBuf], question: &Question) -> Result<Report, CannotVerify> {
    let mut walk = Walk::default();
    let mut gathered = Gathered::default();
    let mut report = Report::default();
    for (segment, path) in (0..).zip(paths) {
        let bytes = match path.extension().is_some_and(|extension| extension == "zst") {
            true => unpacked(path),
            false => std::fs::read(path),
        };
        let bytes = match bytes {
            Err(error) if is_unsound(&error) => {
                report.fault = Some(Fault {
                    seq: None,
                    file: path.clone(),
                    offset: 0,
                    kind: BreakKind::Unreadable,
                });
                return Ok(report);
            }
            read => read?,
        };
        let mut offset = 0;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let position = Position { segment, offset };
            offset += piece.len() as u64;
            let (line, is_whole) = match piece.strip_suffix(b"\n") {
                Some(line) => (line, true),
                None => (piece, false),
            };
            let span = Span {
                position,
                length: line.len() as u64,
            };
            let checked = match is_whole {
                true => walk
                    .step(span, line)
                    .and_then(|record| gathered.meet(seq_of(line).unwrap_or_default(), &record)),
                false => Err(BreakKind::Incomplete),
            };
            if let Err(kind) = checked {
                report.fault = Some(Fault {
                    seq: seq_of(line),
                    file: path.clone(),
                    offset: position.offset,
                    kind,
                });
                return Ok(report);
            }
            report.records += u64::from(question.covers(seq_of(line).unwrap_or_default()));
        }
    }
    report.open_intents = gathered.open_intents();
    Ok(report)
}
