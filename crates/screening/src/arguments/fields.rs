//! The tool's own schema: every field declared, every value as declared.

use schema::ArgumentSchema;
use vocabulary::ReasonCode;
use vocabulary::json::Value;

use super::names;

/// Judges the whole of the arguments.
pub(super) fn check(tree: &Value<'_>, schema: &ArgumentSchema) -> Result<(), (ReasonCode, String)> {
    if !matches!(tree, Value::Object(_)) {
        let message = "the arguments must be an object: send `{}` with the tool's fields in it".to_owned();
        return Err((ReasonCode::DenySchemaViolation, message));
    }
    schema.check_telling(tree, &names::told).map_err(|violations| {
        let code = if violations.has_unknown_fields() {
            ReasonCode::DenyUnknownFields
        } else {
            ReasonCode::DenySchemaViolation
        };
        (
            code,
            format!("the arguments do not fit the tool's input schema: {violations}"),
        )
    })
}
