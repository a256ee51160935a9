//! What a runtime says it used: a small file beside its output. Three numbers are read and nothing else; whoever lies
//! about them lies in a record that says so.
//! ADR 0043: reported, not measured.

use ledger::HarnessUsage;
use vocabulary::json::{Limits, Value};

use crate::intake::OutputPlace;

/// The file's name in the output directory.
pub(crate) const FILE: &str = "usage.json";

/// Reads the report, if there is one that can be read.
pub(crate) fn read(place: &OutputPlace) -> Option<HarnessUsage> {
    let raw = place.take(FILE, LIMITS.max_bytes).ok()?;
    parse(raw.bytes())
}

fn parse(bytes: &[u8]) -> Option<HarnessUsage> {
    let value = Value::parse(bytes, &LIMITS).ok()?;
    let count = |name: &str| match value.member(name) {
        Some(Value::Number(text)) => text.parse::<u64>().ok().filter(|count| *count <= MOST),
        _ => None,
    };
    let money = match value.member("cost_usd").or_else(|| value.member("total_cost_usd")) {
        Some(Value::Number(text)) => micros(text),
        _ => None,
    };
    let usage = HarnessUsage {
        cost_usd_micros: money,
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
    };
    (usage != HarnessUsage::default()).then_some(usage)
}

/// Dollars in millionths, rounded.
fn micros(text: &str) -> Option<u64> {
    let dollars = text
        .parse::<f64>()
        .ok()
        .filter(|dollars| (0.0..1e9).contains(dollars))?;
    let micros = (dollars * 1e6).round();
    // In range by the filter above.
    format!("{micros:.0}").parse().ok()
}

/// What all attempts used; what one of them did not say counts as nothing.
pub(crate) fn sum(all: impl IntoIterator<Item = HarnessUsage>) -> Option<HarnessUsage> {
    let add = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or_default().saturating_add(other.unwrap_or_default())),
    };
    all.into_iter().reduce(|sum, next| HarnessUsage {
        cost_usd_micros: add(sum.cost_usd_micros, next.cost_usd_micros),
        input_tokens: add(sum.input_tokens, next.input_tokens),
        output_tokens: add(sum.output_tokens, next.output_tokens),
    })
}

const LIMITS: Limits = Limits {
    max_bytes: 4096,
    max_depth: 8,
    max_string: 4096,
    max_items: 256,
};

const MOST: u64 = 1 << 53;

#[cfg(test)]
mod tests {
    use super::*;

    // R256
    #[test]
    fn three_numbers_are_read_and_nothing_else() {
        let read = parse(br#"{"total_cost_usd":0.0125,"input_tokens":900,"output_tokens":"many","note":"hello"}"#);
        let expected = HarnessUsage {
            cost_usd_micros: Some(12_500),
            input_tokens: Some(900),
            output_tokens: None,
        };
        assert_eq!(read, Some(expected));
        for bad in [
            "",
            "{}",
            "[]",
            "nonsense",
            r#"{"cost_usd":-1}"#,
            r#"{"input_tokens":1e400}"#,
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn attempts_add_up() {
        let one = HarnessUsage {
            cost_usd_micros: Some(5),
            input_tokens: None,
            output_tokens: None,
        };
        let two = HarnessUsage {
            cost_usd_micros: Some(7),
            input_tokens: Some(1),
            output_tokens: None,
        };
        let sum = sum([one, two]).unwrap();
        assert_eq!(
            (sum.cost_usd_micros, sum.input_tokens, sum.output_tokens),
            (Some(12), Some(1), None)
        );
        assert_eq!(super::sum([]), None);
    }
}
