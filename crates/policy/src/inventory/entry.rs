//! One tool as the gateway knows it: the server's raw definition, what was read from it, and
//! whether it may be used.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use vocabulary::json::{Fault, Limits, Value};
use vocabulary::{Audience, Digest, Hints, Risk, RiskSource, Shadowing, ToolId, ToolName, Trust, canonical};

use crate::inventory::SandboxTier;
use crate::inventory::identity::Replaced;
use crate::inventory::word::Word;

/// The largest definition (and the largest instructions) that is kept.
pub const MAX_DEFINITION_BYTES: usize = 256 * 1024;

/// A tool in the inventory: never without a risk, a trust level and a standing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolEntry {
    /// Server and name.
    pub id: ToolId,
    /// The definition, byte for byte as the server sent it.
    pub definition: Arc<[u8]>,
    /// Digest of the definition's canonical form.
    pub definition_hash: Digest,
    /// The bytes of `inputSchema` inside the definition; empty only in quarantine for a bad definition.
    pub input_schema: Arc<[u8]>,
    /// The bytes of `outputSchema`, if there is one.
    pub output_schema: Option<Arc<[u8]>>,
    /// How dangerous a call is.
    pub risk: Risk,
    /// By whose word.
    pub risk_source: RiskSource,
    /// How far the operator trusts the server.
    pub trust: Trust,
    /// The sandbox its server runs in.
    pub tier: SandboxTier,
    /// What the server says of the tool.
    pub hints: Hints,
    /// What became of its input schema.
    pub input: InputState,
    /// What became of its output schema.
    pub output: OutputState,
    /// Whether the tool may be seen and called.
    pub standing: Standing,
    /// The digest of the definition that was approved, whether it is this one or not.
    pub approved: Option<Digest>,
    /// What was approved before this definition was seen, where it was kept and is another.
    pub before: Option<Arc<Before>>,
    /// What operators said of it while the gateway ran.
    pub word: Word,
    /// Which clients get this definition.
    pub audience: Audience,
}

/// A tool as it was approved before it changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Before {
    /// The approved definition, byte for byte.
    pub definition: Arc<[u8]>,
    /// How dangerous it was.
    pub risk: Risk,
}

vocabulary::words! {
    /// What became of a tool's input schema.
    pub enum InputState {
        /// Nobody has compiled it yet.
        Declared = "declared",
        /// Arguments are judged by it.
        Enforced = "enforced",
        /// Arguments are judged by it, but for patterns that no linear-time engine can run.
        Partly = "partly",
    }
}

vocabulary::words! {
    /// What became of a tool's output schema.
    pub enum OutputState {
        /// The tool declares none.
        Absent = "absent",
        /// It declares one, which nobody has compiled yet.
        Declared = "declared",
        /// Results are judged by it.
        Enforced = "enforced",
        /// Results are judged by it, but for patterns that no linear-time engine can run.
        Partly = "partly",
        /// It accepts everything.
        Vacuous = "vacuous",
        /// It cannot be used: results are not judged.
        Unusable = "unusable",
    }
}

/// Whether a tool may be seen and called at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The definition is the one that was approved.
    Approved,
    /// Invisible and denied until the operator approves the definition.
    Quarantined(QuarantineCause),
    /// Invisible and denied until the operator enables it again.
    Disabled,
}

/// Why a tool is quarantined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QuarantineCause {
    /// Nobody has said how far the server is trusted, so its tools start here.
    FirstSight,
    /// The server added the tool after its first discovery.
    NewTool,
    /// The definition holds what nobody sees, or a secret; a person is to look at it first.
    Doubtful,
    /// The definition is not the approved one any more.
    Changed {
        /// The digest that was approved.
        approved: Digest,
    },
    /// It was approved of another server, whose name this one has now.
    IdentityChanged(Box<Replaced>),
    /// It may be taken for another server's tool, or is set against one.
    Shadowing(Shadowing),
    /// The definition cannot be used at all; approval does not help.
    BadDefinition(DefinitionFault),
}

