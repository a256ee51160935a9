//! The counts of one rule, by key. Bounded: what finds no room for a count of its own shares one, and nothing that still counts
//! is ever forgotten to make room.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::time::Duration;

use super::count::{Count, Group};
use super::keep::KeptCount;
use super::key::Key;
use super::rule::{Kind, Spec};
use super::window::Millis;

/// Keys that have a count of their own, for each rule.
pub(super) const MOST_KEYS: usize = 1 << 20;
/// Swept one by one. Not a power of two: with all keys each is filled to less than seven eighths of one, where it would double.
pub(super) const SHARDS: usize = 80;
/// A table that is filled to this part of its room tells windows in coarser groups.
const CROWDED: usize = 16;

/// See the module.
pub(super) struct Table {
    pub(super) spec: Spec,
    /// How many calls the rule in force allows.
    pub(super) calls: u32,
    shards: Vec<HashMap<Key, Entry>>,
    keys: usize,
    most: usize,
    /// While something counts that was shared, nobody new gets a count of their own: it would be a second allowance.
    shared_until: Millis,
    swept: usize,
}

/// What is known of one key.
struct Entry {
    count: Count,
    names: Box<str>,
    kept: Kept,
}

/// How much of a quota's count is on disk: what was counted when it was written, and so many calls ahead.
#[derive(Clone, Copy, Default)]
struct Kept {
    /// Calls that may still be made before it is written again.
    ahead: u32,
    /// What `ahead` becomes with what is being written.
    writing: u32,
    /// Calls since that was put together.
    since: u32,
    /// Calls that wait for it.
    wanted: u16,
    is_due: bool,
    is_writing: bool,
    is_stored: bool,
}

/// Whether one more call has room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// It has.
    Free,
    /// Once it is on disk that it may be made.
    Unkept,
    /// Not before this long.
    Full(Duration),
}

/// A count as people see it.
pub(super) struct Seen<'a> {
    pub(super) names: &'a str,
    pub(super) used: u32,
    pub(super) resets: Millis,
}

impl Table {
    pub(super) fn new(spec: Spec, calls: u32) -> Self {
        Self {
            spec,
            calls,
            shards: (0..SHARDS).map(|_| HashMap::new()).collect(),
            keys: 0,
            most: MOST_KEYS,
            shared_until: Millis::MIN,
            swept: 0,
        }
    }

    /// Whether a call has room where `calls` are allowed; `is_kept`: only with what is on disk.
    pub(super) fn look(&mut self, key: Key, now: Millis, calls: u32, is_kept: bool) -> Room {
        let (window, is_kept) = (self.spec.window, is_kept && self.spec.kind == Kind::Quota);
        let key = self.place(key, now);
        let Some(entry) = self.shard(key).and_then(|shard| shard.get_mut(&key)) else {
            return if is_kept { Room::Unkept } else { Room::Free };
        };
        entry.count.settle(window, now);
        if entry.count.used() >= calls {
            Room::Full(entry.count.wait(window, now, calls))
        } else if is_kept && entry.kept.ahead == 0 {
            Room::Unkept
        } else {
            Room::Free
        }
    }

    /// Counts a call; gives the key if its count is to be written again, where that is done.
    pub(super) fn add(&mut self, key: Key, now: Millis, is_kept: bool, names: impl FnOnce() -> String) -> Option<Key> {
        let key = self.place(key, now);
        let is_kept = is_kept && self.spec.kind == Kind::Quota;
        let (window, calls, block) = (self.spec.window, self.calls, self.block());
        let groups = if self.keys < self.most / CROWDED { FINE } else { COARSE };
        if key.is_shared() {
            self.shared_until = self.shared_until.max(window.frees(now));
        }
        let entry = self.entry(key, names)?;
        entry.count.add(window, now, 1, groups);
        let kept = &mut entry.kept;
        kept.ahead = kept.ahead.saturating_sub(1);
        kept.since = kept.since.saturating_add(1);
        let is_low = kept.ahead <= block / 2 && entry.count.used().saturating_add(kept.ahead) < calls;
        let is_due = is_kept && is_low && !kept.is_due;
        kept.is_due |= is_due;
        is_due.then_some(key)
    }

    /// Notes that a call waits until its count is on disk; gives the key if that was not known.
    pub(super) fn want(&mut self, key: Key, now: Millis, names: impl FnOnce() -> String) -> Option<Key> {
        let key = self.place(key, now);
        let kept = &mut self.entry(key, names)?.kept;
        kept.wanted = kept.wanted.saturating_add(1);
        (!std::mem::replace(&mut kept.is_due, true)).then_some(key)
    }

    /// A count as it is to be written, with a stretch ahead of it.
    pub(super) fn write(&mut self, key: Key, now: Millis) -> Option<KeptCount> {
        let (window, calls, block) = (self.spec.window, self.calls, self.block());
        let rule = self.spec.to_string();
        let entry = self.shard(key)?.get_mut(&key)?;
        entry.count.settle(window, now);
        let kept = &mut entry.kept;
        let left = calls.saturating_sub(entry.count.used());
        let ahead = block.max(u32::from(kept.wanted)).min(left).max(kept.ahead);
        *kept = Kept {
            ahead: kept.ahead,
            writing: ahead,
            is_writing: true,
            is_stored: true,
            ..Kept::default()
        };
        Some(KeptCount {
            rule,
            key,
            names: entry.names.to_string(),
            groups: entry.count.groups().collect(),
            ahead,
        })
    }

