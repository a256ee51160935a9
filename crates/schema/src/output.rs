//! The schema of a tool's structured output: judged as it stands. Objects stay as open as the schema
//! leaves them, and a value is never called wrong because of a pattern we cannot run.
//! ADR 0024: what is judged, and what is left alone.

mod formats;
mod vacuous;

use vocabulary::Digest;
use vocabulary::json::Value;

use crate::admit::{self, SchemaFault};
use crate::compile::{self, Compilation, Compiled, DroppedPattern, Fields, Formats, Unchecked};
use crate::violation::{MAX_ITEMS, Violations};

/// A compiled output schema.
pub struct OutputSchema {
    compiled: Compiled,
    hash: Digest,
    says: Says,
}

/// Why a schema whose formats are to be asserted is of no use.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatFault {
    /// It cannot be compiled.
    #[error("{0}")]
    Schema(#[from] SchemaFault),
    /// A format that would not be checked.
    #[error(
        "{pointer}: a format that is not checked here; write a `pattern`, or one of date-time, date, time, email, hostname, ipv4, ipv6, uri, uuid"
    )]
    Unknown {
        /// Where in the schema.
        pointer: String,
    },
}

/// Whether a schema can find anything wrong at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    Nothing,
    Something,
}

impl OutputSchema {
    /// Admits and compiles the schema document `raw`.
    ///
    /// # Errors
    /// When it is not a schema, or one that could cost more than the limits allow.
    pub fn compile(raw: &[u8]) -> Result<Self, SchemaFault> {
        let document = admit::read(raw)?;
        let Compilation {
            compiled,
            graph,
            unusable,
            ..
        } = compile::compile(admit::admit(&document)?, Fields::Open, Unchecked::LeaveOutDependents)?;
        let says = if vacuous::is_vacuous(&graph, &unusable) {
            Says::Nothing
        } else {
            Says::Something
        };
        Ok(Self {
            compiled,
            hash: Digest::of(raw),
            says,
        })
    }

    /// As [`OutputSchema::compile`], for who wants every `format` asserted, whatever the edition says of it.
    ///
    /// # Errors
    /// As there, and when a format is one that nobody here can check.
    pub fn compile_with_formats(raw: &[u8]) -> Result<Self, FormatFault> {
        let document = admit::read(raw)?;
        let Compilation { compiled, graph, .. } = compile::compile_with(
            admit::admit(&document)?,
            (Fields::Open, Formats::Asserted),
            Unchecked::LeaveOutDependents,
        )?;
        match formats::unchecked(raw, graph.dialect) {
            Some(pointer) => Err(FormatFault::Unknown { pointer }),
            None => Ok(Self {
                compiled,
                hash: Digest::of(raw),
                says: Says::Something,
            }),
        }
    }

    /// Judges `value`, which may be of any type.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn check(&self, value: &Value<'_>) -> Result<(), Violations> {
        self.check_at_length(value, MAX_ITEMS)
    }

    /// Judges `value` and gives up to `most` reasons.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn check_at_length(&self, value: &Value<'_>, most: usize) -> Result<(), Violations> {
        if self.says == Says::Nothing {
            return Ok(());
        }
        let size = self.compiled.measure(value)?;
        if self.compiled.fits(value) {
            return Ok(());
        }
        let mut printer = self.compiled.printer(value).with_room_for(most);
        self.compiled.explain(value, size, &mut printer);
        Err(printer.finish())
    }

    /// Whether it accepts everything: `{}`, `true`, or no constraint that a value could reach.
    #[must_use]
    pub fn is_vacuous(&self) -> bool {
        self.says == Says::Nothing
    }

    /// The digest of the document as it came.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// Whether a member's name is one that the schema itself speaks of, so that it can be told.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.compiled.knows(name)
    }

    /// Patterns that are not checked, since no linear-time engine can run them.
    #[must_use]
    pub fn dropped_patterns(&self) -> &[DroppedPattern] {
        self.compiled.dropped_patterns()
    }
}

impl std::fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputSchema")
            .field("hash", &self.hash)
            .field("says", &self.says)
            .field("dropped", &self.dropped_patterns())
            .finish_non_exhaustive()
    }
}
