//! Reads a document into a [`Graph`].

use std::borrow::Cow;
use std::collections::HashMap;

use vocabulary::json::Value;

use super::resolve::{Resource, ResourceId};
use super::{Graph, Node, NodeId, Parent, Step};
use crate::admit::SchemaFault;
use crate::dialect::Dialect;

pub(super) fn graph<'a>(document: &'a Value<'a>, most: usize) -> Result<Graph<'a>, SchemaFault> {
    let dialect = match document.member("$schema") {
        None => Dialect::Draft202012,
        Some(uri) => uri
            .as_str()
            .and_then(Dialect::named)
            .ok_or(SchemaFault::UnknownDialect)?,
    };
    let mut builder = Builder {
        dialect,
        most,
        nodes: Vec::new(),
        by_place: HashMap::new(),
        to_read: Vec::new(),
        to_resolve: Vec::new(),
        resources: vec![Resource::rooted_at(document)],
        by_root: HashMap::new(),
        by_id: HashMap::new(),
        dynamic: false,
    };
    let root = builder.schema(document, 0, None)?;
    builder.finish()?;
    Ok(Graph {
        dialect,
        root,
        nodes: builder.nodes,
    })
}

pub(super) struct Builder<'a> {
    pub(super) dialect: Dialect,
    most: usize,
    nodes: Vec<Node<'a>>,
    /// Subschemas by their address in the document, which stays where it is while we read.
    by_place: HashMap<*const Value<'a>, NodeId>,
    to_read: Vec<(At, &'a Value<'a>)>,
    to_resolve: Vec<(At, &'a str)>,
    pub(super) resources: Vec<Resource<'a>>,
    /// Embedded resources by the address of their root.
    pub(super) by_root: HashMap<*const Value<'a>, ResourceId>,
    pub(super) by_id: HashMap<&'a str, ResourceId>,
    dynamic: bool,
}

/// A subschema, and the resource its references are relative to.
#[derive(Clone, Copy)]
struct At {
    id: NodeId,
    resource: ResourceId,
}

type Members<'a> = &'a [(Cow<'a, str>, Value<'a>)];

impl<'a> Builder<'a> {
    /// Reads what is to be read, then resolves what is to be resolved, which may uncover more to read.
    fn finish(&mut self) -> Result<(), SchemaFault> {
        loop {
            if let Some((at, value)) = self.to_read.pop() {
                self.read(at, value)?;
            } else if let Some((at, reference)) = self.to_resolve.pop() {
                let (target, resource) = self.resolve(reference, at.resource)?;
                let target = self.schema(target, resource, None)?;
                self.node(at).references.push(target);
            } else if self.dynamic && self.resources.len() > 1 {
                // With one resource a dynamic reference means what a plain one means; with more it
                // depends on the way taken, which cannot be counted beforehand.
                return Err(SchemaFault::DynamicReference);
            } else {
                return Ok(());
            }
        }
    }

    /// The node of the subschema at `value`, read later if it is new.
    fn schema(
        &mut self,
        value: &'a Value<'a>,
        resource: ResourceId,
        parent: Option<Parent<'a>>,
    ) -> Result<NodeId, SchemaFault> {
        if let Some(known) = self.by_place.get(&std::ptr::from_ref(value)) {
            return Ok(*known);
        }
        let id = self.nodes.len();
        if id >= self.most {
            return Err(SchemaFault::TooManySubschemas);
        }
        let constant = match value {
            Value::Bool(constant) => Some(*constant),
            Value::Object(_) => None,
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => return Err(SchemaFault::NotASchema),
        };
        self.nodes.push(Node {
            parent,
            constant,
            ..Node::default()
        });
        self.by_place.insert(std::ptr::from_ref(value), id);
        self.to_read.push((At { id, resource }, value));
        Ok(id)
    }

    fn read(&mut self, mut at: At, value: &'a Value<'a>) -> Result<(), SchemaFault> {
        let Value::Object(members) = value else { return Ok(()) };
        if !self.dialect.has_ref_siblings()
            && let Some(reference) = value.member("$ref").and_then(Value::as_str)
        {
            self.to_resolve.push((at, reference));
            return self.definitions(at, members);
        }
        if let Some(uri) = value.member("$schema")
            && uri.as_str().and_then(Dialect::named) != Some(self.dialect)
        {
            return Err(SchemaFault::UnknownDialect);
        }
        if let Some(name) = value.member(self.dialect.id_keyword()).and_then(Value::as_str) {
            at.resource = self.enter(name, value, at.resource)?;
        }
        self.anchor(value, at.resource);
        self.definitions(at, members)?;
        for (keyword, value) in members {
            self.keyword(at, keyword, value)?;
        }
        if let (Some(Value::Array(_)), Some(rest)) = (value.member("items"), value.member("additionalItems"))
            && self.dialect <= Dialect::Draft201909
        {
            self.node(at).rest = self.one(at, "additionalItems", rest)?;
        }
        let node = self.node(at);
        if node.condition.is_none() {
            (node.then, node.otherwise) = (None, None);
        }
        Ok(())
    }

    /// Kept schemas are counted, and may be referred to by name, whether or not anything does.
    fn definitions(&mut self, at: At, members: Members<'a>) -> Result<(), SchemaFault> {
        for (keyword, value) in members {
            if let ("$defs" | "definitions", Value::Object(kept)) = (keyword.as_ref(), value) {
                for (name, schema) in kept
                    .iter()
                    .filter(|(_, kept)| matches!(kept, Value::Object(_) | Value::Bool(_)))
                {
                    self.schema(schema, at.resource, at.parent(keyword, Step::Name(name)))?;
                }
            }
        }
        Ok(())
    }

