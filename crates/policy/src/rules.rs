//! The operator's policies, read and checked: every rule has an id, one effect, and known needs.
//! Rules are kept in order of id, so that of several deciding ones the first is named.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cedar_policy::{
    ActionConstraint, Effect, EntityUid, ParseErrors, Policy, PolicyId, PolicySet, PrincipalConstraint,
    ResourceConstraint,
};
use miette::Diagnostic;
use vocabulary::{Digest, ServerId};

mod check;
mod evaded;
mod extent;
mod reads;

pub use check::PolicyWarning;
pub(crate) use reads::{ArgumentsRead, Look, Reads, ResourceUse};

/// One policy file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyFile {
    /// Its name, as faults and ids show it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// What is wrong with a policy file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct PolicyFault {
    /// The file.
    pub file: String,
    /// Where in the file.
    pub place: Place,
    /// What is wrong.
    pub kind: PolicyFaultKind,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.file, self.place, self.kind)
    }
}

/// Where in a policy file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Somewhere in it.
    File,
    /// A line and a column, from 1.
    Line {
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// The n-th policy, from 1.
    Policy(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line { line, column } => write!(f, ":{line}:{column}"),
            Self::Policy(position) => write!(f, ", policy {position}"),
        }
    }
}

/// What is wrong with a policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyFaultKind {
    /// It does not parse; the text says where the parser stumbled.
    #[error("{0}")]
    Syntax(String),
    /// It is nested deeper, or goes on longer, than can be parsed in safety.
    #[error(
        "the policy is nested too deeply or has too many operators; split it, or compare with a set by `[…].contains(…)`"
    )]
    Overgrown,
    /// Templates have holes that nothing fills.
    #[error("policy templates are not supported")]
    Template,
    /// The id is taken.
    #[error("the id `{0}` is used by more than one policy")]
    DuplicateId(String),
    /// The id is empty, begins like ours, or cannot be shown.
    #[error("the id `{0}` is empty, begins with `builtin:` or holds control characters")]
    BadId(String),
    /// `@require` asks for something unknown.
    #[error("`@require(\"{0}\")` is unknown; `@require(\"approval\")` is what there is")]
    UnknownRequirement(String),
    /// `@require` stands on a forbid.
    #[error("`@require` is for permits; a forbid needs no approval")]
    RequirementOnForbid,
}

vocabulary::words! {
    /// What a satisfied rule does.
    #[derive(PartialOrd, Ord)]
    pub enum RuleEffect {
        /// Allows the call.
        Permit = "permit",
        /// Lets a person allow the call.
        PermitWithApproval = "permit with approval",
        /// Refuses the call, whatever else is satisfied.
        Forbid = "forbid",
    }
}

/// One policy, with all that can be known of it before a call.
pub(crate) struct Rule {
    pub(crate) id: Arc<str>,
    pub(crate) effect: RuleEffect,
    pub(crate) principal: PrincipalConstraint,
    pub(crate) action: ActionConstraint,
    pub(crate) resource: ResourceConstraint,
    pub(crate) condition: Condition,
    pub(crate) resource_use: ResourceUse,
    /// The first rule with the same effect and the same conditions: what that says of a call whose scope fits both,
    /// this one says too.
    pub(crate) alike: usize,
    /// The digest of the conditions, where they could be looked into.
    conditions: Option<Digest>,
    /// Entities the rule names, which it may look into.
    pub(crate) named: Vec<EntityUid>,
    /// The policy alone in a set, ready to be evaluated.
    pub(crate) set: PolicySet,
    policy: Policy,
}

/// A policy as far as it matters whether another set is looser.
#[derive(Clone, Debug)]
pub struct Strength {
    /// Its id.
    pub id: Arc<str>,
    /// Whether it refuses; else it permits.
    pub refuses: bool,
    says: Digest,
}

impl Strength {
    /// Whether one of `others` says the very same, under whatever id.
    #[must_use]
    pub fn is_among(&self, others: &[Self]) -> bool {
        others.iter().any(|other| other.says == self.says)
    }
}

impl Rule {
    /// The first place in the arguments that the rule looks at and cannot see, as a pointer.
    pub(crate) fn unseen(&self, arguments: &vocabulary::json::Value<'_>) -> Option<String> {
        match &self.condition {
            Condition::None | Condition::ContextFree => None,
            Condition::Contextual(reads) => crate::unseen::first(arguments, reads),
        }
    }
}

