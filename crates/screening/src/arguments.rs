//! Preflight: the arguments of a call, before anything is decided on them or leaves with them.

mod fields;
mod judged;
mod marked;
mod names;
mod path;
mod pointer;
pub mod secrets;
mod size;
mod url;

pub use judged::{FieldRules, Hosts, Judged, Lead, PathClaim, ToolRules, judge};
pub use path::{Base, Bounds};
pub use pointer::{Pointer, PointerFault};
pub use schema::{ArgumentSchema, Fields, SchemaFault};
use vocabulary::canonical::{self, Spelling};
use vocabulary::json::{Limits, Value};
use vocabulary::{Digest, ReasonCode};

/// What arguments must keep to that hold neither paths nor URLs; those of a tool are judged by [`ToolRules`].
#[derive(Debug)]
pub struct ArgumentRules {
    limits: Limits,
    schema: ArgumentSchema,
}

impl ArgumentRules {
    /// The operator's limits and the tool's own schema, compiled.
    ///
    /// # Errors
    /// When the schema cannot be used: arguments of such a tool never leave.
    pub fn compile(limits: Limits, schema: &[u8], fields: Fields) -> Result<Self, SchemaFault> {
        Ok(Self::new(limits, ArgumentSchema::compile(schema, fields)?))
    }

    /// The operator's limits and the tool's own schema.
    #[must_use]
    pub fn new(limits: Limits, schema: ArgumentSchema) -> Self {
        Self { limits, schema }
    }

    /// Whether the schema has patterns that are not checked.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.schema.dropped_patterns().is_empty()
    }
}

/// Arguments that kept to the rules of their tool, byte for byte as the caller sent them.
///
/// Only [`check`] makes them, for a tool [`Judged::settle`]. They cannot be built elsewhere:
///
/// ```compile_fail,E0451
/// use portreeve_screening::arguments::{CheckedArguments, check};
/// fn forge<'a>(honest: CheckedArguments<'a>, other: &'a [u8]) -> CheckedArguments<'a> {
///     CheckedArguments { raw: Some(other), ..honest }
/// }
/// ```
///
/// while what was checked can be read:
///
/// ```
/// use portreeve_screening::arguments::{CheckedArguments, check};
/// fn honest<'a>(checked: CheckedArguments<'a>, other: &'a [u8]) -> (CheckedArguments<'a>, bool) {
///     let same = checked.raw() == Some(other);
///     (checked, same)
/// }
/// ```
#[derive(Debug)]
pub struct CheckedArguments<'a> {
    raw: Option<&'a [u8]>,
    tree: Value<'a>,
    digest: Digest,
    spelling: Spelling,
}

impl<'a> CheckedArguments<'a> {
    /// The bytes to send on; nothing where the caller sent none.
    #[must_use]
    pub fn raw(&self) -> Option<&'a [u8]> {
        self.raw
    }

    /// The same arguments as a tree; an empty object where the caller sent none.
    #[must_use]
    pub fn tree(&self) -> &Value<'a> {
        &self.tree
    }

    /// The digest of their canonical form (`args_hash`).
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Which rule that form needed (`args_canon`).
    #[must_use]
    pub fn spelling(&self) -> Spelling {
        self.spelling
    }
}

/// What was checked before it leaves: it owns the bytes that are sent, and is bound to a permit by its digest.
///
/// Nothing outside this crate can be such evidence, so nothing can report a digest of other bytes than it holds:
///
/// ```compile_fail,E0277
/// struct Forged(Vec<u8>);
/// impl portreeve_screening::arguments::Checked for Forged {
///     fn digest(&self) -> vocabulary::Digest { vocabulary::Digest::of(b"something harmless") }
///     fn arguments(&self) -> Option<&[u8]> { Some(&self.0) }
///     fn members(&self) -> &[portreeve_screening::arguments::Member<'_>] { &[] }
///     fn meta(&self) -> &[portreeve_screening::arguments::Member<'_>] { &[] }
/// }
/// ```
///
/// ```
/// fn send(checked: &dyn portreeve_screening::arguments::Checked) -> Option<&[u8]> {
///     checked.arguments()
/// }
/// ```
pub trait Checked: sealed::Sealed + Sync {
    /// The digest of its canonical form.
    fn digest(&self) -> Digest;

    /// A tool's arguments, byte for byte as they came.
    fn arguments(&self) -> Option<&[u8]>;

    /// The other members of `params` that go along, byte for byte as they came.
    fn members(&self) -> &[Member<'_>];

    /// The client's own members of `_meta` that go along, likewise.
    fn meta(&self) -> &[Member<'_>];
}

mod sealed {
    pub trait Sealed {}
}

/// A member of an object: its name, and its value as raw JSON.
pub type Member<'a> = (&'a str, &'a [u8]);

/// What stands beside a tool's arguments, or in the params of another method.
#[derive(Clone, Debug, Default)]
pub struct Beside<'a> {
    /// Members of `params`.
    pub members: Vec<Member<'a>>,
    /// Members of `_meta`.
    pub meta: Vec<Member<'a>>,
}

/// A tool's call: its arguments, which kept to the rules of the tool, and what goes along beside them within the limits.
///
/// Only [`check_call`] makes one.
#[derive(Debug)]
pub struct CheckedCall<'a> {
    arguments: CheckedArguments<'a>,
    beside: Beside<'a>,
}

