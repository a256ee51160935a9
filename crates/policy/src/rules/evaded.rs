//! Comparisons that a caller can evade: a forbid that names what is bad lets through whatever is spelled otherwise, of another
//! type, or left out. Told by `policy check`; the policy is used all the same.

use std::collections::BTreeSet;

use serde_json::Value;

use super::reads::path_from;
use super::{Rule, RuleEffect};

/// What a caller would like a condition to come to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    True,
    False,
}

impl Wish {
    fn reversed(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
        }
    }
}

/// The comparisons of a rule that could be evaded, in sentences.
pub(super) fn evadable(rule: &Rule) -> Vec<String> {
    let Ok(policy) = rule.policy.to_json() else {
        return Vec::new();
    };
    let wish = match rule.effect {
        RuleEffect::Forbid => Wish::False,
        RuleEffect::Permit | RuleEffect::PermitWithApproval => Wish::True,
    };
    let conditions = policy.get("conditions").and_then(Value::as_array);
    let mut faults = BTreeSet::new();
    for condition in conditions.into_iter().flatten() {
        let wish = match condition.get("kind").and_then(Value::as_str) {
            Some("unless") => wish.reversed(),
            _ => wish,
        };
        if let Some(body) = condition.get("body") {
            visit(body, wish, &mut faults);
        }
    }
    faults.into_iter().collect()
}

fn visit(node: &Value, wish: Wish, faults: &mut BTreeSet<String>) {
    let Some((operator, operand)) = node.as_object().and_then(|members| members.iter().next()) else {
        return;
    };
    let part = |name: &str| operand.get(name).unwrap_or(&Value::Null);
    match (operator.as_str(), wish) {
        ("&&" | "||", _) => {
            visit(part("left"), wish, faults);
            visit(part("right"), wish, faults);
        }
        ("!", _) => visit(part("arg"), wish.reversed(), faults),
        ("if-then-else", _) => {
            visit(part("if"), wish, faults);
            visit(part("then"), wish, faults);
            visit(part("else"), wish, faults);
        }
        ("has", Wish::False) => faults.extend(argument(node).map(|name| {
            format!(
                "a call that leaves `{name}` out is not caught, and its server may have a value of its own for it; forbid its \
                 absence too, or permit what is allowed"
            )
        })),
        ("==" | "like" | "contains" | "containsAny" | "containsAll", Wish::False) | ("!=", Wish::True) => {
            let named = [operand, part("left"), part("right")].into_iter().find_map(argument);
            faults.extend(named.map(|name| {
                format!(
                    "`{name}` is compared with what is bad, so another spelling or another type of it is not caught; permit \
                     what is allowed instead"
                )
            }));
        }
        _ => {}
    }
}

/// The argument that an expression reads.
fn argument(node: &Value) -> Option<String> {
    match path_from("context", node)?.as_slice() {
        ["args", names @ ..] if !names.is_empty() => Some(names.join(".")),
        _ => None,
    }
}
