//! What agents put out, against what they owe.

use harness::{Contract, MOST_VIOLATIONS, RawOutput, Secrets};
use screening::result::strip::Classes;
use vocabulary::Digest;

const MOST_BYTES: usize = 2048;
const DEPTH: usize = 16;

/// Documents of which no contract may take all: whoever takes every kind checks nothing.
const KINDS: [&str; 6] = ["null", "true", "7", "\"any words at all\"", "[]", "{}"];

/// Exactly the bytes that were judged are validated, they are JSON to another parser, the verdict is the same each time, and a
/// refusal has no word of the output. The input: switches, a schema, a zero, an output.
pub fn contract(data: &[u8]) {
    let Some((switches, rest)) = data.split_first() else {
        return;
    };
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let (schema, output) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let rejected = if switches & 1 == 0 {
        Classes::default()
    } else {
        Classes::ALL
    };
    let secrets = [Secrets::Off, Secrets::Record, Secrets::Refuse][usize::from(switches >> 1) % 3];
    let Ok(contract) = Contract::compile(schema, (MOST_BYTES, DEPTH), rejected, secrets) else {
        return;
    };
    assert_eq!(contract.schema_hash(), Digest::of(schema));
    let verdict = |bytes: &[u8]| contract.validate(&RawOutput::new(bytes.to_vec()));
    let takes = |text: &str| verdict(text.as_bytes()).0.is_ok();
    assert!(
        !KINDS.into_iter().all(takes),
        "a contract takes documents of every kind"
    );
    let (judged, found) = verdict(output);
    let (again, found_again) = verdict(output);
    assert_eq!(found, found_again);
    match (judged, again) {
        (Ok(validated), Ok(_)) => {
            assert_eq!(validated.hash(), Digest::of(output));
            assert_eq!(validated.size(), output.len() as u64);
            assert_eq!(validated.schema(), contract.schema_hash());
            assert!((1..=MOST_BYTES).contains(&output.len()));
            serde_json::from_slice::<serde_json::Value>(output).expect("what is validated is JSON");
        }
        (Err(refusal), Err(again)) => {
            assert_eq!(refusal, again);
            assert!((1..=MOST_VIOLATIONS).contains(&refusal.violations.len()));
            let mut said = Vec::new();
            texts(&serde_json::from_slice(output).unwrap_or_default(), &mut said);
            let ours = String::from_utf8_lossy(schema).into_owned();
            for violation in &refusal.violations {
                for told in [&violation.path, &violation.keyword, &violation.expected] {
                    let repeated = said.iter().find(|text| told.contains(*text) && !ours.contains(*text));
                    assert_eq!(repeated, None, "a refusal repeats the output");
                }
            }
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("one output has two verdicts"),
    }
}

/// The strings of a document that are long enough to be known again, names left out.
fn texts(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) if text.len() >= 12 => found.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        serde_json::Value::Object(members) => members.values().for_each(|member| texts(member, found)),
        _ => {}
    }
}
