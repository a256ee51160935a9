//! Finds pieces of spellings in one walk. Of every run of bytes that must be found at least one piece of eight bytes is in the
//! sample, so a walk over all pieces of what leaves cannot miss one; what is found is compared around the piece.

use super::spelling::{Case, Spelling};

/// See the module.
pub(super) struct Sample {
    spellings: Vec<Spelling>,
    /// In order of their bytes.
    pieces: Vec<Piece>,
    /// A bit for each piece, by its hash: nearly everything that leaves is none.
    filter: Vec<u64>,
    /// How far a hash is shifted to be the number of a bit.
    shift: u32,
}

#[derive(Clone, Copy)]
struct Piece {
    bytes: u64,
    spelling: u32,
    at: u32,
}

/// The bytes of a piece.
const LENGTH: usize = 8;
/// Makes small letters of capital ones and leaves digits: one filter does for spellings of either case.
const FOLD: u64 = 0x2020_2020_2020_2020;
/// The golden ratio: spreads what differs in few bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// So many bits of the filter for a piece.
const SPARSE: usize = 32;

impl Sample {
    pub(super) fn of(mut spellings: Vec<Spelling>) -> Self {
        // What is shorter than a piece is in any text.
        spellings.retain(|spelling| spelling.least >= LENGTH && spelling.text.len() >= spelling.least);
        let mut pieces: Vec<Piece> = Vec::new();
        for (number, spelling) in spellings.iter().enumerate() {
            let stride = spelling.least - LENGTH + 1;
            let starts = (0..=spelling.text.len() - LENGTH).step_by(stride);
            pieces.extend(starts.filter_map(|at| {
                Some(Piece {
                    bytes: folded(spelling.text.get(at..at + LENGTH)?)?,
                    spelling: u32::try_from(number).ok()?,
                    at: u32::try_from(at).ok()?,
                })
            }));
        }
        pieces.sort_unstable_by_key(|piece| piece.bytes);
        let bits = (pieces.len() * SPARSE).next_power_of_two().max(64);
        let shift = 64 - bits.trailing_zeros();
        let mut filter = vec![0_u64; bits / 64];
        for piece in &pieces {
            let (word, bit) = place(piece.bytes, shift);
            if let Some(word) = filter.get_mut(word) {
                *word |= 1 << bit;
            }
        }
        Self {
            spellings,
            pieces,
            filter,
            shift,
        }
    }

    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        if self.pieces.is_empty() {
            return false;
        }
        let mut windows = text.windows(LENGTH).enumerate();
        windows.any(|(at, window)| {
            let Some(bytes) = folded(window) else { return false };
            let (word, bit) = place(bytes, self.shift);
            let suspected = self.filter.get(word).is_some_and(|word| word >> bit & 1 == 1);
            suspected && self.is_around(text, at, bytes)
        })
    }

    /// Whether one of the spellings that have this piece is in the text around it, for as long as it must be.
    #[cold]
    fn is_around(&self, text: &[u8], at: usize, bytes: u64) -> bool {
        let first = self.pieces.partition_point(|piece| piece.bytes < bytes);
        let candidates = self.pieces.iter().skip(first).take_while(|piece| piece.bytes == bytes);
        candidates.into_iter().any(|piece| {
            self.spellings
                .get(piece.spelling as usize)
                .is_some_and(|spelling| spelling.common(piece.at as usize, text, at) >= spelling.least)
        })
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        let texts: usize = self.spellings.iter().map(|spelling| spelling.text.len() + 64).sum();
        texts + self.pieces.len() * size_of::<Piece>() + self.filter.len() * 8
    }
}

impl Spelling {
    /// How many bytes are the same around one place of each.
    fn common(&self, own: usize, text: &[u8], at: usize) -> usize {
        let same = |(one, other): &(&u8, &u8)| match self.case {
            Case::Exact => one == other,
            Case::Any => one.eq_ignore_ascii_case(other),
        };
        let (before, after) = (self.text.get(..own), self.text.get(own..));
        let (ahead, behind) = (text.get(..at), text.get(at..));
        let back = before
            .unwrap_or_default()
            .iter()
            .rev()
            .zip(ahead.unwrap_or_default().iter().rev());
        let forth = after.unwrap_or_default().iter().zip(behind.unwrap_or_default());
        back.take_while(same).count() + forth.take_while(same).count()
    }
}

fn folded(piece: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(piece.try_into().ok()?) | FOLD)
}

/// The word of the filter, and the bit in it.
fn place(piece: u64, shift: u32) -> (usize, u32) {
    let hash = piece.wrapping_mul(SPREAD).wrapping_shr(shift);
    let bit = hash & 63;
    ((hash >> 6) as usize, bit as u32)
}
