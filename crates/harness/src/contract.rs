//! What an agent's output must be, and the only place where bytes become [`Validated`]. Deterministic: no clock, no
//! network, no model; the same bytes get the same verdict in the same words.
//! ADR 0044 and ADR 0047: a schema must check what it says, and must refuse something.

mod kinds;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use ledger::AttemptClass;
use schema::{FormatFault, OutputSchema, SchemaFault};
use screening::detect::{Detector, Excuse, Joins, Piece, PieceKind, Redact};
use screening::result::strip::{Class, Classes, Counts, strip};
use vocabulary::Digest;
use vocabulary::json::span::{DEEPEST, Scanner, SpanFault, Token, decode_name};
use vocabulary::json::{Fault as JsonFault, Limits, Value};

use crate::intake::RawOutput;
use crate::refusal::{Guard, MOST_VIOLATIONS, Refusal};

/// Bytes that were judged and found to fit. Nothing but [`Contract::validate`] makes them:
///
/// ```compile_fail,E0451
/// use portreeve_harness::Validated;
/// fn forge(bytes: std::sync::Arc<[u8]>, hash: vocabulary::Digest) -> Validated {
///     Validated { bytes, hash, schema: hash }
/// }
/// ```
///
/// while looking at them is for everybody:
///
/// ```
/// fn hash(validated: &portreeve_harness::Validated) -> vocabulary::Digest {
///     validated.hash()
/// }
/// ```
#[derive(Clone)]
pub struct Validated {
    bytes: Arc<[u8]>,
    hash: Digest,
    schema: Digest,
}

impl Validated {
    /// The digest of the bytes.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// The digest of the schema they fit.
    #[must_use]
    pub fn schema(&self) -> Digest {
        self.schema
    }

    /// How many bytes there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Validated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validated")
            .field("hash", &self.hash)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// A compiled contract.
#[derive(Debug)]
pub struct Contract {
    schema: OutputSchema,
    limits: Limits,
    rejected: Classes,
    secrets: Secrets,
}

vocabulary::words! {
    /// What is done about secrets in an output.
    pub enum Secrets {
        /// Nobody looks.
        Off = "off",
        /// They are told in the record.
        Record = "record",
        /// An output with one is refused.
        Refuse = "refuse",
    }
}

/// Why a schema is of no use to a harness.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ContractFault {
    /// It cannot be compiled.
    #[error("{0}")]
    Schema(SchemaFault),
    /// It accepts everything.
    #[error("the schema accepts documents of every kind; say what the output must be, `type` first")]
    Vacuous,
    /// It does not say what the document itself is.
    #[error(
        "the schema accepts documents of more than one kind, so that a bare word could pass unchecked; say which by `type` at its root, or in each of its alternatives"
    )]
    Kinds,
    /// A format would not be checked.
    #[error("{0}")]
    Format(FormatFault),
    /// Part of it would not be checked.
    #[error("{0}; write a pattern without look-around and back references")]
    Unchecked(schema::DroppedPattern),
    /// The rules for secrets are broken.
    #[error("the rules for secrets cannot be loaded")]
    Detector,
}

/// What was found beside the verdict: secrets by category.
pub type Findings = BTreeMap<&'static str, u64>;

impl Contract {
    /// Compiles a schema; `sizes` are the most bytes and the deepest nesting.
    ///
    /// # Errors
    /// When the schema cannot be compiled, checks nothing, or would be checked in part only.
    pub fn compile(
        raw: &[u8],
        sizes: (usize, usize),
        rejected: Classes,
        secrets: Secrets,
    ) -> Result<Self, ContractFault> {
        let schema = OutputSchema::compile(raw).map_err(ContractFault::Schema)?;
        if let Some(dropped) = schema.dropped_patterns().first() {
            return Err(ContractFault::Unchecked(dropped.clone()));
        }
        if schema.is_vacuous() || takes_anything(&schema) {
            return Err(ContractFault::Vacuous);
        }
        if !kinds::are_said(raw) {
            return Err(ContractFault::Kinds);
        }
        let schema = OutputSchema::compile_with_formats(raw).map_err(ContractFault::Format)?;
        if secrets != Secrets::Off && DETECTOR.is_none() {
            return Err(ContractFault::Detector);
        }
        let (max_bytes, max_depth) = sizes;
        let limits = Limits {
            max_bytes,
            max_depth,
            max_string: max_bytes,
            max_items: max_bytes,
        };
        Ok(Self {
            schema,
            limits,
            rejected,
            secrets,
        })
    }

