//! The ways to spell a credential that do not depend on what stands around it: as it is, in base64 at each of the three
//! alignments and in both alphabets, and in hexadecimal digits.

use zeroize::Zeroizing;

/// One way to spell a credential.
pub(super) struct Spelling {
    pub(super) text: Zeroizing<Vec<u8>>,
    /// How many of its bytes in a row must be found.
    pub(super) least: usize,
    pub(super) case: Case,
}

/// Whether the case of letters says anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Exact,
    Any,
}

/// All spellings; `piece` bytes of the credential in a row must be found in any of them, or all where it has fewer.
pub(super) fn spellings(credential: &[u8], piece: usize) -> Vec<Spelling> {
    let piece = piece.min(credential.len());
    let mut all = vec![Spelling {
        text: Zeroizing::new(credential.to_vec()),
        least: piece,
        case: Case::Exact,
    }];
    for before in 0..3 {
        let standard = base64(credential, before, STANDARD);
        let url = base64(credential, before, URL);
        // Of characters that hold six bits, the first and the last may hold bits of something else.
        let least = |text: &[u8]| (piece * 8).saturating_sub(5).div_euclid(6).min(text.len());
        let same = *standard == *url;
        all.push(Spelling {
            least: least(&standard),
            text: standard,
            case: Case::Exact,
        });
        if !same {
            all.push(Spelling {
                least: least(&url),
                text: url,
                case: Case::Exact,
            });
        }
    }
    all.push(Spelling {
        text: hexadecimal(credential),
        least: piece * 2,
        case: Case::Any,
    });
    all
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 characters that hold nothing but bits of `bytes`, where `before` other bytes stand ahead of them.
fn base64(bytes: &[u8], before: usize, alphabet: &[u8; 64]) -> Zeroizing<Vec<u8>> {
    let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(bytes.iter().copied()).collect();
    let padded = Zeroizing::new(padded);
    let first = (before * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    let byte = |at: usize| u16::from(padded.get(at).copied().unwrap_or_default());
    let character = |at: usize| {
        let bit = at * 6;
        let pair = byte(bit / 8) << 8 | byte(bit / 8 + 1);
        let six = pair >> (10 - bit % 8) & 63;
        alphabet.get(usize::from(six)).copied().unwrap_or_default()
    };
    Zeroizing::new((first..last).map(character).collect())
}

fn hexadecimal(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| DIGITS.get(usize::from(four)).copied().unwrap_or_default();
    Zeroizing::new(
        bytes
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
            .collect(),
    )
}
