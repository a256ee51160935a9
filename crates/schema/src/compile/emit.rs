//! Writes an admitted schema as the document the library compiles: only keywords that judge, every
//! reference to a place in the same document, and a question for each subschema we want answers about.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};
use vocabulary::json::Value;

use super::DroppedPattern;
use crate::closed::{Probe, probe_name};
use crate::dialect::Dialect;
use crate::graph::{Graph, Node, NodeId};

pub(super) struct Emission<'g, 'a> {
    graph: &'g Graph<'a>,
    /// Subschemas that can be asked about.
    asked: HashSet<NodeId>,
    /// Subschemas that are kept once and referred to.
    kept: HashSet<NodeId>,
    /// Patterns of member names that can be asked about.
    patterns: Vec<&'a str>,
    /// Patterns the engine cannot run.
    pub(super) unusable: HashSet<&'a str>,
}

impl<'g, 'a> Emission<'g, 'a> {
    pub(super) fn new(graph: &'g Graph<'a>, mut asked: HashSet<NodeId>, patterns: Vec<&'a str>) -> Self {
        asked.insert(graph.root);
        let referred = graph.nodes.iter().flat_map(|node| &node.references).copied();
        let kept = asked.iter().copied().chain(referred).collect();
        Self {
            graph,
            asked,
            kept,
            patterns,
            unusable: HashSet::new(),
        }
    }

    /// An object schema whose members are the questions: `{"n0": value}` fits it exactly if `value` fits
    /// the subschema 0.
    pub(super) fn document(&self) -> Json {
        let mut kept = Map::new();
        let mut questions = Map::new();
        for id in &self.kept {
            kept.insert(probe_name(*id).into(), self.body(*id));
        }
        for id in &self.asked {
            questions.insert(probe_name(*id).into(), self.reference(*id));
        }
        for pattern in &self.patterns {
            if let Some(probe) = self.pattern_probe(pattern) {
                questions.insert(probe.into(), json!({ "pattern": pattern }));
            }
        }
        let mut document = Map::new();
        document.insert(self.graph.dialect.definitions_keyword().to_owned(), kept.into());
        document.insert("properties".to_owned(), questions.into());
        document.insert("additionalProperties".to_owned(), false.into());
        document.into()
    }

    /// The name of the question whether a member name matches `pattern`.
    pub(super) fn pattern_probe(&self, pattern: &str) -> Option<Probe> {
        let place = self.patterns.iter().position(|known| *known == pattern)?;
        (!self.unusable.contains(pattern)).then(|| format!("p{place}").into())
    }

    /// Which keywords are not checked because of their patterns.
    pub(super) fn dropped(&self) -> Vec<DroppedPattern> {
        let mut dropped = Vec::new();
        for (id, node) in self.graph.nodes.iter().enumerate() {
            let of_value = node.assertions.iter().filter(|(keyword, _)| *keyword == "pattern");
            let of_value = of_value
                .filter_map(|(_, text)| text.as_str())
                .map(|text| ("pattern", text));
            let of_names = node.patterns.iter().map(|(text, _)| ("patternProperties", *text));
            for (keyword, text) in of_value.chain(of_names) {
                if self.unusable.contains(text) {
                    dropped.push(DroppedPattern {
                        pointer: self.graph.pointer(id),
                        keyword,
                    });
                }
            }
        }
        dropped
    }

    fn reference(&self, id: NodeId) -> Json {
        json!({ "$ref": format!("#/{}/{}", self.graph.dialect.definitions_keyword(), probe_name(id)) })
    }

    fn schema(&self, id: NodeId) -> Json {
        if self.kept.contains(&id) {
            self.reference(id)
        } else {
            self.body(id)
        }
    }

    fn body(&self, id: NodeId) -> Json {
        let node = self.graph.node(id);
        if let Some(constant) = node.constant {
            return constant.into();
        }
        let mut body = Map::new();
        for (keyword, value) in &node.assertions {
            let unusable = *keyword == "pattern" && value.as_str().is_some_and(|text| self.unusable.contains(text));
            if !unusable {
                body.insert((*keyword).to_owned(), copied(value));
            }
        }
        self.in_place(node, &mut body);
        self.members(node, &mut body);
        self.elements(node, &mut body);
        body.into()
    }

