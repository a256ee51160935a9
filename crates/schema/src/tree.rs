//! Lets the schema library judge our borrowed tree where it lies.

use std::borrow::Cow;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, JsonNumber, Node, NodeIdentity, Object, cmp};
use vocabulary::canonical;
use vocabulary::json::Value;

/// The representation: what the library is told about our tree.
pub(crate) struct Tree;

/// A place the library looks at.
#[derive(Clone, Copy)]
pub(crate) enum Spot<'a> {
    /// A value of the document.
    Value(&'a Value<'a>),
    /// A member name, judged as a string.
    Name(&'a str),
    /// An object of one member that exists only to ask one of the compiled questions.
    Question(&'a Question<'a>),
}

/// Asks the compiled document whether `about` fits the schema it keeps under `name`.
pub(crate) struct Question<'a> {
    pub(crate) name: &'a str,
    pub(crate) about: Spot<'a>,
}

impl Json for Tree {
    type Node<'a> = Spot<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    // A lookup walks the members, so one pass over them beats a few lookups.
    const KEYS_PER_LOOKUP: usize = 8;

    fn prepare_key(key: &str) -> Box<str> {
        key.into()
    }

    fn with_string_node<T>(_buffer: &mut (), string: &str, f: impl FnOnce(Spot<'_>) -> T) -> T {
        f(Spot::Name(string))
    }
}

impl<'a> Node<'a, Tree> for Spot<'a> {
    type Object = Members<'a>;
    type Array = &'a [Value<'a>];
    type Number = Spelled<'a>;

    fn as_object(&self) -> Option<Members<'a>> {
        match self {
            Self::Value(Value::Object(members)) => Some(Members::Many(members)),
            Self::Question(question) => Some(Members::One(question)),
            Self::Value(_) | Self::Name(_) => None,
        }
    }

    fn as_array(&self) -> Option<&'a [Value<'a>]> {
        match self {
            Self::Value(Value::Array(elements)) => Some(elements),
            Self::Value(_) | Self::Name(_) | Self::Question(_) => None,
        }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Value(Value::String(text)) => Some(Cow::Borrowed(text)),
            Self::Name(text) => Some(Cow::Borrowed(text)),
            Self::Value(_) | Self::Question(_) => None,
        }
    }

    fn as_number(&self) -> Option<Spelled<'a>> {
        match self {
            Self::Value(Value::Number(text)) => Some(Spelled(text)),
            Self::Value(_) | Self::Name(_) | Self::Question(_) => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        match self {
            Self::Value(Value::Bool(bool)) => Some(*bool),
            Self::Value(_) | Self::Name(_) | Self::Question(_) => None,
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Value(Value::Null))
    }

    fn json_type(&self) -> JsonType {
        match self {
            Self::Value(Value::Null) => JsonType::Null,
            Self::Value(Value::Bool(_)) => JsonType::Boolean,
            Self::Value(Value::Number(_)) => JsonType::Number,
            Self::Value(Value::String(_)) | Self::Name(_) => JsonType::String,
            Self::Value(Value::Array(_)) => JsonType::Array,
            Self::Value(Value::Object(_)) | Self::Question(_) => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &serde_json::Value) -> bool {
        match self {
            Self::Value(value) => equals(value, expected),
            Self::Name(text) => expected.as_str() == Some(text),
            Self::Question(_) => false,
        }
    }

    /// Nothing. The library asks for this only to put the value into an error, and no error of ours
    /// may hold one; equality and uniqueness, which would need it, are our own.
    fn to_value(&self) -> Cow<'a, serde_json::Value> {
        Cow::Owned(serde_json::Value::Null)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        match self {
            Self::Value(value) => Some(NodeIdentity::new(std::ptr::from_ref(*value).addr())),
            Self::Name(_) | Self::Question(_) => None,
        }
    }
}

/// The members of an object.
#[derive(Clone, Copy)]
pub(crate) enum Members<'a> {
    Many(&'a [(Cow<'a, str>, Value<'a>)]),
    One(&'a Question<'a>),
}

impl<'a> Object<'a, Tree> for Members<'a> {
    type Node = Spot<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        match self {
            Self::Many(members) => members.len(),
            Self::One(_) => 1,
        }
    }

    fn get(&self, key: &Box<str>) -> Option<Spot<'a>> {
        match self {
            Self::Many(members) => members
                .iter()
                .find(|(name, _)| **name == **key)
                .map(|(_, value)| Spot::Value(value)),
            Self::One(question) => (question.name == &**key).then_some(question.about),
        }
    }

    fn members(&self) -> MembersIter<'a> {
        match self {
            Self::Many(members) => MembersIter::Many(members.iter()),
            Self::One(question) => MembersIter::One(Some(question)),
        }
    }
}

/// Goes through the members of an object in the document's order.
pub(crate) enum MembersIter<'a> {
    Many(std::slice::Iter<'a, (Cow<'a, str>, Value<'a>)>),
    One(Option<&'a Question<'a>>),
}

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Spot<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Many(members) => members.next().map(|(name, value)| (name.as_ref(), Spot::Value(value))),
            Self::One(question) => question.take().map(|question| (question.name, question.about)),
        }
    }
}

impl<'a> Array<'a, Tree> for &'a [Value<'a>] {
    type Node = Spot<'a>;
    type ElementsIter = std::iter::Map<std::slice::Iter<'a, Value<'a>>, fn(&'a Value<'a>) -> Spot<'a>>;

    fn len(&self) -> usize {
        <[Value<'_>]>::len(self)
    }

    fn elements(&self) -> Self::ElementsIter {
        self.iter().map(Spot::Value)
    }

    /// Equal values have one canonical form, so sorting those finds equals without comparing all pairs.
    fn is_unique(&self) -> bool {
        if self.len() < 2 {
            return true;
        }
        let mut forms: Vec<Vec<u8>> = Vec::with_capacity(self.len());
        for element in *self {
            let mut form = Vec::new();
            canonical::write(element, &mut form);
            forms.push(form);
        }
        forms.sort_unstable();
        forms.windows(2).all(|pair| pair.first() != pair.last())
    }
}

/// A number as the document spells it.
pub(crate) struct Spelled<'a>(&'a str);

impl JsonNumber for Spelled<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    fn as_f64(&self) -> Option<f64> {
        self.0.parse().ok()
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }

    fn to_number(&self) -> Cow<'_, serde_json::Number> {
        Cow::Owned(self.0.parse().unwrap_or_else(|_| serde_json::Number::from(0)))
    }

    fn is_integer(&self) -> bool {
        self.is_written_as_integer() || self.as_f64().is_some_and(|number| number.fract() == 0.0)
    }
}

fn equals(value: &Value<'_>, expected: &serde_json::Value) -> bool {
    match (value, expected) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(value), serde_json::Value::Bool(expected)) => value == expected,
        (Value::Number(text), serde_json::Value::Number(expected)) => cmp::equal_numbers(&Spelled(text), expected),
        (Value::String(text), serde_json::Value::String(expected)) => text == expected,
        (Value::Array(elements), serde_json::Value::Array(expected)) => {
            elements.len() == expected.len() && elements.iter().zip(expected).all(|(one, other)| equals(one, other))
        }
        (Value::Object(members), serde_json::Value::Object(expected)) => {
            members.len() == expected.len()
                && members
                    .iter()
                    .all(|(name, value)| expected.get(name.as_ref()).is_some_and(|other| equals(value, other)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
