//! How the cost of applying a schema grows with the depth of the value it is applied to.

use vocabulary::json::{Limits, Value};

use crate::graph::{Graph, Node, NodeId};

/// What judging a value of a given depth can cost at most, per value on the way down to its deepest part.
#[derive(Debug)]
pub(crate) struct Growth {
    /// For values of depth 1, 2, …; the last entry holds for all deeper ones, up to the deepest there are.
    rows: Vec<Cost>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Cost {
    /// Subschemas evaluated, each as often as some way leads to it.
    evaluations: u64,
    /// Subschemas inside one another at the same time.
    nesting: u64,
}

impl Growth {
    /// Calls of a validator inside one another that fit the stack of an ordinary thread.
    pub(crate) const MAX_NESTING: u64 = 400;

    /// Counts row by row until deeper values cost no more, or until none is so deep.
    ///
    /// `order` lists every subschema after those it leads to in place.
    pub(crate) fn of(graph: &Graph<'_>, order: &[NodeId]) -> Self {
        let mut rows = Vec::new();
        let mut below = vec![Cost::default(); graph.nodes.len()];
        for _ in 0..Limits::DEEPEST {
            let row = next_row(graph, order, &below);
            rows.push(cost_of(&row, graph.root));
            // Past these figures nothing is ever tried, so the exact ones do not matter.
            let hopeless = rows.last().is_some_and(|cost| cost.nesting > 2 * Self::MAX_NESTING);
            if row == below || hopeless {
                break;
            }
            below = row;
        }
        Self { rows }
    }

    /// Evaluations for a value of this depth; recursion makes them grow without end.
    pub(crate) fn evaluations(&self, depth: usize) -> u64 {
        self.at(depth).evaluations
    }

    /// How many subschemas can be inside one another for a value of this depth.
    pub(crate) fn nesting(&self, depth: usize) -> u64 {
        self.at(depth).nesting
    }