    /// What it asks for beside the schema, in words: part of what a lock binds.
    pub(crate) fn rules(&self) -> Vec<String> {
        let rejected = Class::ALL.into_iter().filter(|class| self.rejected.holds(*class));
        [
            self.limits.max_bytes.to_string(),
            self.limits.max_depth.to_string(),
            self.secrets.as_str().to_owned(),
        ]
        .into_iter()
        .chain(rejected.map(|class| class.as_str().to_owned()))
        .collect()
    }

    /// The most bytes an output may have.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.limits.max_bytes
    }

    /// The digest of the schema.
    #[must_use]
    pub fn schema_hash(&self) -> Digest {
        self.schema.hash()
    }

    /// Judges bytes as they are: nothing is repaired, unwrapped or left out.
    ///
    /// # Errors
    /// Why they go no further.
    pub fn validate(&self, raw: &RawOutput) -> (Result<Validated, Refusal>, Findings) {
        let bytes = raw.bytes();
        let refused = |refusal| (Err(refusal), Findings::new());
        if bytes.is_empty() {
            return refused(Refusal::no_output());
        }
        let value = match Value::parse(bytes, &self.limits) {
            Ok(value) => value,
            Err(fault) => return refused(unreadable(fault)),
        };
        if let Err(found) = self.schema.check_at_length(&value, MOST_VIOLATIONS) {
            return refused(Refusal {
                class: AttemptClass::SchemaViolation,
                guard: None,
                violations: found.parts().to_vec(),
            });
        }
        // Reads bytes that were parsed above; what it could not read would not have been judged.
        match self.rejected_text(bytes) {
            Ok(None) => {}
            Ok(Some(class)) => {
                let expected = "text of this class is not allowed, neither in strings nor in member names";
                return refused(Refusal::guard(Guard::Text(class), expected));
            }
            Err(_) => return refused(unreadable(JsonFault::Malformed)),
        }
        let Ok((found, masked)) = self.secrets(bytes) else {
            return refused(unreadable(JsonFault::Malformed));
        };
        if self.secrets == Secrets::Refuse && masked {
            let expected = "a credential is not allowed in the output";
            return (Err(Refusal::guard(Guard::Secret, expected)), found);
        }
        let validated = Validated {
            bytes: Arc::from(bytes),
            hash: raw.hash(),
            schema: self.schema.hash(),
        };
        (Ok(validated), found)
    }

    fn rejected_text(&self, bytes: &[u8]) -> Result<Option<Class>, SpanFault> {
        if self.rejected == Classes::default() {
            return Ok(None);
        }
        let mut counts = Counts::default();
        for token in tokens(bytes) {
            if let Token::Name(span) | Token::Text(span) = token? {
                let raw = bytes.get(span).unwrap_or_default();
                counts.add_all(strip(raw, self.rejected, &[]).counts);
            }
        }
        let by_class = [
            (Class::Ansi, counts.ansi),
            (Class::C0C1, counts.c0c1),
            (Class::Bidi, counts.bidi),
            (Class::ZeroWidth, counts.zero_width),
        ];
        let found = by_class.into_iter().find(|(_, count)| *count > 0);
        Ok(found.map(|(class, _)| class))
    }

    /// Secrets by category, and whether one is among them that would be masked in a result.
    fn secrets(&self, bytes: &[u8]) -> Result<(Findings, bool), SpanFault> {
        let (Some(detector), Secrets::Record | Secrets::Refuse) = (DETECTOR.as_ref(), self.secrets) else {
            return Ok((Findings::new(), false));
        };
        let named = named_tokens(bytes)?;
        let pieces: Vec<Piece<'_>> = named.iter().map(|token| token.piece()).collect();
        let nobody = Excuse { server: "", tool: "" };
        let found = detector.find(&pieces, &nobody);
        let mut counts = Findings::new();
        for finding in &found {
            *counts.entry(finding.category.as_str()).or_default() += 1;
        }
        Ok((counts, found.iter().any(|finding| finding.redact == Redact::Mask)))
    }
}

