//! Who has used how much of what limits allow.

use policy::Usage;
use serde_json::{Value, json};

use super::call::Call;
use crate::answer::{Answer, Refusal};

pub(super) const PARAMETERS: &[(&str, &str)] = &[("limit", "How many at most: up to 100000; 100 if not said.")];

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 100_000;

pub(super) async fn show(call: Call) -> Result<Answer, Refusal> {
    let wrong = || Refusal::bad_request(format!("`limit` is from 1 to {MAX_LIMIT}"));
    let limit = match call.query("limit").map(str::parse::<usize>) {
        None => DEFAULT_LIMIT,
        Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => limit,
        Some(_) => return Err(wrong()),
    };
    let usage = call.ask(move |plane| plane.ports().gateway.limits(limit)).await?;
    let shown: Vec<Value> = usage.iter().map(view).collect();
    Ok(Answer::json(&json!({ "limits": shown })))
}

fn view(usage: &Usage) -> Value {
    let per: Vec<&str> = usage.per.iter().map(policy::Per::as_str).collect();
    json!({
        "kind": usage.kind.as_str(),
        "per": one_or_all(&per),
        "key": one_or_all(&usage.key),
        "used": usage.used,
        "calls": usage.calls,
        "window": usage.window.to_string(),
        "methods": usage.methods.as_str(),
        "resets": usage.resets.to_string(),
    })
}

/// As configurations have it: one by itself, several as a list.
fn one_or_all<T: AsRef<str>>(words: &[T]) -> Value {
    match words {
        [one] => one.as_ref().into(),
        several => several.iter().map(AsRef::as_ref).collect::<Vec<&str>>().into(),
    }
}
