//! The schema of a tool's arguments: objects are closed, so that nothing undeclared leaves.

use vocabulary::json::Value;

use crate::admit::{self, SchemaFault};
use crate::closed::{Branches, Closed, Subject};
use crate::compile::{self, Compilation, Compiled, DroppedPattern, Fields, Unchecked};
use crate::places::Places;
use crate::violation::{self, TellName, Violations};

/// A compiled input schema.
pub struct ArgumentSchema {
    compiled: Compiled,
    closed: Option<Closed>,
    places: Places,
}

impl ArgumentSchema {
    /// Admits and compiles the schema document `raw`.
    ///
    /// # Errors
    /// When it is not a schema, or one that could cost more than the limits allow.
    pub fn compile(raw: &[u8], fields: Fields) -> Result<Self, SchemaFault> {
        let document = admit::read(raw)?;
        let compilation = compile::compile(admit::admit(&document)?, fields, Unchecked::LeaveTheRest)?;
        let Compilation {
            compiled,
            closed,
            graph,
            ..
        } = compilation;
        let places = Places::of(&graph);
        Ok(Self {
            compiled,
            closed,
            places,
        })
    }

    /// Takes out what the schema says of each place of a value; it is of no use for judging.
    #[must_use]
    pub fn take_places(&mut self) -> Places {
        std::mem::take(&mut self.places)
    }

    /// Judges `value`.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn check(&self, value: &Value<'_>) -> Result<(), Violations> {
        self.judge(value, None)
    }

    /// Judges `value`, and tells names that the schema does not know as `tell` makes them fit to be told.
    ///
    /// # Errors
    /// What is wrong with it, without quoting a value.
    pub fn check_telling(&self, value: &Value<'_>, tell: &TellName<'_>) -> Result<(), Violations> {
        self.judge(value, Some(tell))
    }

    fn judge(&self, value: &Value<'_>, tell: Option<&TellName<'_>>) -> Result<(), Violations> {
        let size = self.compiled.measure(value)?;
        let fits = self.compiled.fits(value);
        let branches = if fits { Branches::Fitting } else { Branches::All };
        let ask = |probe: &str, subject: Subject<'_>| self.compiled.answers(probe, subject);
        let unknown = match &self.closed {
            Some(closed) => closed.unknown(value, branches, violation::MAX_ITEMS, &ask),
            None => Vec::new(),
        };
        if fits && unknown.is_empty() {
            return Ok(());
        }
        let mut printer = self.compiled.printer(value).telling(tell);
        unknown.iter().for_each(|unknown| printer.unknown(unknown));
        if !fits {
            self.compiled.explain(value, size, &mut printer);
        }
        Err(printer.finish())
    }

    /// Patterns that are not checked, since no linear-time engine can run them.
    #[must_use]
    pub fn dropped_patterns(&self) -> &[DroppedPattern] {
        self.compiled.dropped_patterns()
    }
}

impl std::fmt::Debug for ArgumentSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArgumentSchema")
            .field("dropped", &self.dropped_patterns())
            .finish_non_exhaustive()
    }
}