    fn keyword(&mut self, at: At, keyword: &'a str, value: &'a Value<'a>) -> Result<(), SchemaFault> {
        let dialect = self.dialect;
        match keyword {
            "$ref" => self.refer(at, value)?,
            "$recursiveRef" if dialect == Dialect::Draft201909 => {
                self.dynamic = true;
                self.refer(at, value)?;
            }
            "$dynamicRef" if dialect == Dialect::Draft202012 => {
                self.dynamic = true;
                self.refer(at, value)?;
            }
            "allOf" => self.node(at).all_of = self.list(at, keyword, value)?,
            "anyOf" => self.node(at).any_of = self.list(at, keyword, value)?,
            "oneOf" => self.node(at).one_of = self.list(at, keyword, value)?,
            "not" => self.node(at).not = self.one(at, keyword, value)?,
            "if" if dialect >= Dialect::Draft7 => self.node(at).condition = self.one(at, keyword, value)?,
            "then" if dialect >= Dialect::Draft7 => self.node(at).then = self.one(at, keyword, value)?,
            "else" if dialect >= Dialect::Draft7 => self.node(at).otherwise = self.one(at, keyword, value)?,
            "dependentSchemas" if dialect.has_ref_siblings() => self.dependencies(at, keyword, value)?,
            "dependencies" => self.dependencies(at, keyword, value)?,
            _ => self.child_keyword(at, keyword, value)?,
        }
        Ok(())
    }

    fn child_keyword(&mut self, at: At, keyword: &'a str, value: &'a Value<'a>) -> Result<(), SchemaFault> {
        let dialect = self.dialect;
        match keyword {
            "properties" => self.node(at).properties = self.map(at, keyword, value)?,
            "patternProperties" => self.node(at).patterns = self.map(at, keyword, value)?,
            "additionalProperties" => self.node(at).additional = self.one(at, keyword, value)?,
            "unevaluatedProperties" if dialect.has_ref_siblings() => {
                self.node(at).unevaluated = self.one(at, keyword, value)?;
            }
            "propertyNames" if dialect >= Dialect::Draft6 => self.node(at).names = self.one(at, keyword, value)?,
            "contains" if dialect >= Dialect::Draft6 => self.node(at).contains = self.one(at, keyword, value)?,
            "unevaluatedItems" if dialect.has_ref_siblings() => {
                self.node(at).unevaluated_items = self.one(at, keyword, value)?;
            }
            "prefixItems" if dialect == Dialect::Draft202012 => self.node(at).prefix = self.list(at, keyword, value)?,
            "items" => self.items(at, value)?,
            _ if Dialect::is_assertion(keyword) => self.node(at).assertions.push((keyword, value)),
            _ => {}
        }
        Ok(())
    }

    /// One schema for all elements, or, before 2020-12, a list of schemas for the first ones.
    fn items(&mut self, at: At, value: &'a Value<'a>) -> Result<(), SchemaFault> {
        match value {
            Value::Array(elements) if self.dialect <= Dialect::Draft201909 => {
                if !elements.is_empty() {
                    self.node(at).prefix = self.list(at, "items", value)?;
                }
            }
            Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                self.node(at).rest = self.one(at, "items", value)?;
            }
        }
        Ok(())
    }

    fn refer(&mut self, at: At, value: &'a Value<'a>) -> Result<(), SchemaFault> {
        let reference = value.as_str().ok_or(SchemaFault::NotASchema)?;
        self.to_resolve.push((at, reference));
        Ok(())
    }

    /// `dependencies` mixes schemas with lists of names; the lists assert by themselves.
    fn dependencies(&mut self, at: At, keyword: &'a str, value: &'a Value<'a>) -> Result<(), SchemaFault> {
        let Value::Object(members) = value else {
            return Err(SchemaFault::NotASchema);
        };
        for (name, dependency) in members {
            if let Value::Array(_) = dependency {
                self.node(at).dependent_required.push((name, dependency));
            } else {
                let schema = self.schema(dependency, at.resource, at.parent(keyword, Step::Name(name)))?;
                self.node(at).dependent.push((name, schema));
            }
        }
        Ok(())
    }

    fn one(&mut self, at: At, keyword: &'a str, value: &'a Value<'a>) -> Result<Option<NodeId>, SchemaFault> {
        self.schema(value, at.resource, at.parent(keyword, Step::Itself))
            .map(Some)
    }

    fn list(&mut self, at: At, keyword: &'a str, value: &'a Value<'a>) -> Result<Vec<NodeId>, SchemaFault> {
        let Value::Array(elements) = value else {
            return Err(SchemaFault::NotASchema);
        };
        if elements.is_empty() {
            return Err(SchemaFault::NotASchema);
        }
        elements
            .iter()
            .enumerate()
            .map(|(index, element)| self.schema(element, at.resource, at.parent(keyword, Step::Index(index))))
            .collect()
    }

    fn map(&mut self, at: At, keyword: &'a str, value: &'a Value<'a>) -> Result<Vec<(&'a str, NodeId)>, SchemaFault> {
        let Value::Object(members) = value else {
            return Err(SchemaFault::NotASchema);
        };
        members
            .iter()
            .map(|(name, schema)| {
                let parent = at.parent(keyword, Step::Name(name));
                Ok((name.as_ref(), self.schema(schema, at.resource, parent)?))
            })
            .collect()
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "an `At` is made only for a node that `schema` has pushed"
    )]
    fn node(&mut self, at: At) -> &mut Node<'a> {
        &mut self.nodes[at.id]
    }
}

impl At {
    fn parent<'a>(self, keyword: &'a str, step: Step<'a>) -> Option<Parent<'a>> {
        Some(Parent {
            id: self.id,
            keyword,
            step,
        })
    }
}
