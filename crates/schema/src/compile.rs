//! Compiles an admitted schema: once, off the path of any call.

mod emit;

use std::collections::HashSet;

use jsonschema::{PatternOptions, Validator};
use vocabulary::json::Value;

use crate::admit::{self, Admitted, Growth, SchemaFault};
use crate::closed::{Branches, Closed, Subject, probe_name};
use crate::dialect::Dialect;
use crate::graph::Graph;
use crate::tree::{Question, Spot, Tree};
use crate::violation::{self, Printer, Violations};

/// Whether members that a schema does not declare are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fields {
    /// Refused at every level, unless the schema says `additionalProperties: true`.
    Closed,
    /// Left to what the schema itself says: the operator has opted out for this tool.
    Open,
}

/// A pattern that a linear-time engine cannot run. Its keyword is not checked; all others are.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{pointer}: {keyword}: the pattern does not run in linear time and is not checked")]
pub struct DroppedPattern {
    /// Where in the schema.
    pub pointer: String,
    /// `pattern` or `patternProperties`.
    pub keyword: &'static str,
}

/// A compiled input schema.
pub struct ArgumentSchema {
    validator: Validator<Tree>,
    root: Box<str>,
    closed: Option<Closed>,
    growth: Growth,
    known: HashSet<Box<str>>,
    dropped: Vec<DroppedPattern>,
}

impl ArgumentSchema {
    /// Admits and compiles the schema document `raw`.
    ///
    /// # Errors
    /// When it is not a schema, or one that could cost more than the limits allow.
    pub fn compile(raw: &[u8], fields: Fields) -> Result<Self, SchemaFault> {
        let document = admit::read(raw)?;
        let Admitted { graph, growth } = admit::admit(&document)?;
        let patterns = Patterns::of(&graph)?;
        let probed = match fields {
            Fields::Closed => Closed::probed(&graph),
            Fields::Open => HashSet::new(),
        };
        let mut emission = emit::Emission::new(&graph, probed, patterns.named(fields));
        let validator = match build(&emission.document(), graph.dialect, &patterns) {
            Some(validator) => validator,
            None => {
                emission.unusable = patterns.unusable(graph.dialect)?;
                build(&emission.document(), graph.dialect, &patterns).ok_or(SchemaFault::NotASchema)?
            }
        };
        let closed = match fields {
            Fields::Closed => Some(Closed::of(&graph, |pattern| emission.pattern_probe(pattern))),
            Fields::Open => None,
        };
        let known = graph
            .nodes
            .iter()
            .flat_map(|node| &node.properties)
            .map(|(name, _)| (*name).into())
            .collect();
        let dropped = emission.dropped();
        Ok(Self {
            validator,
            root: probe_name(graph.root),
            closed,
            growth,
            known,
            dropped,
        })
    }

    /// Judges `value`.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn check(&self, value: &Value<'_>) -> Result<(), Violations> {
        let (depth, count) = measure(value);
        if self.growth.nesting(depth) > Growth::MAX_NESTING {
            return Err(Violations::of_one("/: nested too deep for this schema"));
        }
        let fits = self.fits(&self.root, Subject::Value(value));
        let branches = if fits { Branches::Fitting } else { Branches::All };
        let ask = |probe: &str, subject: Subject<'_>| self.fits(probe, subject);
        let unknown = match &self.closed {
            Some(closed) => closed.unknown(value, branches, violation::MAX_ITEMS, &ask),
            None => Vec::new(),
        };
        if fits && unknown.is_empty() {
            return Ok(());
        }
        let mut printer = Printer::new(&self.known, value);
        unknown.iter().for_each(|unknown| printer.unknown(unknown));
        if !fits && self.growth.evaluations(depth).saturating_mul(count) <= MAX_EXPLAINED {
            self.explain(value, count, &mut printer);
        }
        Err(printer.finish())
    }

    /// Patterns that are not checked, since no linear-time engine can run them.
    #[must_use]
    pub fn dropped_patterns(&self) -> &[DroppedPattern] {
        &self.dropped
    }

    fn fits(&self, probe: &str, subject: Subject<'_>) -> bool {
        let about = match subject {
            Subject::Value(value) => Spot::Value(value),
            Subject::Name(name) => Spot::Name(name),
        };
        self.validator
            .is_valid(Spot::Question(&Question { name: probe, about }))
    }

    /// Finds the reasons, all of them for a small value and the first for a large one.
    fn explain(&self, value: &Value<'_>, count: u64, printer: &mut Printer<'_, '_>) {
        let question = Question {
            name: &self.root,
            about: Spot::Value(value),
        };
        // The question is one step of every path.
        if count > MAX_EXPLAINED_IN_FULL {
            if let Err(error) = self.validator.validate(Spot::Question(&question)) {
                printer.error(&error, 1);
            }
            return;
        }
        for error in self.validator.iter_errors(Spot::Question(&question)) {
            printer.error(&error, 1);
        }
    }
}

