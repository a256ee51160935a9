//! Finds what a reference names, inside the document or not at all.

use std::collections::HashMap;

use vocabulary::json::Value;

use super::build::Builder;
use crate::admit::SchemaFault;
use crate::dialect::Dialect;

/// The place of a resource in the builder's list; 0 is the document.
pub(super) type ResourceId = usize;

/// The document, or a part of it with an `$id` of its own; fragments are counted from its root.
pub(super) struct Resource<'a> {
    root: &'a Value<'a>,
    anchors: HashMap<&'a str, &'a Value<'a>>,
}

impl<'a> Resource<'a> {
    pub(super) fn rooted_at(root: &'a Value<'a>) -> Self {
        Self {
            root,
            anchors: HashMap::new(),
        }
    }
}

impl<'a> Builder<'a> {
    /// Takes note of an `$id`: a name for the document, the start of another resource, or, before
    /// 2019-09, an anchor. Gives the resource that `schema` belongs to.
    pub(super) fn enter(
        &mut self,
        name: &'a str,
        schema: &'a Value<'a>,
        within: ResourceId,
    ) -> Result<ResourceId, SchemaFault> {
        let (uri, fragment) = name.split_once('#').unwrap_or((name, ""));
        if uri.is_empty() {
            if !fragment.is_empty()
                && let Some(resource) = self.resources.get_mut(within)
            {
                resource.anchors.insert(fragment, schema);
            }
            return Ok(within);
        }
        let is_document = self
            .resources
            .first()
            .is_some_and(|document| std::ptr::eq(document.root, schema));
        let resource = if is_document { 0 } else { self.resources.len() };
        if !is_document {
            self.resources.push(Resource::rooted_at(schema));
            self.by_root.insert(std::ptr::from_ref(schema), resource);
        }
        // Two schemas of one name: which one a reference means would be a matter of luck.
        match self.by_id.insert(uri, resource) {
            Some(other) if other != resource => Err(SchemaFault::AmbiguousReference),
            _ => Ok(resource),
        }
    }

    /// Takes note of the names `schema` gives itself inside its resource.
    pub(super) fn anchor(&mut self, schema: &'a Value<'a>, resource: ResourceId) {
        if self.dialect < Dialect::Draft201909 {
            return;
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let (Some(name), Some(resource)) = (
                schema.member(keyword).and_then(Value::as_str),
                self.resources.get_mut(resource),
            ) {
                resource.anchors.insert(name, schema);
            }
        }
    }

    /// What `reference` names, seen from `resource`, and the resource that belongs to.
    pub(super) fn resolve(
        &self,
        reference: &str,
        resource: ResourceId,
    ) -> Result<(&'a Value<'a>, ResourceId), SchemaFault> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = match uri {
            "" => resource,
            _ => *self.by_id.get(uri).ok_or(SchemaFault::ReferenceLeavesDocument)?,
        };
        let found = self.resources.get(resource).ok_or(SchemaFault::DanglingReference)?;
        let fragment = percent_decoded(fragment).ok_or(SchemaFault::DanglingReference)?;
        if !fragment.is_empty() && !fragment.starts_with('/') {
            let schema = found
                .anchors
                .get(fragment.as_str())
                .ok_or(SchemaFault::DanglingReference)?;
            return Ok((schema, resource));
        }
        let mut place = (found.root, resource);
        for segment in fragment.split('/').skip(1) {
            let segment = segment.replace("~1", "/").replace("~0", "~");
            let next = step(place.0, &segment).ok_or(SchemaFault::DanglingReference)?;
            place = (
                next,
                self.by_root.get(&std::ptr::from_ref(next)).copied().unwrap_or(place.1),
            );
        }
        Ok(place)
    }
}

fn step<'a>(value: &'a Value<'a>, segment: &str) -> Option<&'a Value<'a>> {
    match value {
        Value::Object(_) => value.member(segment),
        Value::Array(elements) => {
            let index: usize = segment.parse().ok()?;
            elements.get(index).filter(|_| index.to_string() == segment)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let code = digit()? << 4 | digit()?;
            decoded.push(u8::try_from(code).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}
