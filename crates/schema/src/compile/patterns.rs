//! The patterns of a schema: which there are, how large they may become, and which the engine cannot run.

use std::collections::HashSet;

use jsonschema::PatternOptions;

use super::Fields;
use crate::admit::SchemaFault;
use crate::dialect::Dialect;
use crate::graph::Graph;

/// The patterns of a schema, each once.
pub(super) struct Patterns<'a> {
    all: Vec<&'a str>,
    of_names: Vec<&'a str>,
}

impl<'a> Patterns<'a> {
    pub(super) fn of(graph: &Graph<'a>) -> Result<Self, SchemaFault> {
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
    pub(super) fn named(&self, fields: Fields) -> Vec<&'a str> {
        match fields {
            Fields::Closed => self.of_names.clone(),
            Fields::Open => Vec::new(),
        }
    }

    /// Linear time, and a share of the memory that all patterns of a schema have together.
    pub(super) fn engine(&self) -> PatternOptions<jsonschema::Regex> {
        PatternOptions::regex()
            .size_limit(self.size_limit())
            .dfa_size_limit(self.size_limit())
    }

    fn size_limit(&self) -> usize {
        (ALL_PATTERNS_BYTES / self.all.len().max(1)).clamp(64 << 10, 2 << 20)
    }

    /// Those the engine cannot run; one that is merely too large for it is a fault.
    pub(super) fn unusable(&self, dialect: Dialect) -> Result<HashSet<&'a str>, SchemaFault> {
        let mut unusable = HashSet::new();
        for text in &self.all {
            if super::build(
                &serde_json::json!({ "pattern": text }),
                (dialect, super::Formats::AsTheEditionSays),
                self,
            )
            .is_some()
            {
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

const MAX_PATTERNS: usize = 512;
const MAX_PATTERN_BYTES: usize = 4 << 10;
const ALL_PATTERNS_BYTES: usize = 8 << 20;
