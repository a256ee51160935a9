//! The second step of the chokepoint: `structuredContent` against the schema its tool declared. Reads
//! only: the bytes are borrowed, so nothing here can change what is forwarded. The guards come before
//! any tree; nothing is read at all where there is nothing to judge.

mod locate;
mod violation;

use bytes::Bytes;
use schema::{OutputSchema, Violations};
use vocabulary::Digest;
use vocabulary::json::scanned::Scanned;
use vocabulary::json::{Fault, Limits, Value};

use locate::Structured;
pub use violation::{Guard, Violation, ViolationKind, ViolationOutcome};

vocabulary::words! {
    /// What becomes of a result that violates its schema.
    pub enum Mode {
        /// Nothing is validated.
        Off = "off",
        /// It is forwarded as it came, and recorded.
        Warn = "warn",
        /// It is withheld, and recorded.
        Strict = "strict",
    }
}

vocabulary::words! {
    /// What becomes of a result without `structuredContent` though its tool declares a schema, in strict mode.
    pub enum Missing {
        /// It is forwarded: many tools declare more than they return.
        Allow = "allow",
        /// It is withheld.
        Block = "block",
    }
}

vocabulary::words! {
    /// What becomes of structured output whose schema cannot be used, in strict mode.
    pub enum Uncompilable {
        /// It is forwarded unvalidated.
        Allow = "allow",
        /// It is withheld.
        Block = "block",
    }
}

/// The operator's rules (`[output_validation]`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValidationRules {
    /// What becomes of a violation.
    pub mode: Mode,
    /// Bytes of `structuredContent`.
    pub max_bytes: usize,
    /// Nesting of `structuredContent`: a scalar is 1, `{"a":1}` is 2. Never more than [`Limits::DEEPEST`].
    pub max_depth: usize,
    /// Of a result without structured output.
    pub missing_structured_content: Missing,
    /// Of a schema that cannot be used.
    pub uncompilable_schema: Uncompilable,
}

impl Default for ValidationRules {
    /// What is in force without a word of the operator: nothing that works today is withheld.
    fn default() -> Self {
        Self {
            mode: Mode::Warn,
            max_bytes: 5 << 20,
            max_depth: 64,
            missing_structured_content: Missing::Allow,
            uncompilable_schema: Uncompilable::Allow,
        }
    }
}

/// What the pinned definition of a tool declares of its output.
#[derive(Clone, Copy, Debug)]
pub enum Declared<'a> {
    /// No schema.
    Nothing,
    /// A schema.
    Schema(&'a OutputSchema),
    /// A schema that was refused at admission or could not be compiled.
    Uncompilable {
        /// The digest of the schema as it came.
        hash: Digest,
    },
}

/// What the pinned definition of a tool declares of its output, compiled before any call.
#[derive(Debug)]
pub enum Declaration {
    /// No schema.
    Nothing,
    /// A schema.
    Schema(Box<OutputSchema>),
    /// A schema that was refused at admission or could not be compiled.
    Uncompilable {
        /// The digest of the schema as it came.
        hash: Digest,
        /// Why; nothing of the schema in it.
        fault: String,
    },
}

impl Declaration {
    /// Compiles what a definition declares.
    #[must_use]
    pub fn compile(raw: Option<&[u8]>) -> Self {
        match raw.map(|raw| (raw, OutputSchema::compile(raw))) {
            None => Self::Nothing,
            Some((_, Ok(schema))) => Self::Schema(Box::new(schema)),
            Some((raw, Err(fault))) => Self::Uncompilable {
                hash: Digest::of(raw),
                fault: fault.to_string(),
            },
        }
    }

    /// Whether some patterns of it are not checked.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        match self {
            Self::Nothing | Self::Uncompilable { .. } => false,
            Self::Schema(schema) => !schema.dropped_patterns().is_empty(),
        }
    }

    /// Whether it accepts everything.
    #[must_use]
    pub fn is_vacuous(&self) -> bool {
        match self {
            Self::Nothing | Self::Uncompilable { .. } => false,
            Self::Schema(schema) => schema.is_vacuous(),
        }
    }

    /// For the judgement of one result.
    #[must_use]
    pub fn declared(&self) -> Declared<'_> {
        match self {
            Self::Nothing => Declared::Nothing,
            Self::Schema(schema) => Declared::Schema(schema),
            Self::Uncompilable { hash, .. } => Declared::Uncompilable { hash: *hash },
        }
    }
}

/// What validation found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The result conforms, or there is nothing to judge.
    Conforms,
    /// It does not.
    Violates(Violation),
}

/// Judges a guarded result as it came.
#[must_use]
pub fn validate(bytes: &Bytes, is_error: bool, declared: Declared<'_>, rules: &ValidationRules) -> Verdict {
    match Question::of(is_error, declared, rules) {
        None => Verdict::Conforms,
        Some(question) => question.judge(&locate::in_bytes(bytes), &Library),
    }
}

