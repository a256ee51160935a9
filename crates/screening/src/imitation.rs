//! Tools that pass for another server's, or give orders about it. Names are compared as they look (Unicode's skeletons), and what a
//! definition says is read for sentences that order a model about with another server's tool (ADR 0075).

mod orders;

use std::collections::HashMap;

use unicode_security::{MixedScript, RestrictionLevel, RestrictionLevelDetection, skeleton};
use vocabulary::json::{Limits, Value};
use vocabulary::{Shadowing, ToolId, Trust};

use orders::Mentions;

/// A tool to be compared with the others.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    /// Server and name.
    pub id: &'a ToolId,
    /// How far its server is trusted.
    pub trust: Trust,
    /// The definition, a JSON document.
    pub definition: &'a [u8],
    /// Whether it can be called: only what can be is a model for others.
    pub in_use: bool,
    /// Whether a person has approved this very definition: then it is not judged any more.
    pub settled: bool,
}

/// What is wrong with which tool, by its place in the list; one thing for each, and none that a person has settled.
#[must_use]
pub fn shadowing(tools: &[Offered<'_>]) -> Vec<(usize, Shadowing)> {
    let first = tools.first().map(|tool| &tool.id.server);
    let beside = tools
        .iter()
        .any(|tool| Some(&tool.id.server) != first)
        .then(|| Beside::new(tools));
    let open = tools.iter().enumerate().filter(|(_, tool)| !tool.settled);
    open.filter_map(|(place, tool)| {
        if mixes_scripts(tool.id.name.as_str()) {
            return Some((place, Shadowing::MixedScripts));
        }
        let beside = beside.as_ref()?;
        let model = beside.model_of(place, tool).map(Shadowing::LooksLike);
        let found = model.or_else(|| Some(Shadowing::OrdersAbout(orders_in(tool, &beside.mentions)?.clone())));
        Some((place, found?))
    })
    .collect()
}

/// Tools of more than one server, beside each other.
struct Beside<'a> {
    /// By tool, how its name looks.
    looks: Vec<Vec<String>>,
    alike: HashMap<String, Vec<&'a Offered<'a>>>,
    mentions: Mentions<'a>,
}

impl<'a> Beside<'a> {
    fn new(tools: &'a [Offered<'a>]) -> Self {
        let looks: Vec<Vec<String>> = tools.iter().map(|tool| looks(tool.id.name.as_str())).collect();
        let mut alike: HashMap<String, Vec<&Offered<'_>>> = HashMap::new();
        for (tool, looks) in tools.iter().zip(&looks) {
            for look in looks {
                alike.entry(look.clone()).or_default().push(tool);
            }
        }
        Self {
            looks,
            alike,
            mentions: Mentions::new(tools),
        }
    }

    /// The tool of another server that this one passes for. Of two that look alike the less trusted one passes for the other; of equals
    /// the one that is not plain ASCII; then each for the other, unless a person has settled one.
    fn model_of(&self, place: usize, tool: &Offered<'_>) -> Option<ToolId> {
        let looks = self.looks.get(place)?.iter();
        let mut others = looks.filter_map(|look| self.alike.get(look)).flatten();
        let found = others.find(|other| {
            let passes_for_it = other.in_use && (other.settled || weight(tool) <= weight(other));
            other.id.server != tool.id.server && other.id.name != tool.id.name && passes_for_it
        });
        found.map(|other| other.id.clone())
    }
}

/// What counts when two look alike: how far the server is trusted, then whether the name is plain.
fn weight(tool: &Offered<'_>) -> (u8, bool) {
    let trust = match tool.trust {
        Trust::Internal => 3,
        Trust::Verified => 2,
        Trust::Community => 1,
        Trust::Unknown => 0,
    };
    (trust, tool.id.name.as_str().is_ascii())
}

/// How a name looks, as written and in small letters: `fiIe` looks like `file` only as written, `Read` like `read` only in small.
fn looks(name: &str) -> Vec<String> {
    let look = |name: &str| skeleton(name).collect::<String>().to_lowercase();
    let mut looks = vec![look(name), look(&name.to_lowercase())];
    looks.dedup();
    looks
}

/// Whether the letters of a name are of scripts that nobody writes together. Latin beside Chinese, Japanese or Korean is common.
fn mixes_scripts(name: &str) -> bool {
    if name.is_ascii() {
        return false;
    }
    let letters: String = name.chars().filter(|letter| letter.is_alphabetic()).collect();
    !letters.is_single_script() && letters.detect_restriction_level() > RestrictionLevel::HighlyRestrictive
}

/// The tool of another server that some text of a definition gives orders about.
fn orders_in<'a>(tool: &Offered<'_>, mentions: &Mentions<'a>) -> Option<&'a ToolId> {
    if !mentions.may_be_in(tool.definition, tool.id) {
        return None;
    }
    // What cannot be read is quarantined for that.
    let definition = Value::parse(tool.definition, &READING).ok()?;
    first_in(&definition, &|text| mentions.ordered_about(tool.id, text))
}

/// What is found first in the strings of a document.
fn first_in<T>(value: &Value<'_>, find: &dyn Fn(&str) -> Option<T>) -> Option<T> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
        Value::String(text) => find(text),
        Value::Array(items) => items.iter().find_map(|item| first_in(item, find)),
        Value::Object(members) => members.iter().find_map(|(_, member)| first_in(member, find)),
    }
}

/// As the inventory reads definitions.
const READING: Limits = Limits {
    max_bytes: 256 * 1024,
    max_depth: 128,
    max_string: 256 * 1024,
    max_items: 50_000,
};

#[cfg(test)]
mod tests;
