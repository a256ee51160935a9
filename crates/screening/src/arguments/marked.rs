//! What a tool's schema marks as a path or as a URL, found once when the tool is compiled.

use schema::{Place, PlaceId, Places};
use vocabulary::json::Value;

use super::pointer::Spot;
use super::url::is_web_address;

/// The places of arguments that hold what was looked for, and the ways to them; there is at least one.
#[derive(Debug)]
pub(super) struct Marked {
    places: Vec<MarkedPlace>,
    root: PlaceId,
}

#[derive(Default, Debug)]
struct MarkedPlace {
    /// What a string that stands there is.
    text: Option<Text>,
    /// Sorted by their names.
    members: Vec<(Box<str>, Way)>,
    others: Option<PlaceId>,
    items: Option<PlaceId>,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    /// What a string is that stands there alone or in a list, because of the member's name.
    named: Option<Text>,
    place: Option<PlaceId>,
}

/// Which strings of a place are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Text {
    All,
    /// The schema lets paths and URLs stand there: those that are a web address.
    Web,
    /// And those that are none.
    NotWeb,
}

impl Text {
    fn means(self, text: &str) -> bool {
        match self {
            Self::All => true,
            Self::Web => is_web_address(text),
            Self::NotWeb => !is_web_address(text),
        }
    }
}