/// The same for a result that was read through before: only its structured output is read again.
#[must_use]
pub fn validate_scanned(scanned: &Scanned, is_error: bool, declared: Declared<'_>, rules: &ValidationRules) -> Verdict {
    match Question::of(is_error, declared, rules) {
        None => Verdict::Conforms,
        Some(question) => question.judge(&locate::in_scanned(scanned, rules.max_depth), &Library),
    }
}

/// Judges a result again after its structured output was edited. What conformed `before` and no longer
/// does is withheld in every mode that validates; what violated before was not broken by the edit.
#[must_use]
pub fn revalidate(
    edited: &Bytes,
    is_error: bool,
    before: &Verdict,
    declared: Declared<'_>,
    rules: &ValidationRules,
) -> Verdict {
    match (before, validate(edited, is_error, declared, rules)) {
        (Verdict::Violates(_), _) | (_, Verdict::Conforms) => Verdict::Conforms,
        (Verdict::Conforms, Verdict::Violates(violation)) => Verdict::Violates(violation.after_an_edit()),
    }
}

/// A result that there is something to judge about.
struct Question<'a> {
    against: Against<'a>,
    rules: &'a ValidationRules,
    outcome: ViolationOutcome,
}

enum Against<'a> {
    Schema(&'a OutputSchema),
    /// A schema nobody can use: any structured output is one too many.
    Nobody(Digest),
}

impl<'a> Question<'a> {
    /// Nothing where no result could be found wrong: then none is read.
    fn of(is_error: bool, declared: Declared<'a>, rules: &'a ValidationRules) -> Option<Self> {
        if is_error {
            return None;
        }
        let outcome = match rules.mode {
            Mode::Off => return None,
            Mode::Warn => ViolationOutcome::Forward,
            Mode::Strict => ViolationOutcome::Withhold,
        };
        let against = match (declared, rules.uncompilable_schema, outcome) {
            (Declared::Nothing, _, _) => return None,
            (Declared::Schema(schema), _, _) => Against::Schema(schema),
            (Declared::Uncompilable { hash }, Uncompilable::Block, ViolationOutcome::Withhold) => Against::Nobody(hash),
            (Declared::Uncompilable { .. }, Uncompilable::Allow, _)
            | (Declared::Uncompilable { .. }, _, ViolationOutcome::Forward) => return None,
        };
        Some(Self {
            against,
            rules,
            outcome,
        })
    }

    fn judge(&self, structured: &Structured<'_>, judge: &impl Judge) -> Verdict {
        match self.fault(structured, judge) {
            None => Verdict::Conforms,
            Some(fault) => Verdict::Violates(fault.told(self.hash(), self.outcome)),
        }
    }

    /// What is wrong, guards first; a breach of one ends the matter.
    fn fault(&self, structured: &Structured<'_>, judge: &impl Judge) -> Option<violation::Found> {
        use violation::Found;
        let (raw, depth) = match structured {
            Structured::Unfinished => return None,
            Structured::Absent => return self.missing(),
            Structured::Unreadable => return Some(Found::Unreadable),
            Structured::Twice => return Some(Found::NamedTwice),
            Structured::Once { raw, depth } => (*raw, *depth),
        };
        let schema = match self.against {
            Against::Nobody(_) => return Some(Found::Uncompilable),
            Against::Schema(schema) => schema,
        };
        if raw.len() > self.rules.max_bytes {
            return Some(Found::TooLarge(self.rules.max_bytes));
        }
        if depth > self.rules.max_depth {
            return Some(Found::TooDeep(self.rules.max_depth));
        }
        let limits = Limits {
            max_bytes: raw.len(),
            max_depth: self.rules.max_depth,
            max_string: raw.len(),
            max_items: raw.len(),
        };
        match judge.tree(raw, &limits) {
            Err(fault) => Some(Found::Fault(fault)),
            Ok(tree) => judge.check(schema, &tree).err().map(Found::Violations),
        }
    }

    fn missing(&self) -> Option<violation::Found> {
        match (self.rules.missing_structured_content, self.outcome) {
            (Missing::Block, ViolationOutcome::Withhold) => Some(violation::Found::Missing),
            (Missing::Allow, _) | (_, ViolationOutcome::Forward) => None,
        }
    }

    fn hash(&self) -> Digest {
        match self.against {
            Against::Schema(schema) => schema.hash(),
            Against::Nobody(hash) => hash,
        }
    }
}

/// What is done only once the guards have passed.
trait Judge {
    fn tree<'a>(&self, raw: &'a [u8], limits: &Limits) -> Result<Value<'a>, Fault>;

    fn check(&self, schema: &OutputSchema, tree: &Value<'_>) -> Result<(), Violations>;
}

struct Library;

impl Judge for Library {
    fn tree<'a>(&self, raw: &'a [u8], limits: &Limits) -> Result<Value<'a>, Fault> {
        Value::parse(raw, limits)
    }

    fn check(&self, schema: &OutputSchema, tree: &Value<'_>) -> Result<(), Violations> {
        schema.check(tree)
    }
}

#[cfg(test)]
mod tests;
