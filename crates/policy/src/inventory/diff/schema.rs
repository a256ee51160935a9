//! What a change of a JSON Schema does to the values it takes.

use serde_json::Value;

use super::{Difference, Found, below, names, same};

/// Compares schemas, and tells what it finds.
pub(super) struct Schemas<'a>(pub(super) &'a mut Found);

impl Schemas<'_> {
    /// Two schemas: objects, or `true` and `false`.
    pub(super) fn schema(&mut self, path: &str, old: &Value, new: &Value) {
        if same(old, new) {
            return;
        }
        match (old, new) {
            (Value::Object(before), Value::Object(now)) => {
                for name in names(before, now) {
                    self.keyword(&below(path, name), name, before.get(name), now.get(name));
                }
            }
            (Value::Bool(true), _) | (Value::Object(_), Value::Bool(false)) => {
                self.0.add(path, Difference::Narrowed, Some(old), Some(new));
            }
            (Value::Bool(false), _) | (Value::Object(_), Value::Bool(true)) => {
                self.0.add(path, Difference::Widened, Some(old), Some(new));
            }
            _ => self.0.add(path, Difference::Other, Some(old), Some(new)),
        }
    }

    fn keyword(&mut self, path: &str, name: &str, old: Option<&Value>, new: Option<&Value>) {
        if let (Some(old), Some(new)) = (old, new)
            && same(old, new)
        {
            return;
        }
        match name {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                self.named_schemas(path, old, new);
            }
            "required" => {
                let none = Value::Array(Vec::new());
                let kind = by_sets(new.unwrap_or(&none), old.unwrap_or(&none));
                self.0.add(path, kind, old, new);
            }
            "items" | "contains" | "propertyNames" | "additionalItems" | "unevaluatedItems" => {
                let any = Value::Bool(true);
                match (old, new) {
                    (Some(Value::Array(_)), _) | (_, Some(Value::Array(_))) => {
                        self.0.add(path, Difference::Other, old, new)
                    }
                    _ => self.schema(path, old.unwrap_or(&any), new.unwrap_or(&any)),
                }
            }
            "additionalProperties" | "unevaluatedProperties" => self.further_members(path, old, new),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => self.alternatives(path, name, old, new),
            _ => match constraint(name, old, new) {
                Some(kind) => self.0.add(path, kind, old, new),
                None => self.0.member(path, name, old, new),
            },
        }
    }

    /// Schemas by name: a new one is added, one that is gone removed.
    fn named_schemas(&mut self, path: &str, old: Option<&Value>, new: Option<&Value>) {
        let none = serde_json::Map::new();
        let members = |value: Option<&'_ Value>| match value {
            None => Some(none.clone()),
            Some(value) => value.as_object().cloned(),
        };
        let (Some(before), Some(now)) = (members(old), members(new)) else {
            return self.0.add(path, Difference::Other, old, new);
        };
        for name in names(&before, &now) {
            let at = below(path, name);
            match (before.get(name), now.get(name)) {
                (Some(old), Some(new)) => self.schema(&at, old, new),
                (old, new) => self.0.member(&at, name, old, new),
            }
        }
        if before.is_empty() && now.is_empty() {
            self.0.member(path, "", old, new);
        }
    }

    /// An object that says nothing of further members is closed here, so that to allow them is to widen.
    fn further_members(&mut self, path: &str, old: Option<&Value>, new: Option<&Value>) {
        let (open, closed) = (Some(&Value::Bool(true)), Some(&Value::Bool(false)));
        match (old, new) {
            (None, Some(_)) if new == closed => self.0.add(path, Difference::Narrowed, old, new),
            (None, Some(_)) => self.0.add(path, Difference::Widened, old, new),
            (Some(_), None) if old == closed => self.0.add(path, Difference::Widened, old, new),
            (Some(_), None) => self.0.add(path, Difference::Narrowed, old, new),
            (Some(before), Some(now)) if old != open || new != open => self.schema(path, before, now),
            _ => {}
        }
    }

    /// Lists of schemas: of `anyOf` more take more, of `allOf` more take less.
    fn alternatives(&mut self, path: &str, name: &str, old: Option<&Value>, new: Option<&Value>) {
        match (old.and_then(Value::as_array), new.and_then(Value::as_array)) {
            (Some(before), Some(now)) if before.len() == now.len() => {
                for (place, (old, new)) in before.iter().zip(now).enumerate() {
                    self.schema(&below(path, &place.to_string()), old, new);
                }
            }
            (Some(before), Some(now)) => {
                let (before, now) = (Value::Array(before.clone()), Value::Array(now.clone()));
                let kind = match name {
                    "anyOf" => by_sets(&before, &now),
                    "allOf" => by_sets(&now, &before),
                    _ => Difference::Other,
                };
                self.0.add(path, kind, old, new);
            }
            (None, Some(_)) if old.is_none() => self.0.add(path, Difference::Narrowed, old, new),
            (Some(_), None) if new.is_none() => self.0.add(path, Difference::Widened, old, new),
            _ => self.0.add(path, Difference::Other, old, new),
        }
    }
}