/// What is done with a string, and where it stands.
pub(super) type SeeText<'f, 'p, E> = dyn FnMut(&str, &[Spot<'p>]) -> Result<(), E> + 'f;

impl Marked {
    /// The places that hold paths, by the names of members and by `format`.
    pub(super) fn paths(places: &Places) -> Option<Self> {
        let is_url = |id: PlaceId| places.all().get(id).is_some_and(has_url_format);
        let meant = |may_be_url: bool| if may_be_url { Text::NotWeb } else { Text::All };
        let by_format = |place: &Place| has_format(place, &["path"]).then(|| meant(has_url_format(place)));
        let by_name = |name: &str, id: PlaceId| {
            let place = places.all().get(id);
            let items = place.and_then(|place| place.items);
            is_path_name(name).then(|| meant(is_url(id) || items.is_some_and(is_url)))
        };
        Self::find(places, &by_format, &by_name)
    }

    /// The places that hold URLs, by `format`.
    pub(super) fn urls(places: &Places) -> Option<Self> {
        let meant = |place: &Place| match has_format(place, &["path"]) {
            true => Text::Web,
            false => Text::All,
        };
        Self::find(places, &|place| has_url_format(place).then(|| meant(place)), &|_, _| {
            None
        })
    }

    fn find(
        places: &Places,
        by_format: &dyn Fn(&Place) -> Option<Text>,
        by_name: &dyn Fn(&str, PlaceId) -> Option<Text>,
    ) -> Option<Self> {
        let holds = |place: &Place| {
            let mut members = place.members.iter();
            by_format(place).is_some() || members.any(|(name, id)| by_name(name, *id).is_some())
        };
        let leading = leading(places, &holds);
        let leads = |id: &PlaceId| leading.get(*id) == Some(&true);
        let marked = |(id, place): (PlaceId, &Place)| {
            if !leads(&id) {
                return MarkedPlace::default();
            }
            let members = place.members.iter().filter_map(|(name, id)| {
                let named = by_name(name, *id);
                let place = Some(*id).filter(leads);
                (named.is_some() || place.is_some()).then(|| (name.clone(), Way { named, place }))
            });
            MarkedPlace {
                text: by_format(place),
                members: members.collect(),
                others: place.others.filter(leads),
                items: place.items.filter(leads),
            }
        };
        leads(&places.root()).then(|| Self {
            places: places.all().iter().enumerate().map(marked).collect(),
            root: places.root(),
        })
    }

    /// Shows `see` every string that stands in such a place.
    pub(super) fn visit<'p, E>(&'p self, tree: &Value<'_>, see: &mut SeeText<'_, 'p, E>) -> Result<(), E> {
        self.walk(tree, self.root, &mut Vec::new(), see)
    }

    fn walk<'p, E>(
        &'p self,
        value: &Value<'_>,
        id: PlaceId,
        spots: &mut Vec<Spot<'p>>,
        see: &mut SeeText<'_, 'p, E>,
    ) -> Result<(), E> {
        let Some(place) = self.places.get(id) else {
            return Ok(());
        };
        match value {
            Value::String(text) if place.text.is_some_and(|meant| meant.means(text)) => see(text, spots),
            Value::Object(members) => members
                .iter()
                .try_for_each(|(name, member)| self.member(place, (name, member), spots, see)),
            Value::Array(items) => {
                let Some(id) = place.items else { return Ok(()) };
                items.iter().enumerate().try_for_each(|(index, item)| {
                    spots.push(Spot::Item(index));
                    self.walk(item, id, spots, see)?;
                    spots.pop();
                    Ok(())
                })
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn member<'p, E>(
        &'p self,
        place: &'p MarkedPlace,
        (name, member): (&str, &Value<'_>),
        spots: &mut Vec<Spot<'p>>,
        see: &mut SeeText<'_, 'p, E>,
    ) -> Result<(), E> {
        let known = place.members.binary_search_by(|(known, _)| (**known).cmp(name)).ok();
        let known = known.and_then(|index| place.members.get(index));
        let (spot, way) = match known {
            Some((name, way)) => (Spot::Name(name), *way),
            None => {
                let named = None;
                (
                    Spot::Member,
                    Way {
                        named,
                        place: place.others,
                    },
                )
            }
        };
        spots.push(spot);
        if let Some(meant) = way.named {
            texts(member, meant, spots, see)?;
        }
        let is_seen = way.named.is_some() && matches!(member, Value::String(_));
        if let Some(place) = way.place.filter(|_| !is_seen) {
            self.walk(member, place, spots, see)?;
        }
        spots.pop();
        Ok(())
    }
}

/// A string, or the strings of a list.
fn texts<'p, E>(
    value: &Value<'_>,
    meant: Text,
    spots: &mut Vec<Spot<'p>>,
    see: &mut SeeText<'_, 'p, E>,
) -> Result<(), E> {
    match value {
        Value::String(text) if meant.means(text) => see(text, spots),
        Value::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            spots.push(Spot::Item(index));
            texts(item, meant, spots, see)?;
            spots.pop();
            Ok(())
        }),
        Value::String(_) | Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// For each place whether it, or anything it leads to, holds what is looked for.
fn leading(places: &Places, holds: &dyn Fn(&Place) -> bool) -> Vec<bool> {
    let mut backwards: Vec<Vec<PlaceId>> = vec![Vec::new(); places.all().len()];
    let mut stack = Vec::new();
    for (id, place) in places.all().iter().enumerate() {
        for child in place.members.values().chain(&place.others).chain(&place.items) {
            if let Some(into) = backwards.get_mut(*child) {
                into.push(id);
            }
        }
        stack.extend(holds(place).then_some(id));
    }
    let mut leading = vec![false; places.all().len()];
    while let Some(id) = stack.pop() {
        if let Some(mark) = leading.get_mut(id).filter(|mark| !**mark) {
            *mark = true;
            stack.extend(backwards.get(id).into_iter().flatten());
        }
    }
    leading
}

fn has_format(place: &Place, formats: &[&str]) -> bool {
    formats.iter().any(|format| place.formats.contains(*format))
}

fn has_url_format(place: &Place) -> bool {
    has_format(place, &["uri", "url", "iri"])
}

/// The usual names of paths, in snake or camel case.
fn is_path_name(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "path",
        "paths",
        "file",
        "filename",
        "filepath",
        "dir",
        "directory",
        "folder",
        "cwd",
        "root",
    ];
    let letters = || {
        name.bytes()
            .filter(|byte| *byte != b'_')
            .map(|byte| byte.to_ascii_lowercase())
    };
    NAMES.iter().any(|known| letters().eq(known.bytes()))
}

#[cfg(test)]
mod tests {
    use schema::{ArgumentSchema, Fields};
    use vocabulary::json::Limits;

    use super::super::pointer::Shown;
    use super::*;

    const LIMITS: Limits = Limits {
        max_bytes: 10_000,
        max_depth: 64,
        max_string: 1_000,
        max_items: 1_000,
    };

    fn places(schema: &str) -> Places {
        ArgumentSchema::compile(schema.as_bytes(), Fields::Open)
            .unwrap()
            .take_places()
    }

    fn seen(marked: Option<&Marked>, document: &str) -> Vec<String> {
        let tree = Value::parse(document.as_bytes(), &LIMITS).unwrap();
        let mut seen = Vec::new();
        let mut see = |text: &str, spots: &[Spot<'_>]| {
            seen.push(format!("{}={text}", Shown(spots)));
            Ok::<(), ()>(())
        };
        if let Some(marked) = marked {
            marked.visit(&tree, &mut see).unwrap();
        }
        seen
    }

    #[test]
    fn usual_names_are_paths_in_snake_and_camel_case_and_others_are_not() {
        for name in [
            "path",
            "paths",
            "file",
            "filename",
            "file_path",
            "filePath",
            "filepath",
            "dir",
            "directory",
            "folder",
            "cwd",
            "root",
            "fileName",
            "FilePath",
        ] {
            assert!(is_path_name(name), "{name}");
        }
        for name in [
            "pathology",
            "xpath",
            "files",
            "content",
            "repo_path",
            "profile",
            "",
            "_",
            "rooted",
            "cwd2",
        ] {
            assert!(!is_path_name(name), "{name}");
        }
    }

    #[test]
    fn a_path_stands_alone_or_in_a_list_at_any_depth() {
        let schema = places(
            r##"{"properties":{"path":{"type":"string"},"paths":{"items":{"type":"string"}},"content":{"type":"string"},
            "edits":{"items":{"$ref":"#/$defs/edit"}},"target":{"format":"path"},"count":{"type":"integer"},
            "root":{"type":"boolean"},"more":{"additionalProperties":{"properties":{"dir":{}}}}},
            "$defs":{"edit":{"properties":{"filePath":{"type":["string","null"]},"then":{"$ref":"#/$defs/edit"}}}}}"##,
        );
        let marked = Marked::paths(&schema);
        let document = r#"{"path":"a","paths":["b","c",["d"],1],"content":"x","edits":[{"filePath":"e","then":{"filePath":"f"}},{"filePath":null}],
            "target":"g","count":1,"root":true,"more":{"evil\u001b":{"dir":"h"}},"undeclared":{"path":"i"}}"#;
        assert_eq!(
            seen(marked.as_ref(), document),
            [
                "/path=a",
                "/paths/0=b",
                "/paths/1=c",
                "/paths/2/0=d",
                "/edits/0/filePath=e",
                "/edits/0/then/filePath=f",
                "/target=g",
                "/more/*/dir=h"
            ]
        );
    }

    #[test]
    fn urls_are_marked_by_format_in_any_branch() {
        let schema = places(
            r#"{"properties":{"url":{"type":"string"},"u":{"anyOf":[{"format":"uri"},{"type":"null"}]},"l":{"items":{"format":"iri"}},
            "v":{"format":"url"},"w":{"format":"uri-template"}}}"#,
        );
        let marked = Marked::urls(&schema);
        let document = r#"{"url":"a","u":"b","l":["c","d"],"v":"e","w":"f"}"#;
        assert_eq!(seen(marked.as_ref(), document), ["/u=b", "/l/0=c", "/l/1=d", "/v=e"]);
    }

    #[test]
    fn what_may_be_a_path_or_a_url_is_the_one_it_looks_like() {
        let schema =
            places(r#"{"properties":{"file":{"format":"uri"},"s":{"oneOf":[{"format":"path"},{"format":"uri"}]}}}"#);
        let (paths, urls) = (Marked::paths(&schema), Marked::urls(&schema));
        let document = r#"{"file":"file:///etc/passwd","s":"https://a.test/"}"#;
        assert_eq!(seen(paths.as_ref(), document), ["/file=file:///etc/passwd"]);
        assert_eq!(
            seen(urls.as_ref(), document),
            ["/file=file:///etc/passwd", "/s=https://a.test/"]
        );
        let document = r#"{"file":"https://a.test/x","s":"../x"}"#;
        assert_eq!(seen(paths.as_ref(), document), ["/s=../x"]);
        assert_eq!(seen(urls.as_ref(), document), ["/file=https://a.test/x"]);
    }

    #[test]
    fn a_tool_without_such_fields_has_nothing_to_walk() {
        let schema = places(r#"{"properties":{"content":{"type":"string"},"o":{"properties":{"x":{}}}}}"#);
        assert!(Marked::paths(&schema).is_none() && Marked::urls(&schema).is_none());
        assert!(Marked::paths(&places("{}")).is_none());
    }
}
