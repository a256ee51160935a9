//! A violation, told without a word of the payload.

use schema::Violations;
use vocabulary::Digest;
use vocabulary::json::Fault;

/// Why a result does not conform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// What sort of fault it is.
    pub kind: ViolationKind,
    /// The guard it broke, if it broke one; then nothing else was looked at.
    pub guard: Option<Guard>,
    /// Where in `structuredContent`, by names the schema knows; `/` for the whole of it.
    pub path: String,
    /// The keyword of the schema that it breaks first, where it breaks one.
    pub keyword: Option<String>,
    /// The reasons: at most five, of at most 200 bytes each.
    pub items: Vec<String>,
    /// The digest of the schema as it came.
    pub schema_hash: Digest,
    /// A sentence for the caller and the record, naming the first reason.
    pub message: String,
    /// What becomes of the result.
    pub outcome: ViolationOutcome,
}

vocabulary::words! {
    /// What sort of fault a violation is.
    pub enum ViolationKind {
        /// A value the schema does not allow.
        Schema = "schema",
        /// Too large or too deep.
        Guard = "guard",
        /// An object names a member twice, or the result names `structuredContent` twice.
        DuplicateKey = "duplicate_key",
        /// Half a surrogate pair, a number nobody can hold, or not JSON.
        Unreadable = "unreadable",
        /// No structured output where the operator demands it.
        MissingStructuredContent = "missing_structured_content",
        /// Structured output that nobody can judge, where the operator demands judgement.
        UncompilableSchema = "uncompilable_schema",
        /// It conformed before it was edited.
        RedactionBreaksSchema = "redaction_breaks_schema",
    }
}

vocabulary::words! {
    /// A bound on structured output.
    pub enum Guard {
        /// `output_validation.max_bytes`
        MaxBytes = "max_bytes",
        /// `output_validation.max_depth`
        MaxDepth = "max_depth",
    }
}

/// What becomes of a result that violates its schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViolationOutcome {
    /// It goes on as it came; the record says `warning`.
    Forward,
    /// It does not reach the caller; the record says `blocked`.
    Withhold,
}

impl Violation {
    /// The same of a result that conformed before it was edited: it never goes on.
    pub(super) fn after_an_edit(self) -> Self {
        let first = self.items.first().map_or("", String::as_str);
        let message = format!("tool output blocked by sanitisation policy: redaction_breaks_schema: {first}");
        Self {
            kind: ViolationKind::RedactionBreaksSchema,
            message,
            outcome: ViolationOutcome::Withhold,
            ..self
        }
    }
}

/// What was found wrong, before it is told.
pub(super) enum Found {
    TooLarge(usize),
    TooDeep(usize),
    Fault(Fault),
    NamedTwice,
    Unreadable,
    Missing,
    Uncompilable,
    Violations(Violations),
}

impl Found {
    pub(super) fn told(self, schema_hash: Digest, outcome: ViolationOutcome) -> Violation {
        let (path, keyword) = match &self {
            Self::Violations(violations) => (violations.path().to_owned(), violations.keyword().map(str::to_owned)),
            Self::TooLarge(_)
            | Self::TooDeep(_)
            | Self::Fault(_)
            | Self::NamedTwice
            | Self::Unreadable
            | Self::Missing
            | Self::Uncompilable => ("/".to_owned(), None),
        };
        let items = self.items();
        Violation {
            kind: self.kind(),
            guard: self.guard(),
            path,
            keyword,
            message: format!(
                "output schema validation failed: {}",
                items.first().map_or("", String::as_str)
            ),
            items,
            schema_hash,
            outcome,
        }
    }

    fn kind(&self) -> ViolationKind {
        match self {
            Self::Violations(_) => ViolationKind::Schema,
            Self::Missing => ViolationKind::MissingStructuredContent,
            Self::Uncompilable => ViolationKind::UncompilableSchema,
            Self::NamedTwice | Self::Fault(Fault::DuplicateKey) => ViolationKind::DuplicateKey,
            Self::TooLarge(_) | Self::TooDeep(_) | Self::Fault(Fault::TooLarge | Fault::TooDeep) => {
                ViolationKind::Guard
            }
            Self::Unreadable
            | Self::Fault(
                Fault::Malformed
                | Fault::NotUtf8
                | Fault::StringTooLong
                | Fault::TooManyItems
                | Fault::LoneSurrogate
                | Fault::NumberOutOfRange,
            ) => ViolationKind::Unreadable,
        }
    }

    fn guard(&self) -> Option<Guard> {
        match self {
            Self::TooLarge(_) | Self::Fault(Fault::TooLarge) => Some(Guard::MaxBytes),
            Self::TooDeep(_) | Self::Fault(Fault::TooDeep) => Some(Guard::MaxDepth),
            Self::Fault(_)
            | Self::NamedTwice
            | Self::Unreadable
            | Self::Missing
            | Self::Uncompilable
            | Self::Violations(_) => None,
        }
    }

    fn items(&self) -> Vec<String> {
        let text = match self {
            Self::Violations(violations) => return violations.items().to_vec(),
            Self::TooLarge(most) => format!("structuredContent has more than {most} bytes"),
            Self::TooDeep(most) => format!("structuredContent is nested deeper than {most} levels"),
            Self::Fault(fault) => format!("/: {fault}"),
            Self::NamedTwice => "the result names structuredContent twice".to_owned(),
            Self::Unreadable => "the result is not well-formed JSON".to_owned(),
            Self::Missing => "the tool declares an output schema and the result has no structuredContent".to_owned(),
            Self::Uncompilable => "the output schema of the tool cannot be used".to_owned(),
        };
        vec![text]
    }
}
