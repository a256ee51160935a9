//! Closed objects: every member of every object must be declared by a part of the schema that applies
//! to that object, unless such a part says `additionalProperties: true`.
//!
//! What applies is what JSON Schema counts as having evaluated a member: references and `allOf` always,
//! branches of `anyOf`, `oneOf` and `if` where the value fits them, `dependentSchemas` where their
//! member is present. It is asked across the whole schema, so a member declared in one branch of an
//! `allOf` is known to the others, and it means the same in every dialect. The original schema is judged
//! as it stands beside this: closing never changes what `not`, `if` or `oneOf` say.
//! ADR 0011: a walk beside the schema, which stays unchanged.

use std::collections::{BTreeMap, HashSet};

use vocabulary::json::Value;

use crate::graph::{Graph, Node, NodeId};
use crate::violation::{Place, Unknown};

/// The name of a question the compiled document can answer.
pub(crate) type Probe = Box<str>;

/// For each subschema what it declares.
#[derive(Debug)]
pub(crate) struct Closed {
    shapes: Vec<Shape>,
    root: NodeId,
}

#[derive(Default, Debug)]
struct Shape {
    names: BTreeMap<Box<str>, NodeId>,
    patterns: Vec<(Probe, NodeId)>,
    additional: Rest,
    unevaluated: Rest,
    prefix: Vec<NodeId>,
    rest: Option<NodeId>,
    /// For elements that fit (`contains`, `unevaluatedItems`).
    fitting: Vec<(Probe, NodeId)>,
    always: Vec<NodeId>,
    /// For values that fit (`anyOf`, `oneOf`, `if`).
    branches: Vec<Branch>,
    dependent: Vec<(Box<str>, NodeId)>,
}

#[derive(Debug)]
struct Branch {
    probe: Probe,
    fits: Vec<NodeId>,
    else_: Option<NodeId>,
}

/// What a schema says of members it does not name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Rest {
    /// Nothing, or `false`.
    #[default]
    Closed,
    /// Anything goes, all the way down.
    Free,
    /// They are declared by this schema.
    Declared(NodeId),
}

/// Which branches count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Branches {
    /// Those the value fits.
    Fitting,
    /// All: for a value that does not fit the schema, so that a member is called unknown only if no
    /// branch at all declares it.
    All,
}

impl Closed {
    /// Takes from `graph` what it declares. `contributing` says which subschemas declare anything at all;
    /// `probe` and `pattern_probe` give the questions for the others to be asked, if they can be asked.
    pub(crate) fn of(graph: &Graph<'_>, pattern_probe: impl Fn(&str) -> Option<Probe>) -> Self {
        let contributing = contributing(graph);
        let declares = |id: NodeId| contributing.get(id) == Some(&true);
        let shapes = graph
            .nodes
            .iter()
            .map(|node| Shape::of(graph, node, &declares, &pattern_probe))
            .collect();
        Self {
            shapes,
            root: graph.root,
        }
    }

    /// The subschemas whose fit must be known before it is known what they declare.
    pub(crate) fn probed(graph: &Graph<'_>) -> HashSet<NodeId> {
        let contributing = contributing(graph);
        let declares = |id: &NodeId| contributing.get(*id) == Some(&true);
        let mut probed = HashSet::new();
        for node in &graph.nodes {
            let branches = node
                .any_of
                .iter()
                .chain(&node.one_of)
                .chain(&node.contains)
                .chain(&node.unevaluated_items);
            probed.extend(branches.filter(|id| declares(id)).copied());
            let choice = [node.condition, node.then, node.otherwise];
            if choice.iter().flatten().any(declares) {
                probed.extend(node.condition);
            }
        }
        probed
    }

    /// The members of `value` that nothing declares, at most `most` of them.
    pub(crate) fn unknown<'v>(
        &self,
        value: &'v Value<'v>,
        branches: Branches,
        most: usize,
        fits: &dyn Fn(&str, Subject<'_>) -> bool,
    ) -> Vec<Unknown<'v>> {
        let mut walk = Walk {
            closed: self,
            branches,
            most,
            fits,
            path: Vec::new(),
            found: Vec::new(),
        };
        walk.value(value, &[self.root]);
        walk.found
    }

    fn shape(&self, id: NodeId) -> Option<&Shape> {
        self.shapes.get(id)
    }
}

