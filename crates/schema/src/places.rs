//! What a schema says of each place of a value: what its members are called, and which formats its strings have. Parts of
//! the schema that judge the same value count as one: what any branch says of a place is said of it, whichever branch a
//! value takes. So there are never more places than subschemas, references that lead back included.

use std::collections::{BTreeMap, BTreeSet};

use vocabulary::json::Value;

use crate::graph::{Graph, Node, NodeId};

/// The number of a place in [`Places`].
pub type PlaceId = usize;

/// What a schema says of the places of a value.
#[derive(Clone, Default, Debug)]
pub struct Places {
    places: Vec<Place>,
    root: PlaceId,
}

/// What it says of one of them.
#[derive(Clone, Default, Debug)]
pub struct Place {
    /// Formats of strings that stand there.
    pub formats: BTreeSet<Box<str>>,
    /// Members that are named.
    pub members: BTreeMap<Box<str>, PlaceId>,
    /// All other members.
    pub others: Option<PlaceId>,
    /// Items of a list.
    pub items: Option<PlaceId>,
}

impl Places {
    /// The whole value.
    #[must_use]
    pub fn root(&self) -> PlaceId {
        self.root
    }

    /// All of them; an id is the position.
    #[must_use]
    pub fn all(&self) -> &[Place] {
        &self.places
    }

    pub(crate) fn of(graph: &Graph<'_>) -> Self {
        let mut merged = Merged::new(graph);
        for (id, node) in graph.nodes.iter().enumerate() {
            node.in_place().for_each(|other| merged.join(id, other));
        }
        merged.places(graph)
    }
}

/// Subschemas that speak of the same place, and the ways down from there.
struct Merged<'g> {
    above: Vec<NodeId>,
    ways: Vec<BTreeMap<Step<'g>, NodeId>>,
}

impl<'g> Merged<'g> {
    fn new(graph: &'g Graph<'_>) -> Self {
        let mut merged = Self {
            above: (0..graph.nodes.len()).collect(),
            ways: vec![BTreeMap::new(); graph.nodes.len()],
        };
        let mut same = Vec::new();
        for (node, ways) in graph.nodes.iter().zip(&mut merged.ways) {
            for (step, child) in steps(node) {
                same.extend(ways.insert(step, child).map(|known| (known, child)));
            }
        }
        same.into_iter().for_each(|(one, other)| merged.join(one, other));
        merged
    }

    fn find(&mut self, mut id: NodeId) -> NodeId {
        while let Some(above) = self.above.get(id).copied().filter(|above| *above != id) {
            let further = self.above.get(above).copied().unwrap_or(above);
            if let Some(place) = self.above.get_mut(id) {
                *place = further;
            }
            id = further;
        }
        id
    }

    /// Makes two places one, and with them what the same step leads to from both.
    fn join(&mut self, one: NodeId, other: NodeId) {
        let mut same = vec![(one, other)];
        while let Some((one, other)) = same.pop() {
            let (one, other) = (self.find(one), self.find(other));
            if one == other {
                continue;
            }
            let ways = |id: NodeId| self.ways.get(id).map_or(0, BTreeMap::len);
            let (kept, gone) = if ways(one) < ways(other) {
                (other, one)
            } else {
                (one, other)
            };
            if let Some(place) = self.above.get_mut(gone) {
                *place = kept;
            }
            let moved = self.ways.get_mut(gone).map(std::mem::take).unwrap_or_default();
            for (step, child) in moved {
                let known = self.ways.get_mut(kept).and_then(|ways| ways.insert(step, child));
                same.extend(known.map(|known| (known, child)));
            }
        }
    }

