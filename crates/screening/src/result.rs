//! The chokepoint: everything a server sends becomes a [`ScreenedResult`] here, or is withheld.

pub mod edit;
mod guard;
pub mod redact;
pub mod spotlight;
pub mod strip;
pub mod truncate;
pub mod validate;
pub mod walk;

use bytes::Bytes;
use vocabulary::ReasonCode;
use vocabulary::json::scanned::Scanned;

use guard::Breach;

/// Something a server sent: the raw span of a JSON-RPC `result`, untrusted.
pub trait Received {
    /// What came.
    fn into_raw(self) -> Raw;
}

/// The bytes of a server, with or without the evidence that they were read through.
#[derive(Clone, Debug)]
pub enum Raw {
    /// Nobody looked at them yet.
    Unread(Bytes),
    /// They are well-formed, and their depth is known.
    Scanned(Scanned),
}

/// Absolute limits on any message of a server (`[limits] result`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guards {
    /// Bytes.
    pub max_bytes: usize,
    /// Nesting: a scalar is 1, `{"a":1}` is 2.
    pub max_depth: usize,
}

/// A result that may reach a client.
///
/// Only [`screen`] makes one. It cannot be built elsewhere:
///
/// ```compile_fail,E0451
/// use portreeve_screening::result::ScreenedResult;
/// fn forge(honest: ScreenedResult, other: bytes::Bytes) -> ScreenedResult {
///     ScreenedResult { bytes: other, ..honest }
/// }
/// ```
///
/// while what was screened can be read:
///
/// ```
/// use portreeve_screening::result::ScreenedResult;
/// fn honest(screened: ScreenedResult, other: bytes::Bytes) -> (ScreenedResult, bool) {
///     let same = *screened.bytes() == other;
///     (screened, same)
/// }
/// ```
#[derive(Debug)]
pub struct ScreenedResult {
    bytes: Bytes,
    tool_error: ToolError,
    result_type: Said,
}

/// What a result says of its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// Nothing.
    Nothing,
    /// That it is complete.
    Complete,
    /// Something else, or the same in another spelling.
    Otherwise,
}

/// Whether a result calls itself an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ToolError {
    No,
    Yes,
}

impl ScreenedResult {
    /// The bytes to forward.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A piece of what was screened is screened; `None` for bytes from anywhere else.
    #[must_use]
    pub fn part(&self, piece: &Bytes) -> Option<Self> {
        let (whole, part) = (self.bytes.as_ptr_range(), piece.as_ptr_range());
        (whole.start <= part.start && part.end <= whole.end).then(|| Self {
            bytes: piece.clone(),
            tool_error: ToolError::No,
            result_type: Said::Nothing,
        })
    }

    /// What `resultType` at the top of the result says.
    #[must_use]
    pub fn result_type(&self) -> Said {
        self.result_type
    }

    /// Whether the tool reports that it failed (`isError: true` at the top of the result).
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.tool_error == ToolError::Yes
    }
}

/// A result that is not passed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withheld {
    /// The reason for the receipt.
    pub code: ReasonCode,
    /// A sentence for the caller; nothing of the payload in it.
    pub message: String,
}

/// Screens what a server sent. On the clean path the very bytes that came are given on.
///
/// # Errors
/// When they break a guard or are not a JSON document's.
pub fn screen<R: Received>(raw: R, guards: &Guards) -> Result<ScreenedResult, Withheld> {
    let (bytes, seen) = match raw.into_raw() {
        Raw::Unread(bytes) => {
            let seen = guard::scan(&bytes, guards);
            (bytes, seen)
        }
        Raw::Scanned(scanned) => {
            let seen = guard::judge(&scanned, guards);
            (scanned.into_bytes(), seen)
        }
    };
    match seen {
        Ok(guard::Seen { is_error, result_type }) => {
            let tool_error = if is_error { ToolError::Yes } else { ToolError::No };
            Ok(ScreenedResult {
                bytes,
                tool_error,
                result_type,
            })
        }
        Err(breach) => Err(withheld(breach, guards)),
    }
}

fn withheld(breach: Breach, guards: &Guards) -> Withheld {
    let (code, cause) = match breach {
        Breach::TooLarge => (
            ReasonCode::WithheldSchema,
            format!("the result has more than {} bytes", guards.max_bytes),
        ),
        Breach::TooDeep => (
            ReasonCode::WithheldSchema,
            format!("the result is nested deeper than {} levels", guards.max_depth),
        ),
        Breach::Malformed => (
            ReasonCode::ErrorUpstream,
            "the result is not well-formed JSON".to_owned(),
        ),
    };
    let message = match breach {
        Breach::TooLarge | Breach::TooDeep => format!("output schema validation failed: {cause}"),
        Breach::Malformed => cause,
    };
    Withheld { code, message }
}

#[cfg(test)]
mod tests;
