//! What changed between two definitions, in the words of whoever has to approve it: what a schema takes was narrowed or widened,
//! a text was reworded, a hint was flipped. Characters that nobody sees are spelled out.
//! ADR 0074: what is pinned, and whose word counts.

pub(crate) mod revealed;
mod schema;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use self::revealed::{revealed, revealed_value};
use self::schema::Schemas;

vocabulary::words! {
    /// What kind of change.
    pub enum Difference {
        /// It was not there before.
        Added = "added",
        /// It is not there any more.
        Removed = "removed",
        /// Less is taken than before.
        Narrowed = "narrowed",
        /// More is taken than before.
        Widened = "widened",
        /// A text for people or models says something else.
        Reworded = "reworded",
        /// A hint says the opposite.
        Flipped = "flipped",
        /// Anything else.
        Other = "other",
    }
}

/// One change in a definition.
#[derive(Clone, PartialEq, Debug)]
pub struct Changed {
    /// Where: a JSON pointer into the definition.
    pub path: String,
    /// What kind of change.
    pub kind: Difference,
    /// What was there.
    pub old: Option<Value>,
    /// What is there now.
    pub new: Option<Value>,
}

/// What changed between two definitions; texts that are no JSON are compared as texts. Never empty where the two differ.
#[must_use]
pub fn differences(old: &[u8], new: &[u8]) -> Vec<Changed> {
    let (old, new) = (read(old), read(new));
    let mut found = Found::default();
    found.definition(&old, &new);
    if found.0.is_empty() && old != new {
        found.add("", Difference::Other, Some(&old), Some(&new));
    }
    found.0
}

/// A definition that nobody has approved before, as one change.
#[must_use]
pub fn all_added(new: &[u8]) -> Vec<Changed> {
    let mut found = Found::default();
    found.add("", Difference::Added, None, Some(&read(new)));
    found.0
}

fn read(definition: &[u8]) -> Value {
    serde_json::from_slice(definition)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(definition).into_owned()))
}

/// What was found so far.
#[derive(Default)]
struct Found(Vec<Changed>);

impl Found {
    fn add(&mut self, path: &str, kind: Difference, old: Option<&Value>, new: Option<&Value>) {
        self.0.push(Changed {
            path: revealed(path),
            kind,
            old: old.map(revealed_value),
            new: new.map(revealed_value),
        });
    }

    fn definition(&mut self, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(before), Value::Object(now)) => {
                for name in names(before, now) {
                    let path = below("", name);
                    match (name, before.get(name), now.get(name)) {
                        ("inputSchema" | "outputSchema", Some(old), Some(new)) => Schemas(self).schema(&path, old, new),
                        ("arguments", Some(Value::Array(old)), Some(Value::Array(new))) => {
                            self.arguments(&path, old, new);
                        }
                        (_, old, new) => self.member(&path, name, old, new),
                    }
                }
            }
            (Value::String(_), Value::String(_)) if old != new => {
                self.add("", Difference::Reworded, Some(old), Some(new));
            }
            _ => self.value("", "", old, new),
        }
    }

    /// A member that may be on one side only.
    fn member(&mut self, path: &str, name: &str, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(_)) => self.add(path, Difference::Added, old, new),
            (Some(_), None) => self.add(path, Difference::Removed, old, new),
            (Some(old), Some(new)) => self.value(path, name, old, new),
            (None, None) => {}
        }
    }

    fn value(&mut self, path: &str, name: &str, old: &Value, new: &Value) {
        if same(old, new) {
            return;
        }
        match (old, new) {
            (Value::Object(before), Value::Object(now)) => {
                for name in names(before, now) {
                    self.member(&below(path, name), name, before.get(name), now.get(name));
                }
            }
            (Value::Array(before), Value::Array(now)) => {
                for place in 0..before.len().max(now.len()) {
                    self.member(&below(path, &place.to_string()), "", before.get(place), now.get(place));
                }
            }
            (Value::String(before), Value::String(now)) if is_prose(name, before, now) => {
                self.add(path, Difference::Reworded, Some(old), Some(new));
            }
            (Value::Bool(_), Value::Bool(_)) if name.ends_with("Hint") => {
                self.add(path, Difference::Flipped, Some(old), Some(new));
            }
            _ => self.add(path, Difference::Other, Some(old), Some(new)),
        }
    }

    /// The arguments of a prompt, which are told apart by their names.
    fn arguments(&mut self, path: &str, old: &[Value], new: &[Value]) {
        let named = |list: &[Value]| -> Option<Vec<String>> {
            let names: Option<Vec<String>> = list
                .iter()
                .map(|one| one.get("name")?.as_str().map(str::to_owned))
                .collect();
            names.filter(|names| names.iter().collect::<BTreeSet<_>>().len() == names.len())
        };
        let (Some(before), Some(now)) = (named(old), named(new)) else {
            return self.value(path, "", &Value::Array(old.to_vec()), &Value::Array(new.to_vec()));
        };
        let at = |place: usize| below(path, &place.to_string());
        for (place, (name, one)) in before.iter().zip(old).enumerate() {
            if !now.contains(name) {
                self.add(&at(place), Difference::Removed, Some(one), None);
            }
        }
        for (place, (name, one)) in now.iter().zip(new).enumerate() {
            match before
                .iter()
                .position(|known| known == name)
                .and_then(|known| old.get(known))
            {
                Some(known) => self.argument(&at(place), known, one),
                None => self.add(&at(place), Difference::Added, None, Some(one)),
            }
        }
        let kept = |names: &[String], other: &[String]| -> Vec<String> {
            names.iter().filter(|name| other.contains(name)).cloned().collect()
        };
        if kept(&before, &now) != kept(&now, &before) {
            let (old, new) = (Value::from(before), Value::from(now));
            self.add(path, Difference::Other, Some(&old), Some(&new));
        }
    }

    fn argument(&mut self, path: &str, old: &Value, new: &Value) {
        let (Value::Object(before), Value::Object(now)) = (old, new) else {
            return self.value(path, "", old, new);
        };
        for name in names(before, now) {
            let (old, new) = (before.get(name), now.get(name));
            let is_true = |value: Option<&Value>| value == Some(&Value::Bool(true));
            let path = below(path, name);
            match (name, is_true(old), is_true(new)) {
                ("required", false, true) => self.add(&path, Difference::Narrowed, old, new),
                ("required", true, false) => self.add(&path, Difference::Widened, old, new),
                _ => self.member(&path, name, old, new),
            }
        }
    }
}

/// Every name that one of the two has, in order.
fn names<'a>(old: &'a Map<String, Value>, new: &'a Map<String, Value>) -> BTreeSet<&'a str> {
    old.keys().chain(new.keys()).map(String::as_str).collect()
}

/// The pointer to a member.
fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Whether a text speaks to people or models.
fn is_prose(name: &str, old: &str, new: &str) -> bool {
    matches!(
        name,
        "title" | "description" | "instructions" | "$comment" | "text" | "summary"
    ) || (old.contains(' ') && new.contains(' '))
}

/// Whether two values are the same; numbers by what they are worth, not by how they are written.
fn same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|other| same(value, other)))
        }
        _ => old == new,
    }
}

#[cfg(test)]
mod tests;
