//! What a policy reads: parts of the context, so that only those are built for a call, and how it
//! looks at the resource, so that tools alike to it are evaluated once.

use std::collections::BTreeSet;

use serde_json::Value;

/// The parts of `context` that a policy looks at; never fewer than it does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reads {
    pub(crate) arguments: ArgumentsRead,
    /// Where in the arguments it looks, and for what.
    pub(crate) looks: BTreeSet<Look>,
    pub(crate) risk: bool,
    pub(crate) session: bool,
    pub(crate) incident: bool,
    pub(crate) source: bool,
}

/// Which of the arguments a policy looks at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum ArgumentsRead {
    /// None.
    #[default]
    Nothing,
    /// These members, and no others.
    Members(BTreeSet<String>),
    /// All of them.
    Whole,
}

/// One place in the arguments that a policy looks at: the names on the way there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Look {
    /// Whether it is there.
    Presence(Vec<String>),
    /// All that stands there.
    Value(Vec<String>),
}

/// How a policy's conditions look at the tool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ResourceUse {
    /// Not at all.
    Nothing,
    /// At its attributes: tools with equal ones are alike.
    Attributes,
    /// At which tool it is.
    Identity,
}

impl ResourceUse {
    /// How the policy looks at its resource, found in its JSON form.
    pub(crate) fn of_policy(policy: &Value) -> Self {
        Self::of_node(policy.get("conditions").unwrap_or(policy))
    }

    fn of_node(node: &Value) -> Self {
        if let Some(path) = path_from("resource", node) {
            return if path.is_empty() {
                Self::Identity
            } else {
                Self::Attributes
            };
        }
        let below = |uses: &mut dyn Iterator<Item = &Value>| uses.map(Self::of_node).max().unwrap_or(Self::Nothing);
        match node {
            Value::Object(members) => below(&mut members.values()),
            Value::Array(items) => below(&mut items.iter()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Self::Nothing,
        }
    }
}

impl Reads {
    /// What the policy reads, found in its JSON form.
    pub(crate) fn of_policy(policy: &Value) -> Self {
        let mut reads = Self::default();
        visit(policy.get("conditions").unwrap_or(policy), &mut reads);
        reads
    }

    pub(crate) fn everything() -> Self {
        Self {
            arguments: ArgumentsRead::Whole,
            looks: BTreeSet::from([Look::Value(Vec::new())]),
            risk: true,
            session: true,
            incident: true,
            source: true,
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn include(&mut self, other: &Self) {
        self.looks.extend(other.looks.iter().cloned());
        self.risk |= other.risk;
        self.session |= other.session;
        self.incident |= other.incident;
        self.source |= other.source;
        self.arguments = match (std::mem::take(&mut self.arguments), &other.arguments) {
            (ArgumentsRead::Whole, _) | (_, ArgumentsRead::Whole) => ArgumentsRead::Whole,
            (ArgumentsRead::Nothing, other) => other.clone(),
            (ours, ArgumentsRead::Nothing) => ours,
            (ArgumentsRead::Members(mut ours), ArgumentsRead::Members(others)) => {
                ours.extend(others.iter().cloned());
                ArgumentsRead::Members(ours)
            }
        };
    }

    fn note(&mut self, path: &[&str], look: impl FnOnce(Vec<String>) -> Look) {
        if let ["args", names @ ..] = path {
            self.looks
                .insert(look(names.iter().map(|name| (*name).to_owned()).collect()));
        }
        match path {
            ["args"] => self.arguments = ArgumentsRead::Whole,
            ["args", member, ..] => {
                let member = ArgumentsRead::Members(BTreeSet::from([(*member).to_owned()]));
                self.include(&Self {
                    arguments: member,
                    ..Self::default()
                });
            }
            ["risk", ..] => self.risk = true,
            ["session", ..] => self.session = true,
            ["incident", ..] => self.incident = true,
            ["source", ..] => self.source = true,
            // A name the context never has: the same outcome in every call.
            [_, ..] => {}
            [] => *self = Self::everything(),
        }
    }
}

/// Notes every read below `node`. A chain of attribute reads is noted once, as long as it is.
fn visit(node: &Value, reads: &mut Reads) {
    if let Some(path) = path_from("context", node) {
        let look = if node.get("has").is_some() {
            Look::Presence
        } else {
            Look::Value
        };
        reads.note(&path, look);
        return;
    }
    match node {
        Value::Object(members) => members.values().for_each(|member| visit(member, reads)),
        Value::Array(items) => items.iter().for_each(|item| visit(item, reads)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The names after `variable` in a chain of attribute reads that starts there: `["args", "path"]`
/// for `context.args.path` and for `context.args has path`.
pub(crate) fn path_from<'a>(variable: &str, node: &'a Value) -> Option<Vec<&'a str>> {
    let (operator, operand) = node.as_object().filter(|node| node.len() == 1)?.iter().next()?;
    match operator.as_str() {
        "Var" => (operand.as_str() == Some(variable)).then(Vec::new),
        "." | "has" => {
            let mut path = path_from(variable, operand.get("left")?)?;
            match operand.get("attr")? {
                Value::String(name) => path.push(name),
                Value::Array(names) => path.extend(names.iter().filter_map(Value::as_str)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return Some(Vec::new()),
            }
            Some(path)
        }
        _ => None,
    }
}
