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
    unusable: HashSet<&'a str>,
    /// Subschemas that take more values than they should because of those, and whose users must know.
    loose: HashSet<NodeId>,
}

/// What happens to the keywords around a pattern that is not checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unchecked {
    /// They stay: where one turns on what the pattern would have said, values may be refused for it.
    LeaveTheRest,
    /// Those that would refuse values for it (`not`, `if`, `oneOf`, `additionalProperties` and their
    /// kin around it) are left out too: nothing is refused that the whole schema would take.
    LeaveOutDependents,
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
            loose: HashSet::new(),
        }
    }

    /// From here on `unusable` patterns are not checked.
    pub(super) fn leave_out(&mut self, unusable: HashSet<&'a str>, unchecked: Unchecked) {
        self.loose = match unchecked {
            Unchecked::LeaveTheRest => HashSet::new(),
            Unchecked::LeaveOutDependents => reaching(self.graph, |node| has_unusable(node, &unusable)),
        };
        self.unusable = unusable;
    }

    /// The patterns that are not checked.
    pub(super) fn into_unusable(self) -> HashSet<&'a str> {
        self.unusable
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
            let counts_loosely = *keyword == "maxContains" && node.contains.is_some_and(|id| self.loose.contains(&id));
            if !unusable && !counts_loosely {
                body.insert((*keyword).to_owned(), copied(value));
            }
        }
        self.in_place(node, &mut body);
        self.members(node, &mut body);
        self.elements(node, &mut body);
        if self.loose.contains(&id) {
            // What was evaluated is no longer known.
            body.remove("unevaluatedProperties");
            body.remove("unevaluatedItems");
        }
        body.into()
    }

    /// A subschema that takes exactly the values it should.
    fn firm(&self, id: Option<NodeId>) -> Option<NodeId> {
        id.filter(|id| !self.loose.contains(id))
    }

    fn in_place(&self, node: &Node<'a>, body: &mut Map<String, Json>) {
        let mut all_of: Vec<Json> = node.all_of.iter().map(|id| self.schema(*id)).collect();
        let mut references = node.references.iter().map(|id| self.reference(*id));
        if let Some(Json::Object(first)) = references.next() {
            body.extend(first);
        }
        all_of.extend(references);
        let list = |ids: &[NodeId]| ids.iter().map(|id| self.schema(*id)).collect::<Vec<_>>();
        let one_of = list(&node.one_of);
        let (one_of, at_least_one) = if node.one_of.iter().any(|id| self.loose.contains(id)) {
            (Vec::new(), one_of)
        } else {
            (one_of, Vec::new())
        };
        if !at_least_one.is_empty() {
            all_of.push(json!({ "anyOf": at_least_one }));
        }
        for (keyword, schemas) in [("allOf", all_of), ("anyOf", list(&node.any_of)), ("oneOf", one_of)] {
            if !schemas.is_empty() {
                body.insert(keyword.to_owned(), schemas.into());
            }
        }
        let condition = self.firm(node.condition);
        let single = [
            ("not", self.firm(node.not)),
            ("if", condition),
            ("then", condition.and(node.then)),
            ("else", condition.and(node.otherwise)),
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
        let rest_is_known =
            self.loose.is_empty() || !node.patterns.iter().any(|(text, _)| self.unusable.contains(text));
        let single = [
            ("additionalProperties", node.additional.filter(|_| rest_is_known)),
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

fn has_unusable(node: &Node<'_>, unusable: &HashSet<&str>) -> bool {
    let of_value = |(keyword, value): &(&str, &Value<'_>)| {
        *keyword == "pattern" && value.as_str().is_some_and(|text| unusable.contains(text))
    };
    node.assertions.iter().any(of_value) || node.patterns.iter().any(|(text, _)| unusable.contains(text))
}

/// The subschemas for which `starts` holds, and all that lead to one of them.
fn reaching(graph: &Graph<'_>, starts: impl Fn(&Node<'_>) -> bool) -> HashSet<NodeId> {
    let backwards = graph.backwards();
    let mut reaching = HashSet::new();
    let mut stack: Vec<NodeId> = (0..graph.nodes.len()).filter(|id| starts(graph.node(*id))).collect();
    while let Some(id) = stack.pop() {
        if reaching.insert(id) {
            stack.extend(backwards.get(id).into_iter().flatten());
        }
    }
    reaching
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
