//! `policy check`: types every rule against the generated Cedar schema and looks up what it names.
//!
//! Arguments and claims have no type that Cedar knows. An expression that reads them is replaced,
//! for the check alone, by one of unknown truth that still holds its other operands, so that
//! `context.args.n > resource.rsk` is silent about `n` and loud about `rsk`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cedar_policy::{Policy, PolicyId, PolicySet, Schema, ValidationMode, Validator};
use miette::Diagnostic;
use serde_json::{Value, json};
use vocabulary::{Risk, ServerId, Trust};

use super::evaded::evadable;
use super::reads::{Reads, path_from};
use super::{Rule, Rules};
use crate::access::methods::action_declarations;
use crate::inventory::Inventory;

/// Something in a policy that is likely a mistake; the policy is used all the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PolicyWarning {
    /// The policy.
    pub policy_id: Arc<str>,
    /// What seems wrong, in a sentence.
    pub message: String,
}

impl fmt::Display for PolicyWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy `{}`: {}", self.policy_id, self.message)
    }
}

impl Rules {
    /// What `policy check` has to say: types that do not fit, names that do not exist.
    #[must_use]
    pub fn check_types(&self, inventory: &Inventory) -> Vec<PolicyWarning> {
        self.check_types_with(inventory, &[])
    }

    /// The same where the operator lets further methods pass: each is an action on `Server`.
    #[must_use]
    pub fn check_types_with(&self, inventory: &Inventory, extension_methods: &[&str]) -> Vec<PolicyWarning> {
        let schema = format!("{ENTITIES}{}", action_declarations(extension_methods));
        let validator = Schema::from_str(&schema).map(Validator::new);
        let mut warnings = BTreeSet::new();
        for rule in &self.rules {
            let mut faults = match &validator {
                Ok(validator) => type_faults(rule, validator),
                Err(error) => vec![format!("the generated schema does not load: {error}")],
            };
            faults.extend(unknown_names(rule, inventory));
            faults.extend(evadable(rule));
            faults.extend(never_set(rule));
            let warning = |message| PolicyWarning {
                policy_id: rule.id.clone(),
                message,
            };
            warnings.extend(faults.into_iter().map(warning));
        }
        warnings.into_iter().collect()
    }
}

fn type_faults(rule: &Rule, validator: &Validator) -> Vec<String> {
    let softened = rule
        .policy
        .to_json()
        .map_err(|error| error.to_string())
        .and_then(|mut policy| {
            let conditions = policy.get_mut("conditions").and_then(Value::as_array_mut);
            for body in conditions
                .into_iter()
                .flatten()
                .filter_map(|condition| condition.get_mut("body"))
            {
                *body = soften(body).settle();
            }
            let id = Some(PolicyId::new(&*rule.id));
            let policy = Policy::from_json(id, policy).map_err(|error| error.to_string())?;
            PolicySet::from_policies([policy]).map_err(|error| error.to_string())
        });
    let set = match softened {
        Ok(set) => set,
        Err(error) => return vec![format!("cannot be checked: {error}")],
    };
    let result = validator.validate(&set, ValidationMode::Strict);
    let told = |fault: &dyn Diagnostic| {
        let prefix = format!("for policy `{}`, ", rule.id);
        let text = fault.to_string();
        let text = text.strip_prefix(&prefix).unwrap_or(&text).to_owned();
        fault.help().map(|help| format!("{text}; {help}")).unwrap_or(text)
    };
    let errors = result.validation_errors().map(|error| told(error));
    errors
        .chain(result.validation_warnings().map(|warning| told(warning)))
        .collect()
}

/// What a rule reads and nothing sets: such a condition is decided before any call is made.
fn never_set(rule: &Rule) -> Vec<String> {
    let Ok(policy) = rule.policy.to_json() else {
        return Vec::new();
    };
    let reads = Reads::of_policy(&policy);
    let labels = "reads `context.session.labels`, which nothing sets: it is always empty";
    let incident = "reads `context.incident`, which nothing sets: it is always normal and not active";
    [(reads.session, labels), (reads.incident, incident)]
        .into_iter()
        .filter(|(is_read, _)| *is_read)
        .map(|(_, message)| message.to_owned())
        .collect()
}

