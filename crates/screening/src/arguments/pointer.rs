//! Places in arguments: pointers that the operator writes, and how a place is told to whoever called.

use std::fmt::{self, Write as _};

use vocabulary::json::Value;

use super::names::escaped;

/// A JSON pointer into arguments (RFC 6901); a step that is `*` stands for each item or member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pointer(Vec<Step>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Named(Box<str>),
    Each,
}

/// Why a text is no pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PointerFault {
    /// It does not begin with a slash.
    #[error("is no JSON pointer to a field: it begins with `/`, such as `/path` or `/files/*/path`")]
    NoSlash,
    /// A `~` that is neither `~0` nor `~1`.
    #[error("has a `~` that is no escape: in a JSON pointer `~` is written `~0` and `/` is written `~1`")]
    BadEscape,
}

impl Pointer {
    /// Reads a pointer.
    ///
    /// # Errors
    /// When it is none, or points to no field.
    pub fn parse(text: &str) -> Result<Self, PointerFault> {
        let steps = text.strip_prefix('/').ok_or(PointerFault::NoSlash)?;
        let step = |text: &str| match text {
            "*" => Ok(Step::Each),
            name => {
                let rest = name.replace("~0", "").replace("~1", "");
                if rest.contains('~') {
                    return Err(PointerFault::BadEscape);
                }
                Ok(Step::Named(name.replace("~1", "/").replace("~0", "~").into()))
            }
        };
        steps.split('/').map(step).collect::<Result<_, _>>().map(Self)
    }

    /// Shows `see` every value that stands where the pointer points.
    pub(super) fn visit<'p, E>(&'p self, tree: &Value<'_>, see: &mut See<'_, 'p, E>) -> Result<(), E> {
        visit(&self.0, tree, &mut Vec::new(), see)
    }
}

/// What is done with a value, and where it stands.
pub(super) type See<'f, 'p, E> = dyn FnMut(&Value<'_>, &[Spot<'p>]) -> Result<(), E> + 'f;

fn visit<'p, E>(
    steps: &'p [Step],
    value: &Value<'_>,
    spots: &mut Vec<Spot<'p>>,
    see: &mut See<'_, 'p, E>,
) -> Result<(), E> {
    let Some((step, rest)) = steps.split_first() else {
        return see(value, spots);
    };
    let mut down = |spot: Spot<'p>, value: &Value<'_>| {
        spots.push(spot);
        visit(rest, value, spots, see)?;
        spots.pop();
        Ok(())
    };
    match (step, value) {
        (Step::Named(name), Value::Object(_)) => match value.member(name) {
            Some(member) => down(Spot::Name(name), member),
            None => Ok(()),
        },
        (Step::Named(name), Value::Array(items)) => {
            let found = name
                .parse()
                .ok()
                .and_then(|index: usize| Some((index, items.get(index)?)));
            found.map_or(Ok(()), |(index, item)| down(Spot::Item(index), item))
        }
        (Step::Each, Value::Object(members)) => members.iter().try_for_each(|(_, member)| down(Spot::Member, member)),
        (Step::Each, Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(index, item)| down(Spot::Item(index), item))
        }
        (Step::Named(_) | Step::Each, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(()),
    }
}

/// One step on the way to a place. No name of it is a caller's: those stand as `*`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spot<'p> {
    /// A member that the operator or the schema names.
    Name(&'p str),
    /// Some other member.
    Member,
    /// An item of a list.
    Item(usize),
}

/// A place, as it is told.
pub(super) struct Shown<'s, 'p>(pub(super) &'s [Spot<'p>]);

impl fmt::Display for Shown<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for spot in self.0 {
            f.write_char('/')?;
            match spot {
                Spot::Name(name) => f.write_str(&escaped(&name.replace('~', "~0").replace('/', "~1")))?,
                Spot::Member => f.write_char('*')?,
                Spot::Item(index) => write!(f, "{index}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use vocabulary::json::Limits;

    use super::*;

    const LIMITS: Limits = Limits {
        max_bytes: 10_000,
        max_depth: 32,
        max_string: 1_000,
        max_items: 1_000,
    };

    fn seen(pointer: &str, document: &str) -> Vec<String> {
        let tree = Value::parse(document.as_bytes(), &LIMITS).unwrap();
        let mut seen = Vec::new();
        let mut see = |value: &Value<'_>, spots: &[Spot<'_>]| {
            seen.push(format!("{}={}", Shown(spots), value.as_str().unwrap_or("?")));
            Ok::<(), ()>(())
        };
        Pointer::parse(pointer).unwrap().visit(&tree, &mut see).unwrap();
        seen
    }

    #[test]
    fn a_pointer_finds_what_stands_there_and_a_star_finds_each() {
        let document = r#"{"path":"a","l":[{"p":"b"},{"p":1},{"q":"c"}],"o":{"x":{"p":"d"},"y":2},"a/b~":"e","":"f"}"#;
        assert_eq!(seen("/path", document), ["/path=a"]);
        assert_eq!(seen("/l/*/p", document), ["/l/0/p=b", "/l/1/p=?"]);
        assert_eq!(seen("/l/0/p", document), ["/l/0/p=b"]);
        assert_eq!(seen("/o/*/p", document), ["/o/*/p=d"]);
        assert_eq!(seen("/a~1b~0", document), ["/a~1b~0=e"]);
        assert_eq!(seen("/", document), ["/=f"]);
        assert_eq!(
            seen("/*", r#"{"evil\u001b":"a"}"#),
            ["/*=a"],
            "no name of a caller's is told"
        );
        for nowhere in ["/none", "/path/deeper", "/l/9/p", "/l/p", "/path/*"] {
            assert_eq!(seen(nowhere, document), [""; 0], "{nowhere}");
        }
    }

    #[test]
    fn what_is_no_pointer_is_said_to_be_none() {
        for text in ["", "path", "*", "#/path"] {
            assert_eq!(Pointer::parse(text), Err(PointerFault::NoSlash), "{text}");
        }
        for text in ["/a~", "/a~2", "/~~0"] {
            assert_eq!(Pointer::parse(text), Err(PointerFault::BadEscape), "{text}");
        }
    }
}