impl<'a> CheckedCall<'a> {
    /// The arguments.
    #[must_use]
    pub fn arguments(&self) -> &CheckedArguments<'a> {
        &self.arguments
    }
}

impl sealed::Sealed for CheckedCall<'_> {}

impl Checked for CheckedCall<'_> {
    fn digest(&self) -> Digest {
        self.arguments.digest
    }

    fn arguments(&self) -> Option<&[u8]> {
        self.arguments.raw
    }

    fn members(&self) -> &[Member<'_>] {
        &self.beside.members
    }

    fn meta(&self) -> &[Member<'_>] {
        &self.beside.meta
    }
}

/// Takes what stands beside checked arguments along with them.
///
/// # Errors
/// When something of it is beyond the limits of arguments, or named twice within.
pub fn check_call<'a>(
    arguments: CheckedArguments<'a>,
    beside: Beside<'a>,
    limits: &Limits,
) -> Result<CheckedCall<'a>, BesideLimits> {
    let mut values = beside.members.iter().chain(&beside.meta);
    if values.all(|(_, raw)| is_within(raw, limits)) {
        Ok(CheckedCall { arguments, beside })
    } else {
        Err(BesideLimits)
    }
}

/// Something beside the arguments does not keep to their limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a member of `params` is beyond the limits of arguments, or named twice within")]
pub struct BesideLimits;

/// The params of a request that calls no tool, within the limits, byte for byte as the caller sent them.
///
/// Only [`check_params`] makes them.
#[derive(Debug)]
pub struct CheckedParams<'a> {
    beside: Beside<'a>,
    tree: Value<'a>,
    digest: Digest,
    spelling: Spelling,
}

impl<'a> CheckedParams<'a> {
    /// The params as a tree, without `_meta` and what belongs to a single round of a dialogue.
    #[must_use]
    pub fn tree(&self) -> &Value<'a> {
        &self.tree
    }

    /// The digest of their canonical form (`args_hash`).
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Which rule that form needed (`args_canon`).
    #[must_use]
    pub fn spelling(&self) -> Spelling {
        self.spelling
    }
}

impl sealed::Sealed for CheckedParams<'_> {}

impl Checked for CheckedParams<'_> {
    fn digest(&self) -> Digest {
        self.digest
    }

    fn arguments(&self) -> Option<&[u8]> {
        None
    }

    fn members(&self) -> &[Member<'_>] {
        &self.beside.members
    }

    fn meta(&self) -> &[Member<'_>] {
        &self.beside.meta
    }
}

/// Whether a raw value that goes along beside arguments keeps to their limits: size, depth, duplicate
/// names at any depth.
#[must_use]
pub fn is_within(raw: &[u8], limits: &Limits) -> bool {
    size::read(raw, limits).is_ok()
}

/// Checks the raw `params` of a request that calls no tool: size, depth, duplicate names at any depth. What is to be sent
/// of them must lie within them: nothing is sent that was not read here.
///
/// # Errors
/// The first rule they break.
pub fn check_params<'a>(
    raw: Option<&'a [u8]>,
    sent: Beside<'a>,
    limits: &Limits,
) -> Result<CheckedParams<'a>, Refusal> {
    let mut tree = match raw {
        Some(raw) => size::read(raw, limits)?,
        None => Value::Object(Vec::new()),
    };
    let mut values = sent.members.iter().chain(&sent.meta);
    if !values.all(|(_, value)| lies_within(value, raw.unwrap_or_default())) {
        return Err(Refusal {
            code: ReasonCode::DenyMalformed,
            message: "the params are not those that were read".to_owned(),
            digest: None,
        });
    }
    if let Value::Object(members) = &mut tree {
        members.retain(|(name, _)| !matches!(&**name, "_meta" | "inputResponses" | "requestState"));
    }
    let (digest, spelling) = canonical::digest(&tree);
    Ok(CheckedParams {
        beside: sent,
        tree,
        digest,
        spelling,
    })
}

fn lies_within(part: &[u8], whole: &[u8]) -> bool {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}

/// Arguments that are not let through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The reason for the receipt.
    pub code: ReasonCode,
    /// A sentence for a model: which field, what is allowed. Of the arguments it holds the names of unknown fields, made
    /// fit to be told to their caller, and no value.
    pub message: String,
    /// The digest of the arguments' canonical form, where they have one.
    pub digest: Option<Digest>,
}

/// Checks the raw `arguments` of a call: size and depth, well-formed without duplicate names, an object,
/// then the schema. Absent arguments count as `{}` and stay absent.
///
/// # Errors
/// The first rule they break.
pub fn check<'a>(raw: Option<&'a [u8]>, rules: &ArgumentRules) -> Result<CheckedArguments<'a>, Refusal> {
    let tree = match raw {
        Some(raw) => size::read(raw, &rules.limits)?,
        None => Value::Object(Vec::new()),
    };
    let (digest, spelling) = canonical::digest(&tree);
    fields::check(&tree, &rules.schema).map_err(|(code, message)| Refusal {
        code,
        message,
        digest: Some(digest),
    })?;
    Ok(CheckedArguments {
        raw,
        tree,
        digest,
        spelling,
    })
}

#[cfg(test)]
mod tests;
