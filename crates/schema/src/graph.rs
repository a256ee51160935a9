//! A schema as a graph: every subschema once, every reference resolved inside the document.

mod build;
mod resolve;

use std::collections::HashMap;

use vocabulary::json::Value;

use crate::admit::SchemaFault;
use crate::dialect::Dialect;

/// The place of a subschema in [`Graph::nodes`].
pub(crate) type NodeId = usize;

/// All subschemas of a document that are schemas, whether the root reaches them or not.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) root: NodeId,
    pub(crate) nodes: Vec<Node<'a>>,
}

/// One subschema: what it asserts, and where its keywords lead.
#[derive(Default, Debug)]
pub(crate) struct Node<'a> {
    /// Where it stands in the document; nothing for the root and for what only a reference found.
    pub(crate) parent: Option<Parent<'a>>,
    /// `true` or `false` instead of an object.
    pub(crate) constant: Option<bool>,
    pub(crate) assertions: Vec<(&'a str, &'a Value<'a>)>,
    /// `$ref` and its dynamic kin.
    pub(crate) references: Vec<NodeId>,
    pub(crate) all_of: Vec<NodeId>,
    pub(crate) any_of: Vec<NodeId>,
    pub(crate) one_of: Vec<NodeId>,
    pub(crate) not: Option<NodeId>,
    pub(crate) condition: Option<NodeId>,
    pub(crate) then: Option<NodeId>,
    pub(crate) otherwise: Option<NodeId>,
    pub(crate) dependent: Vec<(&'a str, NodeId)>,
    pub(crate) dependent_required: Vec<(&'a str, &'a Value<'a>)>,
    pub(crate) properties: Vec<(&'a str, NodeId)>,
    pub(crate) patterns: Vec<(&'a str, NodeId)>,
    pub(crate) additional: Option<NodeId>,
    pub(crate) unevaluated: Option<NodeId>,
    pub(crate) names: Option<NodeId>,
    pub(crate) prefix: Vec<NodeId>,
    pub(crate) rest: Option<NodeId>,
    pub(crate) contains: Option<NodeId>,
    pub(crate) unevaluated_items: Option<NodeId>,
}

/// The way from a subschema down to one it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parent<'a> {
    pub(crate) id: NodeId,
    pub(crate) keyword: &'a str,
    pub(crate) step: Step<'a>,
}

/// The rest of that way, below the keyword.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    Itself,
    Name(&'a str),
    Index(usize),
}

impl<'a> Graph<'a> {
    /// Reads the subschemas of `document`, at most `most` of them.
    pub(crate) fn of(document: &'a Value<'a>, most: usize) -> Result<Self, SchemaFault> {
        build::graph(document, most)
    }

    /// The subschema `id`.
    #[expect(
        clippy::indexing_slicing,
        reason = "ids come from `build`, which hands out only places it filled"
    )]
    pub(crate) fn node(&self, id: NodeId) -> &Node<'a> {
        &self.nodes[id]
    }

    /// For each subschema those that lead to it, in place or through a part of the value.
    pub(crate) fn backwards(&self) -> Vec<Vec<NodeId>> {
        let mut backwards: Vec<Vec<NodeId>> = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            for next in node.in_place().chain(node.children()) {
                if let Some(into) = backwards.get_mut(next) {
                    into.push(id);
                }
            }
        }
        backwards
    }

    /// The pointer to the subschema `id`, its last steps only where it is long.
    pub(crate) fn pointer(&self, id: NodeId) -> String {
        let mut segments = Vec::new();
        let mut next = self.node(id).parent;
        while let Some(parent) = next.filter(|_| segments.len() < POINTER_SEGMENTS) {
            match parent.step {
                Step::Itself => {}
                Step::Name(name) => segments.push(name.replace('~', "~0").replace('/', "~1")),
                Step::Index(index) => segments.push(index.to_string()),
            }
            segments.push(parent.keyword.to_owned());
            next = self.node(parent.id).parent;
        }
        segments
            .iter()
            .rev()
            .fold(String::new(), |pointer, segment| pointer + "/" + segment)
    }

    /// Every subschema the root reaches, children before the nodes that reach them in place.
    ///
    /// # Errors
    /// When a schema leads back to itself without going down into the value.
    pub(crate) fn in_place_order(&self) -> Result<Vec<NodeId>, SchemaFault> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut state: HashMap<NodeId, Visit> = HashMap::with_capacity(self.nodes.len());
        let mut stack: Vec<Move> = (0..self.nodes.len()).map(Move::Enter).collect();
        while let Some(step) = stack.pop() {
            match step {
                Move::Enter(id) => match state.get(&id) {
                    Some(Visit::Done) => {}
                    Some(Visit::Open) => return Err(SchemaFault::ReferenceCycle),
                    None => {
                        state.insert(id, Visit::Open);
                        stack.push(Move::Leave(id));
                        let fresh = |next: &NodeId| !matches!(state.get(next), Some(Visit::Done));
                        stack.extend(self.node(id).in_place().filter(fresh).map(Move::Enter));
                    }
                },
                Move::Leave(id) => {
                    state.insert(id, Visit::Done);
                    order.push(id);
                }
            }
        }
        Ok(order)
    }
}

enum Move {
    Enter(NodeId),
    Leave(NodeId),
}

/// Pointers are for people: more than this is not read.
const POINTER_SEGMENTS: usize = 32;

enum Visit {
    Open,
    Done,
}

impl Node<'_> {
    /// Subschemas that judge the same value.
    pub(crate) fn in_place(&self) -> impl Iterator<Item = NodeId> {
        let lists = [&self.references, &self.all_of, &self.any_of, &self.one_of];
        let single = [self.not, self.condition, self.then, self.otherwise];
        let dependent = self.dependent.iter().map(|(_, id)| *id);
        lists
            .into_iter()
            .flatten()
            .copied()
            .chain(single.into_iter().flatten())
            .chain(dependent)
    }

    /// Whether it accepts everything, by saying nothing.
    pub(crate) fn says_nothing(&self) -> bool {
        self.constant.is_none()
            && self.assertions.is_empty()
            && self.dependent_required.is_empty()
            && self.in_place().chain(self.children()).next().is_none()
    }

    /// Subschemas that judge a part of the value.
    pub(crate) fn children(&self) -> impl Iterator<Item = NodeId> {
        let named = self.properties.iter().chain(&self.patterns).map(|(_, id)| *id);
        let single = [
            self.additional,
            self.unevaluated,
            self.names,
            self.rest,
            self.contains,
            self.unevaluated_items,
        ];
        named
            .chain(self.prefix.iter().copied())
            .chain(single.into_iter().flatten())
    }
}