    fn places(mut self, graph: &Graph<'_>) -> Places {
        let mut places = vec![Place::default(); graph.nodes.len()];
        for (place, ways) in places.iter_mut().zip(std::mem::take(&mut self.ways)) {
            for (step, child) in ways {
                let child = self.find(child);
                match step {
                    Step::Member(name) => drop(place.members.insert(name.into(), child)),
                    Step::Other => place.others = Some(child),
                    Step::Item => place.items = Some(child),
                }
            }
        }
        for (id, node) in graph.nodes.iter().enumerate() {
            let found = self.find(id);
            let formats = node.assertions.iter().filter(|(keyword, _)| *keyword == "format");
            let formats = formats.filter_map(|(_, format)| Value::as_str(format));
            if let Some(place) = places.get_mut(found) {
                place.formats.extend(formats.map(Into::into));
            }
        }
        Places {
            places,
            root: self.find(graph.root),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step<'a> {
    Member(&'a str),
    Other,
    Item,
}

/// The ways down from a subschema. Names of members (`propertyNames`) are no places.
fn steps<'n>(node: &'n Node<'n>) -> impl Iterator<Item = (Step<'n>, NodeId)> {
    let members = node.properties.iter().map(|(name, id)| (Step::Member(name), *id));
    let patterns = node.patterns.iter().map(|(_, id)| *id);
    let others = patterns.chain(node.additional).chain(node.unevaluated);
    let items = node.prefix.iter().copied().chain(node.rest);
    let items = items.chain(node.contains).chain(node.unevaluated_items);
    members
        .chain(others.map(|id| (Step::Other, id)))
        .chain(items.map(|id| (Step::Item, id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit;

    fn places(schema: &str) -> Places {
        let document = admit::read(schema.as_bytes()).unwrap();
        Places::of(&admit::admit(&document).unwrap().graph)
    }

    /// The place at a way of member names; `*` for the others, `[]` for items.
    fn at<'p>(places: &'p Places, way: &[&str]) -> Option<&'p Place> {
        let mut place = places.all().get(places.root())?;
        for step in way {
            let next = match *step {
                "*" => place.others?,
                "[]" => place.items?,
                name => *place.members.get(name)?,
            };
            place = places.all().get(next)?;
        }
        Some(place)
    }

    fn formats(places: &Places, way: &[&str]) -> Vec<String> {
        let place = at(places, way).unwrap();
        place.formats.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_way_down_leads_to_what_is_said_there() {
        let places = places(
            r#"{"properties":{"a":{"format":"uri"},"l":{"items":{"properties":{"p":{"format":"path"}}}},
            "t":{"prefixItems":[{"format":"iri"},{}]}},"additionalProperties":{"format":"url"},"patternProperties":{"^x":{"format":"time"}}}"#,
        );
        assert_eq!(formats(&places, &["a"]), ["uri"]);
        assert_eq!(formats(&places, &["l", "[]", "p"]), ["path"]);
        assert_eq!(formats(&places, &["t", "[]"]), ["iri"]);
        assert_eq!(formats(&places, &["*"]), ["time", "url"]);
        assert_eq!(formats(&places, &[]), [""; 0]);
    }

    #[test]
    fn what_any_branch_says_is_said_of_the_place() {
        let places = places(
            r##"{"allOf":[{"properties":{"a":{"anyOf":[{"format":"uri"},{"type":"null"}]}}},{"$ref":"#/$defs/more"}],
            "if":{"properties":{"k":{"const":1}}},"then":{"properties":{"a":{"format":"path"},"b":{"items":{"format":"path"}}}},
            "$defs":{"more":{"properties":{"c":{"$ref":"#/$defs/where"}}},"where":{"format":"path"}}}"##,
        );
        assert_eq!(formats(&places, &["a"]), ["path", "uri"]);
        assert_eq!(formats(&places, &["b", "[]"]), ["path"]);
        assert_eq!(formats(&places, &["c"]), ["path"]);
    }

    #[test]
    fn a_schema_that_leads_back_to_itself_has_finitely_many_places() {
        let places = places(
            r##"{"$ref":"#/$defs/node","$defs":{"node":{"properties":{"path":{"format":"path"},
            "children":{"items":{"$ref":"#/$defs/node"}}}}}}"##,
        );
        let deep = ["children", "[]", "children", "[]", "path"];
        assert_eq!(formats(&places, &deep), ["path"]);
        assert!(places.all().len() < 10);
    }
}
