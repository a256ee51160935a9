//! Which edition of JSON Schema a document speaks, and which keywords it knows.

use jsonschema::Draft;

/// An edition of JSON Schema, oldest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Dialect {
    Draft4,
    Draft6,
    Draft7,
    Draft201909,
    Draft202012,
}

impl Dialect {
    /// The edition a `$schema` names; `None` for one we do not know.
    pub(crate) fn named(uri: &str) -> Option<Self> {
        let uri = uri.strip_suffix('#').unwrap_or(uri);
        let path = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
        Some(match path {
            "json-schema.org/draft-04/schema" => Self::Draft4,
            "json-schema.org/draft-06/schema" => Self::Draft6,
            "json-schema.org/draft-07/schema" => Self::Draft7,
            "json-schema.org/draft/2019-09/schema" => Self::Draft201909,
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Self::Draft202012,
            _ => return None,
        })
    }

    /// The library's name for it.
    pub(crate) fn draft(self) -> Draft {
        match self {
            Self::Draft4 => Draft::Draft4,
            Self::Draft6 => Draft::Draft6,
            Self::Draft7 => Draft::Draft7,
            Self::Draft201909 => Draft::Draft201909,
            Self::Draft202012 => Draft::Draft202012,
        }
    }

    /// The keyword that names a schema.
    pub(crate) fn id_keyword(self) -> &'static str {
        if self == Self::Draft4 { "id" } else { "$id" }
    }

    /// The keyword under which schemas are kept for reference.
    pub(crate) fn definitions_keyword(self) -> &'static str {
        if self.has_ref_siblings() {
            "$defs"
        } else {
            "definitions"
        }
    }

    /// Whether keywords beside `$ref` count.
    pub(crate) fn has_ref_siblings(self) -> bool {
        self >= Self::Draft201909
    }

    /// Whether `keyword` asserts something by itself in some edition we know; the library knows in which.
    pub(crate) fn is_assertion(keyword: &str) -> bool {
        matches!(
            keyword,
            "type"
                | "enum"
                | "const"
                | "multipleOf"
                | "maximum"
                | "exclusiveMaximum"
                | "minimum"
                | "exclusiveMinimum"
                | "maxLength"
                | "minLength"
                | "pattern"
                | "format"
                | "contentEncoding"
                | "contentMediaType"
                | "maxItems"
                | "minItems"
                | "uniqueItems"
                | "maxContains"
                | "minContains"
                | "maxProperties"
                | "minProperties"
                | "required"
                | "dependentRequired"
        )
    }
}
