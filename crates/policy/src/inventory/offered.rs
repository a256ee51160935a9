//! What a server offers, and to whom: its lists as each kind of client gets them, laid over each other. A definition that
//! one era or a capability changes is one of several definitions of its tool.
//! ADR 0055: the era follows the client, and definitions have faces.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use vocabulary::{Audience, Capability, CapabilitySet, Digest, Era, Face, ToolName};

use super::entry::{DefinitionFault, ReadDefinition, read};
use super::pin::{Change, StoredTool};

/// What a server showed to one kind of client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// To whom.
    pub to: Face,
    /// The tool objects, byte for byte.
    pub definitions: Vec<Arc<[u8]>>,
}

impl Shown {
    /// A list that is the same for all.
    #[must_use]
    pub fn to_all(definitions: Vec<Arc<[u8]>>) -> Self {
        let to = Face::LEAST;
        Self { to, definitions }
    }
}

/// A definition that can be used, and for whom.
#[derive(Clone)]
pub(super) struct Offered {
    pub(super) definition: Arc<[u8]>,
    pub(super) hash: Digest,
    pub(super) audience: Audience,
}

/// The tools that have a name of their own, each with its definitions; what cannot be used is told and left out.
pub(super) fn offered(shown: Vec<Shown>) -> (BTreeMap<ToolName, Vec<Offered>>, Vec<Change>) {
    let mut rejected = Vec::new();
    let mut known = HashMap::new();
    let lists: Vec<List> = shown
        .into_iter()
        .map(|shown| List {
            to: shown.to,
            tools: sort_out(shown.definitions, &mut known, &mut rejected),
        })
        .collect();
    let eras: BTreeSet<Era> = lists.iter().map(|list| list.to.era).collect();
    let names: BTreeSet<&ToolName> = lists.iter().flat_map(|list| list.tools.keys()).collect();
    let offered = names
        .into_iter()
        .map(|name| (name.clone(), definitions_of(name, &lists, &eras)));
    (offered.collect(), rejected)
}

/// Lays what a server showed in clients' own sessions over what it shows the gateway. A definition that is in neither what it shows
/// the gateway nor what was approved takes the place of all that the tool has: it is quarantined for everybody while any process
/// says so. What only such a session lacks is no change: its calls come to nothing by themselves.
pub(super) fn differ(
    offered: &mut BTreeMap<ToolName, Vec<Offered>>,
    told: Vec<Vec<Arc<[u8]>>>,
    before: &[StoredTool],
    rejected: &mut Vec<Change>,
) {
    let mut known = HashMap::new();
    for list in told {
        for (name, (definition, hash)) in sort_out(list, &mut known, rejected) {
            let is_shown = offered
                .get(&name)
                .is_some_and(|definitions| definitions.iter().any(|one| one.hash == hash));
            let place = before.partition_point(|tool| tool.name < name);
            let pinned = before.get(place..).unwrap_or_default().iter();
            let mut pinned = pinned.take_while(|tool| tool.name == name);
            let is_approved = pinned.any(|tool| tool.approved == Some(hash)) && offered.contains_key(&name);
            if !is_shown && !is_approved {
                let audience = Audience::EVERYBODY;
                offered.insert(
                    name,
                    vec![Offered {
                        definition,
                        hash,
                        audience,
                    }],
                );
            }
        }
    }
}

/// One list: what can be used of it, by name.
struct List {
    to: Face,
    tools: BTreeMap<ToolName, (Arc<[u8]>, Digest)>,
}

/// The definitions of one tool, one for each audience.
fn definitions_of(name: &ToolName, lists: &[List], eras: &BTreeSet<Era>) -> Vec<Offered> {
    let mut found: Vec<Offered> = Vec::new();
    for era in eras {
        let of_era: Vec<&List> = lists.iter().filter(|list| list.to.era == *era).collect();
        for (definition, hash) in of_era.iter().filter_map(|list| list.tools.get(name)) {
            let audience = Audience {
                era: (eras.len() > 1).then_some(*era),
                needs: CapabilitySet::NONE,
            };
            let has = |list: &List| list.tools.get(name).is_some_and(|(_, other)| other == hash);
            for needs in needs(*era, &of_era, has) {
                let audience = Audience { needs, ..audience };
                if !found.iter().any(|one| one.hash == *hash && one.audience == audience) {
                    let (definition, hash) = (definition.clone(), *hash);
                    found.push(Offered {
                        definition,
                        hash,
                        audience,
                    });
                }
            }
        }
    }
    in_both_eras(found)
}

