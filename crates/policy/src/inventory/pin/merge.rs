//! Lays the tools that are offered now over those that were stored, name by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use vocabulary::{Digest, ToolName, Trust};

use super::{Arrival, Change, Presence, StoredTool};
use crate::inventory::offered::Offered;

/// The most pins of vanished tools that are kept of one server, and the most bytes of their definitions.
const MAX_VANISHED: usize = 10_000;
const MAX_VANISHED_BYTES: usize = 16 << 20;

/// The tools, and whether pins had to be given up.
pub(super) fn merge_tools(
    before: Vec<StoredTool>,
    offered: BTreeMap<ToolName, Vec<Offered>>,
    arrival: Arrival<'_>,
    changes: &mut Vec<Change>,
) -> (Vec<StoredTool>, bool) {
    let mut names: BTreeMap<ToolName, (Vec<StoredTool>, Vec<Offered>)> = BTreeMap::new();
    for known in before {
        names.entry(known.name.clone()).or_default().0.push(known);
    }
    for (name, now) in offered {
        names.entry(name).or_default().1 = now;
    }
    let (mut tools, mut vanished) = (Vec::with_capacity(names.len()), Vec::new());
    // What was known before is told first.
    let (old, new): (Vec<_>, Vec<_>) = names.into_iter().partition(|(_, (known, _))| !known.is_empty());
    for (name, (known, now)) in old.into_iter().chain(new) {
        let mut merging = Merging {
            approved: known.iter().filter_map(pinned).collect(),
            known,
            arrival,
            changes: &mut *changes,
        };
        tools.extend(merging.take(&name, now));
        vanished.extend(merging.leave(&name, tools.last().is_none_or(|tool| tool.name != name)));
    }
    let kept = within_bounds(&vanished);
    let forgot_pins = kept < vanished.len();
    vanished.truncate(kept);
    tools.extend(vanished);
    tools.sort_by(|one, other| (&one.name, one.audience).cmp(&(&other.name, other.audience)));
    (tools, forgot_pins)
}

/// How many of these pins can be kept.
fn within_bounds(vanished: &[StoredTool]) -> usize {
    let mut bytes = 0;
    let fits = |tool: &&StoredTool| {
        bytes += tool.definition.len() + tool.approved_definition.as_ref().map_or(0, |kept| kept.len());
        bytes <= MAX_VANISHED_BYTES
    };
    vanished.iter().take(MAX_VANISHED).take_while(fits).count()
}

/// What was approved: its digest, and the definition where it was kept.
fn pinned(tool: &StoredTool) -> Option<(Digest, Option<Arc<[u8]>>)> {
    Some((tool.approved?, tool.approved_definition().cloned()))
}

/// One name: its definitions of before that none of now has been laid over yet.
struct Merging<'a> {
    known: Vec<StoredTool>,
    /// Every digest that was approved under this name, with the definition it is of.
    approved: Vec<(Digest, Option<Arc<[u8]>>)>,
    arrival: Arrival<'a>,
    changes: &'a mut Vec<Change>,
}

impl Merging<'_> {
    /// A definition that was seen before keeps its pin; the others come in place of what is gone, or are added.
    fn take(&mut self, name: &ToolName, now: Vec<Offered>) -> Vec<StoredTool> {
        let (mut taken, mut others) = (Vec::new(), Vec::new());
        for offered in now {
            match self.known.iter().position(|known| known.seen == offered.hash) {
                Some(place) => {
                    let known = self.known.swap_remove(place);
                    taken.push(self.renew(known, offered));
                }
                None => others.push(offered),
            }
        }
        for offered in others {
            let still_here = |known: &StoredTool| known.presence == Presence::Offered;
            let place = self
                .known
                .iter()
                .position(still_here)
                .or(self.known.len().checked_sub(1));
            let tool = match place.map(|place| self.known.swap_remove(place)) {
                Some(known) => self.renew(known, offered),
                None => self.add(name, offered),
            };
            taken.push(tool);
        }
        taken
    }

    fn renew(&mut self, mut known: StoredTool, now: Offered) -> StoredTool {
        let (seen_before, approved_before) = (known.seen, known.approved);
        let returned = known.presence == Presence::Vanished;
        known.presence = Presence::Offered;
        known.approved_definition = known.approved_definition().cloned();
        known.definition = now.definition;
        known.seen = now.hash;
        known.audience = now.audience;
        let vouched_for = matches!(self.arrival.trust, Trust::Internal | Trust::Verified) && !self.arrival.forgot_pins;
        let welcome = known.approved.is_none() && vouched_for && !self.arrival.doubts(&known.definition);
        if welcome || self.is_approved(&known.seen) {
            known.approved = Some(known.seen);
        }
        if known.approved == Some(known.seen) {
            known.approved_definition = None;
        }
        let (tool, seen, standing) = (known.name.clone(), known.seen, self.arrival.standing(&known));
        if returned {
            self.changes.push(Change::ToolAdded { tool, seen, standing });
        } else if seen != seen_before {
            self.changes.push(Change::ToolChanged { tool, seen, standing });
        } else if known.approved != approved_before {
            self.changes.push(Change::ToolApproved { tool, approved: seen });
        }
        known
    }

    fn is_approved(&self, seen: &Digest) -> bool {
        self.approved.iter().any(|(approved, _)| approved == seen)
    }

    /// A further definition of a tool that has an approved one is a change of it, whoever the server belongs to: nobody
    /// gets round a pin by showing something else to some.
    fn add(&mut self, name: &ToolName, now: Offered) -> StoredTool {
        let known = self.is_approved(&now.hash).then_some((now.hash, None));
        let pinned = known.or(self.approved.first().cloned().filter(|_| !self.arrival.first));
        let welcome = || self.arrival.welcomes(&now.definition).then_some((now.hash, None));
        let (approved, approved_definition) = pinned.or_else(welcome).unzip();
        let tool = StoredTool {
            approved,
            approved_definition: approved_definition.flatten(),
            name: name.clone(),
            definition: now.definition,
            seen: now.hash,
            presence: Presence::Offered,
            audience: now.audience,
        };
        let standing = self.arrival.standing(&tool);
        self.changes.push(Change::ToolAdded {
            tool: tool.name.clone(),
            seen: tool.seen,
            standing,
        });
        tool
    }

    /// What is not offered any more. A pin nobody approved protects nothing; the rest are kept up to a bound.
    fn leave(self, name: &ToolName, is_gone: bool) -> Vec<StoredTool> {
        if is_gone && self.known.iter().any(|known| known.presence == Presence::Offered) {
            self.changes.push(Change::ToolVanished { tool: name.clone() });
        }
        let gone = self.known.into_iter().filter(|known| known.approved.is_some());
        gone.map(|known| StoredTool {
            presence: Presence::Vanished,
            ..known
        })
        .collect()
    }
}
