//! Whether a schema accepts everything. Told exactly for what people write; a schema that accepts
//! everything in a roundabout way may be taken for one that says something, never the other way round.

use std::collections::HashSet;

use vocabulary::json::Value;

use crate::dialect::Dialect;
use crate::graph::{Graph, Node, NodeId};

/// Whether no value can fail at the root of `graph`; patterns in `unusable` are not checked.
pub(super) fn is_vacuous(graph: &Graph<'_>, unusable: &HashSet<&str>) -> bool {
    let backwards = graph.backwards();
    // Nothing constrains until something is seen to: so a circle without a constraint has none.
    let mut constrains = vec![false; graph.nodes.len()];
    let mut stack: Vec<NodeId> = (0..graph.nodes.len()).collect();
    while let Some(id) = stack.pop() {
        let already = constrains.get(id).copied().unwrap_or(true);
        let node = graph.node(id);
        let below = |id: NodeId| constrains.get(id).copied().unwrap_or(true);
        if !already && (asserts(graph, node, unusable) || passes_on(graph, node, unusable, &below)) {
            if let Some(place) = constrains.get_mut(id) {
                *place = true;
            }
            stack.extend(backwards.get(id).into_iter().flatten());
        }
    }
    !constrains.get(graph.root).copied().unwrap_or(true)
}

/// Whether `node` by itself refuses some value.
fn asserts(graph: &Graph<'_>, node: &Node<'_>, unusable: &HashSet<&str>) -> bool {
    node.constant == Some(false)
        || node.contains.is_some()
        || node
            .dependent_required
            .iter()
            .any(|(_, names)| **names != Value::Array(Vec::new()))
        || node
            .assertions
            .iter()
            .any(|(keyword, value)| keyword_asserts(graph.dialect, keyword, value, unusable))
}

fn keyword_asserts(dialect: Dialect, keyword: &str, value: &Value<'_>, unusable: &HashSet<&str>) -> bool {
    match keyword {
        "format" | "contentEncoding" | "contentMediaType" => dialect <= Dialect::Draft7,
        "pattern" => value.as_str().is_some_and(|text| !unusable.contains(text)),
        "uniqueItems" => *value == Value::Bool(true),
        "required" => *value != Value::Array(Vec::new()),
        "dependentRequired" => *value != Value::Object(Vec::new()),
        "minLength" | "minItems" | "minProperties" => *value != Value::Number("0"),
        // Only beside `contains`, which counts by itself.
        "minContains" | "maxContains" => false,
        _ => true,
    }
}

/// Whether what `node` leads to makes it refuse some value.
fn passes_on(
    graph: &Graph<'_>,
    node: &Node<'_>,
    unusable: &HashSet<&str>,
    constrains: &impl Fn(NodeId) -> bool,
) -> bool {
    let any = |ids: &[NodeId]| ids.iter().any(|id| constrains(*id));
    let always = any(&node.references) || any(&node.all_of) || node.dependent.iter().any(|(_, id)| constrains(*id));
    let chosen = !node.any_of.is_empty() && node.any_of.iter().all(|id| constrains(*id));
    // More than one branch: what fits two of them is refused.
    let one_of = node.one_of.len() > 1 || any(&node.one_of);
    let not = node.not.is_some_and(|id| graph.node(id).constant != Some(false));
    let condition = [node.then, node.otherwise].into_iter().flatten().any(constrains);
    let patterns = node.patterns.iter().filter(|(text, _)| !unusable.contains(text));
    let members = node.properties.iter().chain(patterns).any(|(_, id)| constrains(*id));
    let rest = [
        node.additional,
        node.unevaluated,
        node.names,
        node.rest,
        node.unevaluated_items,
    ];
    always
        || chosen
        || one_of
        || not
        || condition
        || members
        || any(&node.prefix)
        || rest.into_iter().flatten().any(constrains)
}