    fn in_place(&self, node: &Node<'a>, body: &mut Map<String, Json>) {
        let mut all_of: Vec<Json> = node.all_of.iter().map(|id| self.schema(*id)).collect();
        let mut references = node.references.iter().map(|id| self.reference(*id));
        if let Some(Json::Object(first)) = references.next() {
            body.extend(first);
        }
        all_of.extend(references);
        let list = |ids: &[NodeId]| ids.iter().map(|id| self.schema(*id)).collect::<Vec<_>>();
        for (keyword, schemas) in [
            ("allOf", all_of),
            ("anyOf", list(&node.any_of)),
            ("oneOf", list(&node.one_of)),
        ] {
            if !schemas.is_empty() {
                body.insert(keyword.to_owned(), schemas.into());
            }
        }
        let single = [
            ("not", node.not),
            ("if", node.condition),
            ("then", node.then),
            ("else", node.otherwise),
        ];
        self.insert(&single, body);
        let has_own_keyword = self.graph.dialect >= Dialect::Draft201909;
        let mut schemas: Map<String, Json> = node
            .dependent
            .iter()
            .map(|(name, id)| ((*name).to_owned(), self.schema(*id)))
            .collect();
        let names = node
            .dependent_required
            .iter()
            .map(|(name, names)| ((*name).to_owned(), copied(names)));
        if !has_own_keyword {
            schemas.extend(names);
        } else if !node.dependent_required.is_empty() {
            // Beside a `dependentRequired` of its own this is the older keyword, still understood.
            body.insert("dependencies".to_owned(), Json::Object(names.collect()));
        }
        if !schemas.is_empty() {
            let keyword = if has_own_keyword {
                "dependentSchemas"
            } else {
                "dependencies"
            };
            body.insert(keyword.to_owned(), schemas.into());
        }
    }

    fn members(&self, node: &Node<'a>, body: &mut Map<String, Json>) {
        let map = |members: &mut dyn Iterator<Item = &(&'a str, NodeId)>| {
            members
                .map(|(name, id)| ((*name).to_owned(), self.schema(*id)))
                .collect::<Map<_, _>>()
        };
        let usable = &mut node.patterns.iter().filter(|(text, _)| !self.unusable.contains(text));
        for (keyword, schemas) in [
            ("properties", map(&mut node.properties.iter())),
            ("patternProperties", map(usable)),
        ] {
            if !schemas.is_empty() {
                body.insert(keyword.to_owned(), schemas.into());
            }
        }
        let single = [
            ("additionalProperties", node.additional),
            ("unevaluatedProperties", node.unevaluated),
            ("propertyNames", node.names),
        ];
        self.insert(&single, body);
    }

    fn elements(&self, node: &Node<'a>, body: &mut Map<String, Json>) {
        let (prefix_keyword, rest_keyword) = match (self.graph.dialect, node.prefix.is_empty()) {
            (Dialect::Draft202012, _) | (_, true) => ("prefixItems", "items"),
            (Dialect::Draft4 | Dialect::Draft6 | Dialect::Draft7 | Dialect::Draft201909, false) => {
                ("items", "additionalItems")
            }
        };
        if !node.prefix.is_empty() {
            let prefix: Vec<Json> = node.prefix.iter().map(|id| self.schema(*id)).collect();
            body.insert(prefix_keyword.to_owned(), prefix.into());
        }
        let single = [
            (rest_keyword, node.rest),
            ("contains", node.contains),
            ("unevaluatedItems", node.unevaluated_items),
        ];
        self.insert(&single, body);
    }

    fn insert(&self, single: &[(&str, Option<NodeId>)], body: &mut Map<String, Json>) {
        for (keyword, id) in single {
            if let Some(id) = id {
                body.insert((*keyword).to_owned(), self.schema(*id));
            }
        }
    }
}

/// A value of the schema in the library's own terms.
fn copied(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(bool) => (*bool).into(),
        Value::Number(text) => text.parse().map_or(Json::Null, Json::Number),
        Value::String(text) => text.as_ref().into(),
        Value::Array(elements) => elements.iter().map(copied).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.to_string(), copied(value)))
            .collect(),
    }
}
