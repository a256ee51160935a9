//! Compiles an admitted schema: once, off the path of any call.

mod emit;
mod patterns;

use std::collections::HashSet;
use std::sync::LazyLock;

use jsonschema::Validator;
use vocabulary::json::Value;

use crate::admit::{Admitted, Growth, SchemaFault};
use crate::closed::{Closed, Subject, probe_name};
use crate::dialect::Dialect;
use crate::graph::Graph;
use crate::tree::{Question, Spot, Tree};
use crate::violation::{Printer, Violations};

use emit::Emission;
pub(crate) use emit::Unchecked;
use patterns::Patterns;

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

/// What every compiled schema is made of, whatever it judges.
pub(crate) struct Compiled {
    validator: Validator<Tree>,
    root: Box<str>,
    growth: Growth,
    steps: u64,
    known: HashSet<Box<str>>,
    dropped: Vec<DroppedPattern>,
}

/// How large a value is: its depth (a scalar is 1) and how many values it holds, itself included.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    depth: usize,
    count: u64,
}

/// A compiled schema, and what was learnt on the way.
pub(crate) struct Compilation<'a> {
    pub(crate) compiled: Compiled,
    /// What its objects may hold, where they are closed.
    pub(crate) closed: Option<Closed>,
    pub(crate) graph: Graph<'a>,
    /// Patterns the engine cannot run.
    pub(crate) unusable: HashSet<&'a str>,
}

/// Whether formats are asserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Formats {
    /// Where the edition says so.
    AsTheEditionSays,
    /// In every edition.
    Asserted,
}

/// Compiles what was admitted.
///
/// # Errors
/// When the library does not take it for a schema, or a pattern of it grows too large.
pub(crate) fn compile(
    admitted: Admitted<'_>,
    fields: Fields,
    unchecked: Unchecked,
) -> Result<Compilation<'_>, SchemaFault> {
    compile_with(admitted, (fields, Formats::AsTheEditionSays), unchecked)
}

/// As [`compile`], with a word on formats.
///
/// # Errors
/// As there.
pub(crate) fn compile_with(
    admitted: Admitted<'_>,
    (fields, formats): (Fields, Formats),
    unchecked: Unchecked,
) -> Result<Compilation<'_>, SchemaFault> {
    let Admitted { graph, growth, steps } = admitted;
    let patterns = Patterns::of(&graph)?;
    let probed = match fields {
        Fields::Closed => Closed::probed(&graph),
        Fields::Open => HashSet::new(),
    };
    let mut emission = Emission::new(&graph, probed, patterns.named(fields));
    let validator = match build(&emission.document(), (graph.dialect, formats), &patterns) {
        Some(validator) => validator,
        None => {
            let unusable = patterns.unusable(graph.dialect)?;
            if unchecked == Unchecked::LeaveTheRest && unusable.iter().any(|text| !is_regex(text)) {
                return Err(SchemaFault::BadPattern);
            }
            emission.leave_out(unusable, unchecked);
            build(&emission.document(), (graph.dialect, formats), &patterns).ok_or(SchemaFault::NotASchema)?
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
    let compiled = Compiled {
        validator,
        root: probe_name(graph.root),
        growth,
        steps,
        known,
        dropped: emission.dropped(),
    };
    let unusable = emission.into_unusable();
    Ok(Compilation {
        compiled,
        closed,
        graph,
        unusable,
    })
}

impl Compiled {
    /// Measures `value`, and refuses one that this schema would recurse too deep or work too long for.
    pub(crate) fn measure(&self, value: &Value<'_>) -> Result<Size, Violations> {
        let size = measure(value);
        if self.growth.nesting(size.depth) > Growth::MAX_NESTING {
            return Err(Violations::of_one("/: nested too deep for this schema"));
        }
        if self.steps.saturating_mul(size.count) > MAX_STEPS {
            return Err(Violations::of_one("/: too large for this schema"));
        }
        Ok(size)
    }

    /// Whether `value` fits the whole schema.
    pub(crate) fn fits(&self, value: &Value<'_>) -> bool {
        self.answers(&self.root, Subject::Value(value))
    }

    /// Whether the answer to one of the compiled questions is yes.
    pub(crate) fn answers(&self, probe: &str, subject: Subject<'_>) -> bool {
        let about = match subject {
            Subject::Value(value) => Spot::Value(value),
            Subject::Name(name) => Spot::Name(name),
        };
        self.validator
            .is_valid(Spot::Question(&Question { name: probe, about }))
    }

    /// A printer that knows the names of this schema.
    pub(crate) fn printer<'v>(&self, value: &'v Value<'v>) -> Printer<'_, 'v> {
        Printer::new(&self.known, value)
    }

    /// Finds why `value` does not fit: all reasons for a small value, the first for a large one, none
    /// where looking for them could take too long.
    pub(crate) fn explain(&self, value: &Value<'_>, size: Size, printer: &mut Printer<'_, '_>) {
        if self.growth.evaluations(size.depth).saturating_mul(size.count) > MAX_EXPLAINED {
            return;
        }
        let question = Question {
            name: &self.root,
            about: Spot::Value(value),
        };
        // The question is one step of every path.
        if size.count > MAX_EXPLAINED_IN_FULL {
            if let Err(error) = self.validator.validate(Spot::Question(&question)) {
                printer.error(&error, 1);
            }
            return;
        }
        for error in self.validator.iter_errors(Spot::Question(&question)) {
            printer.error(&error, 1);
            if printer.is_full() {
                return;
            }
        }
    }

    /// Whether the schema speaks of a member of this name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.known.contains(name)
    }

    /// Patterns that are not checked, since no linear-time engine can run them.
    pub(crate) fn dropped_patterns(&self) -> &[DroppedPattern] {
        &self.dropped
    }
}

