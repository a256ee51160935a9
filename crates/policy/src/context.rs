//! The context of a decision: arguments, session, incident and source, each built in one place
//! and only where a rule reads it.
//! ADR 0012: numbers go by value.

use std::net::IpAddr;

use cedar_policy::{Context, RestrictedExpression};
use vocabulary::json::Value;
use vocabulary::{Authn, Digest, Risk};

use crate::rules::{ArgumentsRead, Reads};

/// What a decision may know of the call, or of another request, itself.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// The checked arguments, an empty object where there are none; `context.args`.
    pub arguments: &'a Value<'a>,
    /// The digest of their canonical form, to which a permit is bound.
    pub args_hash: Digest,
    /// What rules on risk found in the arguments; `context.risk` is the worse of it and the tool's.
    pub found: Option<Risk>,
    /// Where the request came from.
    pub address: IpAddr,
}

/// The context of a call of something of this risk, as far as `reads` asks for it; without one no rule can be evaluated.
pub(crate) fn of_call(call: &CallFacts<'_>, risk: Risk, authn: Authn, reads: &Reads) -> Option<Context> {
    let mut parts = Vec::with_capacity(5);
    let mut part = |name: &str, value: Option<RestrictedExpression>| {
        parts.extend(value.map(|value| (name.to_owned(), value)));
    };
    match &reads.arguments {
        ArgumentsRead::Nothing => {}
        ArgumentsRead::Members(names) => {
            part(
                "args",
                record(members(call.arguments).filter(|(name, _)| names.contains(*name))),
            );
        }
        ArgumentsRead::Whole => part("args", record(members(call.arguments))),
    }
    if reads.risk {
        let risk = call.found.map_or(risk, |found| found.max(risk));
        part("risk", Some(RestrictedExpression::new_string(risk.as_str().to_owned())));
    }
    if reads.session {
        let labels = RestrictedExpression::new_set([]);
        part(
            "session",
            RestrictedExpression::new_record([("labels".to_owned(), labels)]).ok(),
        );
    }
    if reads.incident {
        part("incident", incident());
    }
    if reads.source {
        part(
            "source",
            source(RestrictedExpression::new_ip(call.address.to_string()), authn),
        );
    }
    Context::from_pairs(parts).ok()
}

/// The context of a call nobody has made yet: arguments, session and address unknown.
pub(crate) fn of_any_call(authn: Authn) -> Option<Context> {
    let parts = [
        ("args", Some(RestrictedExpression::new_unknown("args"))),
        ("risk", Some(RestrictedExpression::new_unknown("risk"))),
        ("session", Some(RestrictedExpression::new_unknown("session"))),
        ("incident", incident()),
        ("source", source(RestrictedExpression::new_unknown("address"), authn)),
    ];
    let parts = parts
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
    Context::from_pairs(parts).ok()
}

fn incident() -> Option<RestrictedExpression> {
    let stage = RestrictedExpression::new_string("normal".to_owned());
    let active = RestrictedExpression::new_bool(false);
    RestrictedExpression::new_record([("active".to_owned(), active), ("stage".to_owned(), stage)]).ok()
}

fn source(address: RestrictedExpression, authn: Authn) -> Option<RestrictedExpression> {
    let authn = RestrictedExpression::new_string(authn.as_str().to_owned());
    RestrictedExpression::new_record([("address".to_owned(), address), ("authn".to_owned(), authn)]).ok()
}

fn members<'v, 'a>(value: &'v Value<'a>) -> impl Iterator<Item = (&'v str, &'v Value<'a>)> {
    let members = match value {
        Value::Object(members) => members.as_slice(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => &[],
    };
    members.iter().map(|(name, value)| (&**name, value))
}

fn record<'v, 'a: 'v>(members: impl Iterator<Item = (&'v str, &'v Value<'a>)>) -> Option<RestrictedExpression> {
    let values = members.filter_map(|(name, value)| Some((name.to_owned(), expression(value)?)));
    RestrictedExpression::new_record(values).ok()
}

/// Whether Cedar has something for a value, whatever stands in it.
pub(crate) fn is_seen(value: &Value<'_>) -> bool {
    match value {
        Value::Null => false,
        Value::Number(spelling) => number(spelling).is_some(),
        Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// A JSON value as Cedar has it; `None` for what Cedar has nothing for.
fn expression(value: &Value<'_>) -> Option<RestrictedExpression> {
    match value {
        Value::Null => None,
        Value::Bool(truth) => Some(RestrictedExpression::new_bool(*truth)),
        Value::Number(spelling) => match number(spelling)? {
            Number::Long(whole) => Some(RestrictedExpression::new_long(whole)),
            Number::Decimal(exact) => Some(RestrictedExpression::new_decimal(exact)),
        },
        Value::String(text) => Some(RestrictedExpression::new_string(text.clone().into_owned())),
        Value::Array(items) => Some(RestrictedExpression::new_set(items.iter().filter_map(expression))),
        Value::Object(_) => record(members(value)),
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Number {
    Long(i64),
    Decimal(String),
}

/// A JSON number by its value, not its spelling: `1`, `1.0` and `10e-1` are one whole number, as
/// they are one number in the canonical form that a permit is bound to.
fn number(spelling: &str) -> Option<Number> {
    let (mantissa, exponent) = match spelling.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (spelling, 0),
    };
    let (mantissa, sign) = mantissa
        .strip_prefix('-')
        .map_or((mantissa, ""), |mantissa| (mantissa, "-"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some(Number::Long(0));
    }
    // The value is `significant` times ten to the `power`.
    let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
    let power = exponent
        .checked_sub(i64::try_from(fraction.len()).ok()?)?
        .checked_add(dropped)?;
    match power {
        0..=18 => {
            let zeros = "0".repeat(usize::try_from(power).ok()?);
            format!("{sign}{significant}{zeros}").parse().ok().map(Number::Long)
        }
        -4..=-1 => {
            let places = usize::try_from(-power).ok()?;
            let padded = format!("{significant:0>width$}", width = places + 1);
            let (whole, fraction) = padded.split_at_checked(padded.len() - places)?;
            // A decimal is 64 bits of ten-thousandths.
            format!("{sign}{whole}{fraction:0<4}").parse::<i64>().ok()?;
            Some(Number::Decimal(format!("{sign}{whole}.{fraction}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
