//! How dangerous a tool or a call is by what it says of itself: the rules of `rules/risk.toml` and the operator's own. A rule
//! raises and never lowers.
//! ADR 0072: what raises a risk, and who may lower it.

mod file;

use std::sync::Arc;

use aho_corasick::AhoCorasick;
use regex::bytes::Regex;
use vocabulary::json::Value;
use vocabulary::{Risk, RiskFound};

pub use crate::detect::{Pack, PackFault};

vocabulary::words! {
    /// Where a rule is looked for.
    pub enum RiskPlace {
        /// The name of a tool, in snake case.
        Name = "name",
        /// What a tool says of itself.
        Description = "description",
        /// A string of a call's arguments.
        Arguments = "arguments",
    }
}

/// Every rule, the most dangerous first.
#[derive(Debug)]
pub struct RiskRules {
    rules: Vec<Rule>,
    /// Finds what wakes rules; none of them where it could not be built, which wakes all.
    keywords: Option<AhoCorasick>,
    /// By keyword, the rules that it wakes.
    wakes: Vec<Vec<usize>>,
    /// Rules that need no waking.
    always: Vec<usize>,
}

#[derive(Debug)]
struct Rule {
    id: Arc<str>,
    risk: Risk,
    places: Vec<RiskPlace>,
    pattern: Regex,
    unless: Option<Regex>,
    keywords: Vec<String>,
}

impl Rule {
    fn finds(&self, text: &[u8]) -> bool {
        match &self.unless {
            None => self.pattern.is_match(text),
            Some(unless) => self
                .pattern
                .find_iter(text)
                .any(|found| !unless.is_match(found.as_bytes())),
        }
    }
}

const EMBEDDED: Pack<'static> = Pack {
    name: "risk.toml",
    text: include_str!("../rules/risk.toml"),
};

impl RiskRules {
    /// The rules that are shipped, and the operator's. One of theirs with the id of a shipped one stands in its place.
    ///
    /// # Errors
    /// With everything that is wrong with the files.
    pub fn with_files(files: &[Pack<'_>]) -> Result<Self, Vec<PackFault>> {
        file::read(EMBEDDED, files).map(Self::new)
    }

    fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.risk));
        let (mut words, mut wakes, mut always): (Vec<&str>, Vec<Vec<usize>>, Vec<usize>) = Default::default();
        for (index, rule) in rules.iter().enumerate() {
            if rule.keywords.is_empty() {
                always.push(index);
            }
            for keyword in &rule.keywords {
                match words.iter().position(|word| word == keyword) {
                    Some(known) => wakes.get_mut(known).into_iter().for_each(|woken| woken.push(index)),
                    None => {
                        words.push(keyword);
                        wakes.push(vec![index]);
                    }
                }
            }
        }
        let keywords = AhoCorasick::builder().ascii_case_insensitive(true).build(&words).ok();
        Self {
            keywords,
            wakes,
            always,
            rules,
        }
    }

    /// The worst that the rules find in a tool's name and in what it says of itself.
    #[must_use]
    pub fn of_tool(&self, name: &str, description: &str) -> Option<RiskFound> {
        let by_name = self.worst(RiskPlace::Name, snake_case(name).as_bytes());
        let described = self.worst(RiskPlace::Description, description.as_bytes());
        self.found([by_name, described].into_iter().flatten().min())
    }

    /// The worst that the rules find in the arguments of a call: in each string, in each list of strings joined as in a command
    /// line, and in a command with its arguments.
    #[must_use]
    pub fn of_arguments(&self, arguments: &Value<'_>) -> Option<RiskFound> {
        let mut worst = None;
        self.look_into(arguments, &mut worst);
        self.found(worst)
    }

    fn found(&self, index: Option<usize>) -> Option<RiskFound> {
        let rule = self.rules.get(index?)?;
        Some(RiskFound {
            risk: rule.risk,
            rule: rule.id.clone(),
        })
    }

    fn look_into(&self, value: &Value<'_>, worst: &mut Option<usize>) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.look(text.as_bytes(), worst),
            Value::Array(items) => {
                if let Some(line) = joined(items) {
                    return self.look(line.as_bytes(), worst);
                }
                items.iter().for_each(|item| self.look_into(item, worst));
            }
            Value::Object(members) => {
                members.iter().for_each(|(_, member)| self.look_into(member, worst));
                if let Some(line) = command_line(value) {
                    self.look(line.as_bytes(), worst);
                }
            }
        }
    }

    fn look(&self, text: &[u8], worst: &mut Option<usize>) {
        *worst = [*worst, self.worst(RiskPlace::Arguments, text)]
            .into_iter()
            .flatten()
            .min();
    }

    /// The first rule, and so one of the worst, that finds something here.
    fn worst(&self, place: RiskPlace, text: &[u8]) -> Option<usize> {
        let mut awake = self.awake(text);
        awake.sort_unstable();
        awake.dedup();
        let rule_at = |index: &usize| self.rules.get(*index);
        awake
            .into_iter()
            .find(|index| rule_at(index).is_some_and(|rule| rule.places.contains(&place) && rule.finds(text)))
    }

    fn awake(&self, text: &[u8]) -> Vec<usize> {
        let Some(keywords) = &self.keywords else {
            return (0..self.rules.len()).collect();
        };
        let mut awake = self.always.clone();
        let mut heard = vec![false; self.wakes.len()];
        for found in keywords.find_overlapping_iter(text) {
            let keyword = found.pattern().as_usize();
            if let Some(heard) = heard.get_mut(keyword).filter(|heard| !**heard) {
                *heard = true;
                awake.extend(self.wakes.get(keyword).into_iter().flatten());
            }
        }
        awake
    }
}

/// A list that is a command line, or part of one: strings and nothing else.
fn joined(items: &[Value<'_>]) -> Option<String> {
    let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    words.filter(|words| !words.is_empty()).map(|words| words.join(" "))
}

/// A program and what it is given, where they stand apart.
fn command_line(value: &Value<'_>) -> Option<String> {
    const PROGRAM: [&str; 4] = ["command", "cmd", "program", "executable"];
    const GIVEN: [&str; 4] = ["args", "arguments", "argv", "parameters"];
    let member = |names: [&str; 4]| names.into_iter().find_map(|name| value.member(name));
    let program = member(PROGRAM)?.as_str()?;
    let given = match member(GIVEN)? {
        Value::Array(items) => joined(items)?,
        Value::String(text) => text.clone().into_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    Some(format!("{program} {given}"))
}

/// `deleteRepo`, `delete-repo` and `DeleteRepo` as `delete_repo`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut before = None;
    for character in name.chars() {
        let begins =
            character.is_uppercase() && before.is_some_and(|before: char| before.is_lowercase() || before.is_numeric());
        if begins {
            snake.push('_');
        }
        if character.is_alphanumeric() {
            snake.extend(character.to_lowercase());
        } else if !snake.ends_with('_') {
            snake.push('_');
        }
        before = Some(character);
    }
    snake
}

#[cfg(test)]
mod tests;
