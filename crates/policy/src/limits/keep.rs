//! Quotas outlive a run: counts are written by somebody else than the calls, and each call is made only once it is on disk that
//! it may be. ADR 0073: a crash leaves more counted than was called, never less.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use vocabulary::lock;

use super::CallLimits;
use super::books::Shared;
use super::count::Group;
use super::key::Key;
use super::rule::Kind;
use super::window::millis;
use crate::StoreError;

/// What is kept of one key of one quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptCount {
    /// The rule's name.
    pub rule: String,
    /// The key.
    pub key: Key,
    /// Its names, for people.
    pub names: String,
    /// What was counted when this was written.
    pub groups: Vec<Group>,
    /// How many calls may have been made since.
    pub ahead: u32,
}

/// Where quotas are kept between runs. Implemented by `store`.
pub trait QuotaStore: Send + Sync {
    /// Everything that was kept.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn counts(&self) -> Result<Vec<KeptCount>, StoreError>;

    /// Forgets keys of rules, then keeps counts: all or nothing, and on disk when this returns.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn keep_counts(&self, forgotten: &[(String, Key)], counts: &[KeptCount]) -> Result<(), StoreError>;
}

/// What is to be written next.
#[derive(Debug, Default)]
#[must_use = "calls wait until `CallLimits::wrote` says how it went"]
pub struct Due {
    /// What counts no more.
    pub forgotten: Vec<(String, Key)>,
    /// What does.
    pub counts: Vec<KeptCount>,
    places: Vec<(usize, Key)>,
}

impl Due {
    /// Whether there is nothing to write, and nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forgotten.is_empty() && self.places.is_empty()
    }
}

/// Written at once.
const BATCH: usize = 4096;

impl CallLimits {
    /// From now on quotas are counted with what is on disk: somebody calls [`CallLimits::due`] again and again, and
    /// [`CallLimits::wrote`] after each.
    pub fn keep(&self) {
        lock(&self.shared.books).is_kept = true;
    }

    /// The names of the quotas in force.
    #[must_use]
    pub fn kept_rules(&self) -> BTreeSet<String> {
        let books = lock(&self.shared.books);
        let quotas = books
            .tables
            .iter()
            .flatten()
            .filter(|table| table.spec.kind == Kind::Quota);
        quotas.map(|table| table.spec.to_string()).collect()
    }

    /// Takes over what an earlier run kept of `rules`; what counts no more and what is of other rules is left.
    pub fn restore(&self, kept: &[KeptCount], rules: &BTreeSet<String>) {
        let now = millis(self.shared.clock.now());
        let mut books = lock(&self.shared.books);
        for count in kept.iter().filter(|count| rules.contains(&count.rule)) {
            let mut tables = books.tables.iter_mut().enumerate();
            let of_rule = tables.find_map(|(place, table)| {
                let table = table.as_mut()?;
                (table.spec.kind == Kind::Quota && table.spec.to_string() == count.rule).then_some((place, table))
            });
            if let Some((place, table)) = of_rule
                && !table.restore(count, now)
            {
                books.gone.push((place, count.key));
            }
        }
    }

    /// Waits for something to write, at most so long; meanwhile forgets those of whom nothing counts any more. Blocks.
    pub fn due(&self, patience: Duration) -> Due {
        let mut books = lock(&self.shared.books);
        if books.due.is_empty() && !books.is_closed {
            let waited = self.shared.bell.wait_timeout(books, patience);
            books = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        let now = millis(self.shared.clock.now());
        books.sweep(now);
        let left = books.due.len().saturating_sub(BATCH);
        let places = books.due.split_off(left);
        let forgotten = std::mem::take(&mut books.gone);
        let named = |(place, key): &(usize, Key)| Some((books.tables.get(*place)?.as_ref()?.spec.to_string(), *key));
        let forgotten = forgotten.iter().filter_map(named).collect();
        let mut write = |(place, key): &(usize, Key)| books.tables.get_mut(*place)?.as_mut()?.write(*key, now);
        let counts = places.iter().filter_map(&mut write).collect();
        Due {
            forgotten,
            counts,
            places,
        }
    }

    /// Says whether what was due is on disk now. Calls that wait for it go on, or are refused.
    pub fn wrote(&self, due: &Due, is_on_disk: bool) {
        let mut books = lock(&self.shared.books);
        for (place, key) in &due.places {
            if let Some(Some(table)) = books.tables.get_mut(*place) {
                table.written(*key, is_on_disk);
            }
        }
        books.round += 1;
        if !is_on_disk {
            books.failed = Some(books.round);
        }
        books.wake();
    }

    /// Every count as it stands, to be written last: no call of a quota is counted any more.
    #[must_use]
    pub fn close(&self) -> Vec<KeptCount> {
        let now = millis(self.shared.clock.now());
        let mut books = lock(&self.shared.books);
        books.is_closed = true;
        books.wake();
        self.shared.bell.notify_all();
        let quotas = books
            .tables
            .iter_mut()
            .flatten()
            .filter(|table| table.spec.kind == Kind::Quota);
        quotas.flat_map(|table| table.close(now)).collect()
    }

    /// Whether [`CallLimits::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.books).is_closed
    }
}

/// Completes when something was written after this round: whether it could be.
pub(super) struct UntilWritten<'a> {
    pub(super) shared: &'a Shared,
    pub(super) round: u64,
}

impl Future for UntilWritten<'_> {
    type Output = Result<(), ()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut books = lock(&self.shared.books);
        if books.is_closed || books.failed.is_some_and(|failed| failed > self.round) {
            return Poll::Ready(Err(()));
        }
        if books.round > self.round {
            return Poll::Ready(Ok(()));
        }
        let waker: Waker = context.waker().clone();
        books.waiting.push(waker);
        Poll::Pending
    }
}
