//! Decides whether a schema may be compiled at all. No schema library has fuel, so what a schema can
//! cost is counted here first: its bytes, depth and subschemas, how often it can judge one value, how
//! deep it can make a validator recurse, and whether a reference leaves it or never comes to an end.

mod growth;

use vocabulary::json::{Fault, Limits, Value};

use crate::graph::Graph;

pub(crate) use growth::Growth;

/// Why a schema was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SchemaFault {
    /// It is not a JSON document that can be read.
    #[error("the schema cannot be read: {0}")]
    Unreadable(Fault),
    /// A subschema is neither an object nor a boolean, or a keyword does not hold what it must.
    #[error("the schema is not valid for its dialect")]
    NotASchema,
    /// `$schema` names no edition of JSON Schema we know, or parts of the schema name different ones.
    #[error("the schema's dialect is not known")]
    UnknownDialect,
    /// It has more than 5 000 subschemas.
    #[error("the schema has too many subschemas")]
    TooManySubschemas,
    /// Judging one value could take more than 50 000 evaluations.
    #[error("the schema could take too many evaluations")]
    TooManyEvaluations,
    /// Judging one value could nest deeper than a validator's stack is good for.
    #[error("the schema nests too deep through its references")]
    TooDeepThroughReferences,
    /// A `$ref` names something outside the document.
    #[error("a reference leaves the schema")]
    ReferenceLeavesDocument,
    /// A `$ref` names a place in the document that does not exist.
    #[error("a reference leads nowhere")]
    DanglingReference,
    /// Two parts of the document have the same `$id`.
    #[error("two parts of the schema share an identifier")]
    AmbiguousReference,
    /// A dynamic reference whose target depends on the way to it.
    #[error("a dynamic reference cannot be bounded")]
    DynamicReference,
    /// References lead back to their start without going down into the value.
    #[error("references run in a circle")]
    ReferenceCycle,
    /// A pattern is no regular expression: nobody could say what it lets through.
    #[error("a pattern is not a regular expression")]
    BadPattern,
    /// It has too many patterns, or one is too long or too large when compiled.
    #[error("a pattern is too large")]
    PatternTooLarge,
}

/// Limits on a schema document; its values are the ruling of the screening design.
pub(crate) const SCHEMA_LIMITS: Limits = Limits {
    max_bytes: 256 * 1024,
    max_depth: 64,
    max_string: 256 * 1024,
    max_items: 256 * 1024,
};

const MAX_SUBSCHEMAS: usize = 5_000;
const MAX_EVALUATIONS: u64 = 50_000;

/// Reads a schema document within the limits.
pub(crate) fn read(raw: &[u8]) -> Result<Value<'_>, SchemaFault> {
    Value::parse(raw, &SCHEMA_LIMITS).map_err(SchemaFault::Unreadable)
}

/// A schema that may be compiled, and what it costs to apply.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    pub(crate) graph: Graph<'a>,
    pub(crate) growth: Growth,
    /// Steps that judging one value on the worst way down can take.
    pub(crate) steps: u64,
}

/// Counts what `document` can cost and refuses it where that is too much.
pub(crate) fn admit<'a>(document: &'a Value<'a>) -> Result<Admitted<'a>, SchemaFault> {
    let graph = Graph::of(document, MAX_SUBSCHEMAS)?;
    let order = graph.in_place_order()?;
    if growth::evaluations_without_recursion(&graph, &order) > MAX_EVALUATIONS {
        return Err(SchemaFault::TooManyEvaluations);
    }
    let growth = Growth::of(&graph, &order);
    if growth.nesting(1) > Growth::MAX_NESTING {
        return Err(SchemaFault::TooDeepThroughReferences);
    }
    let steps = growth::steps_without_recursion(&graph, &order);
    Ok(Admitted { graph, growth, steps })
}
