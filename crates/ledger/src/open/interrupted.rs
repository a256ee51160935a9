//! The final record of a call that was under way when the process died: made from its intent.

use std::borrow::Cow;

use vocabulary::json::{Limits, Value};
use vocabulary::{Digest, ReasonCode, canonical};

use crate::chain::Chain;

/// Appends the final record that `intent` never got: `ERROR_INTERRUPTED`, and nobody knows whether it was carried out.
///
/// `None` where the line is no intent's.
pub(crate) fn write_interrupted(intent: &[u8], chain: &mut Chain, out: &mut Vec<u8>) -> Option<u64> {
    let limits = Limits {
        max_bytes: usize::MAX,
        max_depth: 16,
        max_string: usize::MAX,
        max_items: 100_000,
    };
    let Ok(Value::Object(mut members)) = Value::parse(intent, &limits) else {
        return None;
    };
    members.retain(|(name, _)| name != "record_hash");
    for (name, value) in &mut members {
        match name.as_ref() {
            "phase" => *value = text("final"),
            "outcome" => *value = unknown_outcome(),
            "decision" => add_reason(value)?,
            _ => {}
        }
    }
    let place = chain.link(out, |out, seal| {
        let seq = seal.seq.to_string();
        let (ts, prev) = (String::from_utf8_lossy(seal.ts), seal.prev.to_string());
        let mut record = Value::Object(members.clone());
        set(&mut record, "seq", Value::Number(&seq));
        set(&mut record, "ts", Value::String(ts));
        set(&mut record, "prev_hash", Value::String(Cow::Owned(prev)));
        let mut bare = Vec::new();
        canonical::write(&record, &mut bare);
        let hash = Digest::of(&bare);
        if let Value::Object(members) = &mut record {
            members.push(("record_hash".into(), Value::String(hash.to_string().into())));
        }
        canonical::write(&record, out);
        out.push(b'\n');
        hash
    });
    Some(place)
}

fn text(text: &'static str) -> Value<'static> {
    Value::String(Cow::Borrowed(text))
}

fn unknown_outcome() -> Value<'static> {
    Value::Object(vec![
        ("duration_us".into(), Value::Null),
        ("executed".into(), Value::Null),
        ("screening".into(), Value::Array(Vec::new())),
        ("size_bytes_out".into(), Value::Null),
        ("status".into(), text("error")),
    ])
}

fn add_reason(decision: &mut Value<'_>) -> Option<()> {
    let Value::Object(members) = decision else { return None };
    let (_, codes) = members.iter_mut().find(|(name, _)| name == "reason_codes")?;
    let Value::Array(codes) = codes else { return None };
    codes.push(text(ReasonCode::ErrorInterrupted.as_str()));
    Some(())
}

fn set<'a>(record: &mut Value<'a>, name: &str, value: Value<'a>) {
    if let Value::Object(members) = record {
        members
            .iter_mut()
            .filter(|(key, _)| key == name)
            .for_each(|(_, old)| *old = value.clone());
    }
}