/// What a client needs to be shown a definition: what the definition vanishes without. Of one that vanishes without none of
/// them, each capability that brings it alone is enough; where none does, it is shown to those who have them all.
fn needs(era: Era, lists: &[&List], has: impl Fn(&List) -> bool) -> Vec<CapabilitySet> {
    let shown_to = |can: CapabilitySet| lists.iter().any(|list| list.to.can == can && has(list));
    let all = CapabilitySet::all_of(era);
    if shown_to(CapabilitySet::NONE) {
        return vec![CapabilitySet::NONE];
    }
    let vanishes_without = |capability: &Capability| !shown_to(all.without(*capability));
    let needed: CapabilitySet = all.iter().filter(vanishes_without).collect();
    if !needed.is_empty() {
        return vec![needed];
    }
    let enough: Vec<CapabilitySet> = all
        .iter()
        .map(CapabilitySet::only)
        .filter(|one| shown_to(*one))
        .collect();
    // What a form brings, a page need not bring again.
    let is_least = |one: &&CapabilitySet| !enough.iter().any(|other| other != *one && one.covers(*other));
    let least: Vec<CapabilitySet> = enough.iter().filter(is_least).copied().collect();
    if least.is_empty() { vec![all] } else { least }
}

/// What is the same in both eras is one definition for both.
fn in_both_eras(found: Vec<Offered>) -> Vec<Offered> {
    let mut joined: Vec<Offered> = Vec::with_capacity(found.len());
    for one in found {
        let same = |other: &&mut Offered| other.hash == one.hash && other.audience.needs == one.audience.needs;
        match joined.iter_mut().find(same) {
            Some(other) => other.audience.era = None,
            None => joined.push(one),
        }
    }
    joined
}

/// Reads a list. A definition that was read before is not read again.
fn sort_out(
    definitions: Vec<Arc<[u8]>>,
    known: &mut HashMap<Arc<[u8]>, Result<Facts, DefinitionFault>>,
    rejected: &mut Vec<Change>,
) -> BTreeMap<ToolName, (Arc<[u8]>, Digest)> {
    let mut readable = BTreeMap::new();
    let mut doubled = BTreeSet::new();
    let mut reject = |position, tool, fault| {
        let change = Change::ToolRejected { position, tool, fault };
        if !rejected.contains(&change) {
            rejected.push(change);
        }
    };
    for (position, definition) in definitions.into_iter().enumerate() {
        let facts = known
            .entry(definition.clone())
            .or_insert_with(|| read(&definition).map(facts_of));
        match facts.clone() {
            Err(fault) => reject(position, None, fault),
            Ok(Facts { name, .. }) if readable.contains_key(&name) => {
                reject(position, Some(name.clone()), DefinitionFault::DuplicateName);
                doubled.insert(name);
            }
            Ok(Facts { name, .. }) if readable.len() >= MAX_TOOLS => {
                reject(position, Some(name), DefinitionFault::TooMany);
            }
            Ok(Facts { name, hash, fault }) => {
                if let Some(fault) = fault {
                    reject(position, Some(name.clone()), fault);
                }
                readable.insert(name, (definition, hash));
            }
        }
    }
    // Of two definitions with one name neither can be believed.
    readable.retain(|name, _| !doubled.contains(name));
    readable
}

/// What a list needs to know of a definition.
#[derive(Clone)]
struct Facts {
    name: ToolName,
    hash: Digest,
    fault: Option<DefinitionFault>,
}

fn facts_of(read: ReadDefinition) -> Facts {
    Facts {
        name: read.name,
        hash: read.hash,
        fault: read.schemas.err(),
    }
}

/// The most tools one server may have in the inventory.
const MAX_TOOLS: usize = 10_000;
