//! What a pattern cannot say: checksums, entropy, the inside of a token, and whether it is one people write to stand
//! for a secret.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};

use super::entropy::is_over;
use super::{Detector, card, encoded};

/// A further test of a match.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Check {
    /// The pattern says it all.
    #[default]
    None,
    /// Looks drawn at random: over 3 bits a character.
    Random,
    /// Digits and letters, and hardly one of them twice: no words.
    Token,
    /// At least 20 characters with over 4.5 bits each.
    Entropy,
    /// Issuer prefix, length and Luhn digit of a card number, in groups or where something speaks of cards.
    Luhn,
    /// Six characters of CRC-32 at the end: if right, nothing can excuse it; if wrong, it has to look random.
    Crc32Base62,
    /// The header of a JWT can be read.
    Jwt,
    /// A key id that is not a parameter of a signed URL.
    AwsKeyId,
    /// A password, not a word that stands for one.
    Password,
    /// Base64 of a user and a password.
    Basic,
    /// The body of a key.
    Armour,
}

/// What a check says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is one, whatever it looks like.
    Certain,
    /// It is one, unless it is a placeholder.
    Likely,
    /// It is none.
    No,
}

impl Verdict {
    fn likely_if(condition: bool) -> Self {
        if condition { Self::Likely } else { Self::No }
    }

    fn certain_if(condition: bool) -> Self {
        if condition { Self::Certain } else { Self::No }
    }
}

impl Check {
    /// Judges `secret`, a part of the match `whole` in `text`.
    pub(super) fn judge(self, text: &[u8], whole: &Range<usize>, secret: &Range<usize>) -> Verdict {
        let bytes = text.get(secret.clone()).unwrap_or_default();
        match self {
            Self::None => Verdict::Likely,
            Self::Random => Verdict::likely_if(is_over(bytes, 3.0)),
            Self::Token => Verdict::likely_if(is_mixed(bytes) && is_over(bytes, 2.7)),
            Self::Entropy => Verdict::likely_if(bytes.len() >= 20 && is_over(bytes, 4.5)),
            Self::Luhn => Verdict::likely_if(card::is_told(text, whole)),
            Self::Crc32Base62 if has_checksum(bytes) => Verdict::Certain,
            Self::Crc32Base62 => Verdict::likely_if(is_over(bytes, 3.0)),
            Self::Jwt => Verdict::certain_if(has_jwt_header(bytes)),
            Self::AwsKeyId => Verdict::likely_if(!follows_credential(text, whole.start)),
            Self::Password => Verdict::likely_if(is_password(bytes)),
            Self::Basic => Verdict::likely_if(is_user_and_password(bytes)),
            Self::Armour => Verdict::Certain,
        }
    }
}

impl Detector {
    /// Whether documentation uses this very value.
    pub(super) fn is_documented(&self, secret: &[u8], check: Check) -> bool {
        if check == Check::Luhn {
            let digits: Vec<u8> = secret.iter().copied().filter(u8::is_ascii_digit).collect();
            return self.documented.contains(&digits);
        }
        self.documented.contains(secret)
    }
}

/// Whether people write this where a secret would stand: it holds a word that says so, or a long run of one character,
/// and beside them not enough is left for a secret. A word behind a live token does not excuse it.
pub(super) fn is_placeholder(secret: &[u8]) -> bool {
    let Some(Words { automaton, start }) = STAND_IN_WORDS.as_ref() else {
        return false;
    };
    let (mut state, mut last, mut run) = (*start, 0, 0);
    let (mut stands_in, mut rest) = (false, 0);
    for (at, byte) in secret.iter().enumerate() {
        state = automaton.next_state(Anchored::No, state, *byte);
        run = if byte.eq_ignore_ascii_case(&last) { run + 1 } else { 1 };
        last = *byte;
        let word = if automaton.is_special(state) {
            word_length(automaton, state)
        } else {
            0
        };
        let repeated = if run >= SHORT_RUN { run } else { usize::from(*byte == 0) };
        let covered = word.max(repeated);
        if covered > 0 {
            // INVARIANT: no word lies within another, so what ends later does not begin before what ended earlier.
            stands_in |= word > 0 || run >= LONG_RUN;
            if could_be_secret(secret.get(rest..at + 1 - covered)) {
                return false;
            }
            rest = at + 1;
        }
    }
    stands_in && !could_be_secret(secret.get(rest..))
}