/// The literals of a document that is known to be JSON, in its order.
fn tokens(bytes: &[u8]) -> impl Iterator<Item = Result<Token, SpanFault>> {
    let mut scanner = Scanner::new(bytes, DEEPEST);
    std::iter::from_fn(move || scanner.literal_ahead().transpose())
}

/// A literal as it is spelled, with the last member name before it.
struct NamedToken<'a> {
    raw: &'a [u8],
    name: Option<Cow<'a, str>>,
    kind: PieceKind,
}

impl NamedToken<'_> {
    fn piece(&self) -> Piece<'_> {
        Piece {
            raw: self.raw,
            name: self.name.as_deref(),
            joins: Joins::Nothing,
            kind: self.kind,
        }
    }
}

fn named_tokens(bytes: &[u8]) -> Result<Vec<NamedToken<'_>>, SpanFault> {
    let mut name = None;
    let named = |token: Result<Token, SpanFault>| {
        let (span, kind) = match token? {
            Token::Name(span) => (span, PieceKind::Name),
            Token::Text(span) => (span, PieceKind::Text),
            Token::Number(span) => (span, PieceKind::Number),
        };
        let raw = bytes.get(span).unwrap_or_default();
        let of = match kind {
            PieceKind::Name => {
                name = decode_name(raw);
                None
            }
            PieceKind::Text | PieceKind::Number => name.clone(),
        };
        Ok(NamedToken { raw, name: of, kind })
    };
    tokens(bytes).map(named).collect()
}

/// The embedded rules, compiled when they are first needed.
static DETECTOR: LazyLock<Option<Detector>> = LazyLock::new(|| Detector::embedded().ok());

/// Whether a schema lets a document of every kind pass, whichever way it says so. What refuses none of these does not say
/// what an output is, even if it refuses some other.
fn takes_anything(schema: &OutputSchema) -> bool {
    let limits = Limits {
        max_bytes: 64,
        max_depth: 4,
        max_string: 64,
        max_items: 64,
    };
    let passes = |text: &str| Value::parse(text.as_bytes(), &limits).is_ok_and(|value| schema.check(&value).is_ok());
    PROBES.into_iter().all(passes)
}

/// Every kind of value, empty and not.
const PROBES: [&str; 13] = [
    "null",
    "true",
    "false",
    "0",
    "-1.5",
    "\"\"",
    "\"any words at all\"",
    "[]",
    "[null]",
    "[[],{},\"x\",1]",
    "{}",
    "{\"any name at all\":null}",
    "{\"\":{\"x\":[]}}",
];

fn unreadable(fault: JsonFault) -> Refusal {
    match fault {
        JsonFault::TooLarge | JsonFault::StringTooLong | JsonFault::TooManyItems => Refusal::too_large(),
        JsonFault::TooDeep => Refusal::guard(Guard::Depth, "the output is nested too deep"),
        JsonFault::Malformed => Refusal::not_json("the output must be exactly one JSON document and nothing else"),
        JsonFault::NotUtf8 => Refusal::not_json("the output must be UTF-8"),
        JsonFault::DuplicateKey => Refusal::not_json("an object must not name a member twice"),
        JsonFault::LoneSurrogate => Refusal::not_json("a string must not hold half a surrogate pair"),
        JsonFault::NumberOutOfRange => Refusal::not_json("a number is out of range"),
    }
}

#[cfg(test)]
mod tests;