    /// What was to be written is on disk, or is not.
    pub(super) fn written(&mut self, key: Key, is_on_disk: bool) {
        if let Some(entry) = self.shard(key).and_then(|shard| shard.get_mut(&key)) {
            let kept = &mut entry.kept;
            if is_on_disk {
                kept.ahead = kept.writing.saturating_sub(kept.since);
            }
            kept.is_writing = false;
        }
    }

    /// Every count that has a stretch ahead of it, as it is: nothing is counted any more after this.
    pub(super) fn close(&mut self, now: Millis) -> Vec<KeptCount> {
        let (window, rule) = (self.spec.window, self.spec.to_string());
        let entries = self.shards.iter_mut().flatten();
        let stretched = entries.filter(|(_, entry)| entry.kept.is_stored);
        let row = |(key, entry): (&Key, &mut Entry)| {
            entry.count.settle(window, now);
            entry.kept.ahead = 0;
            KeptCount {
                rule: rule.clone(),
                key: *key,
                names: entry.names.to_string(),
                groups: entry.count.groups().collect(),
                ahead: 0,
            }
        };
        stretched.map(row).collect()
    }

    /// Takes over what an earlier run kept; `false` if nothing of it counts any more. What it may have called after it wrote that
    /// down counts as called now.
    pub(super) fn restore(&mut self, kept: &KeptCount, now: Millis) -> bool {
        let window = self.spec.window;
        let mut groups = kept.groups.clone();
        groups.push(Group {
            last: now,
            since: 0,
            calls: kept.ahead,
        });
        let mut count = Count::of(&groups);
        count.settle(window, now);
        if count.used() == 0 {
            return false;
        }
        if kept.key.is_shared() {
            self.shared_until = self.shared_until.max(count.resets(window));
        }
        if let Some(entry) = self.entry(kept.key, || kept.names.clone()) {
            entry.count = count;
            entry.kept.is_stored = true;
        }
        true
    }

    /// Forgets those of one shard of whom nothing counts any more; gives the keys of what is on disk of them.
    pub(super) fn sweep(&mut self, now: Millis) -> Vec<Key> {
        let window = self.spec.window;
        self.swept = (self.swept + 1) % SHARDS;
        let Some(shard) = self.shards.get_mut(self.swept) else {
            return Vec::new();
        };
        let (before, mut gone) = (shard.len(), Vec::new());
        shard.retain(|key, entry| {
            entry.count.settle(window, now);
            let stays = entry.count.used() > 0 || entry.kept.is_due || entry.kept.is_writing;
            if !stays && entry.kept.is_stored {
                gone.push(*key);
            }
            stays
        });
        self.keys -= before - shard.len();
        if shard.capacity() > 4 * shard.len() {
            shard.shrink_to(2 * shard.len());
        }
        gone
    }

    /// The counts of one shard, as of now.
    pub(super) fn seen(&mut self, shard: usize, now: Millis) -> impl Iterator<Item = Seen<'_>> {
        let window = self.spec.window;
        let entries = self.shards.get_mut(shard).into_iter().flat_map(HashMap::iter_mut);
        entries.filter_map(move |(key, entry)| {
            entry.count.settle(window, now);
            let used = entry.count.used();
            (used > 0).then(|| Seen {
                names: if key.is_shared() { "(others)" } else { &entry.names },
                used,
                resets: entry.count.resets(window),
            })
        })
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.shards.iter().map(HashMap::capacity).sum()
    }

    #[cfg(test)]
    pub(super) fn with_room_for(mut self, keys: usize) -> Self {
        self.most = keys;
        self
    }

    /// Where a key is counted.
    fn place(&mut self, key: Key, now: Millis) -> Key {
        let is_full = self.keys >= self.most || now < self.shared_until;
        let is_known = || {
            self.shards
                .get(shard_of(key))
                .is_some_and(|shard| shard.contains_key(&key))
        };
        if is_full && !is_known() { key.shared() } else { key }
    }

    /// How many calls are put on disk ahead: a hundredth of what is allowed.
    fn block(&self) -> u32 {
        (self.calls / 100).max(1)
    }

    fn entry(&mut self, key: Key, names: impl FnOnce() -> String) -> Option<&mut Entry> {
        let shard = self.shards.get_mut(shard_of(key))?;
        Some(match shard.entry(key) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(vacant) => {
                self.keys += 1;
                vacant.insert(Entry {
                    count: Count::NOTHING,
                    names: names().into(),
                    kept: Kept::default(),
                })
            }
        })
    }

    fn shard(&mut self, key: Key) -> Option<&mut HashMap<Key, Entry>> {
        self.shards.get_mut(shard_of(key))
    }
}

fn shard_of(key: Key) -> usize {
    let last = key.as_bytes().last_chunk::<2>();
    last.map_or(0, |last| usize::from(u16::from_be_bytes(*last)) % SHARDS)
}

/// Groups that a window is told in.
const FINE: i64 = 64;
const COARSE: i64 = 8;