/// The length of the longest word that ends in this state.
fn word_length(automaton: &DFA, state: StateID) -> usize {
    let count = if automaton.is_match(state) {
        automaton.match_len(state)
    } else {
        0
    };
    let lengths = (0..count).map(|index| automaton.pattern_len(automaton.match_pattern(state, index)));
    lengths.max().unwrap_or_default()
}

fn is_mixed(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_digit) && bytes.iter().any(u8::is_ascii_alphabetic)
}

/// Whether what is left beside words is enough for a secret.
fn could_be_secret(rest: Option<&[u8]>) -> bool {
    rest.is_some_and(|rest| rest.len() >= SHORTEST_REST && is_mixed(rest) && is_over(rest, 3.7))
}

/// The automaton of what stands for a secret, and where it begins.
struct Words {
    automaton: DFA,
    start: StateID,
}

/// One automaton over all words: an attacker may make every match ask for them. Without it nothing is excused.
static STAND_IN_WORDS: LazyLock<Option<Words>> = LazyLock::new(|| {
    let automaton = DFA::builder()
        .match_kind(MatchKind::Standard)
        .ascii_case_insensitive(true)
        .build(WORDS)
        .ok()?;
    let start = automaton.start_state(Anchored::No).ok()?;
    Some(Words { automaton, start })
});

const WORDS: [&[u8]; 16] = [
    b"xxxx",
    b"****",
    b"....",
    b"${",
    b"{{",
    b"<",
    b"example",
    b"placeholder",
    b"changeme",
    b"change_me",
    b"your_",
    b"your-",
    b"redacted",
    b"dummy",
    b"insert_",
    b"replace_",
];

/// As often the same character stands for a secret.
const LONG_RUN: usize = 8;

/// As often it is no part of one.
const SHORT_RUN: usize = 4;

/// Characters of a secret that is left beside a word.
const SHORTEST_REST: usize = 24;

/// Thirty characters behind a prefix, then their CRC-32 in base 62.
pub(super) fn has_checksum(bytes: &[u8]) -> bool {
    let (Some(split), Some(body)) = (bytes.len().checked_sub(6), bytes.len().checked_sub(36)) else {
        return false;
    };
    bytes
        .get(body..split)
        .zip(bytes.get(split..))
        .is_some_and(|(body, sum)| checksum(body) == sum)
}

/// CRC-32 in six digits of base 62.
pub(super) fn checksum(body: &[u8]) -> [u8; 6] {
    let mut value = body.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            sum >> 1 ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    }) ^ u32::MAX;
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = BASE_62.get((value % 62) as usize).copied().unwrap_or(b'0');
        value /= 62;
    }
    digits
}

const BASE_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn has_jwt_header(token: &[u8]) -> bool {
    let Some(header) = token.split(|byte| *byte == b'.').next() else {
        return false;
    };
    let decoded = encoded::base64(header.iter().copied());
    let names: [&[u8]; 3] = [b"\"alg\"", b"\"typ\"", b"\"enc\""];
    decoded.starts_with(b"{") && names.iter().any(|name| memchr::memmem::find(&decoded, name).is_some())
}

/// Whether a signed URL names the key here. Masking it breaks the link and protects nothing: the id is no secret.
fn follows_credential(text: &[u8], at: usize) -> bool {
    let before = text
        .get(at.saturating_sub(24)..at)
        .unwrap_or_default()
        .to_ascii_lowercase();
    let names: [&[u8]; 4] = [
        b"credential=",
        b"credential%3d",
        b"awsaccesskeyid=",
        b"awsaccesskeyid%3d",
    ];
    names.iter().any(|name| before.ends_with(name))
}

fn is_password(bytes: &[u8]) -> bool {
    let lower = bytes.to_ascii_lowercase();
    let stands_for = matches!(lower.first(), Some(b'$' | b'%' | b'{' | b'<' | b'['))
        || lower.iter().all(|byte| matches!(byte, b'*' | b'.' | b'x'));
    bytes.len() >= 3 && !stands_for && !STAND_INS.contains(&lower.as_slice())
}

const STAND_INS: [&[u8]; 16] = [
    b"password",
    b"passwd",
    b"pass",
    b"pwd",
    b"secret",
    b"username",
    b"user",
    b"mypassword",
    b"my_password",
    b"none",
    b"null",
    b"true",
    b"false",
    b"dbpassword",
    b"db_password",
    b"undefined",
];

fn is_user_and_password(bytes: &[u8]) -> bool {
    let decoded = encoded::base64(bytes.iter().copied());
    let printable = |byte: &u8| (b' '..=b'~').contains(byte);
    decoded.len() >= 5 && decoded.contains(&b':') && decoded.iter().all(printable)
}