/// What a rule asks beyond its scope.
pub(crate) enum Condition {
    /// Nothing: in scope is satisfied.
    None,
    /// Only who calls what.
    ContextFree,
    /// Something of the call itself.
    Contextual(Reads),
}

/// All policies, in order of id.
pub struct Rules {
    rules: Vec<Rule>,
    hash: Digest,
}

/// No policy: everything is denied.
impl Default for Rules {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            hash: hash(&[]),
        }
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("policies", &self.rules.len())
            .field("hash", &self.hash)
            .finish()
    }
}

impl Rules {
    /// Reads policy files. No files, or empty ones, make a set that denies everything.
    ///
    /// # Errors
    /// All faults of all files.
    pub fn load(files: &[PolicyFile]) -> Result<Self, Vec<PolicyFault>> {
        let mut faults = Vec::new();
        let mut rules = Vec::new();
        for file in files {
            if let Some(offset) = extent::overgrown(&file.text) {
                faults.push(PolicyFault {
                    file: file.name.clone(),
                    place: line_and_column(&file.text, offset),
                    kind: PolicyFaultKind::Overgrown,
                });
                continue;
            }
            match PolicySet::from_str(&file.text) {
                Ok(set) => read_file(file, &set, &mut rules, &mut faults),
                Err(errors) => faults.extend(syntax_faults(file, &errors)),
            }
        }
        rules.sort_by(|one: &Rule, other| one.id.cmp(&other.id));
        find_alike(&mut rules);
        if faults.is_empty() {
            Ok(Self {
                rules,
                hash: hash(files),
            })
        } else {
            Err(faults)
        }
    }

    /// The digest of the whole set, `policy_set` in receipts.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// The policies as far as it matters whether another set is looser.
    #[must_use]
    pub fn strengths(&self) -> Vec<Strength> {
        let of_rule = |rule: &Rule| Strength {
            id: rule.id.clone(),
            refuses: rule.effect == RuleEffect::Forbid,
            says: Digest::of(rule.policy.to_string().as_bytes()),
        };
        self.rules.iter().map(of_rule).collect()
    }

