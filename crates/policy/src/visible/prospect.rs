//! What a condition can still come to, once everything known has been put into it.

use cedar_policy::Policy;
use serde_json::Value;

/// Whether a condition can come out true, and whether it can come out false, for some values of
/// what is unknown. An error is neither.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prospect {
    pub(super) yes: bool,
    pub(super) no: bool,
}

impl Prospect {
    /// Of a residual, the rest that partial evaluation leaves of a policy. It keeps `… && false`
    /// as it stands, because the left side might fail; to us a failure is no better than a no.
    pub(super) fn of_residual(residual: &Policy) -> Self {
        let Ok(policy) = residual.to_json() else {
            return ANYTHING;
        };
        let conditions = policy
            .get("conditions")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let conditions = conditions.iter().map(|condition| {
            let body = condition.get("body").map_or(ANYTHING, of_expression);
            if condition.get("kind").is_some_and(|kind| kind == "unless") {
                body.negated()
            } else {
                body
            }
        });
        conditions.fold(Self { yes: true, no: false }, Self::and)
    }

    fn negated(self) -> Self {
        Self {
            yes: self.no,
            no: self.yes,
        }
    }

    fn and(self, right: Self) -> Self {
        Self {
            yes: self.yes && right.yes,
            no: self.no || (self.yes && right.no),
        }
    }

    fn or(self, right: Self) -> Self {
        self.negated().and(right.negated()).negated()
    }

    fn choose(self, then: Self, other: Self) -> Self {
        Self {
            yes: (self.yes && then.yes) || (self.no && other.yes),
            no: (self.yes && then.no) || (self.no && other.no),
        }
    }
}

fn of_expression(expression: &Value) -> Prospect {
    let Some((operator, operand)) = expression.as_object().and_then(|members| members.iter().next()) else {
        return ANYTHING;
    };
    let part = |name: &str| operand.get(name).map_or(ANYTHING, of_expression);
    match operator.as_str() {
        "Value" => operand
            .as_bool()
            .map_or(ANYTHING, |truth| Prospect { yes: truth, no: !truth }),
        "!" => part("arg").negated(),
        "&&" => part("left").and(part("right")),
        "||" => part("left").or(part("right")),
        "if-then-else" => part("if").choose(part("then"), part("else")),
        _ => ANYTHING,
    }
}

const ANYTHING: Prospect = Prospect { yes: true, no: true };
