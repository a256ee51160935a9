//! Reads files of risk rules: TOML in, rules or every fault with its line out.

use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use toml::Spanned;
use vocabulary::Risk;

use super::{Pack, PackFault, RiskPlace, Rule};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    rule: Vec<Spanned<RawRule>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    id: String,
    risk: Spanned<String>,
    #[serde(rename = "in")]
    places: Spanned<Vec<String>>,
    pattern: Spanned<String>,
    unless: Option<Spanned<String>>,
    #[serde(default)]
    keywords: Vec<String>,
    examples: Option<Examples>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Examples {
    #[serde(default)]
    pub(super) finds: Vec<String>,
    #[serde(default)]
    pub(super) passes: Vec<String>,
}

/// What is shipped, with the operator's rules beside it or in its place.
pub(super) fn read(embedded: Pack<'_>, files: &[Pack<'_>]) -> Result<Vec<Rule>, Vec<PackFault>> {
    let mut rules = rules_of(embedded, &[])?;
    let shipped = rules.len();
    let mut faults = Vec::new();
    for file in files {
        match rules_of(*file, &rules) {
            Ok(own) => {
                for rule in own {
                    match rules.iter_mut().take(shipped).find(|known| known.id == rule.id) {
                        Some(known) => *known = rule,
                        None => rules.push(rule),
                    }
                }
            }
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(rules) } else { Err(faults) }
}

fn rules_of(file: Pack<'_>, known: &[Rule]) -> Result<Vec<Rule>, Vec<PackFault>> {
    let raw: RawFile = toml::from_str(file.text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let hint = "a rule has `id`, `risk`, `pattern` and `in`; see the page on risk";
        vec![PackFault::at(&file, at, error.message().to_owned(), hint)]
    })?;
    let (mut rules, mut faults): (Vec<Rule>, Vec<PackFault>) = Default::default();
    for spanned in &raw.rule {
        let at = spanned.span().start;
        let id = shown(&spanned.get_ref().id);
        match rule_of(&file, spanned.get_ref()) {
            Ok(rule) if rules.iter().any(|other| other.id == rule.id) => {
                faults.push(PackFault::at(
                    &file,
                    at,
                    format!("the rule id `{id}` is used twice"),
                    "give the rule another id",
                ));
            }
            Ok(rule) if known.iter().any(|known| is_lowered(known, &rule)) => {
                let what = format!("rule `{id}` would make less of what is critical");
                faults.push(PackFault::at(&file, at, what, "leave it critical: nothing lowers that"));
            }
            Ok(rule) => rules.push(rule),
            Err(found) => faults.push(found),
        }
    }
    if faults.is_empty() { Ok(rules) } else { Err(faults) }
}

/// Whether a rule stands in the place of a critical one and is not.
fn is_lowered(known: &Rule, rule: &Rule) -> bool {
    known.id == rule.id && known.risk == Risk::Critical && rule.risk != Risk::Critical
}

fn rule_of(file: &Pack<'_>, raw: &RawRule) -> Result<Rule, PackFault> {
    let id = shown(&raw.id);
    let wrong = |at: usize, what: &str, hint: &str| PackFault::at(file, at, format!("rule `{id}`: {what}"), hint);
    let at = raw.risk.span().start;
    if raw.id.is_empty()
        || raw.id.len() > 64
        || !raw
            .id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        return Err(wrong(
            at,
            "its id cannot be shown",
            "use up to 64 letters, digits, `-`, `_` and `.`",
        ));
    }
    let risk = Risk::parse(raw.risk.get_ref())
        .ok_or_else(|| wrong(at, "its risk is not known", "use low, medium, high or critical"))?;
    let places: Option<Vec<RiskPlace>> = raw
        .places
        .get_ref()
        .iter()
        .map(|place| RiskPlace::parse(place))
        .collect();
    let places = places.filter(|places| !places.is_empty()).ok_or_else(|| {
        let at = raw.places.span().start;
        wrong(
            at,
            "it says not where to look",
            "use `in` with name, description or arguments",
        )
    })?;
    let pattern = |written: &Spanned<String>| {
        compile(written.get_ref()).map_err(|_| {
            let hint = "correct the pattern (RE2 syntax, no look-around, no back-references)";
            wrong(written.span().start, "the pattern cannot be compiled", hint)
        })
    };
    let rule = Rule {
        id: Arc::from(raw.id.as_str()),
        risk,
        places,
        pattern: pattern(&raw.pattern)?,
        unless: raw.unless.as_ref().map(pattern).transpose()?,
        keywords: raw.keywords.iter().map(|word| word.to_ascii_lowercase()).collect(),
    };
    match raw
        .examples
        .as_ref()
        .and_then(|examples| broken_example(&rule, examples))
    {
        Some(what) => Err(wrong(at, what, "correct the pattern or the example")),
        None => Ok(rule),
    }
}

fn broken_example(rule: &Rule, examples: &Examples) -> Option<&'static str> {
    let finds = |text: &String| {
        let wakes = |word: &String| text.to_ascii_lowercase().contains(word.as_str());
        (rule.keywords.is_empty() || rule.keywords.iter().any(wakes)) && rule.finds(text.as_bytes())
    };
    if !examples.finds.iter().all(finds) {
        Some("it does not find its own example")
    } else if examples.passes.iter().any(finds) {
        Some("it finds what its own example lets pass")
    } else {
        None
    }
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    const SIZE_LIMIT: usize = 1 << 20;
    RegexBuilder::new(pattern)
        .unicode(false)
        .case_insensitive(true)
        .size_limit(SIZE_LIMIT)
        .build()
}

/// An id as it can be shown in a fault.
fn shown(id: &str) -> String {
    id.chars().take(64).flat_map(char::escape_debug).collect()
}