fn build(
    document: &serde_json::Value,
    (dialect, formats): (Dialect, Formats),
    patterns: &Patterns<'_>,
) -> Option<Validator<Tree>> {
    let options = jsonschema::options_for::<Tree>()
        .with_draft(dialect.draft())
        .offline()
        .with_pattern_options(patterns.engine())
        .with_format("regex", is_regex);
    let options = match formats {
        Formats::AsTheEditionSays => options,
        Formats::Asserted => options.should_validate_formats(true),
    };
    options.build(document).ok()
}

/// Whether `text` is a pattern, as the library sees it. It compares every group name with every other,
/// so a long text would keep it busy for minutes; none is looked at.
fn is_regex(text: &str) -> bool {
    static REGEX: LazyLock<Option<Validator>> = LazyLock::new(|| {
        let options = jsonschema::options().should_validate_formats(true).offline();
        options.build(&serde_json::json!({ "format": "regex" })).ok()
    });
    text.len() > MAX_REGEX_BYTES
        || REGEX
            .as_ref()
            .is_some_and(|regex| regex.is_valid(&serde_json::Value::from(text)))
}

fn measure(value: &Value<'_>) -> Size {
    let mut size = Size { depth: 0, count: 0 };
    let mut stack = vec![(value, 1)];
    while let Some((value, depth)) = stack.pop() {
        size.depth = size.depth.max(depth);
        size.count += 1;
        match value {
            Value::Array(elements) => stack.extend(elements.iter().map(|element| (element, depth + 1))),
            Value::Object(members) => stack.extend(members.iter().map(|(_, member)| (member, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    size
}

/// Above so many evaluations a refusal is not explained: explaining is the one step that no verdict is
/// remembered for, so a schema that branches at every level of a deep value could make it take for ever.
const MAX_EXPLAINED: u64 = 2_000_000;
const MAX_EXPLAINED_IN_FULL: u64 = 1_000;

/// A few seconds at worst. What people write and servers send stays under a tenth of it: five megabytes
/// of numbers may take fifty evaluations each.
const MAX_STEPS: u64 = 1_000_000_000;
const MAX_REGEX_BYTES: usize = 1 << 10;
