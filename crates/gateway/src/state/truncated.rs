//! Texts that were cut, kept for the principal whose call brought them: in memory alone, for a bounded time and in
//! bounded space, and only as they were sanitised.
//! ADR 0026: cut texts stay in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use policy::ToolEntry;
use screening::result::truncate::Index;
use screening::result::{Kept, OutputTrust, Rules};
use vocabulary::{Digest, Principal, lock, random_hex};

use crate::session::owner::Owner;

/// What one principal's texts may take; the oldest go first.
const MOST_PER_PRINCIPAL: usize = 64 << 20;
/// What all texts may take.
const MOST: usize = 512 << 20;

/// A key nobody can guess. Without randomness it is empty, and nothing is kept under it.
#[must_use]
pub fn cache_key() -> String {
    random_hex(32).unwrap_or_default()
}

/// See the module.
#[derive(Default)]
pub(crate) struct TruncatedTexts(Mutex<HashMap<Digest, StoredText>>);

/// A text, and whose call brought it from where.
#[derive(Clone)]
pub(crate) struct StoredText {
    pub(crate) whole: Arc<str>,
    /// Where its pages lie.
    pub(crate) index: Arc<Index>,
    /// The tool as it was when it was called.
    pub(crate) tool: Arc<ToolEntry>,
    /// Held while it is judged again: those who read meanwhile wait, and do not do the same.
    pub(crate) judging: Arc<tokio::sync::Mutex<()>>,
    owner: Owner,
    since: Instant,
    expires: Instant,
    judged: Judged,
}

/// What a text was judged by.
#[derive(Clone)]
pub(crate) struct Judged {
    pub(crate) rules: Weak<Rules>,
    /// Whether it counted as trusted.
    pub(crate) standing: OutputTrust,
}

impl Judged {
    pub(crate) fn by(rules: &Arc<Rules>, standing: OutputTrust) -> Self {
        Self {
            rules: Arc::downgrade(rules),
            standing,
        }
    }
}

/// For whom a text is kept, how long, and what it was judged by.
pub(crate) struct Terms<'a> {
    pub(crate) who: &'a Principal,
    pub(crate) ttl: Duration,
    pub(crate) judged: Judged,
}

impl StoredText {
    /// Whether it was judged by these rules, and counted as this.
    pub(crate) fn is_judged_by(&self, rules: &Arc<Rules>, standing: OutputTrust) -> bool {
        std::ptr::eq(self.judged.rules.as_ptr(), Arc::as_ptr(rules)) && self.judged.standing == standing
    }
}

impl TruncatedTexts {
    /// Keeps a text for its principal.
    pub(crate) fn keep(&self, kept: Kept, tool: &Arc<ToolEntry>, terms: &Terms<'_>) {
        let Kept { key, whole, index } = kept;
        if key.is_empty() || whole.len() > MOST_PER_PRINCIPAL {
            return;
        }
        let now = Instant::now();
        let owner = Owner::of(terms.who);
        let mut shelves = lock(&self.0);
        shelves.retain(|_, stored| stored.expires > now);
        make_room(&mut shelves, MOST_PER_PRINCIPAL - whole.len(), |stored| {
            stored.owner == owner
        });
        make_room(&mut shelves, MOST - whole.len(), |_| true);
        let stored = StoredText {
            whole: whole.into(),
            index: Arc::new(index),
            tool: tool.clone(),
            judging: Arc::default(),
            owner,
            since: now,
            expires: now + terms.ttl,
            judged: terms.judged.clone(),
        };
        // The key itself is not kept: who reads our memory cannot read with it.
        shelves.insert(Digest::of(key.as_bytes()), stored);
    }

    /// A text was judged again, as a whole: from now on it is what is left of it.
    pub(crate) fn replace(&self, key: &str, (whole, index): (Arc<str>, Arc<Index>), judged: Judged) {
        let mut shelves = lock(&self.0);
        if let Some(stored) = shelves.get_mut(&Digest::of(key.as_bytes())) {
            stored.whole = whole;
            stored.index = index;
            stored.judged = judged;
        }
    }

    /// The text of a key, for the principal it is kept for. Foreign, expired and unknown keys are alike.
    pub(crate) fn find(&self, key: &str, who: &Principal) -> Option<StoredText> {
        let shelves = lock(&self.0);
        let stored = shelves.get(&Digest::of(key.as_bytes()))?;
        (stored.expires > Instant::now() && stored.owner == Owner::of(who)).then(|| stored.clone())
    }
}

/// Lets the oldest of some texts go until they take no more than `most`.
fn make_room(shelves: &mut HashMap<Digest, StoredText>, most: usize, of_these: impl Fn(&StoredText) -> bool) {
    let mut ages: Vec<(Instant, Digest, usize)> = shelves
        .iter()
        .filter(|(_, stored)| of_these(stored))
        .map(|(key, stored)| (stored.since, *key, stored.whole.len()))
        .collect();
    let mut taken: usize = ages.iter().map(|(_, _, size)| size).sum();
    ages.sort_unstable_by_key(|(since, _, _)| *since);
    for (_, key, size) in ages {
        if taken <= most {
            return;
        }
        shelves.remove(&key);
        taken -= size;
    }
}