/// What a change of a constraint does; `None` if the keyword constrains nothing.
fn constraint(name: &str, old: Option<&Value>, new: Option<&Value>) -> Option<Difference> {
    let constrains = matches!(
        name,
        "type"
            | "enum"
            | "const"
            | "minimum"
            | "exclusiveMinimum"
            | "minLength"
            | "minItems"
            | "minProperties"
            | "minContains"
            | "maximum"
            | "exclusiveMaximum"
            | "maxLength"
            | "maxItems"
            | "maxProperties"
            | "maxContains"
            | "multipleOf"
            | "pattern"
            | "format"
            | "uniqueItems"
            | "not"
            | "if"
            | "then"
            | "else"
            | "$ref"
            | "dependentRequired"
            | "contentEncoding"
            | "contentMediaType"
    );
    if !constrains {
        return None;
    }
    let (Some(before), Some(now)) = (old, new) else {
        let lifts = |value: Option<&Value>| name == "uniqueItems" && value == Some(&Value::Bool(false));
        return Some(match (old, new) {
            _ if lifts(old) || lifts(new) => Difference::Other,
            (None, _) => Difference::Narrowed,
            (Some(_), _) => Difference::Widened,
        });
    };
    let (less, more) = (before.as_f64(), now.as_f64());
    Some(match name {
        "type" | "enum" => by_sets(before, now),
        "uniqueItems" if *now == Value::Bool(true) => Difference::Narrowed,
        "uniqueItems" => Difference::Widened,
        "multipleOf" => match (less, more) {
            (Some(old), Some(new)) if new % old == 0.0 => Difference::Narrowed,
            (Some(old), Some(new)) if old % new == 0.0 => Difference::Widened,
            _ => Difference::Other,
        },
        _ => match (less.zip(more), name.contains("min") || name.contains("Min")) {
            (Some((old, new)), true) if new > old => Difference::Narrowed,
            (Some(_), true) => Difference::Widened,
            (Some((old, new)), false) if new > old => Difference::Widened,
            (Some(_), false) => Difference::Narrowed,
            (None, _) => Difference::Other,
        },
    })
}

/// Widened if all of `old` is in `new`, narrowed if all of `new` is in `old`.
fn by_sets(old: &Value, new: &Value) -> Difference {
    let list = |value: &Value| match value {
        Value::Array(items) => items.clone(),
        one @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            vec![one.clone()]
        }
    };
    let (old, new) = (list(old), list(new));
    let covers = |wide: &[Value], narrow: &[Value]| {
        narrow.iter().all(|one| {
            let by_number = one.as_str() == Some("integer") && wide.contains(&Value::from("number"));
            by_number || wide.iter().any(|other| same(one, other))
        })
    };
    match (covers(&new, &old), covers(&old, &new)) {
        (true, false) => Difference::Widened,
        (false, true) => Difference::Narrowed,
        (true, true) | (false, false) => Difference::Other,
    }
}