impl std::fmt::Debug for ArgumentSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArgumentSchema")
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

fn build(document: &serde_json::Value, dialect: Dialect, patterns: &Patterns<'_>) -> Option<Validator<Tree>> {
    jsonschema::options_for::<Tree>()
        .with_draft(dialect.draft())
        .offline()
        .with_pattern_options(patterns.engine())
        .build(document)
        .ok()
}

/// The patterns of a schema, each once.
struct Patterns<'a> {
    all: Vec<&'a str>,
    of_names: Vec<&'a str>,
}

impl<'a> Patterns<'a> {
    fn of(graph: &Graph<'a>) -> Result<Self, SchemaFault> {
        let texts = graph
            .nodes
            .iter()
            .flat_map(|node| &node.assertions)
            .filter(|(keyword, _)| *keyword == "pattern");
        let of_values: Vec<&str> = texts.filter_map(|(_, value)| value.as_str()).collect();
        let mut of_names: Vec<&str> = graph
            .nodes
            .iter()
            .flat_map(|node| &node.patterns)
            .map(|(text, _)| *text)
            .collect();
        of_names.sort_unstable();
        of_names.dedup();
        let mut all: Vec<&str> = of_values.into_iter().chain(of_names.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        if all.len() > MAX_PATTERNS || all.iter().any(|text| text.len() > MAX_PATTERN_BYTES) {
            return Err(SchemaFault::PatternTooLarge);
        }
        Ok(Self { all, of_names })
    }

    /// Those that decide whether a member is declared.
    fn named(&self, fields: Fields) -> Vec<&'a str> {
        match fields {
            Fields::Closed => self.of_names.clone(),
            Fields::Open => Vec::new(),
        }
    }

    /// Linear time, and a share of the memory that all patterns of a schema have together.
    fn engine(&self) -> PatternOptions<jsonschema::Regex> {
        PatternOptions::regex()
            .size_limit(self.size_limit())
            .dfa_size_limit(self.size_limit())
    }

    fn size_limit(&self) -> usize {
        (ALL_PATTERNS_BYTES / self.all.len().max(1)).clamp(64 << 10, 2 << 20)
    }

    /// Those the engine cannot run; one that is merely too large for it is a fault.
    fn unusable(&self, dialect: Dialect) -> Result<HashSet<&'a str>, SchemaFault> {
        let mut unusable = HashSet::new();
        for text in &self.all {
            if build(&serde_json::json!({ "pattern": text }), dialect, self).is_some() {
                continue;
            }
            let compiled = regex::RegexBuilder::new(text).size_limit(self.size_limit()).build();
            if matches!(compiled, Err(regex::Error::CompiledTooBig(_))) {
                return Err(SchemaFault::PatternTooLarge);
            }
            unusable.insert(*text);
        }
        Ok(unusable)
    }
}

/// The depth of `value` (a scalar is 1) and how many values it holds, itself included.
fn measure(value: &Value<'_>) -> (usize, u64) {
    let (mut deepest, mut count) = (0, 0);
    let mut stack = vec![(value, 1)];
    while let Some((value, depth)) = stack.pop() {
        deepest = deepest.max(depth);
        count += 1;
        match value {
            Value::Array(elements) => stack.extend(elements.iter().map(|element| (element, depth + 1))),
            Value::Object(members) => stack.extend(members.iter().map(|(_, member)| (member, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    (deepest, count)
}

/// Above so many evaluations a refusal is not explained: explaining is the one step that no verdict is
/// remembered for, so a schema that branches at every level of a deep value could make it take for ever.
const MAX_EXPLAINED: u64 = 2_000_000;
const MAX_EXPLAINED_IN_FULL: u64 = 1_000;

const MAX_PATTERNS: usize = 512;
const MAX_PATTERN_BYTES: usize = 4 << 10;
const ALL_PATTERNS_BYTES: usize = 8 << 20;
