//! `[pipelines.*]`: which agents run in which order, and what each is given.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use settings::{Complaint, Entry, Section, quoted};

use super::agent::{Agent, AgentName};

/// A declared pipeline. Every agent runs at most once; needs and conditions look back only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// How many attempts all agents together may make.
    pub attempts: Option<u32>,
    /// How long all of it may take.
    pub time: Option<Duration>,
    /// What runs, in order.
    pub stages: Vec<Stage>,
}

/// Agents that run at the same time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// Who runs.
    pub agents: Vec<AgentName>,
    /// Whose output they are given.
    pub needs: Vec<AgentName>,
    /// Which of these may have failed.
    pub allow_partial: Vec<AgentName>,
    /// Whether they run at all.
    pub when: Option<Condition>,
}

/// A condition over a validated output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// Whose output decides.
    pub from: AgentName,
    /// A JSON pointer.
    pub pointer: String,
    /// Values that make it true, as canonical JSON.
    pub values: Vec<String>,
}

impl Pipeline {
    pub(super) fn check(
        name: &str,
        mut section: Section<'_>,
        agents: &BTreeMap<AgentName, Agent>,
        declared: &BTreeSet<String>,
    ) -> Option<Self> {
        if AgentName::parse(name).is_none() {
            section.fault_here(
                Complaint::new(format!("{} is no name for a pipeline", quoted(name)))
                    .hint("use 1 to 64 of a-z, 0-9, `-` and `_`"),
            );
        }
        let mut budget = section.section("budget");
        let attempts = budget.read("attempts", |value| value.number(1..=1_000_000));
        let time = budget.read("time", Entry::duration);
        budget.finish();
        let mut walk = Walk {
            agents,
            declared,
            before: Vec::new(),
        };
        let stages = section.require("stages", |value| {
            let mut stages = Vec::new();
            for item in value.items()? {
                if let Some(stage) = item.into_section().and_then(|section| walk.stage(section)) {
                    walk.before.extend(stage.agents.iter().cloned());
                    stages.push(stage);
                }
            }
            match stages.is_empty() {
                true => Err(Complaint::new("has no stage that could run").hint("write `{ agent = \"name\" }`")),
                false => Ok(stages),
            }
        });
        section.finish();
        Some(Self {
            name: name.to_owned(),
            attempts: attempts.and_then(|attempts| u32::try_from(attempts).ok()),
            time,
            stages: stages?,
        })
    }

    /// Every agent of it.
    pub fn agents(&self) -> impl Iterator<Item = &AgentName> {
        self.stages.iter().flat_map(|stage| &stage.agents)
    }

    /// Whether the failure of `agent` is written out as bearable: somebody needs it, and all who do allow that. Never
    /// where a condition asks it: whoever fails could choose the answer by failing.
    #[must_use]
    pub fn bears_failure_of(&self, agent: &AgentName) -> bool {
        let asks = |stage: &Stage| stage.when.as_ref().is_some_and(|when| when.from == *agent);
        if self.stages.iter().any(asks) {
            return false;
        }
        let mut needed = self
            .stages
            .iter()
            .filter(|stage| stage.needs.contains(agent))
            .peekable();
        needed.peek().is_some() && needed.all(|stage| stage.allow_partial.contains(agent))
    }
}

/// The way through the stages: who was met before.
struct Walk<'a> {
    agents: &'a BTreeMap<AgentName, Agent>,
    /// Names of the file, those included whose section has faults: they are known, though not usable.
    declared: &'a BTreeSet<String>,
    before: Vec<AgentName>,
}

impl Walk<'_> {
    fn stage(&self, mut section: Section<'_>) -> Option<Stage> {
        let parallel = section.read("parallel", |value| value.distinct(|item| self.newcomer(item)));
        let single = section.read("agent", |value| self.newcomer(value));
        let agents = match (parallel, single) {
            (Some(agents), None) if !agents.is_empty() => Some(agents),
            (None, Some(agent)) => Some(vec![agent]),
            (Some(_), Some(_)) => {
                section.fault_here(Complaint::new("has both `agent` and `parallel`").hint("write one of them"));
                None
            }
            (Some(_) | None, None) => {
                section.fault_here(Complaint::new("names no agent").hint("write `agent` or `parallel`"));
                None
            }
        };
        let needs = section.read("needs", |value| value.distinct(|item| self.predecessor(item)));
        let allow_partial = section.read("allow_partial", |value| value.distinct(|item| self.predecessor(item)));
        if let (Some(needs), Some(allowed)) = (&needs, &allow_partial)
            && let Some(stranger) = allowed.iter().find(|agent| !needs.contains(agent))
        {
            let complaint = Complaint::new(format!("{} is not in `needs`", quoted(stranger.as_str())));
            section.fault("allow_partial", complaint.hint("allow what is needed, or remove it"));
        }
        let when = match section.has("when") {
            true => Some(self.condition(section.section("when"))),
            false => None,
        };
        section.finish();
        Some(Stage {
            agents: agents?,
            needs: needs?,
            allow_partial: allow_partial?,
            when: match when {
                Some(condition) => Some(condition?),
                None => None,
            },
        })
    }

    fn condition(&self, mut section: Section<'_>) -> Option<Condition> {
        let from = section.require("from", |value| self.predecessor(value));
        let pointer = section.require("pointer", |value| {
            let text = value.text()?;
            match text.is_empty() || text.starts_with('/') {
                true => Ok(text.to_owned()),
                false => Err(Complaint::new(format!("{} is no JSON pointer", quoted(text))).hint("write `/verdict`")),
            }
        });
        let equals = section.read("equals", Entry::scalar);
        let several = section.read("in", |value| value.distinct(Entry::scalar));
        let values = match (equals, several) {
            (Some(value), None) => Some(vec![value]),
            (None, Some(values)) if !values.is_empty() => Some(values),
            (Some(_), Some(_)) | (None, Some(_) | None) => {
                section.fault_here(Complaint::new("needs `equals` or a list in `in`, and not both"));
                None
            }
        };
        section.finish();
        Some(Condition {
            from: from?,
            pointer: pointer?,
            values: values?,
        })
    }

    /// An agent that has not run yet.
    fn newcomer(&self, value: &Entry<'_>) -> Result<AgentName, Complaint> {
        let name = self.known(value)?;
        match self.before.contains(&name) {
            true => Err(Complaint::new(format!("{} runs twice", quoted(name.as_str())))
                .hint("an agent has one place in a pipeline")),
            false => Ok(name),
        }
    }

    /// An agent of an earlier stage: what looks forward would run in a circle.
    fn predecessor(&self, value: &Entry<'_>) -> Result<AgentName, Complaint> {
        let name = self.known(value)?;
        match self.before.contains(&name) {
            true => Ok(name),
            false => Err(
                Complaint::new(format!("{} does not run in an earlier stage", quoted(name.as_str())))
                    .hint("needs and conditions look back; put its stage before this one"),
            ),
        }
    }

    fn known(&self, value: &Entry<'_>) -> Result<AgentName, Complaint> {
        let text = value.text()?;
        let unknown = || Complaint::new(format!("no agent {} is declared", quoted(text)));
        let name = AgentName::parse(text).ok_or_else(unknown)?;
        match self.agents.contains_key(&name) || self.declared.contains(text) {
            true => Ok(name),
            false => Err(unknown()),
        }
    }
}
