//! The operator's word on single things that a server offers, given while the gateway runs: kept with who said it and when.
//! ADR 0074: what is pinned, and whose word counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use vocabulary::{Digest, Risk, ServerId, Timestamp};

use super::pin::{Change, InventoryEvent, StoredServer};

vocabulary::words! {
    /// What a server can say of itself.
    #[derive(PartialOrd, Ord)]
    pub enum ItemKind {
        /// A tool.
        Tool = "tool",
        /// A prompt.
        Prompt = "prompt",
        /// A resource.
        Resource = "resource",
        /// A template of resources.
        Template = "template",
        /// The server's instructions.
        Instructions = "instructions",
    }
}

/// Names one thing that a server says of itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemId {
    /// The server.
    pub server: ServerId,
    /// What it is.
    pub kind: ItemKind,
    /// Its name, URI or template; empty for instructions.
    pub name: Arc<str>,
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ItemKind::Instructions => write!(f, "{}", self.server),
            ItemKind::Tool | ItemKind::Prompt | ItemKind::Resource | ItemKind::Template => {
                write!(f, "{}/{}", self.server, self.name)
            }
        }
    }
}

/// By whom something was said, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// The operator's name.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// What operators have said of one thing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Word {
    /// That it is not to be used.
    pub disabled: Option<Said>,
    /// How dangerous it is; the configuration file's word stands above this one.
    pub risk: Option<(Risk, Said)>,
    /// Definitions that a person approved, of those that are there: no look-alike and no order in one holds it back any more.
    pub settled: BTreeSet<Digest>,
}

impl Word {
    fn is_empty(&self) -> bool {
        self.disabled.is_none() && self.risk.is_none() && self.settled.is_empty()
    }
}

/// What operators have said of the things of one server.
pub type Words = BTreeMap<(ItemKind, Arc<str>), Word>;

/// An operator's order about one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperatorOrder {
    /// It is not to be seen or used.
    Disable,
    /// It may be used again, as far as its pin lets it.
    Enable,
    /// It is this dangerous.
    Classify(Risk),
}

/// The server has nothing of that kind and name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the server offers no such thing")]
pub struct NoSuchItem;

/// Takes an operator's word on one thing of a server.
///
/// # Errors
/// When the server was never seen to offer it. Only tools have a risk of their own.
pub fn heed(
    stored: &mut StoredServer,
    (kind, name): (ItemKind, &str),
    order: OperatorOrder,
    said: Said,
) -> Result<InventoryEvent, NoSuchItem> {
    let key = (kind, Arc::from(name));
    if !stored.has(kind, name) && !stored.words.contains_key(&key) {
        return Err(NoSuchItem);
    }
    let word = stored.words.entry(key.clone()).or_default();
    let name = key.1.clone();
    let change = match order {
        OperatorOrder::Disable => {
            word.disabled = Some(said);
            Change::Disabled { kind, name }
        }
        OperatorOrder::Enable => {
            word.disabled = None;
            Change::Enabled { kind, name }
        }
        OperatorOrder::Classify(_) if kind != ItemKind::Tool => return Err(NoSuchItem),
        OperatorOrder::Classify(risk) => {
            word.risk = Some((risk, said));
            Change::Classified { tool: name, risk }
        }
    };
    if word.is_empty() {
        stored.words.remove(&key);
    }
    Ok(InventoryEvent {
        server: stored.id.clone(),
        change,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{definition, discovered, facts, now};
    use crate::{Inventory, ServerFacts, Standing};
    use vocabulary::{RiskFound, RiskSource, Trust};

    fn said() -> Said {
        Said {
            by: "ann".to_owned(),
            at: now(),
        }
    }

    #[test]
    fn a_disabled_tool_is_disabled_whatever_its_pin_says_until_it_is_enabled() {
        let facts = facts("files", Trust::Internal);
        let mut stored = discovered(&facts, &[&definition("read", "{}"), &definition("write", "{}")]);
        let standings = |stored: &StoredServer| {
            let inventory =
                Inventory::assemble(std::slice::from_ref(&facts), std::slice::from_ref(stored), &|_, _| None);
            inventory
                .tools()
                .iter()
                .map(|tool| tool.standing.clone())
                .collect::<Vec<_>>()
        };
        let event = heed(&mut stored, (ItemKind::Tool, "read"), OperatorOrder::Disable, said()).unwrap();
        assert_eq!(event.change.action(), "tool_disabled");
        assert_eq!(standings(&stored), [Standing::Disabled, Standing::Approved]);
        heed(&mut stored, (ItemKind::Tool, "read"), OperatorOrder::Enable, said()).unwrap();
        assert_eq!(standings(&stored), [Standing::Approved, Standing::Approved]);
        assert!(stored.words.is_empty(), "nothing is kept of what says nothing");
        for unknown in [(ItemKind::Tool, "none"), (ItemKind::Prompt, "read")] {
            assert_eq!(
                heed(&mut stored, unknown, OperatorOrder::Disable, said()),
                Err(NoSuchItem)
            );
        }
    }

    #[test]
    fn the_file_wins_over_a_word_given_while_running_and_a_rule_that_calls_it_critical_over_both() {
        let mut facts = facts("files", Trust::Internal);
        let mut stored = discovered(&facts, &[&definition("read", "{}")]);
        heed(
            &mut stored,
            (ItemKind::Tool, "read"),
            OperatorOrder::Classify(Risk::Low),
            said(),
        )
        .unwrap();
        let risk = |facts: &ServerFacts, critical: bool| {
            let found = |_: &str, _: &str| {
                critical.then(|| RiskFound {
                    risk: Risk::Critical,
                    rule: "r".into(),
                })
            };
            let inventory = Inventory::assemble(std::slice::from_ref(facts), std::slice::from_ref(&stored), &found);
            let tool = &inventory.tools()[0];
            (tool.risk, tool.risk_source)
        };
        assert_eq!(risk(&facts, false), (Risk::Low, RiskSource::Operator));
        assert_eq!(risk(&facts, true), (Risk::Critical, RiskSource::Pattern));
        facts.tools.insert("read".to_owned(), Some(Risk::Medium));
        assert_eq!(risk(&facts, false), (Risk::Medium, RiskSource::Operator));
    }
}
