//! `portreeve__read_cache` as lists show it, and what its arguments must keep to.

use std::sync::LazyLock;

use screening::arguments::{ArgumentRules, Fields};
use vocabulary::json;

use crate::snapshot::Snapshot;
use crate::snapshot::tool::ListedDefinition;

/// Its name on every route.
pub(crate) const NAME: &str = "portreeve__read_cache";

const DEFINITION: &str = concat!(
    r#"{"name":"portreeve__read_cache","title":"Read on","description":"Reads on in a tool result that the gateway cut. "#,
    r#"The notice behind the result names the key and the offset. Offset and limit count bytes, or records where the text is a JSON array.","#,
    r#""inputSchema":{"type":"object","properties":{"key":{"type":"string","maxLength":128},"offset":{"type":"integer","minimum":0},"#,
    r#""limit":{"type":"integer","minimum":1}},"required":["key"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#
);

/// The definition, as lists show it.
pub(crate) static LISTED: LazyLock<ListedDefinition> = LazyLock::new(|| ListedDefinition::builtin(DEFINITION));

/// What its arguments must keep to.
pub(crate) static RULES: LazyLock<Option<ArgumentRules>> = LazyLock::new(|| {
    let limits = json::Limits {
        max_bytes: 1024,
        max_depth: 4,
        max_string: 256,
        max_items: 8,
    };
    let schema = mcp::server::member_span(DEFINITION.as_bytes(), "inputSchema")?;
    ArgumentRules::compile(limits, DEFINITION.as_bytes().get(schema)?, Fields::Closed).ok()
});

/// Whether the tool is there at all.
pub(crate) fn is_offered(snapshot: &Snapshot) -> bool {
    snapshot.screening.truncation.is_some()
}