    fn at(&self, depth: usize) -> Cost {
        self.rows
            .get(depth.saturating_sub(1))
            .or(self.rows.last())
            .copied()
            .unwrap_or_default()
    }
}

fn next_row(graph: &Graph<'_>, order: &[NodeId], below: &[Cost]) -> Vec<Cost> {
    let mut row = vec![Cost::default(); graph.nodes.len()];
    for id in order {
        let node = graph.node(*id);
        let mut cost = Cost {
            evaluations: 1,
            nesting: 0,
        };
        for next in node.in_place() {
            let next = cost_of(&row, next);
            cost.evaluations = cost.evaluations.saturating_add(next.evaluations);
            cost.nesting = cost.nesting.max(next.nesting);
        }
        let down = node
            .children()
            .map(|child| cost_of(below, child).nesting)
            .max()
            .unwrap_or_default();
        cost.nesting = cost.nesting.max(down) + 1;
        let parts = worst_part(node, |child| cost_of(below, child).evaluations);
        cost.evaluations = cost.evaluations.saturating_add(parts);
        if let Some(place) = row.get_mut(*id) {
            *place = cost;
        }
    }
    row
}

/// Evaluations below one value on the worst way down: one member or one element of it. Different
/// members are different parts; several keywords that judge the same part add up.
fn worst_part(node: &Node<'_>, cost: impl Fn(NodeId) -> u64) -> u64 {
    let sum = |ids: &mut dyn Iterator<Item = NodeId>| ids.fold(0, |sum: u64, id| sum.saturating_add(cost(id)));
    let worst = |ids: &mut dyn Iterator<Item = NodeId>| ids.map(&cost).max().unwrap_or_default();
    let named = worst(&mut node.properties.iter().map(|(_, id)| *id).chain(node.additional));
    let any_member = sum(&mut node
        .patterns
        .iter()
        .map(|(_, id)| *id)
        .chain(node.unevaluated)
        .chain(node.names));
    let placed = worst(&mut node.prefix.iter().copied().chain(node.rest));
    let any_element = sum(&mut node.contains.into_iter().chain(node.unevaluated_items));
    named.saturating_add(any_member).max(placed.saturating_add(any_element))
}

/// Evaluations on the worst way down where a schema that leads back to itself through the parts of a
/// value counts once: validators remember such verdicts, so they cost one look each.
pub(super) fn evaluations_without_recursion(graph: &Graph<'_>, order: &[NodeId]) -> u64 {
    without_recursion(graph, order, |_| 1)
}

/// The same in steps of about the time that comparing two strings takes: an evaluation is several, and
/// lists that are gone through one by one count by their length.
pub(super) fn steps_without_recursion(graph: &Graph<'_>, order: &[NodeId]) -> u64 {
    without_recursion(graph, order, |node| {
        let own = node.assertions.iter().map(|(keyword, list)| match *keyword {
            "enum" | "const" => values(list),
            "required" | "dependentRequired" => values(list).saturating_mul(STEPS_OF_LOOKUP),
            _ => 0,
        });
        let dependent = node
            .dependent_required
            .iter()
            .map(|(_, list)| values(list).saturating_mul(STEPS_OF_LOOKUP));
        own.chain(dependent).fold(STEPS_OF_EVALUATION, u64::saturating_add)
    })
}

const STEPS_OF_EVALUATION: u64 = 8;
/// For each member that is passed on the way to the one that is looked for.
const STEPS_OF_LOOKUP: u64 = 4;

/// How many values `value` holds, itself included; no schema is deeper than its limit.
fn values(value: &Value<'_>) -> u64 {
    let below: u64 = match value {
        Value::Array(elements) => elements.iter().map(values).sum(),
        Value::Object(members) => members.iter().map(|(_, member)| values(member)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    below + 1
}

fn without_recursion(graph: &Graph<'_>, order: &[NodeId], own: impl Fn(&Node<'_>) -> u64) -> u64 {
    let circle = circles(graph);
    let in_circle = |one: NodeId, other: NodeId| circle.get(one) == circle.get(other);
    let mut counted: Vec<Option<u64>> = vec![None; graph.nodes.len()];
    let count_of = |counted: &[Option<u64>], id: NodeId| counted.get(id).copied().flatten();
    let mut stack: Vec<NodeId> = order.to_vec();
    while let Some(id) = stack.pop() {
        if count_of(&counted, id).is_some() {
            continue;
        }
        let node = graph.node(id);
        let needed = node
            .in_place()
            .chain(node.children().filter(|child| !in_circle(id, *child)));
        let missing: Vec<NodeId> = needed.filter(|next| count_of(&counted, *next).is_none()).collect();
        if !missing.is_empty() {
            stack.push(id);
            stack.extend(missing);
            continue;
        }
        let same = node.in_place().fold(own(node), |sum: u64, next| {
            sum.saturating_add(count_of(&counted, next).unwrap_or(1))
        });
        let parts = worst_part(node, |child| {
            if in_circle(id, child) {
                1
            } else {
                count_of(&counted, child).unwrap_or(1)
            }
        });
        if let Some(place) = counted.get_mut(id) {
            *place = Some(same.saturating_add(parts));
        }
    }
    count_of(&counted, graph.root).unwrap_or(u64::MAX)
}

/// A number for each subschema, equal for those that lead to one another (Kosaraju's algorithm).
fn circles(graph: &Graph<'_>) -> Vec<usize> {
    let backwards = graph.backwards();
    let forwards = |id: NodeId| {
        let node = graph.node(id);
        node.in_place().chain(node.children()).collect::<Vec<_>>()
    };
    let finished = finishing_order(graph.nodes.len(), forwards);
    let mut circle = vec![usize::MAX; graph.nodes.len()];
    for root in finished.into_iter().rev() {
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            if let Some(place) = circle.get_mut(id).filter(|place| **place == usize::MAX) {
                *place = root;
                stack.extend(backwards.get(id).into_iter().flatten());
            }
        }
    }
    circle
}

fn finishing_order(count: usize, forwards: impl Fn(NodeId) -> Vec<NodeId>) -> Vec<NodeId> {
    let mut seen = vec![false; count];
    let mut order = Vec::with_capacity(count);
    for start in 0..count {
        let mut stack = vec![(start, false)];
        while let Some((id, done)) = stack.pop() {
            if done {
                order.push(id);
            } else if let Some(seen) = seen.get_mut(id).filter(|seen| !**seen) {
                *seen = true;
                stack.push((id, true));
                stack.extend(forwards(id).into_iter().map(|next| (next, false)));
            }
        }
    }
    order
}

fn cost_of(row: &[Cost], id: NodeId) -> Cost {
    row.get(id).copied().unwrap_or_default()
}
