//! Who has used how much, for operators.

use std::cmp::Reverse;

use vocabulary::{Timestamp, lock};

use super::key::{PerSet, split};
use super::rule::{Kind, Methods};
use super::window::{Window, millis, moment};
use super::{CallLimits, Placed};

/// How much of what one rule allows one key has used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Whether it outlives a run.
    pub kind: Kind,
    /// What is counted apart.
    pub per: PerSet,
    /// Whose count it is: a name for each of `per`, in their order; one alone where several share a count.
    pub key: Vec<String>,
    /// Requests that count now.
    pub used: u32,
    /// How many may.
    pub calls: u32,
    /// How long each counts.
    pub window: Window,
    /// Which requests count.
    pub methods: Methods,
    /// When none counts any more, if there are no further ones.
    pub resets: Timestamp,
}

impl Usage {
    /// Those who have used most of what they may come first.
    fn order(&self) -> impl Ord + use<> {
        let share = u64::from(self.used) * 1_000_000 / u64::from(self.calls.max(1));
        let name = (self.kind.as_str(), self.per.to_string(), self.key.clone());
        (Reverse(share), name, self.window.to_string(), self.methods.as_str())
    }
}

impl CallLimits {
    /// Who has used how much: those who have used most of what they may, at most so many. Calls go on meanwhile.
    #[must_use]
    pub fn usage(&self, most: usize) -> Vec<Usage> {
        let of_tools = self.rules.of_tools.values().flat_map(|of_tool| &of_tool.rules);
        let mut all = Vec::new();
        for rule in self.rules.rules.iter().chain(of_tools) {
            let mut shard = 0;
            while self.look_into(rule, shard, &mut all) {
                shard += 1;
                if all.len() > most.saturating_mul(4) {
                    first(&mut all, most);
                }
            }
        }
        first(&mut all, most);
        all
    }

    /// Adds what one part of a rule's counts holds; `false` after the last.
    fn look_into(&self, rule: &Placed, shard: usize, all: &mut Vec<Usage>) -> bool {
        let now = millis(self.shared.clock.now());
        let mut books = lock(&self.shared.books);
        let Some(Some(table)) = books.tables.get_mut(rule.place) else {
            return false;
        };
        all.extend(table.seen(shard, now).map(|seen| Usage {
            kind: rule.spec.kind,
            per: rule.spec.per.clone(),
            key: split(seen.names).map(str::to_owned).collect(),
            used: seen.used,
            calls: rule.calls,
            window: rule.spec.window,
            methods: rule.spec.methods,
            resets: moment(seen.resets),
        }));
        shard + 1 < table.shards()
    }
}

fn first(all: &mut Vec<Usage>, most: usize) {
    all.sort_by_cached_key(Usage::order);
    all.truncate(most);
}