/// Servers that are not configured, tools their discovered server does not offer, and words that
/// an attribute never holds.
fn unknown_names(rule: &Rule, inventory: &Inventory) -> Vec<String> {
    let mut faults = Vec::new();
    for uid in &rule.named {
        let id: &str = uid.id().as_ref();
        match uid.type_name().to_string().as_str() {
            "Server" if configured(id, inventory).is_none() => faults.push(format!("no server `{id}` is configured")),
            "Tool" => match id.split_once('/') {
                None => faults.push(format!("`{id}` is not a tool's id, which is `server/tool`")),
                Some((server, tool)) => match configured(server, inventory) {
                    None => faults.push(format!("no server `{server}` is configured")),
                    Some(server) if inventory.server(&server).is_none_or(|entry| entry.discovered.is_none()) => {}
                    Some(server) if inventory.tool(&server, tool).is_empty() => {
                        faults.push(format!("server `{server}` offers no tool `{tool}`"));
                    }
                    Some(_) => {}
                },
            },
            kind @ ("Resource" | "Prompt") => match id.split_once('/').map(|(server, _)| server) {
                None => faults.push(format!(
                    "`{id}` is not a {kind}'s id, which begins with its server and a `/`"
                )),
                Some(server) if configured(server, inventory).is_none() => {
                    faults.push(format!("no server `{server}` is configured"));
                }
                Some(_) => {}
            },
            _ => {}
        }
    }
    if let Ok(policy) = rule.policy.to_json() {
        unknown_words(&policy, &mut faults);
    }
    faults
}

fn configured(server: &str, inventory: &Inventory) -> Option<ServerId> {
    ServerId::parse(server).ok().filter(|id| inventory.server(id).is_some())
}

fn unknown_words(node: &Value, faults: &mut Vec<String>) {
    let children: Vec<&Value> = match node {
        Value::Object(members) => members.values().collect(),
        Value::Array(items) => items.iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
    };
    for operator in ["==", "!="] {
        let sides = node
            .get(operator)
            .and_then(|operands| Some((operands.get("left")?, operands.get("right")?)));
        for (attribute, literal) in sides
            .into_iter()
            .flat_map(|(left, right)| [(left, right), (right, left)])
        {
            let Some(word) = literal.get("Value").and_then(Value::as_str) else {
                continue;
            };
            if let Some((name, words)) = closed_attribute(attribute).filter(|(_, words)| !words.contains(&word)) {
                faults.push(format!(
                    "`{name}` is never \"{word}\"; it is one of {}",
                    words.join(", ")
                ));
            }
        }
    }
    children.into_iter().for_each(|child| unknown_words(child, faults));
}

/// Attributes whose values are a closed list of words.
fn closed_attribute(node: &Value) -> Option<(&'static str, Vec<&'static str>)> {
    let resource = path_from("resource", node).unwrap_or_default();
    let context = path_from("context", node).unwrap_or_default();
    match (resource.as_slice(), context.as_slice()) {
        (["risk"], _) => Some(("resource.risk", Risk::ALL.map(Risk::as_str).to_vec())),
        (_, ["risk"]) => Some(("context.risk", Risk::ALL.map(Risk::as_str).to_vec())),
        (["trust"], _) => Some(("resource.trust", Trust::ALL.map(Trust::as_str).to_vec())),
        (["tier"], _) => Some(("resource.tier", vec!["A", "B", "none"])),
        (_, ["source", "authn"]) => Some(("context.source.authn", vec!["jwt", "token", "mtls"])),
        (_, ["incident", "stage"]) => Some((
            "context.incident.stage",
            vec!["normal", "heightened", "contain", "lockdown"],
        )),
        _ => None,
    }
}

/// An expression of a policy, made ready for the type check.
enum Softened {
    /// Its type can be known.
    Typed(Value),
    /// Its value comes from arguments or claims; what stands beside them is still to be checked.
    Open(Vec<Value>),
}

