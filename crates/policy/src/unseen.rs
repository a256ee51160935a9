//! Values of arguments that Cedar has nothing for: null, and numbers beyond 64 bits or four decimal places. In the context they
//! are absent, so a rule that looks at one would take it for left out; such a rule cannot be evaluated instead.
//! ADR 0062: what a policy cannot see, it denies.

use vocabulary::json::Value;

use crate::context::is_seen;
use crate::rules::{Look, Reads};

/// The first place that `reads` looks at and cannot see, as a pointer of the names the policies use.
pub(crate) fn first(arguments: &Value<'_>, reads: &Reads) -> Option<String> {
    reads.looks.iter().find_map(|look| match look {
        Look::Presence(names) => on_the_way(arguments, names).err(),
        Look::Value(names) => match on_the_way(arguments, names) {
            Err(place) => Some(place),
            Ok(Some(value)) if !is_seen_whole(value) => Some(pointer(names)),
            Ok(_) => None,
        },
    })
}

/// The value at the end of `names`, if there is one; an error is the first place on the way that cannot be seen.
fn on_the_way<'v, 'a>(arguments: &'v Value<'a>, names: &[String]) -> Result<Option<&'v Value<'a>>, String> {
    let mut value = arguments;
    for (depth, name) in names.iter().enumerate() {
        let Value::Object(members) = value else { return Ok(None) };
        let Some((_, member)) = members.iter().find(|(member, _)| **member == **name) else {
            return Ok(None);
        };
        if !is_seen(member) {
            return Err(pointer(names.get(..=depth).unwrap_or_default()));
        }
        value = member;
    }
    Ok(Some(value))
}

fn is_seen_whole(value: &Value<'_>) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_seen_whole),
        Value::Object(members) => members.iter().all(|(_, member)| is_seen_whole(member)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => is_seen(value),
    }
}

fn pointer(names: &[String]) -> String {
    let step = |name: &String| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    names.iter().map(step).collect()
}