/// What a question is about.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Value(&'a Value<'a>),
    Name(&'a str),
}

/// The name of the question whether a value fits the subschema `id`.
pub(crate) fn probe_name(id: NodeId) -> Probe {
    format!("n{id}").into()
}

impl Shape {
    fn of(
        graph: &Graph<'_>,
        node: &Node<'_>,
        declares: &impl Fn(NodeId) -> bool,
        pattern_probe: &impl Fn(&str) -> Option<Probe>,
    ) -> Self {
        let when_fitting = |id: NodeId| (probe_name(id), id);
        let branch = |id: NodeId| Branch {
            probe: probe_name(id),
            fits: vec![id],
            else_: None,
        };
        let mut branches: Vec<Branch> = node
            .any_of
            .iter()
            .chain(&node.one_of)
            .copied()
            .filter(|id| declares(*id))
            .map(branch)
            .collect();
        if let Some(condition) = node.condition
            && [node.condition, node.then, node.otherwise]
                .into_iter()
                .flatten()
                .any(declares)
        {
            let fits = [node.condition, node.then].into_iter().flatten().collect();
            branches.push(Branch {
                probe: probe_name(condition),
                fits,
                else_: node.otherwise,
            });
        }
        Self {
            names: node.properties.iter().map(|(name, id)| ((*name).into(), *id)).collect(),
            patterns: node
                .patterns
                .iter()
                .filter_map(|(text, id)| Some((pattern_probe(text)?, *id)))
                .collect(),
            additional: Rest::of(graph, node.additional),
            unevaluated: Rest::of(graph, node.unevaluated),
            prefix: node.prefix.clone(),
            rest: node.rest,
            fitting: [node.contains, node.unevaluated_items]
                .into_iter()
                .flatten()
                .filter(|id| declares(*id))
                .map(when_fitting)
                .collect(),
            always: node
                .references
                .iter()
                .chain(&node.all_of)
                .copied()
                .filter(|id| declares(*id))
                .collect(),
            branches,
            dependent: node.dependent.iter().map(|(name, id)| ((*name).into(), *id)).collect(),
        }
    }

    fn is_plain(&self) -> bool {
        self.always.is_empty() && self.branches.is_empty() && self.dependent.is_empty()
    }
}

impl Rest {
    fn of(graph: &Graph<'_>, schema: Option<NodeId>) -> Self {
        let Some(id) = schema else { return Self::Closed };
        let node = graph.node(id);
        match node.constant {
            Some(false) => Self::Closed,
            Some(true) => Self::Free,
            None if node.says_nothing() => Self::Free,
            None => Self::Declared(id),
        }
    }
}

/// For each subschema whether it, or anything it leads to, declares a member.
fn contributing(graph: &Graph<'_>) -> Vec<bool> {
    let backwards = graph.backwards();
    let mut result = vec![false; graph.nodes.len()];
    let mut stack = Vec::new();
    for (id, node) in graph.nodes.iter().enumerate() {
        let rest = [Rest::of(graph, node.additional), Rest::of(graph, node.unevaluated)];
        if !node.properties.is_empty() || !node.patterns.is_empty() || rest.iter().any(|rest| *rest != Rest::Closed) {
            stack.push(id);
        }
    }
    while let Some(id) = stack.pop() {
        if let Some(place) = result.get_mut(id).filter(|place| !**place) {
            *place = true;
            stack.extend(backwards.get(id).into_iter().flatten());
        }
    }
    result
}

struct Walk<'c, 'v> {
    closed: &'c Closed,
    branches: Branches,
    most: usize,
    fits: &'c dyn Fn(&str, Subject<'_>) -> bool,
    path: Vec<Place<'v>>,
    found: Vec<Unknown<'v>>,
}

