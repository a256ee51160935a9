//! Signed notes, by the specification of C2SP: a text, and lines that say which keys stand for it. Locks and checkpoints are
//! signed this way, so that any tool that knows the format can check them.
//! ADR 0070: locks are signed notes beside the lock.

mod key;

use data_encoding::BASE64;

pub use key::{KeyFault, KeyName, Signer, Verifier};

/// More signature lines than this are not looked at. The specification asks for 16 at least.
pub const MOST_SIGNATURES: usize = 100;

/// Why nobody may go by a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoteFault {
    /// It cannot be the text of a note.
    #[error("it does not end with a line break, or holds control characters other than line breaks")]
    Text,
    /// There is nothing that parts text and signatures.
    #[error("no empty line parts its text from its signatures")]
    Parts,
    /// A line is no signature.
    #[error("line {0} of its signatures is not of the form `— NAME SIGNATURE`")]
    Line(usize),
    /// Too many lines.
    #[error("it has more than {MOST_SIGNATURES} signatures")]
    TooMany,
    /// None at all.
    #[error("it has no signature")]
    Unsigned,
    /// A key that is known did not sign this text.
    #[error("the signature of the key {0} is not one of this text: the text or the signature was changed")]
    Forged(String),
    /// Nobody who is known has signed it.
    #[error("it is signed by {0}, and by no key that is trusted here")]
    Stranger(String),
}

/// One signature line: who says to have signed, and with what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    name: String,
    id: [u8; 4],
    bytes: Vec<u8>,
}

impl Signature {
    /// Reads the lines of a note's end; each must be one.
    ///
    /// # Errors
    /// When one is not, or there are none or too many.
    pub fn read_all(lines: &str) -> Result<Vec<Self>, NoteFault> {
        let body = match lines.strip_suffix('\n') {
            Some(body) => body,
            None if lines.is_empty() => return Err(NoteFault::Unsigned),
            None => return Err(NoteFault::Line(lines.split('\n').count())),
        };
        if body.split('\n').nth(MOST_SIGNATURES).is_some() {
            return Err(NoteFault::TooMany);
        }
        let read = |(at, line): (usize, &str)| Self::read(line).ok_or(NoteFault::Line(at + 1));
        body.split('\n').enumerate().map(read).collect()
    }

    fn read(line: &str) -> Option<Self> {
        let (name, coded) = line.strip_prefix(MARK)?.split_once(' ')?;
        KeyName::parse(name).ok()?;
        let decoded = BASE64.decode(coded.as_bytes()).ok()?;
        // The decoder takes padded pieces one after another; a note has one spelling.
        if BASE64.encode(&decoded) != coded {
            return None;
        }
        let (id, bytes) = decoded.split_first_chunk::<4>()?;
        if bytes.is_empty() {
            return None;
        }
        Some(Self {
            name: name.to_owned(),
            id: *id,
            bytes: bytes.to_vec(),
        })
    }

    /// Whether this key says to have made it.
    #[must_use]
    pub fn is_of(&self, key: &Verifier) -> bool {
        self.id == key.id() && self.name == key.name().as_str()
    }

    /// The line, with its line break.
    #[must_use]
    pub fn to_line(&self) -> String {
        let coded = BASE64.encode(&[&self.id[..], &self.bytes].concat());
        format!("{MARK}{} {coded}\n", self.name)
    }
}

/// Signs a text.
///
/// ```
/// use portreeve_vocabulary::note::{KeyName, Signer, sign, verify};
///
/// let signer = Signer::generate(KeyName::parse("ops.example/locks").unwrap()).unwrap();
/// let signature = sign("the text\n", &signer).unwrap();
/// let keys = [signer.verifier().clone()];
/// assert_eq!(verify("the text\n", &signature.to_line(), &keys).unwrap().len(), 1);
/// assert!(verify("the texT\n", &signature.to_line(), &keys).is_err());
/// ```
///
/// # Errors
/// When it cannot be the text of a note.
pub fn sign(text: &str, signer: &Signer) -> Result<Signature, NoteFault> {
    is_text(text)?;
    Ok(Signature {
        name: signer.verifier().name().as_str().to_owned(),
        id: signer.verifier().id(),
        bytes: signer.sign(text.as_bytes()),
    })
}

/// Which of these keys have signed a text: at least one. Signatures of strangers do not count; a signature that a known key did
/// not make spoils the whole note.
///
/// # Errors
/// Why nobody may go by the text.
pub fn verify<'k>(text: &str, lines: &str, keys: &'k [Verifier]) -> Result<Vec<&'k Verifier>, NoteFault> {
    is_text(text)?;
    let signatures = Signature::read_all(lines)?;
    let mut signed = Vec::new();
    for key in keys {
        let mut own = signatures.iter().filter(|signature| signature.is_of(key)).peekable();
        if own.peek().is_none() {
            continue;
        }
        if !own.all(|signature| key.has_signed(text.as_bytes(), &signature.bytes)) {
            return Err(NoteFault::Forged(key.shown()));
        }
        signed.push(key);
    }
    if signed.is_empty() {
        return Err(NoteFault::Stranger(strangers(&signatures)));
    }
    Ok(signed)
}

/// The text of a whole note, and its signature lines.
///
/// # Errors
/// When it is not of this form.
pub fn split(note: &str) -> Result<(&str, &str), NoteFault> {
    let at = note.rfind("\n\n").ok_or(NoteFault::Parts)?;
    let (text, rest) = note.split_at_checked(at + 1).ok_or(NoteFault::Parts)?;
    is_text(text)?;
    Ok((text, rest.strip_prefix('\n').ok_or(NoteFault::Parts)?))
}

/// The keys by their ids alone: names are whatever the writer of the file liked.
fn strangers(signatures: &[Signature]) -> String {
    let ids = signatures
        .iter()
        .take(MOST_TOLD)
        .map(|signature| key::hex(signature.id));
    let told = ids.collect::<Vec<_>>().join(", ");
    match signatures.len() {
        1 => format!("the key {told}"),
        2..=MOST_TOLD => format!("the keys {told}"),
        _ => format!("the keys {told} and others"),
    }
}

fn is_text(text: &str) -> Result<(), NoteFault> {
    let odd = |byte: u8| byte < b' ' && byte != b'\n';
    match text.ends_with('\n') && !text.bytes().any(odd) {
        true => Ok(()),
        false => Err(NoteFault::Text),
    }
}

const MARK: &str = "— ";
const MOST_TOLD: usize = 4;

#[cfg(test)]
mod tests;
