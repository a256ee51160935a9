//! Bytes to a tree within the operator's limits; what cannot be read is refused without a digest.

use vocabulary::ReasonCode;
use vocabulary::json::{Fault, Limits, Value};

use super::Refusal;

/// Reads `raw` as one JSON document.
pub(super) fn read<'a>(raw: &'a [u8], limits: &Limits) -> Result<Value<'a>, Refusal> {
    Value::parse(raw, limits).map_err(|fault| refusal(fault, limits))
}

fn refusal(fault: Fault, limits: &Limits) -> Refusal {
    let (code, message) = match fault {
        Fault::TooLarge => (
            ReasonCode::DenyPayloadTooLarge,
            format!(
                "the arguments are too large: at most {} bytes are allowed",
                limits.max_bytes
            ),
        ),
        Fault::TooDeep => (
            ReasonCode::DenyPayloadTooLarge,
            format!(
                "the arguments are nested too deep: at most {} levels are allowed",
                limits.max_depth
            ),
        ),
        Fault::StringTooLong => (
            ReasonCode::DenyPayloadTooLarge,
            format!(
                "a string in the arguments is too long: at most {} bytes are allowed",
                limits.max_string
            ),
        ),
        Fault::TooManyItems => (
            ReasonCode::DenyPayloadTooLarge,
            format!(
                "the arguments hold too many items: at most {} are allowed",
                limits.max_items
            ),
        ),
        Fault::DuplicateKey => (
            ReasonCode::DenyDuplicateKey,
            "the arguments name a field twice in one object: name every field once".to_owned(),
        ),
        Fault::Malformed | Fault::NotUtf8 | Fault::LoneSurrogate | Fault::NumberOutOfRange => (
            ReasonCode::DenySchemaViolation,
            format!("the arguments cannot be read: {fault}"),
        ),
    };
    Refusal {
        code,
        message,
        digest: None,
    }
}