    /// The ids of all policies, in order.
    pub fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rules.iter().map(|rule| &rule.id)
    }

    /// Whether some policy could permit something on this server, or let a person permit it: judged by what the policies name
    /// as their resource, whatever else they ask.
    #[must_use]
    pub fn may_permit_on(&self, server: &ServerId) -> bool {
        let concerns = |uid: &EntityUid| {
            let id = uid.id().unescaped();
            let rest = id.strip_prefix(server.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.rules.iter().any(|rule| {
            let in_scope = match &rule.resource {
                ResourceConstraint::Any | ResourceConstraint::Is(_) => true,
                ResourceConstraint::In(uid) | ResourceConstraint::Eq(uid) | ResourceConstraint::IsIn(_, uid) => {
                    concerns(uid)
                }
            };
            rule.effect != RuleEffect::Forbid && in_scope
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Rule)> {
        self.rules.iter().enumerate()
    }

    pub(crate) fn rule(&self, index: usize) -> Option<&Rule> {
        self.rules.get(index)
    }
}

fn read_file(file: &PolicyFile, set: &PolicySet, rules: &mut Vec<Rule>, faults: &mut Vec<PolicyFault>) {
    let fault = |place, kind| PolicyFault {
        file: file.name.clone(),
        place,
        kind,
    };
    if set.num_of_templates() > 0 {
        faults.push(fault(Place::File, PolicyFaultKind::Template));
    }
    let mut taken: HashSet<Arc<str>> = rules.iter().map(|rule| rule.id.clone()).collect();
    let mut policies: Vec<(usize, &Policy)> = set.policies().map(|policy| (position(policy), policy)).collect();
    policies.sort_by_key(|(position, _)| *position);
    for (position, policy) in policies {
        match read_rule(file, position, policy) {
            Ok(rule) if taken.contains(&rule.id) => {
                faults.push(fault(
                    Place::Policy(position),
                    PolicyFaultKind::DuplicateId(shown(&rule.id)),
                ));
            }
            Ok(rule) => {
                taken.insert(rule.id.clone());
                rules.push(rule);
            }
            Err(kind) => faults.push(fault(Place::Policy(position), kind)),
        }
    }
}

/// The parser names policies `policy0`, `policy1`, … in the order of the text.
fn position(policy: &Policy) -> usize {
    let id: &str = policy.id().as_ref();
    id.strip_prefix("policy")
        .and_then(|number| number.parse::<usize>().ok())
        .map_or(0, |number| number + 1)
}

fn read_rule(file: &PolicyFile, position: usize, policy: &Policy) -> Result<Rule, PolicyFaultKind> {
    let id = match policy.annotation("id") {
        // Ids go to terminals and logs as they are.
        Some(id) if id.is_empty() || id.starts_with("builtin:") || id.contains(char::is_control) => {
            return Err(PolicyFaultKind::BadId(shown(id)));
        }
        Some(id) => id.to_owned(),
        None => format!("{}:{position}", file.name),
    };
    let effect = match (policy.effect(), policy.annotation("require")) {
        (Effect::Permit, None) => RuleEffect::Permit,
        (Effect::Permit, Some("approval")) => RuleEffect::PermitWithApproval,
        (Effect::Permit, Some(other)) => return Err(PolicyFaultKind::UnknownRequirement(shown(other))),
        (Effect::Forbid, None) => RuleEffect::Forbid,
        (Effect::Forbid, Some(_)) => return Err(PolicyFaultKind::RequirementOnForbid),
    };
    let policy = policy.new_id(PolicyId::new(&id));
    let set = PolicySet::from_policies([policy.clone()])
        .map_err(|error| PolicyFaultKind::Syntax(shown(&error.to_string())))?;
    let json = policy.to_json().ok();
    Ok(Rule {
        id: id.into(),
        effect,
        principal: policy.principal_constraint(),
        action: policy.action_constraint(),
        resource: policy.resource_constraint(),
        condition: condition(&policy, json.as_ref()),
        resource_use: json.as_ref().map_or(ResourceUse::Identity, ResourceUse::of_policy),
        alike: 0,
        conditions: json
            .as_ref()
            .and_then(|json| json.get("conditions"))
            .map(|conditions| Digest::of(conditions.to_string().as_bytes())),
        named: policy.entity_literals(),
        set,
        policy,
    })
}

fn find_alike(rules: &mut [Rule]) {
    let mut first = HashMap::new();
    for (index, rule) in rules.iter_mut().enumerate() {
        rule.alike = match rule.conditions {
            Some(conditions) => *first.entry((rule.effect, conditions)).or_insert(index),
            None => index,
        };
    }
}

fn condition(policy: &Policy, json: Option<&serde_json::Value>) -> Condition {
    if !policy.has_non_scope_constraint() {
        return Condition::None;
    }
    // What cannot be looked into may read anything.
    match json.map_or_else(Reads::everything, Reads::of_policy) {
        reads if reads.is_nothing() => Condition::ContextFree,
        reads => Condition::Contextual(reads),
    }
}

fn syntax_faults(file: &PolicyFile, errors: &ParseErrors) -> Vec<PolicyFault> {
    let fault = |error: &cedar_policy::ParseError| {
        let offset = error
            .labels()
            .and_then(|mut labels| labels.next())
            .map(|label| label.offset());
        let place = offset.map_or(Place::File, |offset| line_and_column(&file.text, offset));
        let help = error.help().map(|help| format!(" ({help})")).unwrap_or_default();
        PolicyFault {
            file: file.name.clone(),
            place,
            kind: PolicyFaultKind::Syntax(shown(&format!("{error}{help}"))),
        }
    };
    errors.iter().map(fault).collect()
}

/// Words out of a policy, short and on one line: whoever wrote it does not write the terminal.
fn shown(text: &str) -> String {
    let letter = |letter: char| match letter {
        '"' | '\'' | '\\' => vec![letter],
        _ => letter.escape_debug().collect(),
    };
    let cut = text.chars().nth(LONGEST_SHOWN).map(|_| '…');
    text.chars().take(LONGEST_SHOWN).flat_map(letter).chain(cut).collect()
}

/// Enough for all that the parser expects at one place.
const LONGEST_SHOWN: usize = 500;

fn line_and_column(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    Place::Line { line, column }
}

fn hash(files: &[PolicyFile]) -> Digest {
    let mut files: Vec<&PolicyFile> = files.iter().collect();
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let mut framed = Vec::new();
    for file in files {
        for part in [&file.name, &file.text] {
            framed.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            framed.extend_from_slice(part.as_bytes());
        }
    }
    Digest::of(&framed)
}

#[cfg(test)]
mod tests;