impl<'c, 'v> Walk<'c, 'v> {
    fn value(&mut self, value: &'v Value<'v>, schemas: &[NodeId]) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                let shapes = self.applicable(value, schemas);
                for (name, member) in members {
                    self.member(name, member, &shapes);
                }
            }
            Value::Array(elements) => {
                let shapes = self.applicable(value, schemas);
                for (index, element) in elements.iter().enumerate().filter(|(_, element)| is_container(element)) {
                    let schemas = self.of_element(index, element, &shapes);
                    self.path.push(Place::Index(index));
                    self.value(element, &schemas);
                    self.path.pop();
                }
            }
            Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn member(&mut self, name: &'v str, member: &'v Value<'v>, shapes: &[&'c Shape]) {
        if self.found.len() >= self.most {
            return;
        }
        let Some(schemas) = self.of_member(name, shapes) else {
            return;
        };
        if schemas.is_empty() {
            let allowed = shapes
                .iter()
                .flat_map(|shape| shape.names.keys().map(|name| name.to_string()))
                .collect();
            self.found.push(Unknown {
                path: self.path.clone(),
                name,
                allowed,
            });
        } else if is_container(member) {
            self.path.push(Place::Name(name));
            self.value(member, &schemas);
            self.path.pop();
        }
    }

    /// The schemas that declare the member `name`; none if it is unknown, nothing if anything goes.
    fn of_member(&self, name: &str, shapes: &[&Shape]) -> Option<Vec<NodeId>> {
        let mut schemas = Vec::new();
        for shape in shapes {
            let before = schemas.len();
            schemas.extend(shape.names.get(name));
            let matching = shape
                .patterns
                .iter()
                .filter(|(probe, _)| (self.fits)(probe, Subject::Name(name)));
            schemas.extend(matching.map(|(_, id)| *id));
            match shape.additional {
                Rest::Free if schemas.len() == before => return None,
                Rest::Declared(id) if schemas.len() == before => schemas.push(id),
                Rest::Closed | Rest::Free | Rest::Declared(_) => {}
            }
        }
        if schemas.is_empty() {
            for shape in shapes {
                match shape.unevaluated {
                    Rest::Closed => {}
                    Rest::Free => return None,
                    Rest::Declared(id) => schemas.push(id),
                }
            }
        }
        Some(schemas)
    }

    fn of_element(&self, index: usize, element: &Value<'_>, shapes: &[&Shape]) -> Vec<NodeId> {
        let mut schemas = Vec::new();
        for shape in shapes {
            schemas.extend(shape.prefix.get(index).or(shape.rest.as_ref()));
            let fitting = shape
                .fitting
                .iter()
                .filter(|(probe, _)| self.fits_branch(probe, element));
            schemas.extend(fitting.map(|(_, id)| *id));
        }
        schemas
    }

    /// `schemas` and everything that applies to the same value because of them, each once.
    fn applicable(&self, value: &Value<'_>, schemas: &[NodeId]) -> Vec<&'c Shape> {
        let closed = self.closed;
        if let [only] = schemas
            && let Some(shape) = closed.shape(*only).filter(|shape| shape.is_plain())
        {
            return vec![shape];
        }
        let mut seen = HashSet::new();
        let mut shapes = Vec::new();
        let mut stack = schemas.to_vec();
        while let Some(id) = stack.pop() {
            let Some(shape) = closed.shape(id).filter(|_| seen.insert(id)) else {
                continue;
            };
            shapes.push(shape);
            stack.extend(&shape.always);
            stack.extend(
                shape
                    .dependent
                    .iter()
                    .filter(|(name, _)| value.member(name).is_some())
                    .map(|(_, id)| *id),
            );
            for branch in &shape.branches {
                let fits = self.fits_branch(&branch.probe, value);
                if fits {
                    stack.extend(&branch.fits);
                }
                if !fits || self.branches == Branches::All {
                    stack.extend(branch.else_);
                }
            }
        }
        shapes
    }

    fn fits_branch(&self, probe: &str, value: &Value<'_>) -> bool {
        match self.branches {
            Branches::All => true,
            Branches::Fitting => (self.fits)(probe, Subject::Value(value)),
        }
    }
}

fn is_container(value: &Value<'_>) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}
