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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a condition may come to be: at least one of both.
    const ALL: [Prospect; 3] = [
        ANYTHING,
        Prospect { yes: true, no: false },
        Prospect { yes: false, no: true },
    ];

    fn values(prospect: Prospect) -> Vec<bool> {
        let both = [(true, prospect.yes), (false, prospect.no)];
        both.into_iter()
            .filter_map(|(value, may)| may.then_some(value))
            .collect()
    }

    fn of(values: impl IntoIterator<Item = bool>) -> (bool, bool) {
        values
            .into_iter()
            .fold((false, false), |(yes, no), value| (yes || value, no || !value))
    }

    #[test]
    fn a_choice_may_come_to_be_whatever_its_branches_may() {
        for (condition, then, other) in ALL
            .iter()
            .flat_map(|a| ALL.iter().flat_map(move |b| ALL.map(|c| (*a, *b, c))))
        {
            let chosen = values(condition)
                .into_iter()
                .flat_map(|condition| values(if condition { then } else { other }));
            let found = condition.choose(then, other);
            assert_eq!((found.yes, found.no), of(chosen));
        }
    }
}