/// What is wrong with a definition; says nothing of its contents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum DefinitionFault {
    /// Larger than [`MAX_DEFINITION_BYTES`].
    #[error("the definition is larger than 256 KiB")]
    TooLarge,
    /// Not a JSON document that can be read without doubt.
    #[error("the definition is not well-formed JSON, or nests too deep, or names a member twice")]
    Unreadable,
    /// JSON, but no object.
    #[error("the definition is not an object")]
    NotAnObject,
    /// No name, or one that could forge a mark or a line.
    #[error("the name is missing or has characters that a name may not have")]
    BadName,
    /// Two definitions of one discovery share the name.
    #[error("the server defines the name more than once")]
    DuplicateName,
    /// `inputSchema` is missing or no object.
    #[error("`inputSchema` is missing or not an object")]
    BadInputSchema,
    /// `inputSchema` is no schema that can be used: arguments could not be checked.
    #[error("`inputSchema` is not a schema that arguments can be checked with")]
    UncheckableSchema,
    /// A pattern of `inputSchema` says nothing that arguments can be checked with.
    #[error("`inputSchema` has a pattern that is not a regular expression")]
    BadPattern,
    /// An argument could not be repeated in a header as the definition asks.
    #[error("`inputSchema` has an `x-mcp-header` mark that is not valid")]
    BadHeaderMark,
    /// It holds a secret, which is not kept.
    #[error("the definition holds a secret")]
    HoldsSecret,
    /// The server offers more than is kept.
    #[error("the server offers more than the inventory holds")]
    TooMany,
}

/// What a raw definition says, as far as the inventory reads it.
pub(crate) struct ReadDefinition {
    pub(crate) name: ToolName,
    pub(crate) hash: Digest,
    pub(crate) hints: Hints,
    /// What the tool says of itself; empty where it says nothing.
    pub(crate) description: String,
    pub(crate) schemas: Result<Schemas, DefinitionFault>,
}

/// The exact spans of both schemas.
pub(crate) struct Schemas {
    pub(crate) input: Arc<[u8]>,
    pub(crate) output: Option<Arc<[u8]>>,
}

/// Reads a raw definition; the fault is one that leaves it without a usable name.
pub(crate) fn read(definition: &[u8]) -> Result<ReadDefinition, DefinitionFault> {
    let tree = parse_object(definition)?;
    let name = tree
        .member("name")
        .and_then(Value::as_str)
        .ok_or(DefinitionFault::BadName)?;
    let name = ToolName::parse(name).map_err(|_| DefinitionFault::BadName)?;
    let (hash, _) = canonical::digest(&tree);
    let schemas = match tree.member("inputSchema") {
        Some(Value::Object(_)) => spans(definition),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | None => {
            Err(DefinitionFault::BadInputSchema)
        }
    };
    Ok(ReadDefinition {
        name,
        hash,
        hints: hints(&tree),
        description: tree
            .member("description")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        schemas,
    })
}

/// The tree of a definition of any kind.
pub(crate) fn parse_object(definition: &[u8]) -> Result<Value<'_>, DefinitionFault> {
    if definition.len() > MAX_DEFINITION_BYTES {
        return Err(DefinitionFault::TooLarge);
    }
    let tree = Value::parse(definition, &READING).map_err(unreadable)?;
    match tree {
        Value::Object(_) => Ok(tree),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(DefinitionFault::NotAnObject)
        }
    }
}

fn unreadable(fault: Fault) -> DefinitionFault {
    match fault {
        Fault::TooLarge | Fault::StringTooLong | Fault::TooManyItems => DefinitionFault::TooLarge,
        Fault::Malformed
        | Fault::NotUtf8
        | Fault::TooDeep
        | Fault::DuplicateKey
        | Fault::LoneSurrogate
        | Fault::NumberOutOfRange => DefinitionFault::Unreadable,
    }
}

fn spans(definition: &[u8]) -> Result<Schemas, DefinitionFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spans<'a> {
        #[serde(borrow)]
        input_schema: &'a RawValue,
        #[serde(borrow, default)]
        output_schema: Option<&'a RawValue>,
    }
    let spans: Spans<'_> = serde_json::from_slice(definition).map_err(|_| DefinitionFault::Unreadable)?;
    Ok(Schemas {
        input: spans.input_schema.get().as_bytes().into(),
        output: spans.output_schema.map(|span| span.get().as_bytes().into()),
    })
}

fn hints(tree: &Value<'_>) -> Hints {
    let annotations = tree.member("annotations");
    let hint = |name| match annotations.and_then(|annotations| annotations.member(name)) {
        Some(Value::Bool(value)) => Some(*value),
        Some(Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) | None => None,
    };
    Hints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

const READING: Limits = Limits {
    max_bytes: MAX_DEFINITION_BYTES,
    max_depth: 128,
    max_string: MAX_DEFINITION_BYTES,
    max_items: 50_000,
};