impl Softened {
    /// An expression that has the type a condition needs.
    fn settle(self) -> Value {
        match self {
            Self::Typed(node) => node,
            Self::Open(beside) => {
                let same = |node: &Value| json!({ "==": { "left": node, "right": node } });
                let all = beside.iter().filter(|node| has_variable(node)).map(same);
                match all.reduce(|left, right| json!({ "&&": { "left": left, "right": right } })) {
                    Some(all) => json!({ "if-then-else": { "if": maybe(), "then": all, "else": maybe() } }),
                    None => maybe(),
                }
            }
        }
    }

    fn beside(self) -> Vec<Value> {
        match self {
            Self::Typed(node) => vec![node],
            Self::Open(beside) => beside,
        }
    }
}

fn soften(node: &Value) -> Softened {
    let untyped = path_from("context", node).is_some_and(|path| path.first() == Some(&"args"))
        || path_from("principal", node).is_some_and(|path| path.first() == Some(&"claims"));
    if untyped {
        return Softened::Open(Vec::new());
    }
    let Some((operator, operand)) = node.as_object().and_then(|members| members.iter().next()) else {
        return Softened::Typed(node.clone());
    };
    let child = |name: &str| soften(operand.get(name).unwrap_or(&Value::Null));
    match operator.as_str() {
        "Value" | "Var" | "Slot" | "Unknown" => Softened::Typed(node.clone()),
        "&&" | "||" => Softened::Typed(
            json!({ operator.as_str(): { "left": child("left").settle(), "right": child("right").settle() } }),
        ),
        "!" => Softened::Typed(json!({ "!": { "arg": child("arg").settle() } })),
        "if-then-else" => {
            let choice = |then: Value, other: Value| json!({ "if-then-else": { "if": child("if").settle(), "then": then, "else": other } });
            match (child("then"), child("else")) {
                (Softened::Typed(then), Softened::Typed(other)) => Softened::Typed(choice(then, other)),
                (then, other) => Softened::Open(vec![choice(
                    Softened::Open(then.beside()).settle(),
                    Softened::Open(other.beside()).settle(),
                )]),
            }
        }
        _ => soften_operands(operator, operand),
    }
}

/// Any other operator: typed if all its operands are.
fn soften_operands(operator: &str, operand: &Value) -> Softened {
    let is_expression = |value: &Value| value.is_object();
    let mut rebuilt = operand.clone();
    let operands: Vec<&mut Value> = match &mut rebuilt {
        Value::Object(members) => members.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    let mut beside = Vec::new();
    let mut open = false;
    for operand in operands.into_iter().filter(|operand| is_expression(operand)) {
        let softened = soften(operand);
        open |= matches!(softened, Softened::Open(_));
        if let Softened::Typed(node) = &softened {
            *operand = node.clone();
        }
        beside.extend(softened.beside());
    }
    if open {
        Softened::Open(beside)
    } else {
        Softened::Typed(json!({ operator: rebuilt }))
    }
}

fn has_variable(node: &Value) -> bool {
    match node {
        Value::Object(members) => members.contains_key("Var") || members.values().any(has_variable),
        Value::Array(items) => items.iter().any(has_variable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A truth value that the type checker cannot foresee.
fn maybe() -> Value {
    json!({ ".": { "left": { ".": { "left": { "Var": "context" }, "attr": "incident" } }, "attr": "active" } })
}

const ENTITIES: &str = r#"
entity Group;
entity User, Agent, System in [Group] { claims: {} };
entity Server { trust: String, tier: String };
entity Tool in [Server] {
    risk: String, trust: String, tier: String,
    readOnlyHint?: Bool, destructiveHint?: Bool, idempotentHint?: Bool, openWorldHint?: Bool,
};
entity Resource, Prompt in [Server] { trust: String, tier: String };
type Circumstances = {
    risk: String,
    session: { labels: Set<String> },
    incident: { active: Bool, stage: String },
    source: { address: ipaddr, authn: String },
};
"#;
