//! All counts, under one lock: a request is counted by every rule that concerns it, or by none.

use std::sync::{Condvar, Mutex};
use std::task::Waker;

use vocabulary::Clock;

use super::key::Key;
use super::rule::Spec;
use super::table::Table;
use super::window::Millis;

/// What all limiters share that follow one another in reloads.
pub(super) struct Shared {
    pub(super) books: Mutex<Books>,
    /// Rings when something is due.
    pub(super) bell: Condvar,
    pub(super) clock: Clock,
}

/// See the module.
#[derive(Default)]
pub(super) struct Books {
    /// A rule's table keeps its place; that of a rule that is gone stays empty.
    pub(super) tables: Vec<Option<Table>>,
    /// Counts that are to be written.
    pub(super) due: Vec<(usize, Key)>,
    /// Counts on disk that count no more.
    pub(super) gone: Vec<(usize, Key)>,
    pub(super) is_kept: bool,
    pub(super) is_closed: bool,
    /// How often something was written, or could not be.
    pub(super) round: u64,
    pub(super) failed: Option<u64>,
    pub(super) waiting: Vec<Waker>,
    swept: Millis,
}

/// Between two sweeps, in milliseconds.
const SWEEP_EVERY: Millis = 250;

impl Books {
    /// The place of a rule's table, which goes on if there is one.
    pub(super) fn place_of(&mut self, spec: Spec, calls: u32) -> usize {
        let known = self.tables.iter_mut().enumerate();
        let mut known = known.filter_map(|(place, table)| Some((place, table.as_mut()?)));
        if let Some((place, table)) = known.find(|(_, table)| table.spec == spec) {
            table.calls = calls;
            return place;
        }
        self.tables.push(Some(Table::new(spec, calls)));
        self.tables.len() - 1
    }

    /// Forgets the tables of all other rules.
    pub(super) fn keep_only(&mut self, places: &[usize]) {
        for (place, table) in self.tables.iter_mut().enumerate() {
            if !places.contains(&place) {
                *table = None;
            }
        }
    }

    /// Forgets those of whom nothing counts any more, a part of them at a time.
    pub(super) fn sweep(&mut self, now: Millis) {
        if (now - self.swept).abs() < SWEEP_EVERY {
            return;
        }
        self.swept = now;
        for (place, table) in self.tables.iter_mut().enumerate() {
            let Some(table) = table else { continue };
            self.gone.extend(table.sweep(now).into_iter().map(|key| (place, key)));
        }
    }

    pub(super) fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}
